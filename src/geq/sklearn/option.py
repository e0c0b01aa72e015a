"""Validation of an estimator's parameters in ``fit``, as scikit-learn does."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, TypeVar, no_type_check

from geq.errors import OptionError

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
