"""Where a run is: what has been done, in a form that a checkpoint holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Position:
    """The next thing to do.

    Args:
        epoch: number of finished epochs.
        batch: number of finished batches of the running epoch.
        step: number of optimiser steps so far.
    """

    epoch: int = 0
    batch: int = 0
    step: int = 0

    def after_batch(self) -> Position:
        return Position(self.epoch, self.batch + 1, self.step + 1)

    def after_epoch(self) -> Position:
        return Position(self.epoch + 1, 0, self.step)

    def as_mapping(self) -> dict[str, int]:
        return asdict(self)

    @classmethod
    def from_mapping(cls, values: Mapping[str, int]) -> Position:
        return cls(values["epoch"], values["batch"], values["step"])
