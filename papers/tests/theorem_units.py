"""Random units and networks for the tests of the theorems of OptEq."""

from __future__ import annotations

import itertools

import torch
from hypothesis import strategies as st
from torch import Tensor

from geq.penalties import LeakyPenalty, NonNegative, Penalty, TanhPenalty
from geq_papers.theorem import FeedForward, Unit

ACTIVATIONS: dict[str, Penalty] = {
    "relu": NonNegative(),
    "leaky": LeakyPenalty(0.1),
    "tanh": TanhPenalty(),
}


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def make_unit(
    seed: int, features: int, state: int, penalty: Penalty, norm: float = 0.9, scale: float = 1.0
) -> Unit:
    """‖W‖² = norm²·scale."""
    weight = normal(seed, features, state)
    weight = weight * (norm * scale**0.5 / torch.linalg.matrix_norm(weight, 2))
    return Unit(weight, normal(seed + 1_000_000, features), penalty, scale)


def make_network(seed: int, sizes: list[int], activation: Penalty) -> FeedForward:
    affine = [
        (normal(seed + place, after, before), normal(seed + 100 + place, after))
        for place, (before, after) in enumerate(itertools.pairwise(sizes))
    ]
    return FeedForward(affine, activation)


SEEDS = st.integers(0, 100_000)
SIZES = st.integers(1, 5)
PENALTIES = st.sampled_from(sorted(ACTIVATIONS)).map(ACTIVATIONS.__getitem__)
ALPHAS = st.sampled_from([0.05, 0.3, 0.8, 1.0])


@st.composite
def units(draw: st.DrawFn, square: bool = False, penalty: Penalty | None = None) -> Unit:
    """Any shape, norm up to the condition of theorem 1, any μ."""
    state = draw(SIZES)
    return make_unit(
        draw(SEEDS),
        state if square else draw(SIZES),
        state,
        draw(PENALTIES) if penalty is None else penalty,
        draw(st.sampled_from([0.3, 0.9, 0.99])),
        draw(st.sampled_from([0.5, 1.0, 3.0])),
    )


@st.composite
def deep_units(draw: st.DrawFn, count: int) -> tuple[Unit, ...]:
    """Units with one state, activation and μ = 1."""
    state, penalty = draw(SIZES), draw(PENALTIES)
    norms = st.sampled_from([0.4, 0.9, 1.0])
    first = make_unit(draw(SEEDS), draw(SIZES), state, penalty, 0.7)
    return (
        first,
        *(make_unit(draw(SEEDS), draw(SIZES), state, penalty, draw(norms)) for _ in range(count - 1)),
    )
