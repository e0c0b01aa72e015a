"""Defects of comparable libraries, each shown to be absent here.

The list is of what was found wrong in other libraries for equilibrium models, and of what their users report.
Most points have their own thorough test elsewhere; this file is the short one to read.
"""

from __future__ import annotations

import copy
import inspect

import pytest
import torch
from torch import Tensor

import energy_problems
import geq


def layer_of(kernel: str = "gaussian", **options: object) -> geq.Equilibrium:
    options = {"tol": 1e-9, "max_steps": 200, **options}
    return geq.Equilibrium(energy_problems.dense(kernel), **options)  # type: ignore[arg-type]


def test_misspelt_options_are_not_swallowed() -> None:
    """Elsewhere ``f_maxiter=3`` silently gives 40 steps."""
    with pytest.raises(geq.errors.OptionError, match="unknown option of Equilibrium 'f_maxiter'"):
        layer_of(f_maxiter=3)
    with pytest.raises(geq.errors.OptionError, match="did you mean 'max_steps'"):
        layer_of(max_step=3)
    assert layer_of(max_steps=3, on_failure="ignore").solve(energy_problems.vectors()).steps.max() == 3


@pytest.mark.parametrize("name", [name for name in geq.__all__ if inspect.isclass(getattr(geq, name))])
def test_no_public_class_swallows_options(name: str) -> None:
    kind = getattr(geq, name)
    if issubclass(kind, (Exception, geq.Status)) or name in ("Solution", "WellPosedness", "Network"):
        with pytest.raises((TypeError, ValueError)):
            kind(no_such_option=1)
        return
    with pytest.raises(geq.errors.OptionError, match="no_such_option"):
        kind(no_such_option=1)


def test_divergence_is_not_silent() -> None:
    problem = energy_problems.dense("linear", constraint=geq.constraints.Unconstrained())
    with torch.no_grad():
        problem.W.raw_weight.mul_(10)
    layer = geq.Equilibrium(problem, solver=geq.solvers.Picard(), max_steps=500)
    with pytest.warns(geq.ConvergenceWarning, match="blew up"):
        layer(energy_problems.vectors())
    assert layer.last_solution is not None
    assert layer.last_solution.status is geq.Status.DIVERGED


def test_nan_is_not_silent() -> None:
    x = energy_problems.vectors()
    x[0, 0] = torch.nan
    with pytest.raises(geq.errors.InputError, match="NaN"):
        layer_of().train()(x)


def test_double_backward_is_not_silently_wrong() -> None:
    x = energy_problems.small_vectors().requires_grad_()
    with pytest.raises(geq.errors.GradientError):
        torch.autograd.grad(layer_of()(x).sum(), x, create_graph=True)
    unrolled = layer_of(gradient=geq.gradients.Unrolled(30)).eval()
    assert torch.autograd.gradgradcheck(unrolled, (x,), fast_mode=True)


def test_small_inputs_do_not_stall_anderson() -> None:
    """An absolute ridge of 1e-4 swamps the Gram matrix of small residuals; ours is relative."""
    problem = energy_problems.dense("linear")
    with torch.no_grad():
        problem.U.bias.zero_()  # type: ignore[union-attr, operator]
    layer = geq.Equilibrium(problem, solver=geq.solvers.Anderson(), tol=1e-8, max_steps=100).eval()
    x = energy_problems.vectors()
    steps = [int(layer.solve(scale * x).steps.max()) for scale in (1.0, 1e-3, 1e-5)]
    picard = geq.Equilibrium(problem, solver=geq.solvers.Picard(), tol=1e-8, max_steps=1000).eval()
    assert max(steps) <= steps[0] + 1
    assert steps[0] < 0.3 * int(picard.solve(x).steps.max()), "acceleration at work"


def test_stopping_is_per_sample() -> None:
    layer = layer_of("linear", tol=1e-6).eval()
    x = energy_problems.vectors()
    solved = layer.solve(x).value
    assert isinstance(solved, Tensor)
    start = solved.clone()
    start[1:] = 0
    solution = layer.solve(x, z0=start)
    assert solution.steps[0] == 1
    assert int(solution.steps[1:].min()) > 3
    alone = layer.solve(x[:1], z0=start[:1])
    assert isinstance(solution.value, Tensor)
    assert isinstance(alone.value, Tensor)
    torch.testing.assert_close(solution.value[:1], alone.value, rtol=1e-12, atol=1e-14)  # frozen meanwhile
    assert solution.residual[0].item() == pytest.approx(alone.residual[0].item(), rel=1e-3)


@pytest.mark.parametrize("norm", [geq.constraints.WeightNorm(), geq.constraints.SpectralBound()])
def test_deepcopy_and_state_after_normalisation(norm: geq.constraints.Constraint) -> None:
    layer = geq.Equilibrium(energy_problems.conv("patch-learned", constraint=norm), max_steps=200)
    with torch.no_grad():
        layer.problem.W.raw_weight.mul_(0.2)
        if isinstance(norm, geq.constraints.WeightNorm):
            layer.problem.W.constraint.gain.mul_(0.2)
    x = energy_problems.small_maps()
    layer.train()(x).sum().backward()
    copied = copy.deepcopy(layer).eval()
    torch.testing.assert_close(copied(x), layer.eval()(x))
    other = geq.Equilibrium(energy_problems.conv("patch-learned", constraint=norm, seed=5), max_steps=200)
    other.load_state_dict(layer.state_dict())
    torch.testing.assert_close(other.eval()(x), layer(x))


def test_evaluation_mode_has_a_gradient() -> None:
    """For saliency maps and adversarial attacks."""
    x = energy_problems.vectors().requires_grad_()
    (gradient,) = torch.autograd.grad(layer_of().eval()(x).sum(), x)
    assert gradient.abs().max() > 1e-3
    assert torch.autograd.gradcheck(layer_of(tol=1e-12).eval(), (x,), fast_mode=True)


def test_training_and_evaluation_give_the_same_output() -> None:
    """Elsewhere the training output is the state after the phantom steps, evaluation's the solver's."""
    layer, x = layer_of(gradient=geq.gradients.Phantom(5, 0.8)), energy_problems.vectors()
    torch.testing.assert_close(layer.train()(x), layer.eval()(x))


def test_singular_anderson_systems_do_no_harm() -> None:
    """More memory than dimensions: the Gram matrix is singular from the seventh step on."""
    layer = layer_of("linear", solver=geq.solvers.Anderson(memory=20, ridge=0.0), tol=1e-10).eval()
    solution = layer.solve(energy_problems.vectors())
    assert solution.converged.all()
    assert isinstance(solution.value, Tensor)
    assert torch.isfinite(solution.value).all()


def test_memory_does_not_grow_with_the_steps() -> None:
    def kept(tol: float) -> int:
        sizes: list[int] = []
        layer = layer_of("linear", solver=geq.solvers.Picard(), tol=tol, max_steps=2000)
        with torch.autograd.graph.saved_tensors_hooks(lambda t: (sizes.append(t.numel()), t)[1], lambda t: t):
            layer(energy_problems.vectors())
        return sum(sizes)

    assert kept(1e-1) == kept(1e-12) > 0


def test_ones_own_layer_takes_ten_lines() -> None:
    class Tanh(geq.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(4, 4, bias=False).double()

        def forward(self, z: Tensor, c: Tensor) -> Tensor:
            return torch.tanh(0.5 * self.linear(z) + c)

    layer = geq.Equilibrium(Tanh(), tol=1e-12, max_steps=200).eval()
    x = energy_problems.vectors().requires_grad_()
    assert torch.autograd.gradcheck(layer, (x,), fast_mode=True)


def test_backward_is_known_to_have_converged() -> None:
    """A backward solver that fails must say so."""
    gradient = geq.gradients.Implicit(tol=1e-12, max_steps=1)
    layer = layer_of("linear", gradient=gradient).eval()
    with pytest.warns(geq.ConvergenceWarning, match="adjoint system"):
        layer(energy_problems.vectors().requires_grad_()).sum().backward()
    assert layer.last_adjoint is not None
    assert not layer.last_adjoint.converged.all()


def test_loss_of_precision_under_autocast_does_not_reach_the_solve() -> None:
    layer = geq.Equilibrium(energy_problems.dense("gaussian"), tol=1e-5).float().eval()
    x = energy_problems.vectors().float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        solution = layer.solve(x)
    assert solution.converged.all()
    torch.testing.assert_close(solution.value, layer.solve(x).value)
