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
from jaxtyping import Float
from torch import Tensor

from geq.cells.base import State, parts_of
from geq.errors import InputError


@dataclass(frozen=True)
class Layout:
    """Shape of one sample of a tensor, and whether its channels come last in memory."""

    shape: tuple[int, ...]
    channels_last: bool

    @classmethod
    def of(cls, tensor: Tensor) -> Layout:
        channels_last = (
            tensor.dim() == 4
            and tensor.is_contiguous(memory_format=torch.channels_last)
            and not tensor.is_contiguous()
        )
        return cls(tuple(tensor.shape[1:]), channels_last)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def flatten(self, tensor: Tensor) -> Tensor:
        ordered = tensor.permute(0, 2, 3, 1) if self.channels_last else tensor
        return ordered.reshape(tensor.shape[0], self.size)

    def unflatten(self, rows: Tensor) -> Tensor:
        if self.channels_last:
            channels, height, width = self.shape
            return rows.reshape(rows.shape[0], height, width, channels).permute(0, 3, 1, 2)
        return rows.reshape(rows.shape[0], *self.shape)


@dataclass(frozen=True)
class Packing:
    """How a state becomes a matrix with one row per sample, and comes back; both ways are differentiable.

    >>> z = (torch.zeros(2, 3), torch.ones(2, 1, 2))
    >>> packing = Packing.of(z)
    >>> packing.pack(z).tolist()
    [[0.0, 0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 0.0, 1.0, 1.0]]
    >>> [part.shape for part in packing.unpack(packing.pack(z))]
    [torch.Size([2, 3]), torch.Size([2, 1, 2])]
    """

    layouts: tuple[Layout, ...]
    is_tuple: bool
    batch: int | None = None
    """Samples in the only row of a joint packing; None for a row per sample."""

    @classmethod
    def of(cls, state: State, joint: bool = False) -> Packing:
        """Describe a state.

        Args:
            state: The state.
            joint: Whether the whole batch is one row, for equations that couple samples: solvers stop every
                row by its own residual, and a sample that stopped would not follow the others any more.
        """
        parts = parts_of(state)
        batch = parts[0].shape[0] if joint else None
        return cls(tuple(Layout.of(part) for part in parts), isinstance(state, tuple), batch)

    def pack(self, state: State) -> Float[Tensor, "batch size"]:
        rows = [layout.flatten(part) for layout, part in zip(self.layouts, parts_of(state), strict=True)]
        together = torch.cat(rows, 1) if self.is_tuple else rows[0]
        return together if self.batch is None else together.reshape(1, -1)

    def unpack(self, rows: Float[Tensor, "batch size"]) -> State:
        if self.batch is not None:
            rows = rows.reshape(self.batch, -1)
        if not self.is_tuple:
            return self.layouts[0].unflatten(rows)
        parts = rows.split([layout.size for layout in self.layouts], 1)
        return tuple(layout.unflatten(part) for layout, part in zip(self.layouts, parts, strict=True))


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
