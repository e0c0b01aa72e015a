"""Feature maps that a user asks for: one branch by its number, or the output of any layer by its name."""

from __future__ import annotations

from geq.errors import InputError, OptionError, unknown_name
from geq.model.feature_map import FeatureMap
from geq.model.network import Network


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
