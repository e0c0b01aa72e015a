"""Read the values of the page's controls: anybody can send anything, and is refused in a sentence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from geq.data.corruption import SEVERITIES, corruption_names
from geq.errors import InputError, OptionError, unknown_name
from geq.safe_parsing import short
from geq_demo.input_image import Distortion
from geq_demo.session import Look
from geq_demo.solve_panel import Kind

NO_CORRUPTION = "none"
LONGEST_NAME = 200
"""Characters of a name; longer ones are not compared with those that are known."""
WAYS: dict[str, Kind] = {"the model's solver": "solver", "plain repetition": "plain"}


def read_name(value: Any, what: str) -> str:
    """Return a name, known or not.

    >>> read_name(["geq"], "model")
    Traceback (most recent call last):
    geq.errors.OptionError: model must be a name from its list: got ['geq']
    """
    if not isinstance(value, str) or len(value) > LONGEST_NAME:
        raise OptionError(f"{what} must be a name from its list: got {short(value)}")
    return value


def read_number(value: Any, what: str, low: int, high: int) -> int | float:
    """Return a number in a range.

    >>> read_number(3, "noise", 0, 100)
    3
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
        raise OptionError(f"{what} must be a number from {low} to {high}: got {short(value)}")
    return value


def read_whole(value: Any, what: str) -> int:
    """Return a whole number of any size; a slider may send it as 3.0.

    >>> read_whole(3.0, "step")
    3
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and math.isfinite(value) and value == int(value):
        return int(value)
    raise OptionError(f"{what} must be a whole number: got {short(value)}")


def read_distortion(values: Sequence[Any]) -> Distortion:
    """Return what the five controls noise, blur, loss of contrast, corruption and severity say."""
    noise, blur, fade, name, severity = values
    uncorrupted = Distortion(
        read_number(noise, "noise", 0, 100),
        read_number(blur, "blur", 0, 100),
        read_number(fade, "loss of contrast", 0, 100),
    )
    level = read_whole(read_number(severity, "severity", 1, SEVERITIES[-1]), "severity")
    if name is None or read_name(name, "corruption") == NO_CORRUPTION:
        return uncorrupted
    if name not in corruption_names():
        raise unknown_name("corruption", name, corruption_names())
    return replace(uncorrupted, corruption=name, severity=level)


def read_look(way: Any, branch: Any, step: Any = None) -> Look:
    """Return the view of a solve; branch and step may be those of an earlier answer, beyond the end."""
    if read_name(way, "whose steps") not in WAYS.values():
        raise unknown_name("choice of whose steps", way, WAYS.values())
    return Look(
        0 if branch is None else read_whole(branch, "branch"),
        "solver" if way == "solver" else "plain",
        None if step is None else read_whole(step, "step"),
    )


def read_place(event: Any, number: int) -> int:
    """Return which of so many images was clicked, from the event that the browser sent."""
    place = read_whole(event.get("index") if isinstance(event, dict) else event, "image")
    if not 0 <= place < number:
        raise OptionError(f"image must be one of the {number} that are shown: got number {short(place)}")
    return place


def read_upload(value: Any, folder: Path) -> Path | None:
    """Return the file that was uploaded, or None where there is none.

    Args:
        value: description of the file, as gradio hands it on.
        folder: that of the uploads; other files of the machine are not for visitors.
    """
    if value is None:
        return None
    path = value.get("path") if isinstance(value, dict) else None
    if not isinstance(path, str) or not Path(path).resolve().is_relative_to(folder.resolve()):
        raise InputError("the picture must be a file that was uploaded here: upload it again")
    return Path(path)
