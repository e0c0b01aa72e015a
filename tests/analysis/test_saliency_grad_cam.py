"""Grad-CAM against gradients taken by hand, finite differences, and what must be refused."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from geq.analysis.saliency import branch_feature_map, grad_cam, layer_feature_map, stretched
from geq.errors import InputError, MissingExtraError, OptionError
from geq.gradients import Implicit, Phantom
from geq.model.branch_network import BranchNetwork
from geq.model.model_registry import create_model
from geq.model.network import FeatureMap, Network

TARGET = 3


def ready(name: str) -> Network:
    """A network in double precision, evaluation mode, solved and differentiated to many digits.

    The statistics of its norms are those of data, so that nothing is degenerate.
    """
    model = create_model(name).double()
    for layer in model.equilibria().values():
        layer.tol, layer.max_steps, layer.gradient = 1e-11, 500, Implicit(1e-11, 500)
    model.train()
    with torch.no_grad():
        for _ in range(3):
            model(images(8))
    return model.eval()


def images(number: int = 2) -> Tensor:
    return torch.randn(number, 1, 8, 8, dtype=torch.float64)


def by_hand(model: Network, x: Tensor, place: FeatureMap) -> Tensor:
    """ReLU(Σ_k mean(∂y/∂A_k)·A_k), with the map cut out of the graph and put back as a leaf."""
    leaf: list[Tensor] = []

    def cut(value: Any) -> Any:
        chosen = value if place.part is None else value[place.part]
        leaf.append(chosen.detach().requires_grad_())
        return leaf[0] if place.part is None else (*value[: place.part], leaf[0], *value[place.part + 1 :])

    if place.at_input:
        handle = place.module.register_forward_pre_hook(lambda module, given: (cut(given[0]),))
    else:
        handle = place.module.register_forward_hook(lambda module, given, output: cut(output))
    try:
        score = model(x)[:, TARGET].sum()
    finally:
        handle.remove()
    (gradient,) = torch.autograd.grad(score, leaf[0])
    return (gradient.mean((2, 3), keepdim=True) * leaf[0]).sum(1).relu().detach()


WITH_LAST = ("geq_tiny", "mopteq_tiny", "deep_opteq_tiny", "mdeq_tiny", "resnet_tiny", "dnn_tiny")


@pytest.mark.parametrize("name", WITH_LAST)
def test_the_last_map_agrees_with_a_gradient_by_hand(name: str) -> None:
    model, x = ready(name), images()
    place = model.last_feature_map()
    found = grad_cam(model, x, TARGET, place)
    assert found.max() > 0
    torch.testing.assert_close(found, by_hand(model, x, place))


@pytest.mark.parametrize("name", ["geq_tiny", "mopteq_tiny", "mdeq_tiny", "deep_opteq_tiny"])
def test_every_branch_agrees_with_a_gradient_by_hand(name: str) -> None:
    model, x = ready(name), images()
    for place in model.branch_feature_maps():
        torch.testing.assert_close(grad_cam(model, x, TARGET, place), by_hand(model, x, place))


def test_the_fused_map_is_the_mean_of_the_equilibria() -> None:
    """Without any hook: the network in two halves."""
    model, x = ready("geq_tiny"), images()
    assert isinstance(model, BranchNetwork)
    fused = model.features(x).detach().requires_grad_()
    (gradient,) = torch.autograd.grad(model.classify(fused)[:, TARGET].sum(), fused)
    expected = (gradient.mean((2, 3), keepdim=True) * fused).sum(1).relu().detach()
    torch.testing.assert_close(grad_cam(model, x, TARGET), expected)


def by_finite_differences(model: Network, x: Tensor, module: nn.Module, step: float = 1e-5) -> Tensor:
    """mean(∂y/∂A_k) is the change of y with a constant added to channel k, divided by the positions.

    All channels in one batch, twice: one sample for each channel and sign.
    """
    seen: list[Tensor] = []
    handle = module.register_forward_hook(lambda module, given, output: seen.append(output))
    with torch.no_grad():
        model(x)
    handle.remove()
    (activation,) = seen
    channels = activation.shape[1]
    shift = step * torch.eye(channels, dtype=x.dtype).repeat(len(x), 1)[:, :, None, None]
    scores = []
    for sign in (1, -1):
        change = sign * shift
        handle = module.register_forward_hook(lambda module, given, output, change=change: output + change)
        with torch.no_grad():
            scores.append(model(x.repeat_interleave(channels, 0))[:, TARGET].view(len(x), channels))
        handle.remove()
    weights = (scores[0] - scores[1]) / (2 * step * activation[0, 0].numel())
    return (weights[:, :, None, None] * activation).sum(1).relu()


@pytest.mark.parametrize("name", ["geq_tiny", "mopteq_tiny"])
def test_in_front_of_the_equilibria_it_is_the_implicit_gradient(name: str) -> None:
    model, x = ready(name), images(1)
    place = layer_feature_map(model, "stem")
    expected = by_finite_differences(model, x, place.module)
    assert expected.max() > 0
    torch.testing.assert_close(grad_cam(model, x, TARGET, place), expected, rtol=1e-4, atol=1e-8)
    for layer in model.equilibria().values():
        layer.gradient = Phantom(1)
    rough = grad_cam(model, x, TARGET, place)
    assert (rough - expected).norm() > 1e-3 * expected.norm()  # so the comparison above can fail


def test_it_needs_no_trainable_weights_and_leaves_the_network_as_it_was() -> None:
    model, x = ready("geq_tiny"), images()
    expected = grad_cam(model, x, TARGET)
    model.requires_grad_(False)
    with torch.no_grad():
        torch.testing.assert_close(grad_cam(model, x, TARGET), expected)
    with torch.inference_mode():
        torch.testing.assert_close(grad_cam(model, x.clone(), TARGET), expected)
    assert not model.training
    assert all(layer.on_failure is None for layer in model.equilibria().values())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_each_image_has_its_own_target() -> None:
    model, x = ready("geq_tiny"), images()
    both = grad_cam(model, x, torch.tensor([1, 7]))
    torch.testing.assert_close(both[0], grad_cam(model, x[:1], 1)[0])
    torch.testing.assert_close(both[1], grad_cam(model, x[1:], 7)[0])


def test_what_cannot_be_shown_is_refused() -> None:
    model, x = ready("geq_tiny"), images()
    with pytest.raises(OptionError, match="did you mean 'stem'"):
        layer_feature_map(model, "stm")
    with pytest.raises(OptionError, match=r"branch must lie in 0\.\.1"):
        branch_feature_map(model, 2)
    with pytest.raises(InputError, match=r"target must lie in 0\.\.9"):
        grad_cam(model, x, 10)
    with pytest.raises(OptionError, match="needs a feature map"):
        grad_cam(model, x, TARGET, layer_feature_map(model, "head"))
    with pytest.raises(OptionError, match="is not called"):
        grad_cam(model, x, TARGET, layer_feature_map(model, "branches.0.cell"))
    with pytest.raises(OptionError, match=r"model\.eval\(\)"):
        grad_cam(model.train(), x, TARGET)
    resnet = create_model("resnet_tiny").eval()
    assert resnet.branch_feature_maps() == []
    with pytest.raises(InputError, match="no equilibrium"):
        branch_feature_map(resnet, 0)


def test_layers_that_run_many_times_are_refused() -> None:
    model = create_model("node_tiny").double().eval()
    with pytest.raises(OptionError, match="is called 16 times"):
        grad_cam(model, images(1), TARGET, layer_feature_map(model, "field.up"))
    with pytest.raises(OptionError, match="not the output of any of its layers"):
        grad_cam(model, images(1), TARGET)
    mdeq = create_model("mdeq_tiny").double().eval()
    with pytest.raises(OptionError, match=r"gives 2 feature maps: choose one of 0\.\.1"):
        grad_cam(mdeq, images(1), TARGET, layer_feature_map(mdeq, "equilibrium"))


def test_a_missing_captum_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "captum.attr", None)
    with pytest.raises(MissingExtraError, match=r"geq\[explain\]"):
        grad_cam(create_model("resnet_tiny").eval(), torch.zeros(1, 1, 8, 8), 0)


def test_maps_are_stretched_over_the_image() -> None:
    corners = torch.tensor([[[0.0, 1.0], [2.0, 3.0]]])
    assert stretched(corners, 4, 4, mode="nearest")[0, 3].tolist() == [2.0, 2.0, 3.0, 3.0]
    smooth = stretched(corners, 4, 4)
    assert smooth[0, 0].tolist() == [0.0, 0.25, 0.75, 1.0]
