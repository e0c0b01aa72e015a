"""The command that trains a network again."""

from __future__ import annotations

import json
import shlex
from typing import Any

from geq.training.option import TrainOptions
from geq.training.preset import list_presets, preset_path

PLACES = ("name", "runs", "data_root", "picture", "checkpoint_steps", "unconverged_warning")
"""Options that say where and how a run is kept, and change nothing of its result."""

FIRST = ("model", "override", "data", "data_override", "data_root")
"""Options that a command begins with."""

REPEATED = ("override", "data_override")


def settings(options: TrainOptions) -> dict[str, Any]:
    """What the result depends on."""
    return {name: value for name, value in options.as_mapping().items() if name not in PLACES}


def training_command(options: TrainOptions) -> str:
    """The shortest ``geq train`` with these settings: the nearest preset, and what differs from it.

    >>> training_command(TrainOptions(augment="shift", epochs=3, threads=1))
    'geq train --preset ship/geq_digits --threads 1 --epochs 3'
    """
    wanted = settings(options)

    def distance(preset: str) -> tuple[int, bool, str]:
        return len(differing(preset, wanted)), not preset.startswith("ship/"), preset

    nearest = min(list_presets(), key=distance)
    return written(["--preset", nearest], differing(nearest, wanted))


def plain_command(options: TrainOptions) -> str:
    """``geq train`` with all that differs from the defaults, the places of data and runs included.

    >>> plain_command(TrainOptions(epochs=3, override=("patch=2",), data_root="/data", name="trial"))
    'geq train --model geq_tiny --override patch=2 --data digits --data_root /data --epochs 3'
    """
    usual, stated = TrainOptions().as_mapping(), options.as_mapping()
    names = [name for name in dict.fromkeys((*FIRST, *stated)) if name != "name"]
    return written([], {k: stated[k] for k in names if k in ("model", "data") or stated[k] != usual[k]})


def written(words: list[str], values: dict[str, Any]) -> str:
    """Return the command with ``values`` as options."""
    for name, value in values.items():
        for item in value if name in REPEATED else (value,):
            words = [*words, f"--{name}", item if isinstance(item, str) else json.dumps(item)]
    return shlex.join(["geq", "train", *words])


def differing(preset: str, wanted: dict[str, Any]) -> dict[str, Any]:
    """The settings that a preset has not."""
    import yaml

    values = yaml.safe_load(preset_path(preset).read_text(encoding="utf-8"))
    given = settings(TrainOptions.from_mapping(values, preset))
    return {name: value for name, value in wanted.items() if given[name] != value}
