"""Every solver finds the known fixed point of every problem."""

from __future__ import annotations

import pickle

import pytest
import torch

import geq
import problems
from geq.errors import GeqError, OptionError
from geq.solvers import FISTA, Anderson, Broyden, Picard, ProximalGradient, Solver, Status, fixed_point

PLAIN = [
    Picard(),
    Picard(damping=0.7),
    Anderson(),
    Anderson(memory=1),
    Anderson(memory=2),
    Anderson(memory=12),
    Anderson(mixing=0.5),
    Broyden(),
    Broyden(memory=1),
    Broyden(memory=30),
]
DESCENT = [
    ProximalGradient(),
    ProximalGradient(step_size=1.0),
    FISTA(),
    FISTA(step_size=0.6),
    FISTA(restart=False),
]
PAIRS = [
    (solver, problem)
    for problem in problems.SOLVABLE
    for solver in (PLAIN + DESCENT if problem.energy else PLAIN)
]


def parts(state: problems.State) -> tuple[torch.Tensor, ...]:
    return state if isinstance(state, tuple) else (state,)


@pytest.mark.parametrize("solver, problem", PAIRS, ids=[f"{p.name}-{s}" for s, p in PAIRS])
def test_finds_the_answer(solver: Solver, problem: problems.Problem) -> None:
    solution = fixed_point(problem.fn, problem.start, solver, tol=1e-12, max_steps=3000)
    assert solution.status is Status.CONVERGED
    assert bool(solution.converged.all())
    assert float(solution.residual.max()) <= 1e-12
    # ‖z − z*‖ ≤ ‖(I − J)⁻¹‖‖f(z) − z‖; the stiff problem has ‖(I − J)⁻¹‖ = 20 and answers of norm 20
    for value, answer in zip(parts(solution.value), parts(problem.answer), strict=True):
        assert value.shape == answer.shape
        torch.testing.assert_close(value, answer, rtol=0, atol=1e-9 if problem.name == "stiff" else 5e-11)


@pytest.mark.parametrize("solver", PLAIN + DESCENT, ids=str)
def test_residual_belongs_to_value(solver: Solver) -> None:
    problem = problems.quadratic()
    solution = fixed_point(problem.fn, problem.start, solver, tol=1e-5, max_steps=500)
    fn = solver.prepare(problem.fn)
    image = fn(solution.value)
    expected = (image - solution.value).norm(dim=1) / image.norm(dim=1).clamp_min(1e-10)
    torch.testing.assert_close(solution.residual, expected, rtol=1e-6, atol=1e-15)


@pytest.mark.parametrize("solver", PLAIN + DESCENT, ids=str)
def test_a_sample_does_not_depend_on_its_batch(solver: Solver) -> None:
    hessian = torch.cat([problems.quadratic(4, 6, low).fn.hessian for low in (0.2, 0.8)])
    linear = problems.vectors(8, 6, seed=5)

    def solve(samples: list[int]):
        fn = problems.NonNegativeQuadratic(hessian[samples], linear[samples])
        return fixed_point(
            fn, torch.zeros(len(samples), 6, dtype=torch.float64), solver, tol=1e-6, max_steps=500
        )

    together = solve(list(range(8)))
    assert together.steps.unique().numel() > 1, "all samples need equally many steps: nothing would be frozen"
    order = [3, 7, 0, 1, 6, 2, 5, 4]
    shuffled = solve(order)
    assert torch.equal(shuffled.steps, together.steps[order])
    torch.testing.assert_close(shuffled.value, together.value[order], rtol=0, atol=1e-12)
    for sample in range(8):
        alone = solve([sample])
        assert alone.steps.item() == together.steps[sample].item()
        torch.testing.assert_close(alone.value[0], together.value[sample], rtol=0, atol=1e-12)
        torch.testing.assert_close(alone.residual[0], together.residual[sample], rtol=1e-6, atol=1e-14)


@pytest.mark.parametrize("solver", PLAIN, ids=str)
@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_scaling_the_problem_changes_no_step_count(solver: Solver, scale: float) -> None:
    plain = problems.affine()
    scaled = problems.Affine(plain.fn.matrix, scale * plain.fn.offset)
    solution = fixed_point(plain.fn, plain.start, solver, tol=1e-10, max_steps=500)
    other = fixed_point(scaled, plain.start, solver, tol=1e-10, max_steps=500)
    assert int((solution.steps - other.steps).abs().max()) <= 1
    torch.testing.assert_close(other.value, scale * solution.value, rtol=1e-9, atol=0)


@pytest.mark.parametrize("solver", PLAIN + DESCENT, ids=str)
@pytest.mark.parametrize("max_steps", [1, 2])
def test_few_steps_return_the_best_seen(solver: Solver, max_steps: int) -> None:
    problem = problems.quadratic()
    seen = []

    def spy(fn):
        def spying(z):
            seen.append((z.clone(), (fn(z) - z).norm(dim=1) / (fn(z).norm(dim=1) + 1e-15 / 1e-9)))
            return fn(z)

        return spying

    class Map(geq.cells.Equation):
        def proximal(self, step):
            return geq.cells.Equation(spy(problem.fn.proximal(step)))

    solution = fixed_point(
        Map(spy(problem.fn)), problem.start, solver, tol=1e-9, max_steps=max_steps, on_failure="ignore"
    )
    assert len(seen) == max_steps
    residuals = torch.stack([residual for _, residual in seen])
    torch.testing.assert_close(solution.residual, residuals.amin(0), rtol=1e-9, atol=1e-15)
    best = torch.stack([z for z, _ in seen])[residuals.argmin(0), torch.arange(4)]
    assert torch.equal(solution.value, best)


@pytest.mark.parametrize("solver", PLAIN + DESCENT, ids=str)
def test_nan_in_one_sample_leaves_the_others_alone(solver: Solver) -> None:
    clean = problems.quadratic()

    class Poisoned(geq.cells.Equation):
        """The quadratic problem, except that the second sample turns to NaN once it moved."""

        def __init__(self, fn):
            self.fn = fn

        def __call__(self, z):
            image = self.fn(z).clone()
            if bool(z[1].abs().sum() > 0):
                image[1, 2] = float("nan")
            return image

        def proximal(self, step):
            return Poisoned(self.fn.proximal(step))

    options = {"tol": 1e-8, "max_steps": 800}
    expected = fixed_point(clean.fn, clean.start, solver, **options)
    assert expected.steps[1] > 2
    solution = fixed_point(Poisoned(clean.fn), clean.start, solver, on_failure="ignore", **options)
    others = [0, 2, 3]
    assert solution.status is Status.DIVERGED
    assert solution.converged.tolist() == [True, False, True, True]
    torch.testing.assert_close(solution.value[others], expected.value[others], rtol=0, atol=1e-12)
    assert torch.equal(solution.steps[others], expected.steps[others])
    assert solution.steps[1].item() == 2
    assert torch.equal(solution.value[1], clean.start[1]), "the start is the only finite evaluation"
    assert bool(torch.isfinite(solution.residual).all())


@pytest.mark.parametrize("solver", PLAIN, ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_low_precision(solver: Solver, dtype: torch.dtype) -> None:
    problem = problems.tanh()
    matrix, offset = problems.matrices(4, 6, 0.5).to(dtype), problems.vectors(4, 6).to(dtype)
    exact = fixed_point(
        lambda z: torch.tanh(torch.einsum("bij,bj->bi", matrix.double(), z) + offset.double()),
        problem.start, Picard(), tol=1e-12, max_steps=200,
    ).value  # fmt: skip
    coarse = 4 * torch.finfo(dtype).eps
    fn = problems.Affine(matrix, offset)
    solution = fixed_point(
        lambda z: torch.tanh(fn(z)), torch.zeros(4, 6, dtype=dtype), solver, tol=coarse, max_steps=100
    )
    assert solution.value.dtype == dtype
    assert solution.residual.dtype == torch.float32
    torch.testing.assert_close(solution.value.double(), exact, rtol=0, atol=20 * coarse)


@pytest.mark.parametrize("solver", PLAIN + DESCENT, ids=str)
def test_solvers_are_values(solver: Solver) -> None:
    assert pickle.loads(pickle.dumps(solver)) == solver
    assert len({solver, pickle.loads(pickle.dumps(solver))}) == 1
    with pytest.raises(AttributeError):
        solver.memory = 3


@pytest.mark.parametrize(
    "make, word",
    [
        (lambda: Anderson(memory=0), "memory"),
        (lambda: Anderson(mixing=0.0), "mixing"),
        (lambda: Anderson(mixing=1.5), "mixing"),
        (lambda: Anderson(ridge=-1e-8), "ridge"),
        (lambda: Anderson(ridge=float("nan")), "ridge"),
        (lambda: Anderson(memry=3), "did you mean 'memory'"),
        (lambda: Broyden(memory=-1), "memory"),
        (lambda: Picard(damping=0.0), "damping"),
        (lambda: Picard(damping=float("nan")), "damping"),
        (lambda: Picard(dampling=0.5), "did you mean 'damping'"),
        (lambda: ProximalGradient(step_size=0.0), "step_size"),
        (lambda: FISTA(step_size=float("inf")), "step_size"),
        (lambda: FISTA(stepsize=0.1), "did you mean 'step_size'"),
    ],
)
def test_bad_options_are_refused(make, word: str) -> None:
    with pytest.raises(OptionError, match=word) as caught:
        make()
    assert isinstance(caught.value, GeqError)
