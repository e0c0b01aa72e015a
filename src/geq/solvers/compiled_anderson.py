"""The compiled form of Anderson's step, where the machine has a C compiler; nothing but a faster twin.

The step is some forty operations on small tensors, which cost more than the map where maps are small.
Without a compiler (see :mod:`geq.c_code`), on other devices and in other precisions torch does it.
"""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from geq import c_code
from geq.errors import InputError

SOURCE = Path(__file__).with_name("anderson_step.c")
MOST = 32
"""Most states that are combined; as in the C file."""


class Step(ctypes.Structure):
    _fields_ = [
        *(
            (name, ctypes.c_ssize_t)
            for name in ("batch", "size", "slots", "memory", "slot", "count", "threads")
        ),
        *((name, ctypes.c_double) for name in ("ridge", "most_weight", "mixing")),
    ]


@functools.cache
def load() -> ctypes.CDLL | None:
    """Return the compiled library, or None where it cannot be had."""
    library = c_code.load(SOURCE)
    if library is not None:
        for function in (library.geq_anderson_float, library.geq_anderson_double):
            function.argtypes, function.restype = [ctypes.c_void_p] * 7, None
    return library


def usable(image: Tensor, memory: int) -> bool:
    """Return whether the compiled form can take these rows; for others torch does the same."""
    return (
        image.device.type == "cpu"
        and image.dtype in (torch.float32, torch.float64)
        and type(image) is Tensor
        and image.numel() > 0
        and memory <= MOST
        and not torch.is_grad_enabled()
        and load() is not None
    )


def step(
    image: Tensor,
    residual: Tensor,
    history: tuple[Tensor, Tensor, Tensor],
    slot: int,
    count: int,
    options: tuple[float, float, float],
) -> Tensor:
    """Store a step in the history and return the next state.

    Args:
        image, residual: f(z) and f(z) − z, ``(batch, size)``.
        history: Images and residuals ``(batch, slots, size)``, and inner products ``(batch, n, n)``; changed.
        slot: Where the new step is stored.
        count: Steps that are combined, the new one among them.
        options: Ridge, largest Σ|α_i|, and mixing.
    """
    images, residuals, gram = history
    image, residual = image.contiguous(), residual.contiguous()
    (batch, size), slots, side = image.shape, images.shape[1], gram.shape[1]
    if not (
        residual.shape == image.shape
        and images.shape == residuals.shape == (batch, slots, size)
        and gram.shape == (batch, side, side)
        and 0 <= slot < count <= min(slots, side, MOST)
        and all(t.dtype == image.dtype and t.device.type == "cpu" for t in (residual, *history))
        and all(t.is_contiguous() for t in history)
    ):
        came = ", ".join(f"{tuple(t.shape)} {t.dtype}" for t in (image, residual, *history))
        raise InputError(f"rows and history of Anderson's step must fit each other: got {came}")
    library = load()
    assert library is not None
    function: Any = (
        library.geq_anderson_float if image.dtype == torch.float32 else library.geq_anderson_double
    )
    threads = min(torch.get_num_threads(), batch)
    given = Step(batch, size, slots, side, slot, count, threads, *options)
    out = torch.empty_like(image)
    function(ctypes.addressof(given), *(t.data_ptr() for t in (image, residual, *history, out)))
    return out
