"""Pickles that would run something, offered wherever geq reads a file, and programs that take for ever."""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import struct
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from geq.data.cifar import read_cifar
from geq.data.corruption.cifar_c import read_cifar_c
from geq.data.dataset import Statistics
from geq.data.idx import read_idx
from geq.data.image import read_image
from geq.model.network import Network
from geq.training.checkpoint import Checkpoint
from geq.training.fit import resume
from geq.training.ingredient import DataDescription
from geq.training.option import TrainOptions
from geq.training.run import RunFolder
from geq_demo.picture import FilePicture
from geq_papers.experiment.record import read_records
from stress.attack.case import Case, Ground

DIGITS = DataDescription("digits", tuple("0123456789"), Statistics((0.5,), (0.5,)), (1, 8, 8))


class Call:
    """Pickles to a call of ``function(*arguments)``."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.parts = (function, arguments)

    def __reduce__(self) -> Any:
        return self.parts


def payload(ground: Ground, protocol: int = 2) -> bytes:
    """A pickle that makes the canary."""
    return pickle.dumps({"data": Call(os.system, f"touch '{ground.canary}'")}, protocol)


def written(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def batch(content: Callable[[Ground], bytes]) -> Callable[[Ground], object]:
    """As a batch of CIFAR-10."""

    def attack(ground: Ground) -> None:
        written(ground.inside / "cifar-10-batches-py" / "test_batch", content(ground))
        read_cifar("cifar10", "test", ground.inside)

    return attack


def checkpoint(content: Callable[[Ground], bytes]) -> Callable[[Ground], object]:
    """As the checkpoint of a run that is resumed, with a checksum that is right."""

    def attack(ground: Ground) -> None:
        run = RunFolder.create(TrainOptions(runs=str(ground.inside), name="run"))
        run.describe(TrainOptions(), {}, DIGITS)
        body = content(ground)
        written(run.checkpoint, body + hashlib.sha256(body).digest())
        resume(run)

    return attack


def checkpoint_alone(content: Callable[[Ground], bytes]) -> Callable[[Ground], object]:
    def attack(ground: Ground) -> None:
        body = content(ground)
        Checkpoint.load(written(ground.inside / "last.ckpt", body + hashlib.sha256(body).digest()))

    return attack


def saved(value: Any, new: bool = True) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer, _use_new_zipfile_serialization=new)
    return buffer.getvalue()


def zipped(program: bytes, packing: int = zipfile.ZIP_STORED) -> bytes:
    """A pickle as the program of a file of torch."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", packing) as archive:
        archive.writestr("archive/data.pkl", program)
        archive.writestr("archive/byteorder", "little")
        archive.writestr("archive/version", "3\n")
    return buffer.getvalue()


def as_model(ground: Ground) -> None:
    from geq.model.registry import create_model

    folder = create_model("mon_tiny", channels=2).save_pretrained(ground.inside / "model")
    written(Path(folder) / "model.safetensors", payload(ground))
    Network.from_pretrained(folder)


def as_pytorch_model(ground: Ground) -> None:
    """Beside a configuration without safetensors, where other libraries look for it."""
    from geq.model.registry import create_model

    folder = Path(create_model("mon_tiny", channels=2).save_pretrained(ground.inside / "model"))
    (folder / "model.safetensors").unlink()
    written(folder / "pytorch_model.bin", payload(ground))
    Network.from_pretrained(folder)


def as_run(ground: Ground) -> None:
    written(ground.inside / "run" / "config.yaml", payload(ground, 0))
    RunFolder.find(ground.inside / "run").options()


def as_objects(ground: Ground) -> None:
    np.save(ground.inside / "labels.npy", np.zeros(5, dtype=np.uint8))
    objects = np.array([Call(os.system, f"touch '{ground.canary}'")] * 5, dtype=object)
    np.save(ground.inside / "fog.npy", objects, allow_pickle=True)
    read_cifar_c(ground.inside, "fog", 1)


def as_archive_of_arrays(ground: Ground) -> None:
    np.save(ground.inside / "labels.npy", np.zeros(5, dtype=np.uint8))
    objects = np.array([Call(os.system, f"touch '{ground.canary}'")] * 5, dtype=object)
    np.savez(ground.inside / "fog.npz", objects)
    (ground.inside / "fog.npz").rename(ground.inside / "fog.npy")
    read_cifar_c(ground.inside, "fog", 1)


def as_records(ground: Ground) -> None:
    records, complaints = read_records(written(ground.inside / "records.jsonl", payload(ground, 0)))
    assert not records
    assert complaints


def postscript(ground: Ground) -> bytes:
    """An image for which Pillow would start Ghostscript, with a program that writes a file."""
    program = f"({ground.canary}) (w) file dup (x) writestring closefile showpage"
    return (
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\n" + program.encode() + b"\n%%EOF\n"
    )


def doubled(depth: int = 60) -> bytes:
    """A tuple that holds one twice that holds one twice …, as a key: hashing it takes 2^depth steps."""
    program = b"\x80\x02}(K\x01" + b"".join(b"q\x00h\x00h\x00\x86" for _ in range(depth))
    return program.replace(b"(K\x01q\x00h\x00", b"(K\x01q\x00", 1) + b"K\x01u."


def long_shape() -> bytes:
    """An array whose shape has a hundred thousand numbers of 250 bytes: their product is never done."""
    number = b"\x8a\xfa" + b"\x7f" * 250
    shape = b"(" + number + b"q\x01" + b"h\x01" * 100_000 + b"t"
    build = b"(K\x01" + shape + b"cnumpy\ndtype\n(U\x02u1K\x00K\x01tRI00\nU\x01xtb"
    array = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00tU\x01btR"
    return b"\x80\x02}(U\x04data" + array + build.replace(b"I00\n", b"K\x00") + b"u."


def reserved(count: int = 1 << 36) -> bytes:
    """``bytearray(64 GB)``, which torch's restricted reader allows."""
    return b"\x80\x02cbuiltins\nbytearray\n\x8a\x06" + struct.pack("<Q", count)[:6] + b"\x85R."


NAMES = (
    "format",
    "position",
    "model",
    "optimizer",
    "scaler",
    "average",
    "measures",
    "callbacks",
    "history",
    "random",
)

CASES = (
    *(
        Case(f"pickle as a batch of CIFAR-10, protocol {n}", batch(partial(payload, protocol=n)))
        for n in (0, 2, 5)
    ),
    Case("pickle as the checkpoint of a resumed run", checkpoint(payload)),
    Case("pickle in a file of torch as a checkpoint", checkpoint(lambda g: zipped(payload(g)))),
    Case(
        "torch.save of a call as a checkpoint",
        checkpoint(lambda g: saved(Call(os.system, f"touch '{g.canary}'"))),
    ),
    Case(
        "torch.save of a call in the old format as a checkpoint",
        checkpoint_alone(lambda g: saved({"a": Call(os.system, f"touch '{g.canary}'")}, new=False)),
    ),
    Case("checkpoint that reserves 64 GB", checkpoint_alone(lambda g: zipped(reserved()))),
    Case(
        "checkpoint packed a thousandfold",
        checkpoint_alone(
            lambda g: zipped(b"\x80\x02B" + struct.pack("<I", 1 << 28) + bytes(1 << 28), zipfile.ZIP_DEFLATED)
        ),
    ),
    Case(
        "checkpoint with everything of another type",
        checkpoint_alone(lambda g: saved(dict.fromkeys(NAMES, 1))),
    ),
    Case("pickle as model.safetensors", as_model),
    Case("pytorch_model.bin instead of safetensors", as_pytorch_model),
    Case("pickle as the options of a run", as_run),
    Case("array of objects as corrupted images", as_objects),
    Case("archive of arrays of objects as corrupted images", as_archive_of_arrays),
    Case("pickle as idx", lambda g: read_idx(written(g.inside / "file", payload(g)), 3)),
    Case("pickle as an image", lambda g: read_image(written(g.inside / "a.png", payload(g)))),
    Case("PostScript as an image", lambda g: read_image(written(g.inside / "a.png", postscript(g)))),
    Case(
        "PostScript as an upload",
        lambda g: FilePicture(written(g.inside / "a.png", postscript(g)), "a.png").fitted(DIGITS),
    ),
    Case("pickle as records", as_records, harmless=True),
    Case("pickle with a key that takes for ever", batch(lambda g: doubled())),
    Case("pickle with a shape that takes for ever", batch(lambda g: long_shape())),
)
