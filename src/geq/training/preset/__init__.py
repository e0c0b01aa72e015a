"""The YAML files of this folder are named settings for ``geq train --preset NAME``."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from geq.errors import unknown_name
from geq.safe_parsing import parse_yaml
from geq.training.train_options import TrainOptions

FOLDER = Path(__file__).parent


def list_presets() -> list[str]:
    """The names of the presets, such as ``paper/geq_cifar10_5m``."""
    return sorted(path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.rglob("*.yaml"))


def preset_path(name: str) -> Path:
    """The file of a preset; an unknown name is an error that names the nearest one."""
    known = list_presets()
    if name not in known:
        raise unknown_name("preset", name, known)
    return FOLDER / f"{name}.yaml"


@cache
def preset_options(name: str) -> dict[str, Any]:
    """Return the keywords of TrainOptions that a preset states; not to be changed."""
    return TrainOptions.decoded(parse_yaml(preset_path(name).read_text(encoding="utf-8")), name)
