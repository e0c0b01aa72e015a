"""Grad-CAM at the equilibrium (Selvaraju et al. 2017; GEQ figure 3).

For a feature map A with channels k and the logit y of a class,

    M = ReLU(Σ_k w_k A_k),   w_k = mean over positions of ∂y/∂A_k.

Behind an equilibrium ∂y/∂A needs the head alone. For a layer in front of one it goes through the equilibrium,
whose derivative is the implicit one: both work in evaluation mode, because z* keeps its graph there.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from geq.equilibrium import ignore_failures
from geq.errors import InputError, MissingExtraError, OptionError, unknown_name
from geq.model.network import FeatureMap, Network


def grad_cam(
    model: Network,
    images: Float[Tensor, "b c h w"],
    target: Int64[Tensor, " b"] | int,
    place: FeatureMap | None = None,
) -> Float[Tensor, "b rows columns"]:
    """The map M of every image, not negative, at the resolution of the features.

    Args:
        model: in evaluation mode, since in training mode images of one batch influence each other.
        images: normalised.
        target: class of each image, or one for all.
        place: where; by default what the head reads.

    >>> from geq.model.model_registry import create_model
    >>> model = create_model("geq_tiny").eval()
    >>> grad_cam(model, torch.randn(2, 1, 8, 8), 3).shape
    torch.Size([2, 8, 8])
    """
    try:
        from captum.attr import LayerGradCam
    except ImportError as problem:
        raise MissingExtraError.naming("captum", "explain", "Grad-CAM") from problem
    if model.training:
        raise OptionError("Grad-CAM is taken in evaluation mode: call model.eval() first")
    place = model.last_feature_map() if place is None else place
    _check_target(model, target)
    calls = _Count()
    handle = place.module.register_forward_hook(calls)
    try:
        with ignore_failures(model), torch.inference_mode(False), torch.enable_grad():
            found = LayerGradCam(calls.checked(model, place), place.module).attribute(
                images.clone() if images.is_inference() else images,
                target,
                attribute_to_layer_input=place.at_input,
                relu_attributions=True,
            )
    finally:
        handle.remove()
    result = _part(found, place)
    if result.ndim != 4:
        raise OptionError(
            f"Grad-CAM needs a feature map (channels, rows, columns): {place.label} has "
            f"{result.ndim - 1} axes; name a convolution or a block of them"
        )
    return result[:, 0].detach()


class _Count:
    """A forward hook that counts how often a layer ran, and refuses what a hook cannot see rightly."""

    def __init__(self) -> None:
        self.number = 0

    def __call__(self, module: nn.Module, arguments: Any, output: Any) -> None:
        self.number += 1

    def checked(self, model: Network, place: FeatureMap) -> Any:
        def forward(images: Tensor) -> Tensor:
            self.number = 0
            logits = model(images)
            if self.number != 1:
                often = "is not called" if self.number == 0 else f"is called {self.number} times"
                raise OptionError(
                    f"Grad-CAM needs a layer that runs once in a forward pass: {place.label} {often} "
                    "(a hook sees only the last call); choose the equilibrium itself or a layer outside it"
                )
            return logits

        return forward


def _check_target(model: Network, target: Tensor | int) -> None:
    numbers = torch.as_tensor(target)
    if numbers.numel() and not 0 <= int(numbers.min()) <= int(numbers.max()) < model.num_classes:
        raise InputError(
            f"a target must lie in 0..{model.num_classes - 1}: got {int(numbers.min())}..{int(numbers.max())}"
        )


def _part(found: Tensor | tuple[Tensor, ...], place: FeatureMap) -> Tensor:
    if isinstance(found, Tensor):
        return found
    if place.part is None or place.part >= len(found):
        raise OptionError(
            f"{place.label} gives {len(found)} feature maps: choose one of 0..{len(found) - 1} with --branch"
        )
    return found[place.part]


def stretched(
    maps: Float[Tensor, "b rows columns"], height: int, width: int, mode: str = "bilinear"
) -> Float[Tensor, "b h w"]:
    """Maps at the size of the image: ``bilinear``, or ``nearest`` where a patch is to be seen as such."""
    smooth = None if mode == "nearest" else False
    return F.interpolate(maps[:, None], (height, width), mode=mode, align_corners=smooth)[:, 0]


def branch_feature_map(model: Network, number: int) -> FeatureMap:
    """Return one of the network's branches, by its number from 0 on."""
    maps = model.branch_feature_maps()
    if not maps:
        raise InputError(
            f"{model.registry_name or type(model).__name__} has no equilibrium, so no branch {number}; "
            "leave --branch out"
        )
    if not 0 <= number < len(maps):
        raise OptionError(f"branch must lie in 0..{len(maps) - 1} for this network: got {number}")
    return maps[number]


def layer_feature_map(model: Network, name: str) -> FeatureMap:
    """Return the output of any layer, by the dotted name of its submodule."""
    modules = {key: module for key, module in model.named_modules() if key}
    if name not in modules:
        raise unknown_name("layer", name, modules)
    return FeatureMap(name, modules[name])
