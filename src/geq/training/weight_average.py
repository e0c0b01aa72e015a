"""Averages: of the weights over steps, lent to the network for evaluation; of γ scales over processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from geq.bandwidth import RunningScale

if TYPE_CHECKING:
    from lightning.fabric import Fabric


class WeightAverage:
    """ā ← d·ā + (1 − d)·w after every step, with d = min(decay, (1 + n)/(10 + n)) at step n.

    The smaller decay of the first steps lets the average forget the random start. Buffers are not averaged:
    they are running statistics already.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay, self.steps = decay, 0
        self.weights = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}

    def follow(self, model: nn.Module) -> None:
        """Move to the device and floating type that the model has been moved to."""
        for name, parameter in model.named_parameters():
            self.weights[name] = self.weights[name].to(parameter)

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        decay = min(self.decay, (1 + self.steps) / (10 + self.steps))
        self.steps += 1
        for name, parameter in model.named_parameters():
            self.weights[name].lerp_(parameter, 1 - decay)

    @contextmanager
    def lent_to(self, model: nn.Module) -> Iterator[None]:
        """The model has the averaged weights inside, its own again afterwards."""
        self.swap(model)
        try:
            yield
        finally:
            self.swap(model)

    @torch.no_grad()
    def swap(self, model: nn.Module) -> None:
        # copy_ on the parameter itself, not on its .data: caches of derived quantities notice the change.
        for name, parameter in model.named_parameters():
            own = parameter.detach().clone()
            parameter.copy_(self.weights[name])
            self.weights[name] = own

    def state_dict(self) -> dict[str, Tensor | int]:
        return {**self.weights, "steps": self.steps}

    def load_state_dict(self, state: dict[str, Tensor | int]) -> None:
        for name, weight in self.weights.items():
            saved = state[name]
            assert isinstance(saved, Tensor)
            weight.copy_(saved)
        self.steps = int(state["steps"])


def average_scales(model: nn.Module, fabric: Fabric) -> None:
    """Average the running γ scales over the processes after a step.

    A scale is linear in what its batch contributes, so the average of the updated scales is the scale updated
    with the whole batch. (Within a step each process still uses its own share: a difference of a few per cent
    of one batch's deviation.)
    """
    rules = [module for module in model.modules() if isinstance(module, RunningScale)]
    if rules:
        mean = fabric.all_reduce(torch.stack([rule.scale for rule in rules]), reduce_op="mean")
        assert isinstance(mean, Tensor)
        for rule, scale in zip(rules, mean, strict=True):
            rule.scale = scale.clone()
