"""Readers of what a run leaves: its options, description, log, checkpoint, analyses, records, card."""

from __future__ import annotations

import hashlib
import io
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from geq.analysis.part import finished
from geq.analysis.subject import Settings
from geq.model.shipped import shipped_folder
from geq.training.checkpoint import FORMAT, Checkpoint
from geq.training.option import TrainOptions
from geq.training.preset import list_presets, preset_path
from geq.training.run import RunFolder
from geq.weights.card import read_card
from geq.weights.text import card_text
from geq_papers.experiment.record import read_records
from stress.fuzz.mutation import in_json, in_json_lines, in_zip
from stress.fuzz.target import add, put, scratch

DIGITS = shipped_folder("geq-digits")


def _options(data: bytes) -> None:
    folder = scratch("run")
    put(folder / "config.yaml", data)
    RunFolder(folder).options()


def _option_files() -> list[bytes]:
    presets = [preset_path(name).read_bytes() for name in list_presets()[:3]]
    whole = json.dumps(TrainOptions(epochs=3).as_mapping()).encode()
    return [
        *presets,
        (DIGITS / "config.yaml").read_bytes(),
        whole,
        b"epochs: 3\n",
        b"a: &a [1]\nb: [*a, *a]\n",
    ]


def _description(data: bytes) -> None:
    folder = scratch("run-data")
    put(folder / "data.json", data)
    put(folder / "environment.json", data)
    run = RunFolder(folder)
    run.environment()
    run.data()


def _log(data: bytes) -> None:
    folder = scratch("run-log")
    put(folder / "log.jsonl", data)
    run = RunFolder(folder)
    run.epochs()
    run.result()


def _checkpoint(data: bytes) -> None:
    """With the right checksum: an attacker can compute one as well."""
    path = put(scratch() / "last.ckpt", data + hashlib.sha256(data).digest())
    Checkpoint.load(path)


def checkpoint_content(**changes: Any) -> bytes:
    """A small checkpoint without its checksum."""
    state: dict[str, Any] = {
        "format": FORMAT,
        "position": {"epoch": 1, "batch": 0, "step": 4},
        "model": {"weight": torch.ones(2, 3), "scale": torch.ones((), dtype=torch.float64)},
        "norms": {"layer": {"weight": torch.ones(2, 3)}},
        "optimizer": {"state": {0: {"momentum_buffer": torch.zeros(2, 3)}}, "param_groups": [{"lr": 0.1}]},
        "scaler": {},
        "average": None,
        "measures": {"loss": 0.5},
        "callbacks": {"clock": {"seconds": 1.0}},
        "history": [{"kind": "epoch", "loss": 0.5}],
        "random": {"torch": torch.get_rng_state()[:16].clone(), "numpy": ["MT19937", [1, 2], 0, 0, 0.0]},
    }
    buffer = io.BytesIO()
    torch.save(state | changes, buffer)
    return buffer.getvalue()


def _checkpoints() -> list[bytes]:
    legacy = io.BytesIO()
    torch.save({"format": FORMAT}, legacy, _use_new_zipfile_serialization=False)
    return [checkpoint_content(), checkpoint_content(model={}, random={}, optimizer={}), legacy.getvalue()]


def _record(data: bytes) -> None:
    records, complaints = read_records(put(scratch() / "records.jsonl", data))
    assert len(records) + len(complaints) <= data.count(b"\n") + 1
    for record in records:
        record.line().encode()


def record_values() -> dict[str, Any]:
    return {
        "experiment": "geq_table_2a",
        "scale": "smoke",
        "arm": "geq",
        "seed": 0,
        "config_hash": "0123",
        "config": {"epochs": 1},
        "commit": None,
        "versions": {"geq": "1"},
        "machine": {"cpu": "any"},
        "epochs": [{"kind": "epoch", "loss": 0.5}],
        "metrics": {"test_accuracy": 50.0},
        "solver": {"evaluations": 10.0},
        "cpu_seconds": 1.5,
        "wall_seconds": 2.0,
        "finished": "2025-01-01T00:00:00",
        "format": 1,
    }


def _analysis(data: bytes) -> None:
    run = _shipped_copy(str(scratch()))
    put(run.path / "analysis" / "width.json", data)
    finished(run, "width", Settings())


@lru_cache(maxsize=1)
def _shipped_copy(process: str) -> RunFolder:
    folder = scratch("analysed")
    (folder / "analysis").mkdir(exist_ok=True)
    (folder / "model").mkdir(exist_ok=True)
    put(folder / "model" / "config.json", b'{"weights_sha256": "0"}')
    return RunFolder(folder)


def _analyses() -> list[bytes]:
    from geq.analysis.part import PARTS

    settings = PARTS["width"].depends_on(Settings())
    table = {"title": "t", "columns": ["a"], "rows": [["1"]]}
    record = {"part": "width", "weights": "0", "settings": settings, "seconds": 1.0, "values": {"a": 1.0}}
    return [json.dumps(record | {"tables": [table], "notes": ["n"]}).encode()]


def _card(data: bytes) -> None:
    folder = scratch("card")
    put(folder / "card.json", data)
    card_text(read_card(folder))


def _shipped(name: str) -> list[bytes]:
    return [Path(DIGITS / name).read_bytes()]


add("run_options", "config.yaml of a run, and presets", _options, _option_files, rate=0.3)
add(
    "run_description",
    "data.json and environment.json of a run",
    _description,
    lambda: [*_shipped("data.json"), b'{"name": "a"}'],
    in_json,
)
add(
    "run_log",
    "log.jsonl of a run",
    _log,
    lambda: [b'{"kind": "epoch", "loss": 1.5}\n{"kind": "final", "test_accuracy": 90.0}\n'],
    in_json_lines,
    largest=2048,
)
add(
    "checkpoint",
    "last.ckpt of a run, with a right checksum",
    _checkpoint,
    _checkpoints,
    in_zip,
    largest=16384,
    rate=0.5,
)
add(
    "record",
    "records of experiments",
    _record,
    lambda: [json.dumps(record_values()).encode() + b"\n", b"{}\n\n[]\n"],
    in_json_lines,
    largest=4096,
)
add("analysis", "a kept result of an analysis", _analysis, _analyses, in_json)
add(
    "card",
    "card.json of a packed network, and its text",
    _card,
    lambda: _shipped("card.json"),
    in_json,
    largest=16384,
    rate=0.5,
)
