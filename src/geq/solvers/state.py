"""One view of every state: solvers see a matrix with one row per sample, whatever the state looks like.

A state is a tensor, or a tuple of tensors (the scales of a multi-scale model), whose first dimension is the
batch. A :class:`Packing` turns it into a ``(batch, size)`` matrix and back. Rows follow the order in memory,
so that a single tensor is packed and unpacked without a copy, also when it is ``channels_last``; the parts of
a tuple are concatenated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from geq.cells.base import State, parts_of
from geq.errors import InputError
from geq.operators.operator import channels_last
from geq.solvers.base import Rows


@dataclass(frozen=True)
class Packing:
    """How a state becomes a matrix with one row per sample, and comes back; both ways are differentiable.

    Attributes:
        shapes: Of one sample of every part of the state.
        channels_last: Of every part, whether its channels come last in memory.
        is_tuple: Whether the state is a tuple of its parts.
        batch: Samples in the only row of a joint packing; None for a row per sample.

    >>> z = (torch.zeros(2, 3), torch.ones(2, 1, 2))
    >>> packing = Packing.of(z)
    >>> packing.pack(z).tolist()
    [[0.0, 0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 0.0, 1.0, 1.0]]
    >>> [part.shape for part in packing.unpack(packing.pack(z))]
    [torch.Size([2, 3]), torch.Size([2, 1, 2])]
    """

    shapes: tuple[tuple[int, ...], ...]
    channels_last: tuple[bool, ...]
    is_tuple: bool
    batch: int | None = None

    @classmethod
    def of(cls, state: State, joint: bool = False) -> Packing:
        """Describe a state.

        Args:
            state: The state.
            joint: Whether the whole batch is one row, for equations that couple samples: solvers stop every
                row by its own residual, and a sample that stopped would not follow the others any more.
        """
        parts = parts_of(state)
        shapes = tuple(tuple(part.shape[1:]) for part in parts)
        last = tuple(map(channels_last, parts))
        return cls(shapes, last, isinstance(state, tuple), parts[0].shape[0] if joint else None)

    def pack(self, state: State) -> Rows:
        ordered = zip(parts_of(state), self.channels_last, self.shapes, strict=True)
        rows = [
            (part.permute(0, 2, 3, 1) if last else part).reshape(part.shape[0], math.prod(shape))
            for part, last, shape in ordered
        ]
        together = torch.cat(rows, 1) if self.is_tuple else rows[0]
        return together if self.batch is None else together.reshape(1, -1)

    def unpack(self, rows: Rows) -> State:
        if self.batch is not None:
            rows = rows.reshape(self.batch, -1)
        if not self.is_tuple:
            return self._part(rows, 0)
        parts = rows.split([math.prod(shape) for shape in self.shapes], 1)
        return tuple(self._part(part, index) for index, part in enumerate(parts))

    def _part(self, rows: Tensor, index: int) -> Tensor:
        shape = self.shapes[index]
        if self.channels_last[index]:
            return rows.reshape(rows.shape[0], *shape[1:], shape[0]).permute(0, 3, 1, 2)
        return rows.reshape(rows.shape[0], *shape)


def check_start(state: State) -> None:
    """Refuse a starting state that no solver can work with."""
    parts = parts_of(state)
    if not parts:
        raise InputError("a state must be a tensor or a tuple of at least one tensor: got an empty tuple")
    for part in parts:
        if part.dim() == 0 or part.shape[0] != parts[0].shape[0]:
            raise InputError(
                f"every part of a state must have the batch as its first dimension: got {describe(state)}"
            )
        if not part.is_floating_point() or part.dtype != parts[0].dtype:
            raise InputError(
                f"a state must have one real floating dtype: got {describe(state)}; call .float() on it"
            )
        if part.device != parts[0].device:
            raise InputError(f"a state must live on one device: got {describe(state)}")
        if not bool(torch.isfinite(part).all()):
            raise InputError(
                "the starting state must be finite: it contains NaN or infinity; "
                "look for them in the input, or start from zeros"
            )


def check_image(image: Any, state: State) -> None:
    """Refuse a map whose image is not of the state's own kind: z = f(z) would make no sense."""
    if isinstance(image, tuple) == isinstance(state, tuple):
        images, states = image if isinstance(image, tuple) else (image,), parts_of(state)
        if len(images) == len(states) and all(
            isinstance(new, Tensor)
            and new.shape == old.shape
            and new.dtype == old.dtype
            and new.device == old.device
            for new, old in zip(images, states, strict=True)
        ):
            return
    raise InputError(
        f"the map must return what it is given: got a state of {describe(state)}, returned {describe(image)}"
    )


def describe(state: Any) -> str:
    """Shape, dtype and device of every part, for error messages.

    >>> describe((torch.zeros(2, 3), torch.zeros(2)))
    '((2, 3) float32 cpu, (2,) float32 cpu)'
    """
    if isinstance(state, Tensor):
        return f"{tuple(state.shape)} {str(state.dtype).removeprefix('torch.')} {state.device}"
    if isinstance(state, tuple):
        return f"({', '.join(describe(part) for part in state)})"
    return type(state).__name__
