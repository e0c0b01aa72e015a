"""Regularizers of the features at the equilibrium, and of the map there."""

from geq.regularizers.features import (
    Decorrelation,
    FeatureDecay,
    FeatureRegulariser,
    FeatureSparsity,
    Incay,
    SeparableRegulariser,
)
from geq.regularizers.hsic import HSIC
from geq.regularizers.jacobian import FixedPointCorrection, JacobianPenalty

__all__ = [
    "HSIC",
    "Decorrelation",
    "FeatureDecay",
    "FeatureRegulariser",
    "FeatureSparsity",
    "FixedPointCorrection",
    "Incay",
    "JacobianPenalty",
    "SeparableRegulariser",
]
