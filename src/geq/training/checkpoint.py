"""File from which an interrupted run resumes exactly.

It holds plain data and tensors only, and is read with ``weights_only=True``: reading runs no code of the
file. The last 32 bytes are the SHA-256 of all others, so a file that is cut or altered is refused.
"""

from __future__ import annotations

import hashlib
import io
import pickletools
import random
import zipfile
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from geq.atomic_io import write_durably
from geq.errors import CheckpointError, one_line

FORMAT = 2
DIGEST = 32
NAMES = {
    "collections OrderedDict",
    "torch._utils _rebuild_tensor_v2",
    *(f"torch {kind}Storage" for kind in ("Float", "Double", "Half", "BFloat16")),
    *(f"torch {kind}Storage" for kind in ("Bool", "Byte", "Char", "Short", "Int", "Long")),
}
"""All that the pickle of a checkpoint may call."""
KINDS: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(
        ("position", "model", "norms", "optimizer", "scaler", "measures", "callbacks", "random"), dict
    ),
    "average": (dict, type(None)),
    **dict.fromkeys(("history", "others"), list),
}

OWN = {"measures", "callbacks", "random"}
"""State of each single process."""


@dataclass(frozen=True)
class Position:
    """Progress of a run.

    Args:
        epoch: number of finished epochs.
        batch: number of finished batches of the running epoch.
        step: number of optimiser steps so far.
    """

    epoch: int = 0
    batch: int = 0
    step: int = 0

    def after_batch(self) -> Position:
        return Position(self.epoch, self.batch + 1, self.step + 1)

    def after_epoch(self) -> Position:
        return Position(self.epoch + 1, 0, self.step)


@dataclass(frozen=True)
class Checkpoint:
    """Everything that the rest of a run depends on.

    Args:
        position: epoch, batch and step (see :class:`Position`).
        model: parameters and buffers, among them running γ scales.
        norms: what the norm rules remember; see :func:`geq.constraints.spectral.constraint_memory`.
        optimizer: state of the optimiser.
        scaler: state of the loss scaling of half precision.
        average: averaged weights, if the run keeps them.
        measures: sums of the running epoch.
        callbacks: state of each object of :mod:`geq.training.training_monitors`, by its class.
        history: the lines of the log so far.
        random: states of the random generators.
        others: "measures", "callbacks" and "random" of the other processes, in their order; empty where there
            are none, and in files of earlier versions.
    """

    position: dict[str, int]
    model: dict[str, Tensor]
    norms: dict[str, dict[str, Tensor]]
    optimizer: dict[str, Any]
    scaler: dict[str, Any]
    average: dict[str, Any] | None
    measures: dict[str, Any]
    callbacks: dict[str, dict[str, Any]]
    history: list[dict[str, Any]]
    random: dict[str, Any]
    others: list[dict[str, Any]] = field(default_factory=list)

    def of_process(self, rank: int) -> Checkpoint:
        """Return the state from which the process of this number resumes."""
        return replace(self, **self.others[rank - 1]) if 0 < rank <= len(self.others) else self

    def save(self, path: Path) -> None:
        buffer = io.BytesIO()
        # asdict would copy every tensor.
        torch.save({"format": FORMAT, **{f.name: getattr(self, f.name) for f in fields(self)}}, buffer)
        content = buffer.getvalue()
        write_durably(path, content + hashlib.sha256(content).digest())

    @classmethod
    def load(cls, path: Path) -> Checkpoint:
        try:
            content = path.read_bytes()
        except OSError as problem:
            raise CheckpointError(f"{path} cannot be read: {problem}") from problem
        body, digest = content[:-DIGEST], content[-DIGEST:]
        if hashlib.sha256(body).digest() != digest:
            raise CheckpointError(
                f"{path} is damaged: its checksum does not fit its content; start the run again"
            )
        try:
            check_content(body)
            state = torch.load(io.BytesIO(body), map_location="cpu", weights_only=True)
        except Exception as problem:  # torch raises many kinds of errors here
            raise CheckpointError(f"{path} is not a checkpoint of geq: {one_line(problem)}") from problem
        expected = {item.name for item in fields(cls)}
        if isinstance(state, dict):
            state.setdefault("others", [])
        if (
            not isinstance(state, dict)
            or state.get("format") != FORMAT
            or set(state) != {"format", *expected}
        ):
            raise CheckpointError(
                f"{path} was written by another version of geq; resume it with that one, or start again"
            )
        for name, kind in KINDS.items():
            if not isinstance(state[name], kind):
                raise CheckpointError(f"{path} is not a checkpoint of geq: its {name} is of another type")
        if any(not isinstance(one, dict) or set(one) != OWN for one in state["others"]):
            raise CheckpointError(f"{path} is not a checkpoint of geq: its others are of another type")
        return cls(**{name: state[name] for name in expected})


def check_content(body: bytes) -> None:
    """Refuse what torch would read but geq never writes.

    Other packings and other functions reserve memory for any number they name, however small the file.
    """
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        items = archive.infolist()
        programs = [item for item in items if item.filename.split("/")[-1] == "data.pkl"]
        if any(item.compress_type != zipfile.ZIP_STORED for item in items) or len(programs) != 1:
            raise ValueError("it is packed in another way")
        program = archive.read(programs[0])
    for instruction, argument, _ in pickletools.genops(program):
        named = instruction.name in ("GLOBAL", "INST")
        if (named and argument not in NAMES) or instruction.name in ("STACK_GLOBAL", "EXT1", "EXT2", "EXT4"):
            raise ValueError(f"it names {argument or 'something'}, which no checkpoint needs")


def random_state() -> dict[str, Any]:
    """The generators of torch, numpy and Python, as plain data."""
    kind, keys, place, has_gauss, gauss = np.random.get_state()  # noqa: NPY002 - the global generator is meant
    version, internal, gauss_next = random.getstate()
    state: dict[str, Any] = {
        "torch": torch.get_rng_state(),
        "numpy": [str(kind), [int(key) for key in keys], int(place), int(has_gauss), float(gauss)],
        "python": [version, list(internal), gauss_next],
    }
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state_all()
    return state


def restore_random_state(state: dict[str, Any]) -> None:
    torch.set_rng_state(state["torch"])
    kind, keys, place, has_gauss, gauss = state["numpy"]
    np.random.set_state((kind, np.array(keys, dtype=np.uint32), place, has_gauss, gauss))  # noqa: NPY002
    version, internal, gauss_next = state["python"]
    random.setstate((version, tuple(internal), gauss_next))
    if "cuda" in state and torch.cuda.is_available() and len(state["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(state["cuda"])
