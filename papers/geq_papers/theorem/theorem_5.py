"""Theorem 5 of OptEq: the sequential averages find the fixed point with the least regulariser."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor

from geq.gradients import SequentialAveraging
from geq_papers.theorem.theorem_check import Comparison, TheoremCheck

State = Float[Tensor, "batch state"]


def theorem5(
    fn: Callable[[Tensor], Tensor],
    sam: SequentialAveraging,
    start: State,
    selected: State,
    checkpoints: tuple[int, ...],
) -> TheoremCheck:
    """Check that the iterates of ``sam`` tend to ``selected``, the minimiser of R on the fixed points of T.

    Limits cannot be computed, rates can: the three errors of the proof are of order k^{−ρ}, k^{−c} and
    k^{−(1−ρ−2c)}, so the distance must fall at least like the slowest of them between any two of the
    ``checkpoints`` (with a factor 2 for constants that have not converged). And T must be nonexpansive at the
    points met, ``selected`` one of its fixed points.

    Args:
        fn: T, which takes a batch of states.
        sam: schedules and regulariser; its ``steps`` are not used.
        start: z⁰.
        selected: the limit that the theorem claims.
        checkpoints: ascending numbers of steps at which the distance is compared.
    """
    with torch.no_grad():
        comparisons = [
            Comparison("T(z̄) against z̄", float((fn(selected) - selected).norm()), 1e-9),
            Comparison("expansion of T", _expansion(fn, start, selected), 1e-9),
        ]
        distances = _distances(fn, sam, start, selected, checkpoints)
    rate = min(sam.beta_power, sam.lambda_power, 1 - sam.beta_power - 2 * sam.lambda_power)
    for (first, before), (last, after) in pairwise(distances):
        allowed = 2 * before * math.pow(first / last, rate)
        comparisons.append(
            Comparison(f"distance after {last} steps beyond its rate", max(0.0, after - allowed), 0.0)
        )
    return TheoremCheck("theorem 5", "z^k → argmin R on Fix(T)", tuple(comparisons))


def _distances(
    fn: Callable[[Tensor], Tensor],
    sam: SequentialAveraging,
    start: State,
    selected: State,
    checkpoints: tuple[int, ...],
) -> list[tuple[int, float]]:
    found, z = [], start
    for count in range(1, checkpoints[-1] + 1):
        image = sam.advance(fn, z, count)
        assert isinstance(image, Tensor)
        z = image
        if count in checkpoints:
            found.append((count, float((z - selected).norm())))
    return found


def _expansion(fn: Callable[[Tensor], Tensor], first: State, second: State) -> float:
    """By how much T moves two batches apart."""
    return max(0.0, float((fn(first) - fn(second)).norm() - (first - second).norm()))
