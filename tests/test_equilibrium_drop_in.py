"""A layer in the place of a torch layer: in-place changes, averages, checkpointing, edits of weights."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters
from torch.optim.swa_utils import AveragedModel
from torch.utils.checkpoint import checkpoint

import geq
from energy_problems import matrix_of
from geq.model.model_registry import create_model

LAYERS: dict[str, Callable[..., geq.Equilibrium]] = {
    "OptEqLinear": lambda **o: geq.OptEqLinear(5, 8, **o),
    "GEQLinear": lambda **o: geq.GEQLinear(5, 8, **o),
    "wide features": lambda **o: geq.GEQLinear(5, 8, mid_features=12, **o),
    "GEQ2d": lambda **o: geq.GEQ2d(3, 8, normalise_input=False, **o),
    "OptEq2d": lambda **o: geq.OptEq2d(3, 8, normalise_input=False, **o),
    "sigmoid": lambda **o: geq.OptEqLinear(5, 8, kernel=geq.kernels.SigmoidKernel(), **o),
    "FISTA": lambda **o: geq.OptEqLinear(5, 8, solver=geq.solvers.FISTA(), **o),
    "DeepOptEq2d": lambda **o: geq.DeepOptEq2d(3, (4, 6), **o),
    "DeepOptEqLinear": lambda **o: geq.DeepOptEqLinear(5, (4, 6), **o),
}
each = pytest.mark.parametrize("name", LAYERS)


def made(name: str, **options: object) -> tuple[geq.Equilibrium, Tensor]:
    torch.manual_seed(0)
    gradient = geq.gradients.Implicit(tol=1e-12, max_steps=500)
    layer = LAYERS[name](tol=1e-12, max_steps=1000, gradient=gradient, **options).double()
    shape = (2, 3, 6, 6) if "2d" in name else (4, 5)
    return layer, torch.randn(shape, dtype=torch.float64)


def gradients(layer: nn.Module, loss: Tensor) -> list[Tensor]:
    return list(torch.autograd.grad(loss, list(layer.parameters()), retain_graph=True, allow_unused=True))


@each
def test_an_output_changed_in_place_gives_the_right_gradient_or_none(name: str) -> None:
    """As everywhere in torch: what backward needs is intact, or torch says that it was changed."""
    layer, x = made(name)
    z = layer(x)
    loss = z.sum()
    expected = gradients(layer, loss)
    with torch.no_grad():
        z.clamp_(max=0.01)
    try:
        found = gradients(layer, loss)
    except RuntimeError as problem:
        if "modified by an inplace operation" not in str(problem):
            raise
        return
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", ["OptEqLinear", "GEQLinear", "wide features", "GEQ2d", "OptEq2d", "FISTA"])
def test_an_in_place_activation_behind_the_layer(name: str) -> None:
    layer, x = made(name)
    expected = gradients(layer, torch.relu(layer(x) - 0.01).square().sum())
    behind = nn.Sequential(layer, nn.Hardtanh(0.0, 100.0, inplace=True))
    for one, other in zip(
        gradients(layer, torch.relu(behind(x) - 0.01).square().sum()), expected, strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-9)


@each
def test_a_warm_start_keeps_its_memory(name: str) -> None:
    layer, x = made(name)
    layer.eval()
    with torch.no_grad():
        z0 = layer(x).clone()
        z = layer(x, z0=z0)
        before = z.clone()
        z0.fill_(7.0)
    assert torch.equal(z, before)


@each
@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("trained", [0, 3])
def test_checkpointing_changes_nothing(name: str, reentrant: bool, trained: bool) -> None:
    layer, x = made(name)
    for _ in range(trained):
        layer(2 * torch.randn_like(x))
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.1 * parameter.abs().mean() * torch.randn_like(parameter))
    twin = copy.deepcopy(layer)
    results = []
    for one, run in (
        (layer, lambda t: layer(t)),
        (twin, lambda t: checkpoint(twin, t, use_reentrant=reentrant)),
    ):
        given = x.clone().requires_grad_()
        run(given).square().sum().backward()
        results.append([given.grad, *(p.grad for p in one.parameters()), *one.buffers()])
    for found, expected in zip(results[1], results[0], strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-7, atol=1e-10)


@each
def test_averages_made_before_the_first_batch(name: str) -> None:
    layer, x = made(name)
    averaged, by_hand = AveragedModel(layer), copy.deepcopy(layer)
    sizes = (x, torch.randn(2, 3, 10, 10, dtype=torch.float64)) if x.dim() == 4 else (x, x)
    for given in sizes:
        layer(given)
        averaged.update_parameters(layer)
        for mine, theirs in zip(by_hand.state_dict().values(), layer.state_dict().values(), strict=True):
            mine.copy_(theirs)
        for mine, theirs in zip(by_hand.buffers(), layer.buffers(), strict=True):
            mine.copy_(theirs)
    torch.testing.assert_close(by_hand.eval()(x), layer.eval()(x), rtol=1e-9, atol=1e-11)


@each
def test_a_frozen_layer_requires_no_gradient(name: str) -> None:
    layer, x = made(name)
    layer.requires_grad_(False)
    assert not layer(x).requires_grad
    assert layer(x.requires_grad_()).requires_grad


EDITS: dict[str, Callable[[nn.Module], None]] = {
    "in place": lambda model: [p.mul_(1.5) for p in model.parameters()] and None,
    "data": lambda model: [p.data.copy_(p.data.flip(0)) for p in model.parameters() if p.dim()] and None,
    "vector": lambda model: vector_to_parameters(
        1.5 * parameters_to_vector(model.parameters()), model.parameters()
    ),
    "replaced data": lambda model: [setattr(p, "data", 1.5 * p.data) for p in model.parameters()] and None,
    "state": lambda model: (
        model.load_state_dict(
            {k: 1.5 * v if v.is_floating_point() else v for k, v in model.state_dict().items()}
        )
        and None
    ),
    "double": lambda model: (
        model.double().float() and [p.data.mul_(1.5) for p in model.parameters()] and None
    ),
}


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("name", ["geq_tiny", "mopteq_tiny", "mon_tiny", "deep_opteq_tiny", "mdeq_tiny"])
def test_no_cache_outlives_an_edit_of_the_weights(name: str, edit: str) -> None:
    model = create_model(name).eval()
    for layer in model.equilibria().values():
        layer.on_failure = "ignore"
    images = torch.rand(2, *model.input_shape)
    with torch.no_grad():
        model(images)
        EDITS[edit](model)
        fresh = copy.deepcopy(model)
        torch.testing.assert_close(model(images), fresh(images), rtol=1e-5, atol=1e-6)


def operator_norm(layer: geq.Equilibrium, side: int = 6) -> float:
    W = layer.problem.W
    with torch.no_grad():
        weight = W.effective_weight((side, side)).double()
    shape = (W.in_channels, side, side)
    return float(torch.linalg.matrix_norm(matrix_of(lambda z: W.apply_weight(weight, z), shape), 2))


@pytest.mark.parametrize("value", [0.0, float("nan"), float("inf"), 1e-30, 1e30])
def test_the_bound_recovers_from_any_weight(value: float) -> None:
    """One training solve with a weight that has no norm, or none that a step can follow."""
    torch.manual_seed(0)
    layer = geq.OptEq2d(3, 8, on_failure="ignore").train()
    x, weight = torch.randn(2, 3, 6, 6), 3 * layer.problem.W.raw_weight.data.clone()
    layer.problem.W.raw_weight.data.fill_(value)
    layer(x)
    layer.problem.W.raw_weight.data.copy_(weight)
    assert layer(x).isfinite().all()
    assert operator_norm(layer) == pytest.approx(0.95, rel=1e-4)
    assert operator_norm(layer.eval()) == pytest.approx(0.95, rel=1e-4)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("factor", [1.2, 1.5, 100.0])
def test_the_bound_holds_after_an_edit_that_keeps_a_singular_vector(training: bool, factor: float) -> None:
    """The remembered direction stays a singular vector of the edited weight, though not the leading one."""
    layer = geq.GEQ2d(
        8, 8, mid_channels=8, gamma=1e-6, constraint=geq.constraints.SpectralBound(0.95), on_failure="ignore"
    )
    weight = layer.problem.W.raw_weight.data
    nn.init.dirac_(weight.zero_()).mul_(torch.linspace(0.9, 1, 8).view(-1, 1, 1, 1))
    x = torch.randn(4, 8, 6, 6)
    layer.train()(x)
    weight[0] *= factor
    layer.train(training)
    for step in range(60 if training else 1):
        weight[-1] *= 1 - 1e-6 * step  # as in training, where no weight stays the same
        layer(x)
    assert operator_norm(layer) <= 0.95 * (1 + 1e-3)
