"""Validation of parameters and data: what would overflow inside the network is refused."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, TypeVar, no_type_check

import numpy
import torch
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn

from geq.errors import GeqError, InputError, OptionError
from geq.sklearn.input_arrays import Array

MARGIN = 2.0**20
"""Factor that the layers may multiply a value by before a norm squares it."""


def largest_value(dtype: torch.dtype) -> float:
    """Return the largest standardised value that the norms of a network can square.

    Beyond it a norm divides by infinity: its output is NaN, or 0 for any input.

    >>> f"{largest_value(torch.float32):.1e}"
    '1.8e+13'
    """
    return math.sqrt(torch.finfo(dtype).max) / MARGIN


def observed(scaler: StandardScaler, rows: Array, weight: Array, what: str) -> StandardScaler:
    """Return ``scaler`` with its statistics updated by ``rows``; refuse rows whose variance overflows.

    An infinite variance would standardise every value to 0. The scaler itself is left as it was, so that a
    refused batch of ``partial_fit`` changes nothing.
    """
    updated = copy.deepcopy(scaler)
    with numpy.errstate(over="ignore", invalid="ignore"):
        updated.partial_fit(rows, sample_weight=weight)
    if not (numpy.isfinite(updated.mean_).all() and numpy.isfinite(updated.var_).all()):
        raise InputError(
            f"{what} must have a variance that float64 can hold: got {numpy.abs(rows).max():.1e} as the "
            "largest value; replace fill values, or divide by a unit"
        )
    return updated


def check_standardised(x: Tensor) -> None:
    """Refuse standardised inputs that overflow inside the network; ``x`` has a row for each sample."""
    largest = largest_value(x.dtype)
    flat = x.flatten(1)
    wrong = ~(flat.abs() <= largest)  # NaN is wrong too
    if wrong.any():
        row, column = wrong.nonzero()[0].tolist()
        entry = f"column {column}" if x.ndim == 2 else f"channel {column // math.prod(x.shape[2:])}"
        raise InputError(
            f"X must lie within {largest:.1e} standard deviations of the training data: row {row} has "
            f"{abs(float(flat[row, column])):.1e} in {entry}; replace fill values, or drop the row"
        )


def check_weights(network: nn.Module) -> None:
    """Refuse a training that has ended with weights that are not finite."""
    if not all(bool(torch.isfinite(parameter).all()) for parameter in network.parameters()):
        raise GeqError(
            "training must keep the weights finite: got NaN or infinity; lower learning_rate, and check the "
            "data for extreme values"
        )


def check_answer(answer: Tensor | Array) -> None:
    """Refuse outputs that are not finite, ``(n, outputs)``."""
    finite = numpy.isfinite(numpy.asarray(answer)).all(1)
    if not finite.all():
        raise InputError(
            f"outputs must be finite: got NaN or infinity for row {int(finite.argmin())}, "
            f"{int((~finite).sum())} of {len(finite)} rows; check these rows for extreme values"
        )


Constructor = TypeVar("Constructor", bound=Callable[..., None])


def stores_anything(constructor: Constructor) -> Constructor:
    """Exempt a constructor from checks of types at run time, and from those alone.

    scikit-learn's contract is that it stores what it is given, of whatever type.
    """
    return no_type_check(constructor)


def check_whole(name: str, value: Any, least: int = 1) -> None:
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise OptionError(f"{name} must be a whole number of at least {least}: got {value!r}")


def check_number(
    name: str, value: Any, low: float | int, high: float | int = math.inf, including: bool = False
) -> None:
    """Refuse what is not a finite number in (low, high), or in [low, high) where ``including``."""
    good = isinstance(value, Real) and math.isfinite(value) and value < high
    if not good or not (value >= low if including else value > low):
        bracket = "[" if including else "("
        raise OptionError(f"{name} must be a number in {bracket}{low:g}, {high:g}): got {value!r}")
