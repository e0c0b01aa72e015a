"""The fast paths are nothing but faster: the equation in the features, and derivatives in closed form."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import energy_problems
import geq
from geq.cells import ClosedLinearisation, EnergyEquation, Equation, FeatureEquation
from geq.cells.linearisation import ProximalLinearisation

CONV = ["linear", "gaussian", "gaussian-learned", "gaussian-paper", "gaussian-zero", *energy_problems.PATCHED]
DENSE = ["linear", "gaussian", "gaussian-learned", "gaussian-paper", "gaussian-zero"]
CASES = [("dense", kernel, "") for kernel in DENSE] + [
    ("conv", kernel, padding) for kernel in CONV for padding in energy_problems.PADDINGS
]


def problem_and_input(kind: str, kernel: str, padding: str) -> tuple[geq.EnergyProblem, Tensor]:
    torch.manual_seed(1)
    if kind == "dense":
        return energy_problems.dense(kernel), torch.randn(3, energy_problems.INPUTS, dtype=torch.float64)
    shape = (3, energy_problems.CHANNELS_IN, energy_problems.SIDE, energy_problems.SIDE)
    return energy_problems.conv(kernel, padding), torch.randn(shape, dtype=torch.float64)


@pytest.mark.parametrize("plain", [False, True], ids=["compiled", "plain"])
@pytest.mark.parametrize("kind, kernel, padding", CASES)
def test_closed_derivatives_equal_autograd(
    kind: str, kernel: str, padding: str, plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if plain:
        monkeypatch.setattr("geq.kernels.compiled_patch.load", lambda: None)
    problem, x = problem_and_input(kind, kernel, padding)
    x.requires_grad_()
    c = problem.inject(x)
    fn = EnergyEquation(problem, c)
    z = torch.rand_like(problem.initial_state(c))
    closed, reference = fn.linearise(z), ProximalLinearisation(fn, z)
    assert isinstance(closed, ClosedLinearisation)
    u = torch.randn_like(z)
    with torch.no_grad():
        torch.testing.assert_close(closed.slope, reference.slope)
        transposed = [at.extend(at.core(at.restrict(u))) for at in (closed, reference)]
        torch.testing.assert_close(*transposed)
        p = torch.randn_like(closed.features)
        torch.testing.assert_close(closed.gram(p), closed.restrict(closed.extend(p)))
        size = 1 + torch.rand(len(u), *[1] * (u.dim() - 1), dtype=u.dtype)
        (target, square), (masked, plain_square) = (at.right_hand_side(u, size) for at in (closed, reference))
        torch.testing.assert_close(target, c.W(masked))
        torch.testing.assert_close(square, plain_square)
        pulled = closed.pull_back(u.clone(), None)
        for one, other in zip(pulled, closed.pull_back(u.clone(), closed.restrict(u)), strict=True):
            torch.testing.assert_close(one, other)
    # γ may depend on v, and G on W_h: what counts is what arrives at the leaves.
    leaves = [x, *problem.parameters()]
    carried = [
        (tensor, got) for tensor, got in zip(closed.inputs, pulled, strict=True) if tensor.requires_grad
    ]
    options = {"retain_graph": True, "allow_unused": True, "materialize_grads": True}
    got = torch.autograd.grad([t for t, _ in carried], leaves, [g for _, g in carried], **options)
    wanted = torch.autograd.grad(reference.inputs, leaves, u, **options)
    for one, other in zip(got, wanted, strict=True):
        torch.testing.assert_close(one, other)


def wide(similarity: geq.kernels.Kernel, norm: geq.constraints.Constraint | None = None) -> geq.EnergyProblem:
    """A state with more channels than the features, so that the smaller equation pays."""
    target = 4 if similarity.acts_on == "features" else 12
    W, U = geq.operators.Convolution(12, 4, constraint=norm), geq.operators.Convolution(3, target, bias=True)
    return geq.EnergyProblem(similarity, W, U).double()


SIMILARITIES = {
    "linear": geq.kernels.LinearKernel,
    "gaussian": lambda: geq.kernels.GaussianKernel(gamma=0.01),
    "patch": lambda: geq.kernels.PatchGaussianKernel(2, 4, 16, gamma=0.05),
}


def reduced(problem: geq.EnergyProblem, x: Tensor) -> Equation:
    return problem.equation(x).reduced()


@pytest.mark.parametrize("kernel", SIMILARITIES)
@pytest.mark.parametrize("bound", [0.5, 0.95, 1.4])
def test_solving_in_the_features_finds_the_state(kernel: str, bound: float) -> None:
    if kernel == "linear" and bound > 1:
        pytest.skip("the linear kernel has no equilibrium beyond norm 1")
    problem = wide(SIMILARITIES[kernel](), geq.constraints.SpectralBound(bound)).eval()
    x = torch.randn(5, 3, 6, 6, dtype=torch.float64)
    layer = geq.Equilibrium(problem, tol=1e-11, max_steps=300).eval()
    assert isinstance(reduced(problem, x), FeatureEquation)
    fn = problem.equation(x)
    with torch.no_grad():
        found = layer.solve(x).value
        plain = geq.fixed_point(
            fn.__call__, torch.zeros_like(found), geq.solvers.Anderson(), tol=1e-11, max_steps=300
        ).value
    torch.testing.assert_close(found, plain, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("kernel", SIMILARITIES)
@pytest.mark.parametrize("tol", [1e-1, 1e-2, 1e-4])
@pytest.mark.parametrize("bound", [0.95, 1.4])
def test_tolerance_holds_for_the_state(kernel: str, tol: float, bound: float) -> None:
    """‖T(z) − z‖ ≤ tol‖T(z)‖ is what was promised, in whichever space the solver worked."""
    if kernel == "linear" and bound > 1:
        pytest.skip("the linear kernel has no equilibrium beyond norm 1")
    for seed in range(5):
        torch.manual_seed(seed)
        problem = wide(SIMILARITIES[kernel](), geq.constraints.SpectralBound(bound)).eval()
        x = 3 * torch.randn(4, 3, 6, 6, dtype=torch.float64)
        layer = geq.Equilibrium(problem, tol=tol, max_steps=300).eval()
        with torch.no_grad():
            z = layer.solve(x).value
            image = problem.equation(x)(z)
        residual = (image - z).flatten(1).norm(dim=1) / image.flatten(1).norm(dim=1)
        assert (residual <= tol * (1 + tol)).all()


@pytest.mark.parametrize("kernel", SIMILARITIES)
def test_a_solve_in_the_features_keeps_no_graph(kernel: str) -> None:
    """Also where the caller records gradients, in which mode the map is evaluated."""
    problem = wide(SIMILARITIES[kernel](), geq.constraints.SpectralBound(0.5)).eval()
    x = torch.randn(2, 3, 6, 6, dtype=torch.float64)
    assert isinstance(reduced(problem, x), FeatureEquation)
    solution = geq.fixed_point(problem.equation(x), None, geq.solvers.Anderson(), tol=1e-8)
    assert not solution.value.requires_grad
    torch.testing.assert_close(problem.equation(x)(solution.value), solution.value, rtol=1e-6, atol=1e-7)


def test_features_are_not_used_where_they_prove_nothing() -> None:
    x = torch.randn(2, 3, 6, 6, dtype=torch.float64)
    assert not isinstance(
        reduced(wide(geq.kernels.LinearKernel(), geq.constraints.WeightNorm()), x), FeatureEquation
    )
    assert not isinstance(reduced(wide(geq.kernels.PolynomialKernel(2)), x), FeatureEquation)
    assert not isinstance(reduced(wide(energy_problems.InverseMultiquadric()), x), FeatureEquation)
    narrow = geq.EnergyProblem(
        geq.kernels.LinearKernel(), geq.operators.Convolution(4, 12), geq.operators.Convolution(3, 4)
    ).double()
    assert not isinstance(reduced(narrow, x), FeatureEquation)


def test_a_subclass_with_its_own_score_is_left_alone() -> None:
    class Shifted(geq.EnergyProblem):
        def score(self, z: Tensor, c: object) -> Tensor:
            return super().score(z, c) + z.flatten(1).sum(1)

    problem = Shifted(
        geq.kernels.LinearKernel(), geq.operators.Dense(6, 4), geq.operators.Dense(3, 6)
    ).double()
    x = torch.randn(2, 3, dtype=torch.float64)
    fn = problem.equation(x)
    assert fn.reduced() is fn
    assert not isinstance(fn.linearise(fn.start()), ClosedLinearisation)


@pytest.mark.parametrize("kernel", SIMILARITIES)
def test_gradient_of_the_fast_path_by_finite_differences(kernel: str) -> None:
    problem = wide(SIMILARITIES[kernel]()).eval()
    if isinstance(problem.kernel, geq.kernels.PatchGaussianKernel):
        # Away from the kink of W_h/max(1, ‖W_h‖), where it starts.
        problem.kernel.raw_projection.data.mul_(0.7)
    layer = geq.Equilibrium(
        problem, tol=1e-12, max_steps=200, gradient=geq.gradients.Implicit(tol=1e-12)
    ).eval()
    x = torch.randn(2, 3, 4, 4, dtype=torch.float64, requires_grad=True)
    names, values = zip(*[(n, p.detach().requires_grad_()) for n, p in layer.named_parameters()], strict=True)

    def run(x: Tensor, *parameters: Tensor) -> Tensor:
        return torch.func.functional_call(layer, dict(zip(names, parameters, strict=True)), (x,))

    assert torch.autograd.gradcheck(run, (x, *values), eps=1e-6, atol=1e-6, fast_mode=True)
