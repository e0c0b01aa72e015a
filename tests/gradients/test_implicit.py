"""The implicit gradient where it is difficult."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import energy_problems
import geq

SIZE = 4


def beyond_convexity(strength: float = 2.0) -> tuple[geq.EnergyProblem, Tensor, Tensor]:
    """A problem with its input and stationary point z*, where ∇²S has an eigenvalue above 1.

    W = strength·Q with Q orthogonal, no penalty, γ = 1, and v such that γ‖v − Wz*‖² = 3/2, where the Gaussian
    is most convex: e^{−3/2}·2·strength² = 1.79 for strength 2. Sample 1 has a tiny residual instead, where
    the system is positive definite.
    """
    torch.manual_seed(0)
    U = geq.operators.Dense(SIZE, SIZE).double()
    problem = geq.EnergyProblem(
        geq.kernels.GaussianKernel(1.0),
        W=geq.operators.Dense(SIZE, SIZE, constraint=geq.constraints.Unconstrained()),
        U=U,
        penalty=geq.penalties.NoPenalty(),
    ).double()
    Q = torch.linalg.qr(torch.randn(SIZE, SIZE, dtype=torch.float64))[0]
    with torch.no_grad():
        problem.W.raw_weight.copy_(strength * Q)
        U.raw_weight.copy_(torch.eye(SIZE))
    r = torch.randn(2, SIZE, dtype=torch.float64)
    r = r / r.norm(dim=1, keepdim=True) * torch.tensor([[math.sqrt(1.5)], [0.1]], dtype=torch.float64)
    beta = torch.exp(-r.square().sum(1, keepdim=True))
    z = beta * strength * r @ Q  # z = β Wᵀ r
    v = r + strength * z @ Q.T
    return problem, v, z


def dense_adjoint(fn: Callable[[Tensor], Tensor], z: Tensor, g: Tensor) -> Tensor:
    """(I − Jᵀ)⁻¹g by a direct solver, sample by sample."""
    J = torch.autograd.functional.jacobian(fn, z)
    identity = torch.eye(z.shape[1], dtype=z.dtype)
    return torch.stack([torch.linalg.solve(identity - J[i, :, i].T, g[i]) for i in range(len(z))])


@pytest.mark.parametrize("solver", [None, geq.solvers.Anderson(memory=8), geq.solvers.Broyden()])
def test_right_where_the_system_is_indefinite(solver: geq.solvers.Solver | None) -> None:
    problem, x, z = beyond_convexity()
    x.requires_grad_()
    cell = problem
    fn = cell.equation(x)
    torch.testing.assert_close(fn(z).detach(), z)
    hessian = torch.autograd.functional.jacobian(fn, z)[0, :, 0]
    assert torch.linalg.eigvalsh(hessian).max().item() > 1.5, "conjugate gradients do not apply"

    statistics: list[geq.Solution] = []
    gradient = geq.gradients.Implicit(tol=1e-12, solver=solver)
    attached = gradient.attach(fn, z, statistics.append)
    g = torch.randn_like(z)
    (found,) = torch.autograd.grad((attached * g).sum(), x)

    u = dense_adjoint(lambda s: cell(s, problem.inject(x.detach())), z, g)
    expected = torch.autograd.grad((cell(z, problem.inject(x)) * u).sum(), x)[0]
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-10)
    assert len(statistics) == 1
    assert statistics[0].converged.all()
    if solver is None:
        assert statistics[0].steps[0] > statistics[0].steps[1], "only the indefinite sample was solved twice"


def test_conjugate_gradients_need_fewer_products() -> None:
    """Purpose of the symmetric structure."""
    problem, x = energy_problems.dense("linear"), energy_problems.vectors().requires_grad_()
    steps = {}
    for name, solver in [("cg", None), ("picard", geq.solvers.Picard())]:
        gradient = geq.gradients.Implicit(tol=1e-8, max_steps=2000, solver=solver)
        layer = geq.Equilibrium(problem, gradient=gradient, tol=1e-10, max_steps=2000).eval()
        torch.autograd.grad(layer(x).sum(), x)
        assert layer.last_adjoint is not None
        steps[name] = int(layer.last_adjoint.steps.max())
    assert steps["cg"] <= energy_problems.STATE + 1
    assert steps["picard"] > 2 * steps["cg"]


def test_statistics_of_the_backward() -> None:
    layer = geq.Equilibrium(
        energy_problems.dense("gaussian"), gradient=geq.gradients.Implicit(tol=1e-9), tol=1e-9
    )
    x = energy_problems.vectors().requires_grad_()
    z = layer(x)
    assert layer.last_adjoint is None
    z.sum().backward()
    assert layer.last_adjoint is not None
    assert layer.last_adjoint.converged.all()
    assert layer.last_adjoint.residual.shape == (3,)
    assert bool((layer.last_adjoint.residual <= 1e-9).all())
    assert isinstance(layer.last_adjoint.value, Tensor)
    assert layer.last_adjoint.value.numel() == 0, "it holds no memory"


def hard_layer(on_failure: str) -> tuple[geq.Equilibrium, Tensor]:
    gradient = geq.gradients.Implicit(tol=1e-12, max_steps=2, on_failure=on_failure)
    layer = geq.Equilibrium(energy_problems.dense("linear"), gradient=gradient, tol=1e-10, max_steps=500)
    return layer, energy_problems.vectors().requires_grad_()


def test_failure_is_told_with_numbers() -> None:
    told = r"[23] of 3 samples did not within 2 products \(worst .*increase max_steps or tol"
    layer, x = hard_layer("raise")
    with pytest.raises(geq.ConvergenceError, match=told) as caught:
        layer(x).sum().backward()
    assert not caught.value.solution.converged.all()
    layer, x = hard_layer("warn")
    with pytest.warns(geq.ConvergenceWarning, match=told):
        layer(x).sum().backward()
    assert x.grad is not None
    layer, x = hard_layer("ignore")
    layer(x).sum().backward()
    assert layer.last_adjoint is not None
    assert not layer.last_adjoint.converged.all(), "ignored, but known"


def test_the_default_warns() -> None:
    assert geq.gradients.Implicit().on_failure == "warn"


@pytest.mark.parametrize("solver", [None, geq.solvers.Anderson()])
@pytest.mark.parametrize("poison", [math.nan, math.inf])
def test_poisoned_gradients_stay_poisoned(solver: geq.solvers.Solver | None, poison: float) -> None:
    """A NaN from the loss must not come out as a number: the step of an optimiser would be wrong."""
    layer = geq.Equilibrium(
        energy_problems.dense("gaussian"), gradient=geq.gradients.Implicit(tol=1e-9, solver=solver), tol=1e-9
    ).eval()
    x = energy_problems.vectors().requires_grad_()
    z = layer(x)
    g = torch.ones_like(z)
    (clean,) = torch.autograd.grad(z, x, g, retain_graph=True)
    g[1, 2] = poison
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (gradient,) = torch.autograd.grad(z, x, g)
    assert torch.isnan(gradient[1]).all()
    torch.testing.assert_close(gradient[[0, 2]], clean[[0, 2]])


def test_tiny_gradients_in_single_precision() -> None:
    layer = geq.Equilibrium(energy_problems.dense("gaussian"), tol=1e-6).float().eval()
    x = energy_problems.vectors().float().requires_grad_()
    z = layer(x)
    (plain,) = torch.autograd.grad(z.sum(), x, retain_graph=True)
    (tiny,) = torch.autograd.grad(z.sum() * 1e-20, x)
    torch.testing.assert_close(tiny * 1e20, plain, rtol=1e-4, atol=1e-5)


def test_backward_twice_needs_retain_graph_and_is_then_the_same() -> None:
    layer = geq.Equilibrium(energy_problems.dense("gaussian"), tol=1e-9).eval()
    x = energy_problems.vectors().requires_grad_()
    z = layer(x)
    (first,) = torch.autograd.grad(z.sum(), x, retain_graph=True)
    (second,) = torch.autograd.grad(z.sum(), x)
    assert torch.equal(first, second)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        torch.autograd.grad(z.sum(), x)


def test_map_that_ignores_the_state() -> None:
    class Constant(geq.Cell):
        def forward(self, z: Tensor, c: Tensor) -> Tensor:
            return 2 * c

    x = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(geq.Equilibrium(Constant(), tol=1e-12)(x).sum(), x)
    torch.testing.assert_close(gradient, torch.full_like(x, 2.0))


def test_memory_does_not_grow_with_the_steps() -> None:
    """Backward keeps one evaluation for any number of them in the solve."""

    def kept(tol: float, gradient: geq.gradients.Gradient) -> int:
        layer = geq.Equilibrium(
            energy_problems.dense("linear"),
            solver=geq.solvers.Picard(),
            gradient=gradient,
            tol=tol,
            max_steps=2000,
        )
        total = 0

        def count(tensor: Tensor) -> Tensor:
            nonlocal total
            total += tensor.numel()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
            layer(energy_problems.vectors().requires_grad_())
        assert layer.last_solution is not None
        return total

    for gradient in (geq.gradients.Implicit(), geq.gradients.Phantom(), geq.gradients.JacobianFree()):
        assert kept(1e-2, gradient) == kept(1e-12, gradient) > 0
    assert kept(1e-3, geq.gradients.Unrolled(steps=40)) > 5 * kept(1e-3, geq.gradients.Unrolled(steps=4))


@pytest.mark.parametrize("norm", [geq.constraints.Unconstrained(), geq.constraints.SpectralBound(0.5)])
@pytest.mark.parametrize(
    "kernel",
    [
        geq.kernels.LinearKernel(),
        geq.kernels.GaussianKernel(0.1),
        geq.kernels.GaussianKernel(geq.bandwidth.ZeroGamma()),
    ],
)
def test_feedback_with_a_bias(kernel: geq.kernels.Kernel, norm: geq.constraints.Constraint) -> None:
    """W may be affine: its bias takes part in the energy, and gets its gradient."""
    torch.manual_seed(0)
    size = 4 if kernel.acts_on == "features" else 6
    problem = geq.EnergyProblem(
        kernel, W=geq.operators.Dense(6, 4, bias=True, constraint=norm), U=geq.operators.Dense(3, size)
    ).double()
    with torch.no_grad():
        problem.W.raw_weight.mul_(0.3)
        problem.W.bias.normal_()  # type: ignore[union-attr]
    x = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    found = []
    for gradient in (geq.gradients.Implicit(tol=1e-13), geq.gradients.Unrolled(80)):
        layer = geq.Equilibrium(problem, gradient=gradient, tol=1e-12, max_steps=500).eval()
        found.append(torch.autograd.grad(layer(x).square().sum(), [x, *problem.parameters()]))
    for one, other in zip(*found, strict=True):
        assert one.any()
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(
    "gradient", [geq.gradients.Implicit(), geq.gradients.Phantom(), geq.gradients.JacobianFree()]
)
@pytest.mark.parametrize("kernel", ["linear", "gaussian", "sigmoid", "own"])
def test_weights_changed_before_backward_are_noticed(kernel: str, gradient: geq.gradients.Gradient) -> None:
    """An optimiser's step between a solve and its backward: the gradient would belong to neither."""
    problem = energy_problems.dense(kernel, constraint=geq.constraints.Unconstrained())
    with torch.no_grad():
        problem.W.raw_weight.mul_(0.3)
    z = geq.Equilibrium(problem, gradient=gradient)(0.3 * energy_problems.vectors())
    with torch.no_grad():
        problem.W.raw_weight.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


@pytest.mark.parametrize("kernel", ["linear", "gaussian"])
def test_backward_inside_autocast_is_not_rounded(kernel: str) -> None:
    problem = energy_problems.dense(kernel, constraint=geq.constraints.Unconstrained())
    with torch.no_grad():
        problem.W.raw_weight.mul_(0.3)
    layer = geq.Equilibrium(problem, tol=1e-6).float().eval()
    x, weight = energy_problems.vectors().float(), layer.problem.W.raw_weight
    (plain,) = torch.autograd.grad(layer(x).sum(), weight)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        (inside,) = torch.autograd.grad(layer(x).sum(), weight)
    torch.testing.assert_close(inside, plain, rtol=1e-4, atol=1e-5)
