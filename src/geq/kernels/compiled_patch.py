"""The compiled form of the patch operation, where the machine has a C compiler; nothing but a faster twin.

Without a compiler (see :mod:`geq.c_code`), on other devices and in other precisions the plain torch formula
is used.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from geq import c_code
from geq.errors import InputError

SOURCE = Path(__file__).with_name("patch_kernel.c")
Keep = Callable[[bool, Callable[[], Tensor]], Tensor]
LIMIT, PAD = 512, 16
"""Most entries of a patch, and the multiple that its rows of G are padded to; as in the C file."""


class Geometry(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_ssize_t)
        for name in (
            *("batch", "channels", "height", "width"),
            *("batch_stride", "channel_stride", "row_stride", "column_stride"),
            *("patch", "split", "threads"),
            *("gamma_sample", "gamma_patch"),
        )
    ]


@functools.cache
def load() -> ctypes.CDLL | None:
    """Return the compiled library, or None where it cannot be had."""
    return c_code.load(SOURCE)


def usable(v: Tensor, u: Tensor, entries: int) -> bool:
    """Return whether the compiled form can take these maps; others go through the plain formula."""
    return (
        v.device.type == "cpu"
        and v.dtype in (torch.float32, torch.float64)
        and u.shape == v.shape
        and u.dtype == v.dtype
        and u.device == v.device
        and entries <= LIMIT
        and v.numel() > 0
        and not torch.is_grad_enabled()
        and load() is not None
    )


def in_layout_of(maps: Tensor, like: Tensor) -> Tensor:
    """``maps`` with the strides of ``like``, copied only if they differ."""
    return maps if maps.stride() == like.stride() else torch.empty_like(like).copy_(maps)


def refused(given: list[Tensor], patch: int, split: int) -> InputError:
    shapes = ", ".join(f"{tuple(t.shape)} {t.dtype} {t.device}" for t in given)
    return InputError(
        f"maps, Gram matrix ({split * patch**2} rows) and γ of the patch kernel must fit each other, with "
        f"numbers of one type: got {shapes} for patches of {split}×{patch}×{patch}"
    )


@functools.cache
def memory_order(patch: int, split: int) -> Tensor:
    """Return the position of each entry, taken pixel by pixel, in the order (channel, row, column)."""
    return torch.arange(split * patch**2).view(split, patch**2).t().reshape(-1)


def ordered_gram(gram: Tensor, patch: int, split: int, last: bool) -> Tensor:
    """Return G as the compiled code reads it: in the memory order of the maps, its rows padded.

    Args:
        gram: G.
        patch, split: Sizes of a patch.
        last: Whether the channels of the maps come last.
    """
    if last:
        order = memory_order(patch, split)
        gram = gram[order][:, order]
    return F.pad(gram, (0, -gram.shape[1] % PAD)).contiguous()


def computed(last: bool, compute: Callable[[], Tensor]) -> Tensor:
    """Keep nothing."""
    return compute()


class PatchOperation:
    """The compiled operation for one v, G and γ; whatever does not fit them is refused.

    The code reads memory by itself, so everything is checked that it would read beyond, or read as numbers of
    another type.

    Args:
        v: Decides the memory layout.
        gram: G.
        gamma: A number, or broadcasts to ``(batch, patches)``.
        patch, split: Sizes of a patch.
        keep: Takes whether channels come last, and what computes G in that order; returns it, perhaps kept.
    """

    def __init__(
        self,
        v: Tensor,
        gram: Tensor,
        gamma: Tensor,
        patch: int,
        split: int,
        keep: Keep = lambda last, compute: compute(),
    ) -> None:
        self.patch, self.split, self.entries = patch, split, split * patch**2
        self.given = [v, gram, gamma]
        self.check(v, gram, gamma)
        if not (v.is_contiguous() or v.is_contiguous(memory_format=torch.channels_last)):
            v = v.contiguous()
        self.v, self.last = v, v.stride(1) == 1
        self.gram = keep(self.last, lambda: ordered_gram(gram, patch, split, self.last))
        self.gamma = gamma.reshape(1, 1) if gamma.dim() == 0 else gamma.contiguous()
        steps = zip(self.gamma.shape, self.gamma.stride(), strict=True)
        strides = [0 if size == 1 else stride for size, stride in steps]
        self.geometry = Geometry(*v.shape, *v.stride(), patch, split, 1, *strides)
        library = load()
        assert library is not None
        function = library.geq_patch_float if v.dtype == torch.float32 else library.geq_patch_double
        function.argtypes, function.restype = [ctypes.c_void_p] * 10, None
        self.function: Any = function

    def check(self, v: Tensor, gram: Tensor, gamma: Tensor) -> None:
        batch, channels, height, width = v.shape
        patches = (channels // self.split) * (height // self.patch) * (width // self.patch)
        fits = channels % self.split == height % self.patch == width % self.patch == 0
        numbers = gamma.dim() == 0 or (
            gamma.dim() == 2 and gamma.shape[0] in (1, batch) and gamma.shape[1] in (1, patches)
        )
        if not (
            fits
            and 0 < self.entries <= LIMIT
            and numbers
            and tuple(gram.shape) == (self.entries, self.entries)
            and v.dtype in (torch.float32, torch.float64)
            and all(tensor.dtype == v.dtype and tensor.device.type == "cpu" for tensor in self.given)
        ):
            raise refused(self.given, self.patch, self.split)

    def laid_out(self, maps: Tensor) -> Tensor:
        """Return maps in the order of v."""
        v = self.v
        if maps.shape != v.shape or maps.dtype != v.dtype or maps.device.type != "cpu":
            raise refused([*self.given, maps], self.patch, self.split)
        return in_layout_of(maps, v)

    def __call__(
        self, u: Tensor, direction: Tensor | None = None, gradients: bool = False
    ) -> tuple[Tensor, ...]:
        """``(βr,)``; with a direction q ``(β(Gq − 2γr⟨r, q⟩),)``; with gradients also ``(βr, ∂/∂G, ∂/∂γ)`` of
        ⟨q, βr⟩.

        ∂/∂γ is ``(batch, 1)``, or ``(batch, patches)`` where patches have a γ each.
        """
        v, entries = self.v, self.entries
        given = [v, self.laid_out(u), self.gram, self.gamma]
        results = [torch.empty_like(v)]
        if direction is not None:
            direction = self.laid_out(direction)
        if gradients:
            results += [
                torch.empty_like(v),
                v.new_zeros(v.shape[0], entries, entries),
                v.new_empty(v.shape[0], self.gamma.shape[1]),
            ]
        self.geometry.threads = min(torch.get_num_threads(), v.shape[0])
        pointers = [None if t is None else t.data_ptr() for t in (*given, direction, *results)]
        self.function(ctypes.addressof(self.geometry), *pointers, *[None] * (4 - len(results)))
        if gradients:
            results[2] = results[2].sum(0)
            if self.last:  # back to the order (channel, row, column)
                order = memory_order(self.patch, self.split)
                results[2] = torch.empty_like(results[2]).index_put_((order.unsqueeze(1), order), results[2])
        return tuple(results)
