"""Constraints on the weight of an operator, such as a bound of its spectral norm."""

from geq.constraints.spectral import (
    ChannelGainBound,
    Constraint,
    FrobeniusBound,
    LearnedSpectralBound,
    SpectralBound,
    SpectralEquality,
    Unconstrained,
    WeightNorm,
    constraint_memory,
    restore_constraint_memory,
)

__all__ = [
    "ChannelGainBound",
    "Constraint",
    "FrobeniusBound",
    "LearnedSpectralBound",
    "SpectralBound",
    "SpectralEquality",
    "Unconstrained",
    "WeightNorm",
    "constraint_memory",
    "restore_constraint_memory",
]
