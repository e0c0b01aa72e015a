"""Feature maps inside a network, by the names that explanations use."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn


@dataclass(frozen=True)
class FeatureMap:
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
