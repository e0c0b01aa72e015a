"""DeepOptEq2d and DeepOptEqLinear: equilibria, exact gradients, options."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

import geq
from geq.operators import SeparableConvolution
from geq.penalties import Box, TanhPenalty
from geq.regularizers import Decorrelation, FeatureDecay
from geq_papers.theorem.equivalent_forms import BlockForm

GRADIENTS = {
    "implicit": geq.gradients.Implicit(tol=1e-12, max_steps=500),
    "unrolled": geq.gradients.Unrolled(12),
}


def maps(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(3))


def vectors_layer(**options: object) -> geq.DeepOptEqLinear:
    torch.manual_seed(0)
    given = {"in_features": 4, "features": (3, 5), "tol": 1e-12, "max_steps": 2000} | options
    return geq.DeepOptEqLinear(**given).double().eval()  # type: ignore[arg-type]


def maps_layer(**options: object) -> geq.DeepOptEq2d:
    torch.manual_seed(0)
    given = {"in_channels": 2, "channels": (2, 3), "tol": 1e-12, "max_steps": 2000} | options
    return geq.DeepOptEq2d(**given).double().eval()  # type: ignore[arg-type]


def check_gradient(layer: geq.Equilibrium, x: Tensor) -> None:
    """In x and in every parameter, α's included."""
    names = [name for name, _ in layer.named_parameters()]
    values = [p.detach().clone().requires_grad_() for p in layer.parameters()]

    def output(x: Tensor, *values: Tensor) -> Tensor:
        return torch.func.functional_call(layer, dict(zip(names, values, strict=True)), (x,))

    assert torch.autograd.gradcheck(output, (x.requires_grad_(), *values), atol=1e-5, fast_mode=True)


@pytest.mark.parametrize("gradient", GRADIENTS)
@pytest.mark.parametrize("activation", [None, nn.Tanh(), nn.Softplus()])
def test_gradients_on_vectors(gradient: str, activation: nn.Module | None) -> None:
    layer = vectors_layer(learn_alpha=True, activation=activation, gradient=GRADIENTS[gradient])
    check_gradient(layer, maps(2, 4))


@pytest.mark.parametrize("gradient", GRADIENTS)
@pytest.mark.parametrize("separable", [False, True])
def test_gradients_on_maps(gradient: str, separable: bool) -> None:
    layer = maps_layer(learn_alpha=True, separable=separable, gradient=GRADIENTS[gradient])
    check_gradient(layer, maps(1, 2, 3, 3))


@pytest.mark.parametrize("regulariser", [FeatureDecay(), Decorrelation()])
def test_gradients_with_a_regulariser(regulariser: nn.Module) -> None:
    layer = vectors_layer(
        regulariser=regulariser, regulariser_step=0.05, activation=nn.Tanh(), gradient=GRADIENTS["implicit"]
    )
    check_gradient(layer, maps(3, 4))


def test_unrolling_tends_to_the_implicit_gradient() -> None:
    x, errors = maps(2, 2, 4, 4), []

    def gradient(how: geq.gradients.Gradient) -> Tensor:
        layer = maps_layer(learn_alpha=True, gradient=how)
        layer(x).square().sum().backward()
        return torch.cat([p.grad.flatten() for p in layer.parameters() if p.grad is not None])

    exact = gradient(GRADIENTS["implicit"])
    for steps in (2, 10, 200):
        errors.append(float((gradient(geq.gradients.Unrolled(steps)) - exact).norm() / exact.norm()))
    assert errors[0] > 1e-3, "the test can fail"
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 1e-9


@pytest.mark.parametrize("solver", [geq.solvers.Anderson(), geq.solvers.Broyden(), geq.solvers.Picard()])
def test_every_solver_finds_the_same(solver: geq.solvers.Solver) -> None:
    x = maps(2, 2, 4, 4)
    found = maps_layer(solver=solver, tol=1e-11)(x)
    torch.testing.assert_close(found, maps_layer()(x), rtol=1e-8, atol=1e-8)


def test_alpha_moves_a_deep_equilibrium_and_not_that_of_one_layer() -> None:
    x = maps(2, 4)
    one = [vectors_layer(features=(3,), alpha=alpha)(x) for alpha in (0.3, 1.0)]
    torch.testing.assert_close(one[0], one[1])
    deep = [vectors_layer(alpha=alpha)(x) for alpha in (0.3, 1.0)]
    assert not torch.allclose(deep[0], deep[1], atol=1e-3)


def test_shapes_and_options() -> None:
    layer = geq.DeepOptEq2d(
        3,
        channels=[4, 8],
        state_channels=6,
        kernel_size=[5, 3],
        alpha=[0.5, 0.9],
        separable=True,
        normalise_input=True,
        activation=Box(0.0, 1.0),
    )
    assert layer(torch.randn(2, 3, 6, 7)).shape == (2, 6, 6, 7)
    first, second = layer.cell.layers
    assert isinstance(first.W, SeparableConvolution)
    assert (first.W.margin, second.W.margin) == (2, 1)
    assert (first.alpha, second.alpha) == (0.5, 0.9)
    assert (first.W.out_channels, second.W.out_channels) == (4, 8)
    assert first.U.linear.bias is None
    assert first.W.constraint is not second.W.constraint
    assert geq.DeepOptEqLinear(3, (4,), state_features=5)(torch.randn(2, 3)).shape == (2, 5)
    learned = geq.DeepOptEq2d(3, (4, 8), learn_alpha=True)
    assert sum(name.endswith("raw_alpha") for name, _ in learned.named_parameters()) == 2
    assert isinstance(geq.DeepOptEq2d(3, (4,), activation=nn.Tanh()).cell.layers[0].penalty, TanhPenalty)


def test_it_trains_copies_saves_and_runs_in_half_precision() -> None:
    layer = geq.DeepOptEq2d(3, (4, 8), learn_alpha=True, tol=1e-4)
    x = torch.randn(4, 3, 5, 5)
    optimiser = torch.optim.SGD(layer.parameters(), lr=0.1)
    losses = []
    for _ in range(15):
        loss = (layer(x) - 1).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.9 * losses[0]
    assert abs(layer.cell.layers[0].alpha.item() - 0.8) > 1e-4
    twin = copy.deepcopy(layer).eval()
    other = geq.DeepOptEq2d(3, (4, 8), learn_alpha=True, tol=1e-4).eval()
    other.load_state_dict(layer.state_dict())
    with torch.no_grad():
        assert torch.equal(twin(x), layer.eval()(x))
        assert torch.equal(other(x), twin(x))
    with torch.autocast("cpu", torch.bfloat16):
        layer(x).sum().backward()
    assert layer.to(torch.bfloat16)(x.bfloat16()).dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("build", "told"),
    [
        (lambda: geq.DeepOptEq2d(3, (4,), alpha=0.0), r"α must lie in \(0, 1\]: got 0.0"),
        (lambda: geq.DeepOptEqLinear(3, (4,), alpha=1.5), r"α must lie in \(0, 1\]: got 1.5"),
        (
            lambda: geq.DeepOptEq2d(3, (4, 5), alpha=(0.5,)),
            r"alpha must be one number, or one per layer \(2\)",
        ),
        (lambda: geq.DeepOptEq2d(3, (4, 5), kernel_size=(3, 3, 3)), "kernel_size must be one number"),
        (lambda: geq.DeepOptEq2d(3, (4,), kernel_size=2), "kernel_size must be odd"),
        (lambda: geq.DeepOptEq2d(3, ()), r"positive sizes.*got in 3, features \(\), state 3"),
        (lambda: geq.DeepOptEqLinear(3, (4, 0)), r"features \(4, 0\)"),
        (lambda: geq.DeepOptEq2d(3, (4,), activation=nn.GELU()), "must not decrease.*GELU"),
        (lambda: geq.DeepOptEq2d(3, (4,), activation=lambda s: 2 * s), "must be 1-Lipschitz"),
        (lambda: geq.DeepOptEq2d(3, (4,), chanels=3), "did you mean 'channels'"),
    ],
)
def test_bad_options(build: object, told: str) -> None:
    with pytest.raises(geq.errors.OptionError, match=told):
        build()  # type: ignore[operator]


def test_a_regulariser_of_batches_refuses_one_sample() -> None:
    layer = vectors_layer(regulariser=Decorrelation())
    with pytest.raises(geq.errors.InputError, match="at least 2: got 1"):
        layer(maps(1, 4))


def test_it_has_no_energy() -> None:
    """More than two layers minimise nothing (theorem 2 is an inclusion, not an objective)."""
    with pytest.raises(geq.errors.OptionError, match="DeepCell has no energy"):
        vectors_layer().energy(maps(2, 4))


def test_a_regulariser_of_batches_is_solved_for_the_whole_batch() -> None:
    """The samples' equations are one system: every sample, not each when it first seemed done."""
    layer = vectors_layer(regulariser=Decorrelation(), activation=nn.Tanh())
    x = maps(3, 4)
    solution = layer.solve(x)
    c = layer.cell.inject(x)
    torch.testing.assert_close(layer.cell(solution.value, c), solution.value, rtol=1e-10, atol=1e-11)
    assert solution.value.shape == (3, 4)
    assert solution.converged.shape == (1,)
    torch.testing.assert_close(layer(x, z0=solution.value), solution.value)
    blocks = geq.Equilibrium(BlockForm(layer.cell), tol=1e-12, max_steps=2000).eval()
    torch.testing.assert_close(blocks(x)[-1], layer(x))
