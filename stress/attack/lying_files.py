"""Configurations, descriptions and safetensors that lie, name foreign classes or never end."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from geq.command.train import main as train
from geq.model.model_registry import create_model
from geq.model.network import Network
from geq.training.run_folder import RunFolder
from geq.training.setup import build_model
from geq.training.train_options import TrainOptions
from geq.weights.card import read_card
from stress.attack import DIGITS, Attack, Ground, HostileCase, reading
from stress.attack.code_execution import refused_records

DEEP = "[" * 100_000
LAUGHS = "a: &a [ha, ha, ha, ha, ha, ha, ha, ha, ha]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join([f'*{chr(97 + n)}'] * 9)}]\n" for n in range(12)
)
"""9¹³ words by references."""
TEXTS = {
    "!!python/object/apply": "model: !!python/object/apply:os.system ['touch CANARY']",
    "!!python/name": "model: !!python/name:os.system",
    "class_path": "model:\n  class_path: os.system\n  init_args:\n    command: touch CANARY",
    "a top-level class_path": "class_path: subprocess.Popen\ninit_args:\n  args: [touch, CANARY]",
    "an unknown option": "epochs: 1\nbackdoor: true",
    "endless references": LAUGHS + "model: *m",
    "endless nesting": DEEP,
    "a huge file": "model: " + "x" * (1 << 20),
    "a number of ten thousand digits": "epochs: 0x" + "f" * 10_000,
    "a date that is none": "epochs: 2025-99-99",
    "names that are numbers": "1: 2",
}


def offered(text: str, read: Callable[[Path], object]) -> Attack:
    """Offer it as the options of a run."""
    return reading("run/config.yaml", lambda g: text.replace("CANARY", str(g.canary)).encode(), read)


def options(path: Path) -> object:
    return RunFolder.find(path.parent).options()


def command(path: Path) -> object:
    return train(["--runs", str(path.parents[1]), "--config", str(path)])


def model(change: Callable[[dict[str, Any], Path], object], name: str = "mon_tiny", **config: Any) -> Attack:
    """Change the description of a saved network, and files beside it."""

    def attack(ground: Ground) -> None:
        folder = Path(create_model(name, **config).save_pretrained(ground.inside / "model"))
        description = json.loads((folder / "config.json").read_text())
        change(description, folder)
        (folder / "config.json").write_text(json.dumps(description))
        Network.from_pretrained(folder)

    return attack


def weights(change: Callable[[dict[str, Any], bytes], bytes]) -> Attack:
    """Change the weights of a saved network, with a checksum that is right."""

    def changed(description: dict[str, Any], folder: Path) -> None:
        content = (folder / "model.safetensors").read_bytes()
        (length,) = struct.unpack("<Q", content[:8])
        content = change(json.loads(content[8 : 8 + length]), content[8 + length :])
        (folder / "model.safetensors").write_bytes(content)
        description["weights_sha256"] = hashlib.sha256(content).hexdigest()

    return model(changed, channels=2)


def tensors(header: Any, body: bytes, length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + body


def first(**changes: Any) -> Attack:
    """Change what the header says of the first tensor."""

    def change(header: dict[str, Any], body: bytes) -> bytes:
        name = next(name for name in header if name != "__metadata__")
        return tensors({**header, name: {**header[name], **changes}}, body)

    return weights(change)


def described(**changes: Any) -> Attack:
    return model(lambda description, folder: description.update(changes), channels=2)


def configured(field: str, value: Any) -> Attack:
    return model(lambda description, folder: description["config"].update({field: value}), channels=2)


def many_layers(description: dict[str, Any], folder: Path) -> None:
    """Claim a hundred million blocks, of which the weights have none."""
    description["config"]["depths"] = [10**8] * len(description["config"]["depths"])


def nested(name: str, read: Callable[[Path], object]) -> Attack:
    return reading(f"run/{name}", DEEP.encode(), lambda path: read(path.parent))


CASES = (
    *(HostileCase(f"{what} as options of a run", offered(text, options)) for what, text in TEXTS.items()),
    *(HostileCase(f"{what} as --config", offered(text, command)) for what, text in TEXTS.items()),
    HostileCase(
        "an override with a foreign class",
        lambda g: build_model(TrainOptions(override={"kernel": {"class": "os.system"}}), DIGITS),
    ),
    HostileCase("config.json of a foreign class", configured("class", "os.system")),
    HostileCase("config.json of a class that is none", configured("class", ["MonConfig"])),
    HostileCase("config.json of a foreign family", described(family="os")),
    HostileCase("config.json with a list as family", described(family=[])),
    HostileCase("config.json with aliases that are none", described(aliases=["a"])),
    HostileCase("config.json with a type that is none", described(dtype="load")),
    HostileCase("config.json of a terabyte of weights", configured("channels", 10**6)),
    HostileCase("config.json of endless layers", model(many_layers, "resnet_tiny")),
    HostileCase("config.json with a number of 400 digits", configured("tol", 10**400)),
    HostileCase("config.json nested endlessly", nested("config.json", Network.from_pretrained)),
    HostileCase("data.json nested endlessly", nested("data.json", lambda p: RunFolder(p).data())),
    HostileCase("log.jsonl nested endlessly", nested("log.jsonl", lambda p: RunFolder(p).result())),
    HostileCase("card.json nested endlessly", nested("card.json", read_card)),
    HostileCase("record nested endlessly", reading("r.jsonl", DEEP.encode(), refused_records), harmless=True),
    HostileCase("safetensors without tensors", weights(lambda header, body: tensors({}, b""))),
    HostileCase(
        "safetensors with a header longer than the file", weights(lambda h, b: tensors(h, b, 1 << 20))
    ),
    HostileCase("safetensors with a header of 2^63 bytes", weights(lambda h, b: tensors(h, b, 1 << 63))),
    HostileCase("safetensors with a header of 0 bytes", weights(lambda h, b: tensors(h, b, 0))),
    HostileCase("safetensors with offsets beyond the end", first(data_offsets=[0, 1 << 40])),
    HostileCase("safetensors with negative offsets", first(data_offsets=[-8, 0])),
    HostileCase("safetensors with reversed offsets", first(data_offsets=[8, 0])),
    HostileCase(
        "safetensors with overlapping tensors",
        weights(lambda h, b: tensors({**h, "extra": next(iter(h.values()))}, b)),
    ),
    HostileCase("safetensors of another type", first(dtype="F16")),
    HostileCase("safetensors of an unknown type", first(dtype="OBJECT")),
    HostileCase("safetensors of a shape that overflows", first(shape=[1 << 62, 1 << 62])),
    HostileCase("safetensors with a nested header", weights(lambda h, b: tensors(DEEP.encode(), b))),
    HostileCase("safetensors cut in half", weights(lambda h, b: tensors(h, b[: len(b) // 2]))),
)
