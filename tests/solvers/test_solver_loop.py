"""The loop: stopping, freezing, the best state, failures and bad input."""

from __future__ import annotations

import pickle

import pytest
import torch

import problems
from geq.errors import ConvergenceError, ConvergenceWarning, InputError, OptionError
from geq.solvers import Anderson, Picard, Solution, Status, fixed_point
from geq.solvers.rules import BLOW_UP

RATES = torch.tensor([[0.1], [0.5], [0.9]], dtype=torch.float64)


def contraction(z: torch.Tensor) -> torch.Tensor:
    """Fixed point 1, and f(z) − z = (rate − 1)·rateᵏ after k plain steps from 0: every number is known."""
    return 1 + RATES * (z - 1)


def start(batch: int = 3) -> torch.Tensor:
    return torch.zeros(batch, 1, dtype=torch.float64)


def test_steps_residuals_and_trace_are_the_predicted_ones() -> None:
    tol = 1e-4
    solution = fixed_point(contraction, start(), Picard(), tol=tol, max_steps=200, trace=True)
    exponents = torch.arange(200, dtype=torch.float64).unsqueeze(1)
    rates = RATES.squeeze(1)
    predicted = (1 - rates) * rates**exponents / ((1 - rates ** (exponents + 1)) + 1e-15 / tol)
    steps = (predicted > tol).sum(0) + 1
    assert torch.equal(solution.steps, steps)
    assert solution.trace is not None
    assert solution.trace.shape == (int(steps.max()), 3)
    for sample, count in enumerate(steps.tolist()):
        trace = solution.trace[:, sample]
        torch.testing.assert_close(trace[:count], predicted[:count, sample], rtol=1e-8, atol=1e-14)
        assert bool((trace[count:] == trace[count - 1]).all()), "a stopped sample keeps its last residual"
        assert solution.residual[sample] == trace[count - 1]
        expected = 1 - rates[sample] ** (count - 1)
        torch.testing.assert_close(solution.value[sample, 0], expected, rtol=1e-12, atol=0)


def test_no_trace_unless_asked() -> None:
    assert fixed_point(contraction, start(), Picard(), max_steps=200).trace is None


def test_frozen_samples_are_shown_their_frozen_value() -> None:
    seen: list[torch.Tensor] = []

    def watched(z: torch.Tensor) -> torch.Tensor:
        seen.append(z.clone())
        return contraction(z)

    solution = fixed_point(watched, start(), Picard(), tol=1e-4, max_steps=200)
    for z in seen[int(solution.steps[0]) :]:
        assert torch.equal(z[0], solution.value[0])


def test_best_state_is_kept_per_sample() -> None:
    """Maps whose residual is smallest in the middle: |z − target| + 1, walked through by steps of one."""
    targets = torch.tensor([[2.0], [5.0]], dtype=torch.float64)

    def walk(z: torch.Tensor) -> torch.Tensor:
        return z + 1 + (z - targets).abs()

    class Walker(Picard):
        def step(self, z, fz, residual, memory):
            return z + 1, None

    solution = fixed_point(walk, start(2), Walker(), tol=1e-6, max_steps=8, on_failure="ignore")
    candidates = torch.arange(8, dtype=torch.float64).unsqueeze(1)
    relative = (1 + (candidates - targets.T).abs()) / (candidates + 1 + (candidates - targets.T).abs())
    assert torch.equal(solution.value[:, 0], relative.argmin(0).double())
    assert solution.steps.tolist() == [8, 8]
    torch.testing.assert_close(solution.residual, relative.amin(0), rtol=1e-8, atol=0)


def test_a_solution_of_exactly_zero_converges() -> None:
    solution = fixed_point(lambda z: z / 8, torch.ones(2, 3), Picard(), tol=1e-3, max_steps=50)
    assert float(solution.value.abs().max()) < 1e-12
    relu = fixed_point(lambda z: (z - 1).relu(), torch.ones(2, 3) / 2, Picard(), abs_tol=0.0, max_steps=5)
    assert relu.steps.tolist() == [2, 2]
    assert relu.residual.tolist() == [0, 0]
    assert float(relu.value.abs().max()) == 0


def test_absolute_tolerance_counts() -> None:
    loose = fixed_point(contraction, start(), Picard(), tol=1e-12, abs_tol=1e-2, max_steps=200)
    assert float((contraction(loose.value) - loose.value).abs().max()) <= 1.001e-2
    assert float(loose.residual.max()) <= 1e-12
    tight = fixed_point(contraction, start(), Picard(), tol=1e-12, max_steps=500)
    assert bool((loose.steps < tight.steps).all())


def test_a_start_at_the_answer_needs_one_evaluation() -> None:
    problem = problems.affine()
    solution = fixed_point(problem.fn, problem.answer, Anderson(), tol=1e-8)
    assert solution.steps.tolist() == [1, 1, 1, 1]
    assert torch.equal(solution.value, problem.answer)


def test_failure_raises_with_numbers_and_keeps_the_solution() -> None:
    with pytest.raises(ConvergenceError) as caught:
        fixed_point(contraction, start(), Picard(), tol=1e-4, max_steps=20)
    message = str(caught.value)
    for piece in ("1 of 3", "20 evaluations", "1.0e-04", "max_steps", "Picard(damping=1.0)"):
        assert piece in message
    solution = caught.value.solution
    assert isinstance(solution, Solution)
    assert solution.converged.tolist() == [True, True, False]
    assert solution.status is Status.MAX_STEPS
    assert f"{float(solution.residual.max()):.1e}" in message
    assert pickle.loads(pickle.dumps(caught.value)).solution.steps.tolist() == solution.steps.tolist()


def test_failure_may_warn_or_be_ignored() -> None:
    with pytest.warns(ConvergenceWarning, match="1 of 3"):
        warned = fixed_point(contraction, start(), Picard(), tol=1e-4, max_steps=20, on_failure="warn")
    ignored = fixed_point(contraction, start(), Picard(), tol=1e-4, max_steps=20, on_failure="ignore")
    assert torch.equal(warned.value, ignored.value)


def test_divergence_is_noticed_and_stops_early() -> None:
    problem = problems.diverging()
    evaluations = []

    def counted(z: torch.Tensor) -> torch.Tensor:
        evaluations.append(1)
        return problem.fn(z)

    with pytest.raises(ConvergenceError, match="blew up") as caught:
        fixed_point(counted, problem.start, Picard(), max_steps=1000)
    # the residual 3ᵏ passes 1e8 after 17 steps, hence at the 18th evaluation
    assert BLOW_UP == 1e8
    assert len(evaluations) == 18
    solution = caught.value.solution
    assert solution.status is Status.DIVERGED
    assert solution.steps.tolist() == [18, 18]
    assert bool(torch.isfinite(solution.value).all())


def test_one_diverging_sample_does_not_stop_the_others() -> None:
    rates = torch.tensor([[3.0], [0.9]], dtype=torch.float64)
    solution = fixed_point(
        lambda z: rates * z + 1, start(2), Picard(), tol=1e-8, max_steps=300, on_failure="ignore"
    )
    assert solution.status is Status.DIVERGED
    assert solution.converged.tolist() == [False, True]
    assert solution.steps[0] < solution.steps[1]
    torch.testing.assert_close(solution.value[1, 0].item(), 10.0, rtol=1e-6, atol=0)


def test_nan_from_the_first_evaluation_on() -> None:
    solution = fixed_point(
        lambda z: z * float("nan"), start(), Anderson(), max_steps=5, on_failure="ignore", trace=True
    )
    assert solution.status is Status.DIVERGED
    assert solution.steps.tolist() == [1, 1, 1]
    assert torch.equal(solution.value, start())
    assert bool(solution.residual.isinf().all())


def test_an_image_beyond_the_range_of_numbers_is_not_convergence() -> None:
    huge = torch.full((1, 4), 3e38)
    solution = fixed_point(lambda z: z * 0.999, huge, Picard(), max_steps=3, on_failure="ignore")
    assert not bool(solution.converged.any())
    assert solution.status is Status.DIVERGED


def test_infinity_is_treated_like_nan() -> None:
    solution = fixed_point(
        lambda z: torch.full_like(z, float("inf")), start(), Picard(), max_steps=5, on_failure="ignore"
    )
    assert solution.status is Status.DIVERGED


@pytest.mark.parametrize("trace", [False, True])
def test_empty_batch_is_returned_without_a_call(trace: bool) -> None:
    def never(z: torch.Tensor) -> torch.Tensor:
        raise AssertionError

    solution = fixed_point(never, torch.zeros(0, 3, 4, 4), Anderson(), trace=trace)
    assert solution.value.shape == (0, 3, 4, 4)
    assert solution.residual.shape == solution.converged.shape == solution.steps.shape == (0,)
    assert solution.status is Status.CONVERGED
    assert (solution.trace is not None) == trace


def test_no_graph_is_kept_but_the_map_sees_the_callers_grad_mode() -> None:
    weight = torch.tensor(0.5, requires_grad=True)
    modes = []

    def fn(z: torch.Tensor) -> torch.Tensor:
        modes.append(torch.is_grad_enabled())
        assert not z.requires_grad
        return weight * z + 1

    for solver in (Picard(), Anderson()):
        assert not fixed_point(fn, torch.zeros(2, 3, requires_grad=True), solver).value.requires_grad
    assert all(modes)
    modes.clear()
    with torch.no_grad():
        fixed_point(fn, torch.zeros(2, 3), Picard())
    assert not any(modes)


def test_the_start_is_not_modified() -> None:
    problem = problems.tanh()
    begin = 0.1 * torch.ones_like(problem.start)
    for solver in (Picard(), Anderson()):
        fixed_point(problem.fn, begin, solver, max_steps=100)
        assert bool((begin == 0.1).all())


@pytest.mark.parametrize(
    "options, word",
    [
        ({"max_steps": 0}, "max_steps"),
        ({"max_steps": -3}, "max_steps"),
        ({"tol": 0.0}, "tol"),
        ({"tol": float("nan")}, "tol"),
        ({"abs_tol": -1.0}, "abs_tol"),
        ({"on_failure": "rise"}, "did you mean 'raise'"),
    ],
)
def test_bad_options(options: dict, word: str) -> None:
    with pytest.raises(OptionError, match=word):
        fixed_point(contraction, start(), Picard(), **options)


@pytest.mark.parametrize(
    "z0, word",
    [
        (torch.tensor([[1.0], [float("nan")]]), "finite"),
        (torch.tensor([[1.0], [float("inf")]]), "finite"),
        (torch.tensor(1.0), "batch"),
        (torch.ones(2, 3, dtype=torch.int64), "floating"),
        (torch.ones(2, 3, dtype=torch.complex64), "floating"),
        ((torch.ones(2, 3), torch.ones(3, 3)), "batch"),
        ((torch.ones(2, 3), torch.ones(2, 3, dtype=torch.float64)), "dtype"),
        ((torch.ones(2, 3), torch.ones(2, 3, device="meta")), "device"),
        ((), "empty"),
    ],
)
def test_bad_starts(z0: problems.State, word: str) -> None:
    with pytest.raises(InputError, match=word):
        fixed_point(lambda z: z, z0, Picard())


@pytest.mark.parametrize(
    "fn, pieces",
    [
        (lambda z: z[:, :2], ["(2, 3)", "(2, 2)"]),
        (lambda z: z.double(), ["float32", "float64"]),
        (lambda z: (z,), ["(2, 3) float32", "((2, 3) float32 cpu)"]),
        (lambda z: None, ["NoneType"]),
        (lambda z: z[:1], ["(1, 3)"]),
    ],
)
def test_a_map_into_another_space_is_refused(fn, pieces: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        fixed_point(fn, torch.zeros(2, 3), Picard())
    for piece in pieces:
        assert piece in str(caught.value)


def test_a_tuple_of_another_length_is_refused() -> None:
    with pytest.raises(InputError, match="returned"):
        fixed_point(lambda z: (z[0],), (torch.zeros(2, 3), torch.zeros(2, 1)), Picard())


def test_states_without_further_dimensions_or_entries() -> None:
    scalar = fixed_point(lambda z: z / 2 + 1, torch.zeros(3), Anderson(), tol=1e-6)
    torch.testing.assert_close(scalar.value, torch.full((3,), 2.0))
    hollow = fixed_point(lambda z: z, torch.zeros(3, 0), Anderson())
    assert hollow.converged.tolist() == [True] * 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [1e-30, 1e-20, 1e20, 1e30])
def test_scale_of_the_problem_does_not_matter(dtype: torch.dtype, size: float) -> None:
    """Squares of these numbers underflow or overflow in single precision, and 1e-30 is below any absolute
    tolerance: neither may pass for convergence to zero.
    """
    shift = torch.tensor([[1.0, -2.0], [3.0, 0.5]], dtype=dtype) * size
    solution = fixed_point(lambda z: z / 2 + shift, torch.zeros_like(shift), Anderson(), tol=1e-5)
    torch.testing.assert_close(solution.value / size, 2 * shift / size, rtol=1e-4, atol=0)
    assert float(solution.residual.max()) <= 1e-5


def test_exactly_zero_among_small_and_large() -> None:
    shift = torch.tensor([[0.0], [1e-25], [1.0], [1e25]])
    solution = fixed_point(lambda z: z / 2 + shift, torch.zeros(4, 1), Picard(), tol=1e-4)
    torch.testing.assert_close(solution.value, 2 * shift, rtol=1e-3, atol=0)
    assert solution.steps[0] == 1
