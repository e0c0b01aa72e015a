"""Numbers as text: with digits, a sign, a spread, or as a duration."""

from __future__ import annotations

import math

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
