"""Standard streams that survive any encoding, and that are there even where the caller has closed them."""

from __future__ import annotations

import codecs
import io
import os
import sys
import unicodedata

SPELT_OUT = "geq.spelt_out"
"""Name of the error handler that writes a letter in other words where an encoding lacks it."""

WORDS = {
    "→": "->",
    "←": "<-",
    "≤": "<=",
    "≥": ">=",
    "≠": "!=",
    "≈": "~",
    "×": "x",
    "·": "*",
    "±": "+-",
    "‖": "||",
    "−": "-",
    "–": "-",
    "—": "-",
    "…": "...",
    "√": "sqrt",
    "∞": "inf",
    "✓": "ok",
    "✗": "x",
    "°": " degrees",
    "’": "'",
    "‘": "'",
    "“": '"',
    "”": '"',
    "•": "*",
    "²": "^2",
    "³": "^3",
    "\u0304": "",
    "\u00a0": " ",
}
"""Signs of our output -> how they are written in ASCII. Greek letters are written by their names."""


def spelt_out(problem: UnicodeError) -> tuple[str, int]:
    r"""Return a replacement for what cannot be encoded, as an error handler of :mod:`codecs`.

    >>> "β 0.95 ≤ 1, \U0001f600".encode("ascii", SPELT_OUT)
    b'beta 0.95 <= 1, \\U0001f600'
    """
    if not isinstance(problem, UnicodeEncodeError):
        raise problem
    return "".join(map(_ascii, problem.object[problem.start : problem.end])), problem.end


def _ascii(letter: str) -> str:
    if letter in WORDS:
        return WORDS[letter]
    kind, _, name = unicodedata.name(letter, "").partition(" LETTER ")
    if kind in ("GREEK SMALL", "GREEK CAPITAL"):
        return name.lower() if kind == "GREEK SMALL" else name.capitalize()
    return letter.encode("ascii", "backslashreplace").decode("ascii")


codecs.register_error(SPELT_OUT, spelt_out)


def prepare_streams() -> None:
    """Let every letter be written, and open what the caller has closed.

    A closed stream (``geq models >&-``) is None to Python. Its number must not stay free either: the next
    file that is opened, such as a checkpoint, would get it, and with it what other libraries print.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, _nothing(number))
        elif number > 0 and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=SPELT_OUT)


def _nothing(number: int) -> io.TextIOWrapper:
    handle = os.open(os.devnull, os.O_RDWR)
    if handle != number and not _is_open(number):
        os.dup2(handle, number)
        os.close(handle)
        handle = number
    os.set_inheritable(handle, True)  # for child processes
    return open(handle, "r" if number == 0 else "w", encoding="utf-8", errors=SPELT_OUT, closefd=False)


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def silence_output() -> None:
    """Send what is still in the buffer of the output nowhere: it has no reader, or its disk is full."""
    handle = os.open(os.devnull, os.O_WRONLY)
    os.dup2(handle, sys.stdout.fileno())
    os.close(handle)


def takes_every_letter() -> bool:
    """Return whether the encoding of the output has all of Unicode."""
    return (getattr(sys.stdout, "encoding", None) or "utf-8").lower().replace("_", "-").startswith("utf")
