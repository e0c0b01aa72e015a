"""Where in a network a saliency map is taken: the map that the head reads, one equilibrium, or any layer."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from geq.errors import InputError, OptionError, unknown_name
from geq.model.branch import BranchNetwork
from geq.model.deep_opteq import DeepOptEq
from geq.model.dnn import DNN
from geq.model.mdeq import MDEQ
from geq.model.network import Network
from geq.model.opteq_imagenet import OptEqImageNet
from geq.model.resnet import ResNet
from geq.model.segmenter import Segmenter


@dataclass(frozen=True)
class Place:
    """A feature map inside a network.

    Args:
        label: what to call it.
        module: whose output it is.
        at_input: whether it is the module's input instead.
        part: which tensor, where the module gives several (the scales of a joint equilibrium).
        equilibrium: name of the equilibrium whose state it is, if it is one.
    """

    label: str
    module: nn.Module
    at_input: bool = False
    part: int | None = None
    equilibrium: str | None = None


def last_place(model: Network) -> Place:
    """The last feature map: what the head reads."""
    if isinstance(model, Segmenter):
        raise InputError(
            "an explanation is of one class of one image; this network labels every pixel: show its masks "
            "with geq predict"
        )
    if isinstance(model, BranchNetwork):
        # The mean of the branches is no module's output, but it is what the norm behind it is given.
        fused = model.config.topology == "parallel"
        return Place("fused equilibria" if fused else "last equilibrium", model.norm, at_input=True)
    if isinstance(model, (DeepOptEq, OptEqImageNet)):
        return Place("equilibrium", model.equilibrium, equilibrium="equilibrium")
    if isinstance(model, MDEQ):
        return Place("fused scales", model.final)
    if isinstance(model, ResNet):
        return Place(f"stages.{len(model.stages) - 1}", model.stages[-1])
    if isinstance(model, DNN):
        return Place(f"layers.{len(model.layers) - 1}", model.layers[-1])
    raise OptionError(
        f"what the head of {type(model).__name__} reads is not the output of any of its layers, so no hook "
        "can see it; name a layer with --layer, such as "
        + ", ".join([name for name, _ in model.named_children()][:3])
    )


def branch_places(model: Network) -> list[Place]:
    """The state of every equilibrium, or every scale of a joint one; none for a network without."""
    if isinstance(model, MDEQ):
        return [
            Place(f"scale {number}", model.equilibrium, part=number, equilibrium="equilibrium")
            for number in range(len(model.config.channels))
        ]
    equilibria = model.equilibria()
    several = len(equilibria) > 1
    return [
        Place(f"branch {number}" if several else name, module, equilibrium=name)
        for number, (name, module) in enumerate(equilibria.items())
    ]


def branch_place(model: Network, number: int) -> Place:
    """One of :func:`branch_places`, by its number from 0 on."""
    places = branch_places(model)
    if not places:
        raise InputError(
            f"{model.registry_name or type(model).__name__} has no equilibrium, so no branch {number}; "
            "leave --branch out"
        )
    if not 0 <= number < len(places):
        raise OptionError(f"branch must lie in 0..{len(places) - 1} for this network: got {number}")
    return places[number]


def named_place(model: Network, name: str) -> Place:
    """The output of any layer, by the dotted name of its submodule."""
    modules = {key: module for key, module in model.named_modules() if key}
    if name not in modules:
        raise unknown_name("layer", name, modules)
    return Place(name, modules[name])
