"""The parts of ``geq analyze``: a table of modules, each with ``analyse(subject) -> Result``.

A result is kept as ``analysis/NAME.json`` in the run's folder. It is computed again when the weights or the
settings have changed, or when asked for.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from geq.analysis.analysed_network import Subject
from geq.analysis.result import Result
from geq.analysis.settings import PARTS, Progress, Settings, silent
from geq.atomic_io import explained_write_errors, write_durably
from geq.errors import CheckpointError
from geq.model.network import Network
from geq.safe_parsing import finite, parse_json
from geq.training.device import limited_threads
from geq.training.run_folder import RunFolder


def result_path(folder: RunFolder, name: str) -> Path:
    return folder.analysis / f"{name}.json"


def weights_key(folder: RunFolder) -> str:
    """The SHA-256 of the run's weights, as they were saved."""
    path = folder.model / "config.json"
    try:
        return str(parse_json(path.read_text(encoding="utf-8"))["weights_sha256"])
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise CheckpointError(
            f"{folder.path} has no trained network to analyse ({path} cannot be read: {problem}); "
            "let the training finish, or resume it with geq train --resume"
        ) from problem


def finished(folder: RunFolder, name: str, settings: Settings) -> Result | None:
    """The kept result of a part, if it is whole, and of these weights and settings."""
    if PARTS[name].piecemeal:
        return None
    path = result_path(folder, name)
    if not path.exists():
        return None
    try:
        record = parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None  # damaged: computed again
    if not isinstance(record, dict):
        return None
    if record.get("weights") != weights_key(folder) or record.get("settings") != PARTS[name].depends_on(
        settings
    ):
        return None
    return Result.from_mapping(record, str(path))


def unreported(name: str, result: Result, new: bool) -> None:
    """Report nothing."""


def run_parts(
    folder: RunFolder,
    names: list[str],
    settings: Settings,
    report: Callable[[str, Result, bool], None] = unreported,
    again: bool = False,
    data_root: str | None = None,
    progress: Progress = silent,
) -> dict[str, Result]:
    """Compute the missing parts; ``report(name, result, new)`` is called for each."""
    key = weights_key(folder)
    subject: Subject | None = None
    results = {}
    for name in names:
        result = None if again else finished(folder, name, settings)
        new = result is None
        if result is None:
            subject = subject or Subject(folder, settings, data_root, again, progress)
            began = time.perf_counter()
            result = import_module(PARTS[name].module).analyse(subject)
            assert isinstance(result, Result)
            keep(folder, name, result, key, settings, time.perf_counter() - began)
        results[name] = result
        report(name, result, new)
    return results


def analysed(
    folder: RunFolder,
    part: str,
    settings: Settings,
    data_root: str | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Return the values of one part as its file holds them: None for a number that is not finite."""
    with limited_threads(folder.options(), Network.from_pretrained(folder.model)):
        found = run_parts(folder, [part], settings, data_root=data_root, progress=progress)[part]
    return finite(dict(found.values))


def keep(folder: RunFolder, name: str, result: Result, key: str, settings: Settings, seconds: float) -> None:
    record: dict[str, Any] = {
        "part": name,
        "weights": key,
        "settings": PARTS[name].depends_on(settings),
        "seconds": round(seconds, 2),
        **result.as_mapping(),
    }
    path = result_path(folder, name)
    with explained_write_errors(path, "The result was not kept."):
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False)
        write_durably(path, (text + "\n").encode())
