"""Equilibria that stand where a convolution or a linear layer stood."""

from geq.layers.deep import DeepOptEq2d, DeepOptEqLinear
from geq.layers.energy import GEQ2d, GEQLinear, OptEq2d, OptEqLinear

__all__ = ["DeepOptEq2d", "DeepOptEqLinear", "GEQ2d", "GEQLinear", "OptEq2d", "OptEqLinear"]
