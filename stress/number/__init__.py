"""Layers, solvers and gradients at the limits of arithmetic: no silent wrong answer.

:mod:`~stress.number.literal_cells` writes the maps down a second time, in double precision and without what
makes them fast; :mod:`~stress.number.verdicts` asks a layer and compares; the other modules are what is
asked.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from stress.stress_parts import StressRow


def run(short: bool, seed: int) -> Iterator[StressRow]:
    from stress.number import edited_weights, extreme_inputs, gradient_check, hard_maps, network

    for family in (
        *(
            extreme_inputs.run,
            extreme_inputs.run_starts,
            edited_weights.run,
            hard_maps.run,
            gradient_check.run,
        ),
        *(network.run_kernel, network.run),
    ):
        yield from family(short, torch.Generator().manual_seed(seed))
