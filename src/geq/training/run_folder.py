"""The folder of a run.

    config.yaml        every option
    environment.json   versions, machine, commit, seed, command
    data.json          classes, normalisation and image size: what a prediction needs
    fingerprint.json   classes, numbers and digests of the images: by which resuming knows its data
    log.jsonl          one line per epoch, and a last one with the result
    last.ckpt          from where to resume
    model/             the trained network (config.json, model.safetensors)
    tensorboard/       the same numbers for TensorBoard
    picture.png        training curves and attention

Every file is replaced in one step, so a reader (or a crash) never meets half of one.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from geq.atomic_io import explained_write_errors, remove_leftovers, write_durably
from geq.errors import CheckpointError, unknown_name
from geq.model.shipped_networks import is_shipped, shipped_folder, shipped_names
from geq.safe_parsing import parse_json, parse_yaml
from geq.training.train_options import TrainOptions

if TYPE_CHECKING:
    from geq.training.setup import DataDescription

CONFIG, ENVIRONMENT, DATA, LOG, LOCK = "config.yaml", "environment.json", "data.json", "log.jsonl", ".lock"
FINGERPRINT = "fingerprint.json"
START, END = "---\n", "\n...\n"
ANALYSIS, EXPLANATION, EVALUATION = "analysis", "explain", "evaluation"
ATTEMPTS, PAUSE = 5, 0.05
"""Of getting the lock, and seconds between them."""
HELD: set[int] = set()
"""Locks of this process."""
State = Literal["finished", "running", "stopped"]


def _let_go() -> None:
    """A forked child holds no locks: workers outlive a killed training by seconds, and write nothing."""
    for handle in HELD:
        os.close(handle)
    HELD.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)


@dataclass(frozen=True)
class RunFolder:
    """One run on disk.

    Args:
        path: its folder, into which everything is written.
        source: where its files are read instead, for a network that comes with the package, whose folder
            stays as it is.
    """

    path: Path
    source: Path | None = None

    @property
    def home(self) -> Path:
        """Return the folder from which its files are read."""
        return self.path if self.source is None else self.source

    @property
    def title(self) -> str:
        """Return its name in messages: its folder, or the name of a network that ships with the package."""
        return str(self.path) if self.source is None else self.name

    @property
    def checkpoint(self) -> Path:
        return self.path / "last.ckpt"

    @property
    def model(self) -> Path:
        return self.home / "model"

    @property
    def tensorboard(self) -> Path:
        return self.inside("tensorboard")

    @property
    def analysis(self) -> Path:
        return self.inside(ANALYSIS)

    @property
    def explanation(self) -> Path:
        return self.inside(EXPLANATION)

    @property
    def evaluation(self) -> Path:
        return self.inside(EVALUATION)

    def inside(self, name: str) -> Path:
        """A folder of the run, to write into."""
        path = self.path / name
        self.refuse_link(path)
        return path

    @staticmethod
    def refuse_link(path: Path) -> None:
        """Refuse symbolic links in a run folder: they could redirect writes."""
        if path.is_symlink():
            raise CheckpointError(f"{path} must not be a link: remove it")

    @property
    def picture(self) -> Path:
        return self.path / "picture.png"

    @property
    def name(self) -> str:
        return self.path.name

    @classmethod
    def create(cls, options: TrainOptions) -> RunFolder:
        """A new folder: ``options.name``, or the first free of model-data-1, -2, …"""
        above = Path(options.runs)
        with explained_write_errors(above, "Nothing was started."):
            above.mkdir(parents=True, exist_ok=True)
            if options.name is not None:
                path = above / options.name
                try:
                    path.mkdir()
                except FileExistsError:
                    if cls(path).is_stillborn():
                        return cls(path)
                    raise CheckpointError(
                        f"a new run needs a new name; {path} exists already: continue it with "
                        f"'geq train --resume {path}', or choose another --name"
                    ) from None
                return cls(path)
            number = 1
            while True:
                path = above / f"{options.model}-{options.data}-{number}"
                try:
                    path.mkdir()
                    return cls(path)
                except FileExistsError:
                    number += 1

    def is_stillborn(self) -> bool:
        """Whether a process was killed here before it had written what the run is, or here is only what was
        found out about the network of that name that comes with the package.
        """
        names = {path.name for path in self.path.iterdir() if not path.name.endswith(".tmp")}
        return names <= {ENVIRONMENT, DATA, FINGERPRINT, LOCK, ANALYSIS, EXPLANATION}

    @classmethod
    def find(cls, name: str | Path, runs: str | Path = "runs") -> RunFolder:
        """A run by its path, by its name in the folder ``runs``, or a network that comes with the package.

        What is written about such a network goes to ``runs`` below its name.
        """
        for path in (Path(name), Path(runs) / name):
            if os.path.isfile(path / CONFIG):  # false also for a name that no file can have
                return cls(Path(runs) / path.name, path) if is_shipped(path) else cls(path)
        if str(name) in shipped_names():
            return cls(Path(runs) / name, shipped_folder(str(name)))
        raise unknown_name(
            f"run (neither a folder with a {CONFIG}, nor a name in {runs}/, nor a network of 'geq weights'):",
            str(name),
            [*known_runs(runs), *shipped_names()],
        )

    def describe(self, options: TrainOptions, environment: dict[str, Any], data: DataDescription) -> None:
        """Write what the run is, before it starts; config.yaml comes last and marks a folder as a run."""
        import yaml

        self._write_json(ENVIRONMENT, environment)
        self._write_json(DATA, data.as_mapping())
        # The marks of YAML's start and end: what is left of a file that was cut would be YAML as well.
        text = yaml.safe_dump(
            options.as_mapping(), sort_keys=False, allow_unicode=True, explicit_start=True, explicit_end=True
        )
        write_durably(self.path / CONFIG, text.encode())

    def options(self) -> TrainOptions:
        path = self.home / CONFIG
        try:
            text = path.read_text(encoding="utf-8")
            values = parse_yaml(text)
        except (OSError, ValueError) as problem:
            raise CheckpointError(f"{path} cannot be read: {problem}") from problem
        if text.startswith(START) and not text.endswith(END):
            raise CheckpointError(
                f"{path} must end with a line of three dots; it was cut: restore it, or start the run again"
            )
        if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
            raise CheckpointError(f"{path} must map names of options to values")
        return TrainOptions.from_mapping(values, str(path))

    def data(self) -> DataDescription:
        from geq.training.setup import DataDescription  # loads torch: a run is found without it

        return DataDescription.from_mapping(self._read_json(DATA), str(self.home / DATA))

    def write_fingerprints(self, values: dict[str, Any]) -> None:
        self._write_json(FINGERPRINT, values)

    def fingerprints(self) -> dict[str, Any]:
        """Return what :meth:`Datasets.fingerprints` was when the run was started."""
        return self._read_json(FINGERPRINT)

    def has_fingerprints(self) -> bool:
        return (self.home / FINGERPRINT).is_file()

    def environment(self) -> dict[str, Any]:
        return self._read_json(ENVIRONMENT)

    def write_log(self, records: list[dict[str, Any]]) -> None:
        lines = [json.dumps(record, ensure_ascii=False, allow_nan=False) for record in records]
        write_durably(self.path / LOG, "".join(line + "\n" for line in lines).encode())

    def log(self) -> list[dict[str, Any]]:
        """The lines of the log; none before the first epoch has ended."""
        path = self.home / LOG
        try:
            text = path.read_text(encoding="utf-8") if path.exists() else ""
            records = [parse_json(line) for line in text.split("\n") if line]
        except (OSError, ValueError) as problem:
            raise CheckpointError(f"{path} cannot be read: {problem}") from problem
        for number, record in enumerate(records, 1):
            if not isinstance(record, dict) or not isinstance(record.get("kind"), str):
                raise CheckpointError(
                    f"{path}, line {number}: every line must be a JSON object with its kind"
                )
        return records

    def epochs(self) -> list[dict[str, Any]]:
        return [record for record in self.log() if record["kind"] == "epoch"]

    def result(self) -> dict[str, Any] | None:
        """The last line of a finished run."""
        records = self.log()
        return records[-1] if records and records[-1]["kind"] == "final" else None

    def state(self) -> State:
        if self.result() is not None:
            return "finished"
        return "running" if self.in_use() else "stopped"

    def in_use(self) -> bool:
        """Return whether a process is writing the run. This writes nothing: the folder may be read-only."""
        try:
            import fcntl
        except ImportError:  # Windows: no such lock
            return False
        try:
            with (self.path / LOCK).open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Only one process at a time may write a run; the system frees the lock when a process dies."""
        try:
            import fcntl
        except ImportError:  # Windows: no such lock
            yield
            return
        self.refuse_link(self.path / LOCK)
        with explained_write_errors(self.path, "Nothing was changed."):
            handle = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
        HELD.add(handle)
        try:
            for attempt in range(ATTEMPTS):
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if attempt == ATTEMPTS - 1:
                        raise CheckpointError(
                            f"another process is writing {self.path}: wait for it, or stop it"
                        ) from None
                    time.sleep(PAUSE)  # perhaps someone only asks (see in_use)
            yield
        finally:
            if handle in HELD:  # not in a child that was forked meanwhile
                HELD.remove(handle)
                os.close(handle)

    def clean(self) -> None:
        """Delete what a killed process left."""
        for folder in (self.path, self.model):
            remove_leftovers(folder)

    def _write_json(self, name: str, value: dict[str, Any]) -> None:
        write_durably(self.path / name, (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode())

    def _read_json(self, name: str) -> dict[str, Any]:
        path = self.home / name
        try:
            value = parse_json(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as problem:
            raise CheckpointError(f"{path} cannot be read: {problem}") from problem
        if not isinstance(value, dict):
            raise CheckpointError(f"{path} must hold a JSON object")
        return value


def known_runs(runs: str | Path = "runs") -> list[str]:
    """Names of the runs in a folder, oldest first."""
    found = list(Path(runs).glob(f"*/{CONFIG}"))
    return [
        path.parent.name
        for path in sorted(found, key=lambda path: (path.stat().st_mtime_ns, path.parent.name))
    ]
