"""Configurations, descriptions and safetensors that lie, name foreign classes or never end."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from geq.command.train import main as train
from geq.model.network import Network
from geq.model.registry import create_model
from geq.training.ingredient import build_model
from geq.training.option import TrainOptions
from geq.training.run import RunFolder
from geq.weights.card import read_card
from geq_papers.experiment.record import read_records
from stress.attack.case import Case, Ground
from stress.attack.program import DIGITS, written

DEEP = "[" * 100_000
LAUGHS = "a: &a [ha, ha, ha, ha, ha, ha, ha, ha, ha]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join([f'*{chr(97 + n)}'] * 9)}]\n" for n in range(12)
)
"""Nine times nine times nine … words."""


def options(text: str) -> Callable[[Ground], object]:
    """As the options of a run."""

    def attack(ground: Ground) -> None:
        content = text.replace("CANARY", str(ground.canary)).encode()
        written(ground.inside / "run" / "config.yaml", content)
        RunFolder.find(ground.inside / "run").options()

    return attack


def command(text: str) -> Callable[[Ground], object]:
    """As the file of ``geq train --config``."""

    def attack(ground: Ground) -> None:
        content = text.replace("CANARY", str(ground.canary)).encode()
        train(["--runs", str(ground.inside), "--config", str(written(ground.inside / "c.yaml", content))])

    return attack


def network(change: Callable[[dict[str, Any]], None]) -> Callable[[Ground], object]:
    """A saved network whose description was changed."""

    def attack(ground: Ground) -> None:
        folder = Path(create_model("mon_tiny", channels=2).save_pretrained(ground.inside / "model"))
        description = json.loads((folder / "config.json").read_text())
        change(description)
        (folder / "config.json").write_text(json.dumps(description))
        Network.from_pretrained(folder)

    return attack


def weights(change: Callable[[dict[str, Any], bytes], bytes]) -> Callable[[Ground], object]:
    """A saved network whose weights were changed, with a checksum that is right."""

    def attack(ground: Ground) -> None:
        folder = Path(create_model("mon_tiny", channels=2).save_pretrained(ground.inside / "model"))
        content = (folder / "model.safetensors").read_bytes()
        (length,) = struct.unpack("<Q", content[:8])
        changed = change(json.loads(content[8 : 8 + length]), content[8 + length :])
        (folder / "model.safetensors").write_bytes(changed)
        description = json.loads((folder / "config.json").read_text())
        description["weights_sha256"] = hashlib.sha256(changed).hexdigest()
        (folder / "config.json").write_text(json.dumps(description))
        Network.from_pretrained(folder)

    return attack


def tensors(header: Any, body: bytes, length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + body


def first(header: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The header with other facts of its first tensor."""
    name = next(name for name in header if name != "__metadata__")
    return {**header, name: {**header[name], **changes}}


def configured(field: str, value: Any) -> Callable[[Ground], object]:
    def change(description: dict[str, Any]) -> None:
        description["config"][field] = value

    return network(change)


def described(field: str, value: Any) -> Callable[[Ground], object]:
    def change(description: dict[str, Any]) -> None:
        description[field] = value

    return network(change)


def many_layers(ground: Ground) -> None:
    """A ResNet with a hundred million blocks, of which the weights have none."""
    folder = Path(create_model("resnet_tiny").save_pretrained(ground.inside / "model"))
    description = json.loads((folder / "config.json").read_text())
    description["config"]["depths"] = [10**8] * len(description["config"]["depths"])
    (folder / "config.json").write_text(json.dumps(description))
    Network.from_pretrained(folder)


def nested(name: str, read: Callable[[Path], object]) -> Callable[[Ground], object]:
    def attack(ground: Ground) -> None:
        written(ground.inside / "run" / name, DEEP.encode())
        read(ground.inside / "run")

    return attack


def deep_record(ground: Ground) -> None:
    records, complaints = read_records(written(ground.inside / "r.jsonl", DEEP.encode()))
    assert not records
    assert len(complaints) == 1


CASES = (
    *(
        Case(f"{what} {place}", make(text))
        for place, make in (("as options of a run", options), ("as --config", command))
        for what, text in (
            ("!!python/object/apply", "model: !!python/object/apply:os.system ['touch CANARY']"),
            ("!!python/name", "model: !!python/name:os.system"),
            ("class_path", "model:\n  class_path: os.system\n  init_args:\n    command: touch CANARY"),
            ("a top-level class_path", "class_path: subprocess.Popen\ninit_args:\n  args: [touch, CANARY]"),
            ("an unknown option", "epochs: 1\nbackdoor: true"),
            ("endless references", LAUGHS + "model: *m"),
            ("endless nesting", DEEP),
            ("a huge file", "model: " + "x" * (1 << 20)),
            ("a number of ten thousand digits", "epochs: 0x" + "f" * 10_000),
            ("a date that is none", "epochs: 2025-99-99"),
            ("names that are numbers", "1: 2"),
        )
    ),
    Case(
        "an override with a foreign class",
        lambda g: build_model(TrainOptions(override=('kernel={"class": "os.system"}',)), DIGITS),
    ),
    Case("config.json of a foreign class", configured("class", "os.system")),
    Case("config.json of a class that is none", configured("class", ["MonConfig"])),
    Case("config.json of a foreign family", described("family", "os")),
    Case("config.json with a list as family", described("family", [])),
    Case("config.json with aliases that are none", described("aliases", ["a"])),
    Case("config.json with a type that is none", described("dtype", "load")),
    Case("config.json of a terabyte of weights", configured("channels", 10**6)),
    Case("config.json of endless layers", many_layers),
    Case("config.json with a number of 400 digits", configured("tol", 10**400)),
    Case("config.json nested endlessly", nested("config.json", Network.from_pretrained)),
    Case("data.json nested endlessly", nested("data.json", lambda p: RunFolder(p).data())),
    Case("log.jsonl nested endlessly", nested("log.jsonl", lambda p: RunFolder(p).result())),
    Case("card.json nested endlessly", nested("card.json", read_card)),
    Case("record nested endlessly", deep_record, harmless=True),
    Case("safetensors without tensors", weights(lambda header, body: tensors({}, b""))),
    Case("safetensors with a header longer than the file", weights(lambda h, b: tensors(h, b, 1 << 20))),
    Case("safetensors with a header of 2^63 bytes", weights(lambda h, b: tensors(h, b, 1 << 63))),
    Case("safetensors with a header of 0 bytes", weights(lambda h, b: tensors(h, b, 0))),
    Case(
        "safetensors with offsets beyond the end",
        weights(lambda h, b: tensors(first(h, data_offsets=[0, 1 << 40]), b)),
    ),
    Case(
        "safetensors with negative offsets", weights(lambda h, b: tensors(first(h, data_offsets=[-8, 0]), b))
    ),
    Case(
        "safetensors with reversed offsets", weights(lambda h, b: tensors(first(h, data_offsets=[8, 0]), b))
    ),
    Case(
        "safetensors with overlapping tensors",
        weights(lambda h, b: tensors({**h, "extra": next(iter(h.values()))}, b)),
    ),
    Case("safetensors of another type", weights(lambda h, b: tensors(first(h, dtype="F16"), b))),
    Case("safetensors of an unknown type", weights(lambda h, b: tensors(first(h, dtype="OBJECT"), b))),
    Case(
        "safetensors of a shape that overflows",
        weights(lambda h, b: tensors(first(h, shape=[1 << 62, 1 << 62]), b)),
    ),
    Case("safetensors with a nested header", weights(lambda h, b: tensors(DEEP.encode(), b))),
    Case("safetensors cut in half", weights(lambda h, b: tensors(h, b[: len(b) // 2]))),
)
