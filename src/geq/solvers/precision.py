"""TF32: GPUs multiply single-precision numbers with 10 bits of mantissa unless they are told not to.

A map whose operands are rounded to 10 bits has no fixed point to better than about 3e-4: its residual stops
there, and a solve to the default tolerance would run out of steps. torch allows TF32 in convolutions by
default. So it is switched off inside solves whose tolerance needs more, and nowhere else.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

TF32_FLOOR = 1e-3
"""Relative residual that a map with TF32 products reaches for certain: three times where it stops."""


def may_round(like: Tensor) -> bool:
    """Return whether a device may take TF32 for products of such tensors."""
    return like.device.type == "cuda" and like.dtype == torch.float32


def switches() -> list[tuple[Any, str, Any]]:
    """Return what decides about TF32, as (owner, attribute, value that turns it off)."""
    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    if hasattr(cudnn, "conv"):  # torch 2.9 and later; the old switches still follow these
        return [(cudnn.conv, "fp32_precision", "ieee"), (matmul, "fp32_precision", "ieee")]
    return [(cudnn, "allow_tf32", False), (matmul, "allow_tf32", False)]


@contextlib.contextmanager
def enough_precision(tol: float, like: Tensor) -> Iterator[None]:
    """Inside, products are exact enough for a relative residual of ``tol``.

    Args:
        tol: Tolerance of a solve.
        like: A state of it, whose device and precision count.
    """
    exact = tol >= TF32_FLOOR or not may_round(like)
    del like  # a solve must not hold its first state to the end
    if exact:
        yield
        return
    found = switches()
    before = [getattr(owner, name) for owner, name, _ in found]
    try:
        for owner, name, off in found:
            setattr(owner, name, off)
        yield
    finally:
        for (owner, name, _), value in zip(found, before, strict=True):
            setattr(owner, name, value)
