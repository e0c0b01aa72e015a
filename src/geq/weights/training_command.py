"""The command that trains a network again."""

from __future__ import annotations

import json
import shlex
from typing import Any

from geq.training.preset import list_presets, preset_options
from geq.training.train_options import PLACES, TrainOptions, overlaid

FIRST = ("model", "data")
"""How the names of the options begin that a command begins with."""


def settings(options: TrainOptions) -> dict[str, Any]:
    """Return the settings on which the result depends."""
    return {name: value for name, value in options.as_mapping().items() if name not in PLACES}


def training_command(options: TrainOptions) -> str:
    """Return the shortest ``geq train`` with these settings: the nearest preset, and what differs from it.

    >>> training_command(TrainOptions(augment="shift", epochs=3, threads=1))
    'geq train --preset ship/geq_digits --threads 1 --epochs 3'
    """
    found = {name: changes for name in list_presets() if (changes := differing(name, options)) is not None}
    nearest = min(found, key=lambda name: (len(found[name]), not name.startswith("ship/"), name))
    return written({"preset": nearest, **found[nearest]})


def plain_command(options: TrainOptions) -> str:
    """Return ``geq train`` with all that differs from the defaults, the places of data and runs included.

    >>> plain_command(TrainOptions(epochs=3, override={"patch": 2}, data_root="/data", name="trial"))
    'geq train --model geq_tiny --model.patch 2 --data digits --data_root /data --epochs 3'
    """
    usual, stated = TrainOptions().spelt_out(), options.spelt_out()
    first = sorted((k for k in stated if k.startswith(FIRST)), key=lambda k: (not k.startswith("model"), k))
    names = [name for name in dict.fromkeys((*first, *stated)) if name != "name"]
    return written({k: stated[k] for k in names if k in ("model", "data") or stated[k] != usual.get(k)})


def written(values: dict[str, Any]) -> str:
    """Return ``geq train`` with ``values`` as options."""
    words = ["geq", "train"]
    for name, value in values.items():
        words += [f"--{name}", value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))]
    return shlex.join(words)


def differing(preset: str, options: TrainOptions) -> dict[str, Any] | None:
    """Return the options to give after a preset; None where these cannot take back what it says."""
    start, before = preset_options(preset), TrainOptions(**preset_options(preset)).spelt_out()
    changes = {
        name: value
        for name, value in options.spelt_out().items()
        if name not in PLACES and (name not in before or before[name] != value)
    }
    reached = TrainOptions(**overlaid(start, TrainOptions.decoded(changes)))
    return changes if settings(reached) == settings(options) else None
