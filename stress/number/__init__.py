"""Layers, solvers and gradients at the limits of arithmetic: no silent wrong answer.

:mod:`~stress.number.literal` writes the maps down a second time, in double precision and without what makes
them fast; :mod:`~stress.number.verdict` asks a layer and compares; the other modules are what is asked.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from stress.part import Row


def run(short: bool, seed: int) -> Iterator[Row]:
    from stress.number import derivative, edited, network, size, window

    for family in (
        *(size.run, size.run_starts, edited.run, window.run, derivative.run),
        *(network.run_kernel, network.run),
    ):
        yield from family(short, torch.Generator().manual_seed(seed))
