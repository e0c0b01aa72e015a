"""The command that trains a network again."""

from __future__ import annotations

import json
import shlex
from typing import Any

from geq.training.option import TrainOptions
from geq.training.preset import list_presets, preset_path

PLACES = ("name", "runs", "data_root", "picture", "checkpoint_steps", "unconverged_warning")
"""Options that say where and how a run is kept, and change nothing of its result."""

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
    words = ["geq", "train", "--preset", nearest]
    for name, value in differing(nearest, wanted).items():
        for item in value if name in REPEATED else (value,):
            words += [f"--{name}", item if isinstance(item, str) else json.dumps(item)]
    return shlex.join(words)


def differing(preset: str, wanted: dict[str, Any]) -> dict[str, Any]:
    """The settings that a preset has not."""
    import yaml

    values = yaml.safe_load(preset_path(preset).read_text(encoding="utf-8"))
    given = settings(TrainOptions.from_mapping(values, preset))
    return {name: value for name, value in wanted.items() if given[name] != value}
