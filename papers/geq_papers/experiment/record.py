"""The record of one finished run: a line of JSON in ``results/SCALE/EXPERIMENT.jsonl``.

Accuracies, mIoU and the like are in %, as in the log of a run; a number that is not finite is null.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from geq.atomic_io import exclusively, explained_write_errors, remove_leftovers, write_durably
from geq.errors import CheckpointError, InputError
from geq.model.config import from_fields
from geq.safe_parsing import finite, parse_json, short

FORMAT = 1


@dataclass(frozen=True)
class Record:
    """One run of one arm of an experiment.

    Args:
        experiment, scale, arm, seed: what was run.
        config_hash: of all that the result depends on, but for the seed: records with different ones are
            different experiments.
        config: the options of the training, but for the folders of the machine.
        commit: of the code, with "+changes" where files differed from it; None outside of git.
        versions: package -> version.
        machine: "cpu", "cores" and "device".
        epochs: the lines of the run's log, one per epoch.
        metrics: results: "test_accuracy", "parameters", and the further measurements of the experiment.
        solver: mean "evaluations" of the maps, worst "residual", share "converged"; empty without equilibria.
        cpu_seconds, wall_seconds: of the training.
        finished: when, in ISO form.
    """

    experiment: str
    scale: str
    arm: str
    seed: int
    config_hash: str
    config: dict[str, Any]
    commit: str | None
    versions: dict[str, Any]
    machine: dict[str, Any]
    epochs: list[dict[str, Any]]
    metrics: dict[str, Any]
    solver: dict[str, Any]
    cpu_seconds: float
    wall_seconds: float
    finished: str
    format: int = field(default=FORMAT)

    @property
    def figures(self) -> dict[str, Any]:
        """Return the metrics, "cpu_seconds", and "train_loss" of the last epoch, for tables and claims."""
        last = self.epochs[-1] if self.epochs else {}
        fitted = {"train_loss": last["train_loss"]} if "train_loss" in last else {}
        return {"cpu_seconds": self.cpu_seconds} | fitted | self.metrics

    def line(self) -> str:
        """The record as one line of JSON."""
        return json.dumps(finite(asdict(self)), ensure_ascii=False, allow_nan=False, sort_keys=True)

    @classmethod
    def from_line(cls, line: str) -> Record:
        """The inverse; an :class:`~geq.errors.InputError` says what is wrong with a foreign line."""
        try:
            values = parse_json(line)
        except ValueError as problem:
            raise InputError(f"not JSON ({problem})") from None
        if not isinstance(values, dict):
            raise InputError(f"a record must be a JSON object: got {type(values).__name__}")
        found = values.get("format")
        if found != FORMAT:
            raise InputError(f"a record of this version has format {FORMAT}: got {short(found)}")
        try:
            record: Record = from_fields(cls, values, "the record")
        except CheckpointError as problem:
            raise InputError(str(problem)) from None
        return record


def record_path(results: str | Path, scale: str, experiment: str) -> Path:
    return Path(results) / scale / f"{experiment}.jsonl"


def read_records(path: str | Path) -> tuple[list[Record], list[str]]:
    """The records of a file, or of all ``.jsonl`` files below a folder, and a complaint for every line that
    is none. A file that is not there holds none.
    """
    path = Path(path)
    files = sorted(path.rglob("*.jsonl")) if path.is_dir() else [path] if path.exists() else []
    records: list[Record] = []
    complaints: list[str] = []
    for file in files:
        try:
            lines = file.read_bytes().decode(errors="replace").split("\n")
        except OSError as problem:
            complaints.append(f"{file} cannot be read: {problem.strerror}")
            continue
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                records.append(Record.from_line(line))
            except InputError as problem:
                complaints.append(f"{file}, line {number}: {problem}")
    return records, complaints


def add_record(path: Path, record: Record) -> None:
    """Append a record to a file; existing lines are kept, even broken ones.

    The file is replaced in one step, under a lock, so that several jobs of a cluster can write it. A record
    that another of them has put there already is not put there again.
    """
    safe = "The run itself is kept; call the same command again."
    with explained_write_errors(path, safe, "--results"):
        path.parent.mkdir(parents=True, exist_ok=True)
        with exclusively(path.with_name(f".{path.name}.lock")):
            remove_leftovers(path.parent, f".{path.name}.*.tmp")
            before = path.read_bytes() if path.exists() else b""
            if before and not before.endswith(b"\n"):
                before += b"\n"  # someone's broken line must not swallow ours
            line = record.line().encode()
            if line not in before.split(b"\n"):
                write_durably(path, before + line + b"\n")
