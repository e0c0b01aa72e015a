"""Frozen models answer as before, refuse weights that changed, and give gradients nonetheless."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import geq
from geq.frozen import Freezable, frozen
from geq.layers.folding import NormFolding
from geq.operators.separable import SeparableConvolution

TIGHT = {"tol": 1e-6, "max_steps": 200}


def settled(model: nn.Module, x: Tensor) -> nn.Module:
    """Give the norms and scales statistics that are not those of a new network."""
    for norm in model.modules():
        if isinstance(norm, (nn.BatchNorm1d, nn.BatchNorm2d)):
            norm.running_mean.normal_()  # type: ignore[union-attr]
            norm.running_var.uniform_(0.5, 2)  # type: ignore[union-attr]
            if norm.affine:
                nn.init.uniform_(norm.weight, 0.5, 2)
                nn.init.normal_(norm.bias)
    model.train()
    for _ in range(2):
        model(x)
    return model.eval()


LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "patches": (lambda: geq.GEQ2d(3, 16, **TIGHT), (2, 3, 8, 8)),
    "odd sizes": (lambda: geq.GEQ2d(3, 10, 6, patch=3, channel_split=3, hidden=5, **TIGHT), (3, 3, 9, 15)),
    "own patch γ": (
        lambda: geq.GEQ2d(3, 8, 8, gamma=geq.bandwidth.LearnedGamma(parts=4), **TIGHT),
        (2, 3, 4, 4),
    ),
    "paper γ": (lambda: geq.GEQ2d(3, 16, gamma=geq.bandwidth.PaperGamma(), **TIGHT), (2, 3, 8, 8)),
    "median γ": (lambda: geq.GEQ2d(3, 16, gamma=geq.bandwidth.MedianGamma(), **TIGHT), (2, 3, 8, 8)),
    "scaled": (lambda: geq.GEQ2d(3, 16, injection_scale=0.3, gamma=0.5, **TIGHT), (2, 3, 8, 8)),
    "bias": (lambda: geq.GEQ2d(3, 16, normalise_input=False, **TIGHT), (2, 3, 8, 8)),
    "1×1 map": (lambda: geq.GEQ2d(3, 16, patch=1, **TIGHT), (2, 3, 1, 1)),
    "vectors": (lambda: geq.GEQLinear(5, 7, normalise_input=True, **TIGHT), (4, 5)),
    "linear kernel": (lambda: geq.OptEq2d(3, 9, **TIGHT), (2, 3, 5, 7)),
    "several layers": (lambda: geq.DeepOptEq2d(3, (4, 6), **TIGHT), (2, 3, 5, 5)),
    "network": (lambda: geq.create_model("geq_tiny", **TIGHT), (2, 1, 8, 8)),
    "cascade": (lambda: geq.create_model("geq_strong_tiny", **TIGHT), (2, 1, 8, 8)),
}


@pytest.mark.parametrize("dtype, tol", [(torch.float64, 1e-12), (torch.float32, 3e-6)])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_the_same_answer(name: str, dtype: torch.dtype, tol: float, last: bool) -> None:
    torch.manual_seed(0)
    make, shape = LAYERS[name]
    x = torch.randn(shape, dtype=dtype)
    if last and x.dim() == 4:
        x = x.contiguous(memory_format=torch.channels_last)
    model = settled(make().to(dtype), x)
    with torch.no_grad():
        expected = model(x)
        geq.freeze(model)
        for _ in range(2):  # found, and kept
            torch.testing.assert_close(model(x), expected, rtol=tol, atol=tol * float(expected.abs().max()))
        alone = model(x[:1])
    torch.testing.assert_close(
        alone, expected[:1], rtol=10 * tol, atol=10 * tol * float(expected.abs().max())
    )


def test_what_is_kept_is_not_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = []
    for owner, name in ((geq.constraints.SpectralBound, "forward"), (geq.bandwidth.LearnedGamma, "forward")):
        own = getattr(owner, name)

        def seen(self: object, *given: object, own: Callable[..., Tensor] = own) -> Tensor:
            counted.append(type(self).__name__)
            return own(self, *given)

        monkeypatch.setattr(owner, name, seen)
    layer, x = geq.GEQ2d(3, 8).eval(), torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        layer(x), layer(x)
        assert sorted(counted) == 2 * ["LearnedGamma"] + 2 * ["SpectralBound"]
        geq.freeze(layer)
        layer(x), layer(x)
        assert len(counted) == 6
        layer(torch.randn(2, 3, 4, 4))  # another size has another norm
        assert len(counted) == 8
        layer.train().eval()(x)
        assert len(counted) == 10


CHANGES: dict[str, Callable[[geq.GEQ2d], object]] = {
    "in place": lambda layer: layer.problem.W.raw_weight.mul_(2),
    "step": lambda layer: stepped(layer),
    "load": lambda layer: layer.load_state_dict(layer.state_dict()),
    "assigned": lambda layer: layer.load_state_dict(copy.deepcopy(layer.state_dict()), assign=True),
    "replaced": lambda layer: setattr(layer.problem.W, "raw_weight", nn.Parameter(torch.ones(8, 8, 3, 3))),
    "memory": lambda layer: setattr(layer.problem.W.raw_weight, "data", torch.ones(8, 8, 3, 3)),
    "projection": lambda layer: layer.problem.kernel.raw_projection.zero_(),
    "γ": lambda layer: layer.problem.kernel.gamma.theta.add_(1),
    "scale": lambda layer: layer.problem.kernel.gamma.update(torch.tensor(3.0)),
    "rule": lambda layer: setattr(layer.problem.kernel, "gamma", geq.bandwidth.FixedGamma(0.1)),
    "constraint": lambda layer: setattr(layer.problem.W, "constraint", geq.constraints.SpectralBound(0.1)),
    "norm": lambda layer: layer.problem.U.norm.running_mean.add_(1),
    "U": lambda layer: layer.problem.U.linear.raw_weight.mul_(2),
}


def stepped(layer: geq.GEQ2d) -> None:
    optimiser = torch.optim.SGD(layer.parameters(), 0.1)
    with torch.enable_grad():
        layer(torch.randn(2, 3, 8, 8)).square().sum().backward()
    optimiser.step()


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("used", [False, True])
def test_changed_weights_are_refused(name: str, used: bool) -> None:
    torch.manual_seed(0)
    layer, x = geq.freeze(geq.GEQ2d(3, 8, 8)), torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        if used:
            layer(x)
        CHANGES[name](layer)
        with pytest.raises(geq.errors.FrozenError, match=r"must not change: .* call train\(\) before"):
            layer(x)
        expected = copy.deepcopy(layer)(x)
        torch.testing.assert_close(layer.train().eval()(x), expected)
        torch.testing.assert_close(geq.freeze(layer)(x), expected, rtol=1e-5, atol=1e-6)


def test_gradients_are_those_of_the_model() -> None:
    torch.manual_seed(0)
    model = settled(
        geq.create_model("geq_tiny", tol=1e-10, max_steps=300).double(), torch.randn(2, 1, 8, 8).double()
    )
    x = torch.randn(2, 1, 8, 8, dtype=torch.float64, requires_grad=True)
    given = [x, *model.parameters()]

    def gradients() -> tuple[Tensor, ...]:
        return torch.autograd.grad(model(x).square().sum(), given)

    expected = gradients()
    geq.freeze(model)
    with torch.no_grad():
        model(x)
    for found, other in zip(gradients(), expected, strict=True):
        torch.testing.assert_close(found, other)
    # Where no weight is trained, what is kept serves the gradient of the input too.
    model.requires_grad_(False)
    (found,) = torch.autograd.grad(model(x).square().sum(), x)
    torch.testing.assert_close(found, expected[0], rtol=1e-4, atol=1e-8)


def test_training_thaws_and_copies_are_not_frozen() -> None:
    layer = geq.freeze(geq.GEQ2d(3, 8))
    assert not layer.training
    assert parts_frozen(layer) == {True}
    assert parts_frozen(copy.deepcopy(layer)) == {False}
    assert parts_frozen(layer.eval()) == {True}
    assert parts_frozen(layer.train()) == {False}


def parts_frozen(model: nn.Module) -> set[bool]:
    return {part.frozen for part in model.modules() if isinstance(part, Freezable)}


def test_moved_and_converted_models_stay_frozen() -> None:
    torch.manual_seed(0)
    layer, x = geq.freeze(geq.GEQ2d(3, 8)), torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        single = layer(x)
        torch.testing.assert_close(layer.double()(x.double()).float(), single, rtol=1e-2, atol=1e-3)
    assert parts_frozen(layer) == {True}


def test_inside_a_context_and_back() -> None:
    layer, x = geq.GEQ2d(3, 8).train(), torch.randn(2, 3, 8, 8)
    with frozen(layer):
        assert (layer.training, parts_frozen(layer)) == (False, {True})
    assert (layer.training, parts_frozen(layer)) == (True, {False})
    geq.freeze(layer)
    with frozen(layer), torch.no_grad():
        layer(x)
    assert (layer.training, parts_frozen(layer)) == (False, {True})


def test_inference_mode_leaves_nothing_that_gradients_cannot_use() -> None:
    torch.manual_seed(0)
    network = geq.freeze(geq.create_model("geq_tiny").requires_grad_(False))
    x = torch.randn(2, 1, 8, 8)
    with torch.inference_mode():
        expected = network(x)
    x.requires_grad_()
    found = network(x)
    torch.testing.assert_close(found, expected.clone(), rtol=1e-4, atol=1e-5)
    assert bool(torch.autograd.grad(found.sum(), x)[0].isfinite().all())


def test_hooks_see_every_part() -> None:
    torch.manual_seed(0)
    layer, x = geq.freeze(geq.GEQ2d(3, 8)), torch.randn(2, 3, 8, 8)
    seen: list[Tensor] = []
    handle = layer.problem.U.norm.register_forward_hook(lambda module, given, out: seen.append(out))
    with torch.no_grad():
        expected = layer(x)
        handle.remove()
        torch.testing.assert_close(layer(x), expected, rtol=1e-4, atol=1e-5)
    assert len(seen) == 1


def test_many_sizes_do_not_pile_up() -> None:
    layer = geq.freeze(geq.GEQ2d(3, 8))
    with torch.no_grad():
        for side in range(2, 60, 2):
            layer(torch.randn(1, 3, side, side))
    kept = layer.problem.W._kept
    assert kept is not None
    assert len(kept.values) == geq.frozen.MOST_KEPT


def test_other_modules_are_left_as_they_are() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    assert geq.freeze(model) is model
    assert not model.training


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("tracked", [False, True])
@pytest.mark.parametrize(
    "linear, shape",
    [
        (nn.Conv2d(3, 4, 3, 2, padding=1), (2, 3, 7, 9)),
        (nn.Conv2d(4, 4, 3, groups=2, bias=False, dilation=2), (2, 4, 7, 9)),
        (nn.Conv2d(3, 4, 3, padding=1, padding_mode="circular"), (2, 3, 7, 9)),
        (geq.operators.Convolution(3, 4, 5, "circular", bias=True), (2, 3, 7, 9)),
        (SeparableConvolution(3, 4), (2, 3, 7, 9)),
        (geq.operators.Convolution(3, 4, constraint=geq.constraints.SpectralBound(0.5)), (2, 3, 7, 9)),
        (geq.operators.Dense(3, 4, bias=True), (5, 3)),
    ],
)
def test_folded_norms(linear: nn.Module, shape: tuple[int, ...], affine: bool, tracked: bool) -> None:
    torch.manual_seed(0)
    x = torch.randn(shape, dtype=torch.float64)
    norm = (nn.BatchNorm2d if len(shape) == 4 else nn.BatchNorm1d)(
        4, affine=affine, track_running_stats=tracked
    )
    model = NormFolding(copy.deepcopy(linear), norm, nn.ReLU(), nn.Flatten(), nn.LazyLinear(2)).double()
    settled_model = settled_if(model, x, tracked)
    with torch.no_grad():
        expected = settled_model(x)
        torch.testing.assert_close(geq.freeze(settled_model)(x), expected)
        if len(shape) == 4:
            last = x.contiguous(memory_format=torch.channels_last)
            torch.testing.assert_close(settled_model(last), expected)


def settled_if(model: nn.Module, x: Tensor, tracked: bool) -> nn.Module:
    return settled(model, x) if tracked else model.eval()
