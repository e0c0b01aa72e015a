"""Optimization-induced equilibrium models in PyTorch: write an energy, get a layer.

The names below are the public interface; everything else lives in the namespaces (``geq.kernels`` …). Both
are loaded on first use, so that ``import geq`` costs nothing and the command line can answer ``--help``
without torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {
    "geq.errors": "GeqError ConvergenceError ConvergenceWarning",
    "geq.cells": "EnergyProblem Cell",
    "geq.solvers": "fixed_point Solution Status",
    "geq.equilibrium": "Equilibrium ignore_failures",
    "geq.frozen": "freeze",
    "geq.layers": "GEQ2d OptEq2d GEQLinear OptEqLinear DeepOptEq2d DeepOptEqLinear",
    "geq.model.model_registry": "create_model list_models",
    "geq.training.prediction": "load",
}
"""Module -> the public names that live there."""

NAMESPACES = [
    "bandwidth",
    "cells",
    "certificates",
    "constraints",
    "errors",
    "export",
    "gradients",
    "kernels",
    "layers",
    "model",
    "operators",
    "penalties",
    "regularizers",
    "solvers",
]
"""Public modules and packages."""

_MODULE_OF = {name: module for module, names in _HOME.items() for name in names.split()}

__all__ = sorted([*_MODULE_OF, *NAMESPACES, "__version__"])


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        value = getattr(import_module(_MODULE_OF[name]), name)
    elif name in NAMESPACES:
        return import_module(f"geq.{name}")
    elif name == "__version__":
        from importlib.metadata import version

        value = version("geq")
    else:
        from geq.errors import unknown_name

        raise AttributeError(str(unknown_name("name in module geq:", name, __all__)))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
