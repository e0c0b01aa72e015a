"""Readers of what a run leaves, of saved networks and ONNX files, and of tables of the hub."""

from __future__ import annotations

import hashlib
import io
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from geq.analysis.part_runner import finished
from geq.analysis.settings import Settings
from geq.data.hub import read_hub
from geq.export.onnx_file import retuned
from geq.model.model_registry import create_model
from geq.model.network import Network
from geq.model.shipped_networks import shipped_folder
from geq.training.checkpoint import FORMAT, Checkpoint
from geq.training.preset import list_presets, preset_path
from geq.training.run_folder import RunFolder
from geq.training.train_options import TrainOptions
from geq.weights.card import card_text, read_card
from geq_papers.experiment.record import read_records
from stress.fuzz.dataset_target import drawn
from stress.fuzz.mutation import in_json, in_json_lines, in_safetensors, in_zip
from stress.fuzz.target import put, scratch, target

DIGITS = shipped_folder("geq-digits")
PICTURES = 3


def option_files() -> list[bytes]:
    presets = [preset_path(name).read_bytes() for name in list_presets()[:3]]
    whole = json.dumps(TrainOptions(epochs=3).as_mapping()).encode()
    short = [b"epochs: 3\n", b"a: &a [1]\nb: [*a, *a]\n"]
    return [*presets, (DIGITS / "config.yaml").read_bytes(), whole, *short]


@target(option_files, rate=0.3)
def run_options(data: bytes) -> None:
    """config.yaml of a run, and presets."""
    put(scratch("run") / "config.yaml", data)
    RunFolder(scratch("run")).options()


@target(lambda: [(DIGITS / "data.json").read_bytes(), b'{"name": "a"}'], in_json)
def run_description(data: bytes) -> None:
    """data.json and environment.json of a run."""
    run = RunFolder(scratch("run-data"))
    put(run.path / "data.json", data)
    put(run.path / "environment.json", data)
    run.environment()
    run.data()


@target(
    lambda: [b'{"kind": "epoch", "loss": 1.5}\n{"kind": "final", "test_accuracy": 90.0}\n'],
    in_json_lines,
    largest=2048,
)
def run_log(data: bytes) -> None:
    """log.jsonl of a run."""
    run = RunFolder(scratch("run-log"))
    put(run.path / "log.jsonl", data)
    run.epochs()
    run.result()


def checkpoint_content(**changes: Any) -> bytes:
    """Return a small checkpoint without its checksum."""
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


def checkpoints() -> list[bytes]:
    legacy = io.BytesIO()
    torch.save({"format": FORMAT}, legacy, _use_new_zipfile_serialization=False)
    return [checkpoint_content(), checkpoint_content(model={}, random={}, optimizer={}), legacy.getvalue()]


@target(checkpoints, in_zip, largest=16384, rate=0.5)
def checkpoint(data: bytes) -> None:
    """last.ckpt of a run, with a right checksum."""
    # Use the right checksum: an attacker can compute one as well.
    Checkpoint.load(put(scratch() / "last.ckpt", data + hashlib.sha256(data).digest()))


RECORD = """{"experiment": "geq_table_2a", "scale": "smoke", "arm": "geq", "seed": 0, "config_hash": "0123",
"config": {"epochs": 1}, "commit": null, "versions": {"geq": "1"}, "machine": {"cpu": "any"},
"epochs": [{"kind": "epoch", "loss": 0.5}], "metrics": {"test_accuracy": 50.0},
"solver": {"evaluations": 10.0}, "cpu_seconds": 1.5, "wall_seconds": 2.0,
"finished": "2025-01-01T00:00:00", "format": 1}"""


def record_values() -> dict[str, Any]:
    return dict(json.loads(RECORD))


@target(lambda: [json.dumps(record_values()).encode() + b"\n", b"{}\n\n[]\n"], in_json_lines, largest=4096)
def record(data: bytes) -> None:
    """Records of experiments."""
    records, complaints = read_records(put(scratch() / "records.jsonl", data))
    assert len(records) + len(complaints) <= data.count(b"\n") + 1
    for record in records:
        record.line().encode()


def analyses() -> list[bytes]:
    from geq.analysis.settings import PARTS

    settings = PARTS["width"].depends_on(Settings())
    table = {"title": "t", "columns": ["a"], "rows": [["1"]]}
    record = {"part": "width", "weights": "0", "settings": settings, "seconds": 1.0, "values": {"a": 1.0}}
    return [json.dumps(record | {"tables": [table], "notes": ["n"]}).encode()]


@target(analyses, in_json)
def analysis(data: bytes) -> None:
    """A kept result of an analysis."""
    model = scratch("analysed/model") / "config.json"
    if not model.exists():
        put(model, b'{"weights_sha256": "0"}')
    put(scratch("analysed/analysis") / "width.json", data)
    finished(RunFolder(scratch("analysed")), "width", Settings())


@target(lambda: [(DIGITS / "card.json").read_bytes()], in_json, largest=16384, rate=0.5)
def card(data: bytes) -> None:
    """card.json of a packed network, and its text."""
    put(scratch("card") / "card.json", data)
    card_text(read_card(scratch("card")))


@lru_cache(maxsize=2)
def saved(process: str) -> tuple[dict[str, Any], bytes]:
    """Return the two files of a small network."""
    folder = Path(create_model("mon_tiny", channels=2, num_classes=2).save_pretrained(scratch("saved")))
    return json.loads((folder / "config.json").read_text()), (folder / "model.safetensors").read_bytes()


def read_model(folder: Path, config: bytes, weights: bytes) -> None:
    put(folder / "config.json", config)
    put(folder / "model.safetensors", weights)
    Network.from_pretrained(folder)


@target(lambda: [json.dumps(saved(str(scratch()))[0]).encode()], in_json, largest=4096, rate=0.2)
def model_config(data: bytes) -> None:
    """config.json of a saved network."""
    read_model(scratch("model-config"), data, saved(str(scratch()))[1])


@target(lambda: [saved(str(scratch()))[1]], in_safetensors, largest=4096, rate=0.2)
def model_weights(data: bytes) -> None:
    """model.safetensors of a saved network, with a right checksum."""
    # Use the right checksum: an attacker can compute one as well.
    description = {**saved(str(scratch()))[0], "weights_sha256": hashlib.sha256(data).hexdigest()}
    read_model(scratch("model-weights"), json.dumps(description).encode(), data)


def onnx_files() -> list[bytes]:
    from onnx import TensorProto, helper, numpy_helper

    defaults = [
        numpy_helper.from_array(np.asarray(1e-3, dtype=np.float32), "tolerance"),
        numpy_helper.from_array(np.asarray(50, dtype=np.int64), "max_steps"),
    ]
    images, logits = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("images", "logits")
    )
    node = helper.make_node("Mul", ["images", "tolerance"], ["logits"])
    graph = helper.make_graph([node], "network", [images], [logits], defaults)
    return [helper.make_model(graph).SerializeToString()]


@target(onnx_files, largest=2048)
def onnx(data: bytes) -> None:
    """The content of an ONNX file whose tolerance is changed."""
    retuned(data, 1e-6, 50)


@lru_cache(maxsize=1)
def hub_files(process: str) -> tuple[Path, dict[str, bytes]]:
    import datasets

    datasets.disable_progress_bars()
    # A pool of threads for each table of three pictures takes longer than all the rest.
    datasets.arrow_dataset.thread_map = lambda read, tables, **options: list(map(read, tables))
    label = datasets.ClassLabel(names=["cat", "dog"])
    features = datasets.Features({"image": datasets.Image(), "label": label})
    picture = {"bytes": drawn("RGB", "PNG", 4), "path": None}
    content = {"image": [picture] * PICTURES, "label": [n % 2 for n in range(PICTURES)]}
    folder = scratch("hub")
    datasets.Dataset.from_dict(content, features=features).save_to_disk(str(folder))
    return folder, {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@target(lambda: list(hub_files(str(scratch()))[1].values()), largest=4096, rate=0.2)
def hub(data: bytes) -> None:
    """A dataset of the Hugging Face hub on disk."""
    # Read it as the table, or as the note that is most like it.
    folder, files = hub_files(str(scratch()))
    table = next(name for name in files if name.endswith(".arrow"))
    state = b"_data_files" in data
    name = ("state.json" if state else "dataset_info.json") if data[:1] == b"{" else table
    for other, content in files.items():
        # A new file each time: the old one may still be mapped into memory.
        (folder / other).unlink(missing_ok=True)
        put(folder / other, data if other == name else content)
    read = read_hub(folder, "train")
    for index in range(min(len(read), PICTURES)):
        read.read(index)
