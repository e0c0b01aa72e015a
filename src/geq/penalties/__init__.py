"""Penalties f of a hidden objective, whose proximal maps are the activations of its layer."""

from geq.penalties.activation import ActivationPenalty, SigmoidPenalty, TanhPenalty, penalty_of
from geq.penalties.base import L1, Box, ElasticNet, LeakyPenalty, NonNegative, NoPenalty, Penalty

__all__ = [
    "L1",
    "ActivationPenalty",
    "Box",
    "ElasticNet",
    "LeakyPenalty",
    "NoPenalty",
    "NonNegative",
    "Penalty",
    "SigmoidPenalty",
    "TanhPenalty",
    "penalty_of",
]
