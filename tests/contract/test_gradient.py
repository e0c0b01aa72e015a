"""Every gradient on every problem with every solver: against finite differences and a second method."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.func import functional_call

import energy_problems
import geq
from energy_problems import CASES

SOLVERS = {
    "picard": geq.solvers.Picard(),
    "anderson": geq.solvers.Anderson(memory=4),
    "broyden": geq.solvers.Broyden(),
    "proximal": geq.solvers.ProximalGradient(step_size=0.8),
    "fista": geq.solvers.FISTA(step_size=0.6),
}
EXACT: dict[str, geq.gradients.Gradient] = {
    "implicit": geq.gradients.Implicit(tol=1e-13),
    "implicit-anderson": geq.gradients.Implicit(tol=1e-12, solver=geq.solvers.Anderson()),
    "implicit-picard": geq.gradients.Implicit(tol=1e-12, max_steps=500, solver=geq.solvers.Picard()),
    "phantom": geq.gradients.Phantom(steps=30, damping=0.9),
    "unrolled": geq.gradients.Unrolled(steps=25),
    "unrolled-damped": geq.gradients.Unrolled(steps=35, damping=0.9),
    "reversible": geq.gradients.Reversible(steps=20, beta=0.7, tol=0.02),  # polynomial: rounding × 3e13
}
"""Gradients that are exact, or become so with many steps."""

KERNELS = ["linear", "polynomial", "sigmoid", "gaussian", "gaussian-learned", "own"]


def small_problem(kernel: str) -> tuple[geq.EnergyProblem, Tensor]:
    """Well inside of what contracts, so that long sums converge too."""
    if kernel.startswith("patch"):
        build, data = energy_problems.conv, energy_problems.small_maps
        return build(kernel, "circular", constraint=geq.constraints.SpectralBound(0.5)), data()[:1]
    return energy_problems.dense(
        kernel, constraint=geq.constraints.SpectralBound(0.5)
    ), energy_problems.small_vectors()[:2]


def layer_of(problem: geq.EnergyProblem | geq.Cell, **options: object) -> geq.Equilibrium:
    options = {"tol": 1e-13, "max_steps": 400, **options}
    return geq.Equilibrium(problem, **options).eval()  # type: ignore[arg-type]


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kernel", [*KERNELS, "gaussian-zero", "patch"])
def test_every_gradient_is_the_difference_quotient(kernel: str, solver: str) -> None:
    """Problem × solver × gradient, along random directions in input and output."""
    problem, x = small_problem(kernel)
    reference = layer_of(problem, solver=SOLVERS[solver])
    direction, weight = torch.randn_like(x), torch.randn_like(reference(x))
    eps = 1e-5
    with torch.no_grad():
        change = reference(x + eps * direction) - reference(x - eps * direction)
    expected = (change * weight).sum().item() / (2 * eps)
    assert abs(expected) > 1e-4
    x.requires_grad_()
    for name, gradient in EXACT.items():
        layer = layer_of(problem, solver=SOLVERS[solver], gradient=gradient)
        (found,) = torch.autograd.grad((layer(x) * weight).sum(), x)
        assert (found * direction).sum().item() == pytest.approx(expected, rel=1e-5, abs=1e-8), name


@pytest.mark.parametrize("gradient", EXACT)
@pytest.mark.parametrize("kernel", [*KERNELS, "gaussian-paper", "gaussian-zero", *energy_problems.PATCHED])
def test_gradcheck_in_input_and_parameters(kernel: str, gradient: str) -> None:
    problem, x = small_problem(kernel)
    layer = layer_of(problem, gradient=EXACT[gradient])
    names = [name for name, _ in layer.named_parameters()]
    tensors = [p.detach().clone().requires_grad_() for p in layer.parameters()]

    def call(x: Tensor, *parameters: Tensor) -> Tensor:
        return functional_call(layer, dict(zip(names, parameters, strict=True)), (x,))

    # The tolerance leaves room for the power iteration inside of a finite difference.
    assert torch.autograd.gradcheck(call, (x.requires_grad_(), *tensors), fast_mode=True, atol=1e-4)


@pytest.mark.parametrize(
    "penalty",
    [
        geq.penalties.Box(-0.05, 0.1),
        geq.penalties.L1(0.05),
        geq.penalties.ElasticNet(0.05, 0.5),
        geq.penalties.NoPenalty(),
    ],
    ids=lambda penalty: type(penalty).__name__,
)
def test_gradcheck_with_every_penalty(penalty: geq.penalties.Penalty) -> None:
    problem = energy_problems.dense("gaussian", penalty=penalty)
    x = energy_problems.small_vectors().requires_grad_()
    layer = layer_of(problem, gradient=geq.gradients.Implicit(tol=1e-13))
    assert torch.autograd.gradcheck(layer, (x,), fast_mode=True)


@pytest.mark.parametrize("case", [case for case in CASES if "sigmoid-literal" not in case])
def test_implicit_is_long_unrolling(case: str) -> None:
    """Second method: autograd through the iteration itself, in input and all parameters.

    Not for tanh of a plain sum, whose plain iteration does not contract.
    """
    build, data = CASES[case]
    problem, x = build(), data().requires_grad_()

    def gradients(gradient: geq.gradients.Gradient) -> list[Tensor]:
        layer = layer_of(problem, gradient=gradient)
        z = layer(x)
        wanted = [x, *layer.parameters()]
        weight = torch.linspace(0.5, 1.5, z[0].numel(), dtype=z.dtype).view(z[0].shape)
        found = torch.autograd.grad((z * weight).square().sum() + z.sum(), wanted, allow_unused=True)
        return [torch.zeros_like(t) if g is None else g for t, g in zip(wanted, found, strict=True)]

    implicit, unrolled = (
        gradients(geq.gradients.Implicit(tol=1e-13)),
        gradients(geq.gradients.Unrolled(steps=50)),
    )
    for exact, long in zip(implicit, unrolled, strict=True):
        torch.testing.assert_close(exact, long, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("damping", [0.8, 1.0])
@pytest.mark.parametrize("kernel", KERNELS)
def test_phantom_is_autograd_through_damped_steps_at_the_fixed_point(kernel: str, damping: float) -> None:
    problem, x = small_problem(kernel)
    x.requires_grad_()
    for steps in (1, 2, 5):
        layer = layer_of(problem, gradient=geq.gradients.Phantom(steps, damping))
        z = layer(x)
        weight = torch.randn_like(z)
        wanted = [x, *layer.parameters()]
        found = torch.autograd.grad((z * weight).sum(), wanted, allow_unused=True)

        fn = layer.cell.equation(x)
        state = z.detach()
        for _ in range(steps):
            state = (1 - damping) * state + damping * fn(state)
        expected = torch.autograd.grad((state * weight).sum(), wanted, allow_unused=True)
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("kernel", ["linear", "gaussian", "gaussian-zero", "patch", "own"])
def test_phantom_tends_to_implicit(kernel: str) -> None:
    problem, x = small_problem(kernel)
    x.requires_grad_()

    def gradient(how: geq.gradients.Gradient) -> Tensor:
        return torch.autograd.grad(layer_of(problem, gradient=how)(x).square().sum(), x)[0]

    exact = gradient(geq.gradients.Implicit(tol=1e-13))
    errors = [(gradient(geq.gradients.Phantom(steps)) - exact).norm().item() for steps in (1, 4, 16, 64)]
    assert errors[0] > 1e-3 * exact.norm().item(), "phantom(1) is not the implicit gradient"
    assert errors[0] > errors[1] > errors[2]
    assert errors[3] < 1e-9
    jacobian_free = gradient(geq.gradients.JacobianFree())
    torch.testing.assert_close(jacobian_free, gradient(geq.gradients.Phantom(1, damping=1.0)))
    assert (jacobian_free - exact).norm().item() > 1e-3 * exact.norm().item()


ANY: dict[str, geq.gradients.Gradient] = {
    **EXACT,
    "jacobian-free": geq.gradients.JacobianFree(),
    "phantom-1": geq.gradients.Phantom(1),
}


@pytest.mark.parametrize("name", ANY)
def test_samples_do_not_meet_in_backward(name: str) -> None:
    problem, _ = small_problem("gaussian")
    layer = layer_of(problem, gradient=ANY[name])
    x = energy_problems.small_vectors().requires_grad_()
    z = layer(x)
    (gradient,) = torch.autograd.grad(z[1].sum(), x)
    assert not gradient[[0, 2]].any()
    alone = x.detach()[1:2].requires_grad_()
    (expected,) = torch.autograd.grad(layer(alone).sum(), alone)
    torch.testing.assert_close(gradient[1:2], expected)


@pytest.mark.parametrize("name", ANY)
def test_value_does_not_depend_on_the_gradient(name: str) -> None:
    problem, x = small_problem("gaussian")
    layer = layer_of(problem, gradient=ANY[name])
    z = layer(x)
    assert z.requires_grad
    torch.testing.assert_close(z.detach(), layer_of(problem).solve(x).value, rtol=1e-9, atol=1e-11)
    with torch.no_grad():
        assert not layer(x).requires_grad


@pytest.mark.parametrize("name", ANY)
def test_tuple_states(name: str) -> None:
    """A cell with two tensors as state, against the same affine map on one."""
    layer = layer_of(TwoParts(), gradient=ANY[name])
    x = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    first, second = layer(x)
    # a = 0.2 b̄ + x, b = 0.3 a: b̄ the mean of b over its last axis
    torch.testing.assert_close(first, x / (1 - 0.06))
    torch.testing.assert_close(second, (0.3 * first)[..., None].expand(2, 3, 2))
    (gradient,) = torch.autograd.grad(first.sum() + second.sum(), x)
    if name in EXACT:
        torch.testing.assert_close(gradient, torch.full_like(x, 1.6 / (1 - 0.06)))
    else:
        assert torch.isfinite(gradient).all()


class TwoParts(geq.Cell):
    def initial_state(self, c: Tensor) -> tuple[Tensor, Tensor]:
        return torch.zeros_like(c), c.new_zeros(*c.shape, 2)

    def forward(self, z: tuple[Tensor, Tensor], c: Tensor) -> tuple[Tensor, Tensor]:
        a, b = z
        return 0.2 * b.mean(-1) + c, (0.3 * a)[..., None].expand_as(b) + 0 * b


REFUSING = [
    geq.gradients.Implicit(),
    geq.gradients.Implicit(solver=geq.solvers.Anderson()),
    geq.gradients.Phantom(),
    geq.gradients.JacobianFree(),
]


@pytest.mark.parametrize("gradient", REFUSING, ids=lambda g: type(g).__name__)
def test_double_backward_is_refused(gradient: geq.gradients.Gradient) -> None:
    problem, x = small_problem("gaussian")
    z = layer_of(problem, gradient=gradient)(x.requires_grad_())
    with pytest.raises(geq.errors.GradientError, match=r"silently wrong.*Unrolled"):
        torch.autograd.grad(z.sum(), x, create_graph=True)


@pytest.mark.parametrize("kernel", ["gaussian", "sigmoid", "own"])
@pytest.mark.parametrize("name", ["Unrolled", "Reversible"])
def test_double_backward_through_iterations_is_right(kernel: str, name: str) -> None:
    problem, x = small_problem(kernel)
    gradient = {"Unrolled": geq.gradients.Unrolled(10, 0.9), "Reversible": geq.gradients.Reversible(5, 0.7)}
    layer = layer_of(problem, gradient=gradient[name])
    assert torch.autograd.gradgradcheck(layer, (x.requires_grad_(),), fast_mode=True)


@pytest.mark.parametrize("name", ANY)
def test_nothing_to_differentiate_is_no_error(name: str) -> None:
    """A map that depends on nothing that could be learned: the value, unattached."""

    class Constant(geq.Cell):
        def forward(self, z: Tensor, c: Tensor) -> Tensor:
            return 2 * c

    assert not layer_of(Constant(), gradient=ANY[name])(torch.ones(2, 3)).requires_grad


@pytest.mark.parametrize("name", ANY)
def test_frozen_parameters_get_no_gradient(name: str) -> None:
    problem, x = small_problem("gaussian")
    layer = layer_of(problem, gradient=ANY[name])
    layer.requires_grad_(False)
    z = layer(x.requires_grad_())
    z.sum().backward()
    assert x.grad is not None
    assert x.grad.any()
    assert all(parameter.grad is None for parameter in layer.parameters())


OPTIONS: list[tuple[Callable[[], object], str]] = [
    (lambda: geq.gradients.Implicit(tol=0.0), "tol must be above 0: got 0.0"),
    (lambda: geq.gradients.Implicit(max_steps=0), "max_steps must be at least 1: got 0"),
    (lambda: geq.gradients.Implicit(on_failure="rise"), "did you mean 'raise'"),
    (lambda: geq.gradients.Implicit(tolerance=1e-3), "option of Implicit 'tolerance'"),
    (lambda: geq.gradients.Phantom(steps=0), "steps must be at least 1: got 0"),
    (lambda: geq.gradients.Phantom(damping=0.0), r"damping must lie in \(0, 1\]: got 0.0"),
    (lambda: geq.gradients.Phantom(dampin=0.5), "did you mean 'damping'"),
    (lambda: geq.gradients.Unrolled(steps=0), "steps must be at least 1: got 0"),
    (lambda: geq.gradients.Reversible(steps=0), "Reversible: steps must be at least 1: got 0"),
    (lambda: geq.gradients.Reversible(beta=1.0), r"beta must lie in \(0, 1\) or \(1, 2\).*got 1.0"),
    (lambda: geq.gradients.Reversible(beta=2.0), r"divides by 1 − beta: got 2.0"),
    (lambda: geq.gradients.Reversible(tol=0.0), r"tol must lie in \(0, 1\): got 0.0"),
    (lambda: geq.gradients.Reversible(on_failure="rise"), "did you mean 'raise'"),
    (
        lambda: geq.gradients.Reversible(80, beta=0.8),
        r"\|1 − beta\|\^−80, to 9.2e\+39 in torch.float64; take beta at most 0.31 for 80 steps",
    ),
    (lambda: geq.gradients.Reversible(10000, beta=0.9), "to inf in"),
    (lambda: geq.gradients.Unrolled(damping=1.5), r"damping must lie in \(0, 1\]: got 1.5"),
]


@pytest.mark.parametrize(("build", "told"), OPTIONS)
def test_bad_options(build: Callable[[], object], told: str) -> None:
    with pytest.raises(geq.errors.OptionError, match=told):
        build()
