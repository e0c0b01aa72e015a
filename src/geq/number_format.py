"""Numbers as text: with digits, a sign, a spread, or as a duration."""

from __future__ import annotations

import math
from typing import Any

Real = float | int
MISSING = "–"
MINUS = "−"


def shown(value: Real | None, digits: int | None = None) -> str:
    """Format ``value`` with ``digits`` after the point; chosen by its size where ``digits`` is None.

    >>> shown(68.312, 1), shown(None), shown(float("nan")), shown(-0.5), shown(49005), shown(6e-4)
    ('68.3', '–', '–', '−0.500', '49,005', '6.00e−4')
    """
    if value is None or math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "∞" if value > 0 else f"{MINUS}∞"
    if digits is not None:
        text = f"{value:,.{digits}f}"
    elif float(value).is_integer() and abs(value) < 1e15:
        text = f"{value:,.0f}"
    elif abs(value) < 1e-2 or abs(value) >= 1e7:
        mantissa, exponent = f"{value:.2e}".split("e")
        text = f"{mantissa}e{int(exponent)}"
    else:
        text = f"{value:,.{1 if abs(value) >= 100 else 2 if abs(value) >= 10 else 3}f}"
    if not any(digit in text for digit in "123456789"):
        text = text.removeprefix("-")  # no negative zero
    return text.replace("-", MINUS)


def signed(value: Real | None, digits: int | None = None) -> str:
    """Format a difference, with its sign.

    >>> signed(1.25, 1), signed(-1.25, 2), signed(0.0, 1), signed(None)
    ('+1.2', '−1.25', '0.0', '–')
    """
    text = shown(value, digits)
    positive = value is not None and value > 0 and any(digit in text for digit in "123456789∞")
    return f"+{text}" if positive else text


def percent(value: Real | None, digits: int = 2) -> str:
    """Format a value in per cent.

    >>> percent(99.5), percent(3.14159, 1), percent(None), percent(float("nan"))
    ('99.50 %', '3.1 %', '–', '–')
    """
    text = shown(value, digits)
    return text if text == MISSING else f"{text} %"


def around(value: Real | None, spread: Real | None, digits: int) -> tuple[str, str]:
    """Format a value and its spread; a value that would be cut to 0 has more digits.

    >>> around(94.6, 0.2, 1), around(94.6, None, 1), around(None, None, 1), around(1e-5, None, 1)
    (('94.6', '± 0.2'), ('94.6', ''), ('–', ''), ('1.00e−5', ''))
    """
    kept = digits if not value or abs(value) >= 10**-digits / 2 else None
    return shown(value, kept), "" if spread is None else f"± {shown(spread, kept)}"


def duration(seconds: Real | None) -> str:
    """Format a time in seconds.

    >>> duration(31.2), duration(523), duration(90000), duration(None)
    ('31.2 s', '8 min 43 s', '25 h 0 min', '–')
    """
    if seconds is None or not math.isfinite(seconds):
        return MISSING
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def rough_duration(seconds: float) -> str:
    """Format an expected time.

    >>> rough_duration(40.0), rough_duration(3e3), rough_duration(2e4), rough_duration(4e6)
    ('40 s', '50 min', '5.6 h', '46 days')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172_800 else f"{seconds / 86_400:.0f} days"


def option_text(value: Any) -> str:
    """Format the value of an option, or a result, beside those of other runs.

    >>> option_text(98.3333), option_text(20220), option_text(None), option_text(["patch=4"])
    ('98.33', '20,220', '–', 'patch=4')
    """
    if value is None:
        return MISSING
    if isinstance(value, (bool, str)):
        return str(value)
    if isinstance(value, list):
        return ", ".join(map(str, value)) or MISSING
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}" if abs(value) < 10 else f"{value:.2f}"
