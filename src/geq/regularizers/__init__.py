"""Regularizers of the features at the equilibrium."""

from geq.regularizers.features import (
    Decorrelation,
    FeatureDecay,
    FeatureRegulariser,
    FeatureSparsity,
    Incay,
    SeparableRegulariser,
)
from geq.regularizers.hsic import HSIC

__all__ = [
    "HSIC",
    "Decorrelation",
    "FeatureDecay",
    "FeatureRegulariser",
    "FeatureSparsity",
    "Incay",
    "SeparableRegulariser",
]
