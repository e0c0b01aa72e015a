"""Optimization-induced equilibrium models in PyTorch: write an energy, get a layer.

The names below are the public interface. They are loaded on first use, so that ``import geq`` costs nothing
and the command line can answer ``--help`` without torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {
    "geq.errors": (
        "GeqError OptionError InputError ConvergenceError ConvergenceWarning "
        "GradientError DataError CheckpointError"
    ),
    "geq.problem": (
        "EnergyProblem Similarity Linear Polynomial Sigmoid Gaussian PatchGaussianKernel "
        "GammaRule LearnedGamma MedianGamma FixedGamma ZeroGamma PaperGamma "
        "Dense Conv2d Constraint Unconstrained WeightNorm SpectralBound SpectralEquality LearnedSpectralBound ChannelGainBound FrobeniusBound "
        "Penalty NonNegative Box L1 ElasticNet NoPenalty WellPosedness "
        "FeatureRegulariser FeatureDecay FeatureSparsity Incay Decorrelation HSIC"
    ),
    "geq.cells": "Cell ClosedFormCell DerivedCell",
    "geq.solvers": "fixed_point Solution Status Solver Picard Anderson Broyden ProximalGradient FISTA",
    "geq.gradients": "Gradient Implicit Phantom JacobianFree Unrolled SAM",
    "geq.equilibrium": "Equilibrium",
    "geq.layers": "GEQ2d OptEq2d GEQLinear OptEqLinear DeepOptEq2d DeepOptEqLinear",
    "geq.model.registry": "create_model list_models",
    "geq.model.network": "Network",
}
"""Module -> the public names that live there."""

_MODULE_OF = {name: module for module, names in _HOME.items() for name in names.split()}

__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        value = getattr(import_module(_MODULE_OF[name]), name)
        globals()[name] = value
        return value
    from geq.errors import unknown_name

    raise AttributeError(str(unknown_name("name in module geq:", name, __all__)))


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
