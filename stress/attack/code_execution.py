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
from geq.data.image_reader import read_image
from geq.data.mnist import read_idx
from geq.model.model_registry import create_model
from geq.model.network import Network
from geq.training.checkpoint import Checkpoint
from geq.training.fit import resume
from geq.training.run_folder import RunFolder
from geq.training.train_options import TrainOptions
from geq_demo.input_image import FilePicture
from geq_papers.experiment.record import read_records
from stress.attack import DIGITS, Attack, Ground, HostileCase, reading, written


class Call:
    """Pickles to a call that makes the canary."""

    def __init__(self, ground: Ground) -> None:
        self.command = f"touch '{ground.canary}'"

    def __reduce__(self) -> Any:
        return os.system, (self.command,)


def payload(ground: Ground, protocol: int = 2) -> bytes:
    return pickle.dumps({"data": Call(ground)}, protocol)


def batch(content: bytes | Callable[[Ground], bytes]) -> Attack:
    """Offer it as a batch of CIFAR-10."""
    read = partial(read_cifar, "cifar10", "test")
    return reading("cifar-10-batches-py/test_batch", content, lambda path: read(path.parents[1]))


def checksummed(content: Callable[[Ground], bytes], ground: Ground) -> bytes:
    body = content(ground)
    return body + hashlib.sha256(body).digest()


def checkpoint(content: Callable[[Ground], bytes]) -> Attack:
    """Offer it as the checkpoint of a run that is resumed, with a checksum that is right."""

    def attack(ground: Ground) -> None:
        run = RunFolder.create(TrainOptions(runs=str(ground.inside), name="run"))
        run.describe(TrainOptions(), {}, DIGITS)
        written(run.checkpoint, checksummed(content, ground))
        resume(run)

    return attack


def checkpoint_alone(content: Callable[[Ground], bytes]) -> Attack:
    return reading("last.ckpt", partial(checksummed, content), Checkpoint.load)


def saved(value: Any, new: bool = True) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer, _use_new_zipfile_serialization=new)
    return buffer.getvalue()


def zipped(program: bytes, packing: int = zipfile.ZIP_STORED) -> bytes:
    """Return a file of torch whose pickle is ``program``."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", packing) as archive:
        archive.writestr("archive/data.pkl", program)
        archive.writestr("archive/byteorder", "little")
        archive.writestr("archive/version", "3\n")
    return buffer.getvalue()


def as_model(name: str) -> Attack:
    """Offer it as weights beside a configuration: those of safetensors, or where other libraries look."""

    def attack(ground: Ground) -> None:
        folder = Path(create_model("mon_tiny", channels=2).save_pretrained(ground.inside / "model"))
        (folder / "model.safetensors").unlink()
        written(folder / name, payload(ground))
        Network.from_pretrained(folder)

    return attack


def as_corruption(save: Callable[..., None]) -> Attack:
    """Offer an array of objects as corrupted images."""

    def attack(ground: Ground) -> None:
        np.save(ground.inside / "labels.npy", np.zeros(5, dtype=np.uint8))
        with (ground.inside / "fog.npy").open("wb") as file:
            save(file, np.array([Call(ground)] * 5, dtype=object))
        read_cifar_c(ground.inside, "fog", 1)

    return attack


def refused_records(path: Path) -> None:
    records, complaints = read_records(path)
    assert not records
    assert complaints


def shown(path: Path) -> object:
    """Read it as an upload to the demo."""
    return FilePicture(path, "a.png").fitted(DIGITS)


def postscript(ground: Ground) -> bytes:
    """Return an image for which Pillow would start Ghostscript, with a program that writes a file."""
    program = f"({ground.canary}) (w) file dup (x) writestring closefile showpage"
    head = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\n"
    return head + program.encode() + b"\n%%EOF\n"


def doubled(depth: int = 60) -> bytes:
    """Return a key that holds a tuple twice that holds one twice …: hashing it takes 2^depth steps."""
    program = b"\x80\x02}(K\x01" + b"".join(b"q\x00h\x00h\x00\x86" for _ in range(depth))
    return program.replace(b"(K\x01q\x00h\x00", b"(K\x01q\x00", 1) + b"K\x01u."


def long_shape() -> bytes:
    """Return an array whose shape has 100,000 numbers of 250 bytes: their product is never done."""
    number = b"\x8a\xfa" + b"\x7f" * 250
    shape = b"(" + number + b"q\x01" + b"h\x01" * 100_000 + b"t"
    build = b"(K\x01" + shape + b"cnumpy\ndtype\n(U\x02u1K\x00K\x01tRI00\nU\x01xtb"
    array = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00tU\x01btR"
    return b"\x80\x02}(U\x04data" + array + build.replace(b"I00\n", b"K\x00") + b"u."


def reserved(count: int = 1 << 36) -> bytes:
    """Return ``bytearray(64 GB)``, which torch's restricted reader allows."""
    return b"\x80\x02cbuiltins\nbytearray\n\x8a\x06" + struct.pack("<Q", count)[:6] + b"\x85R."


def packed() -> bytes:
    """Return 256 MB of zeros in 256 kB."""
    return zipped(b"\x80\x02B" + struct.pack("<I", 1 << 28) + bytes(1 << 28), zipfile.ZIP_DEFLATED)


NAMES = "format position model optimizer scaler average measures callbacks history random"
CASES = (
    HostileCase("pickle as a batch of CIFAR-10, protocol 0", batch(partial(payload, protocol=0))),
    HostileCase("pickle as a batch of CIFAR-10, protocol 2", batch(payload)),
    HostileCase("pickle as a batch of CIFAR-10, protocol 5", batch(partial(payload, protocol=5))),
    HostileCase("pickle as the checkpoint of a resumed run", checkpoint(payload)),
    HostileCase("pickle in a file of torch as a checkpoint", checkpoint(lambda g: zipped(payload(g)))),
    HostileCase("torch.save of a call as a checkpoint", checkpoint(lambda g: saved(Call(g)))),
    HostileCase(
        "torch.save of a call in the old format as a checkpoint",
        checkpoint_alone(lambda g: saved({"a": Call(g)}, new=False)),
    ),
    HostileCase("checkpoint that reserves 64 GB", checkpoint_alone(lambda g: zipped(reserved()))),
    HostileCase("checkpoint packed a thousandfold", checkpoint_alone(lambda g: packed())),
    HostileCase(
        "checkpoint with everything of another type",
        checkpoint_alone(lambda g: saved(dict.fromkeys(NAMES.split(), 1))),
    ),
    HostileCase("pickle as model.safetensors", as_model("model.safetensors")),
    HostileCase("pytorch_model.bin instead of safetensors", as_model("pytorch_model.bin")),
    HostileCase(
        "pickle as the options of a run",
        reading(
            "run/config.yaml", partial(payload, protocol=0), lambda p: RunFolder.find(p.parent).options()
        ),
    ),
    HostileCase("array of objects as corrupted images", as_corruption(partial(np.save, allow_pickle=True))),
    HostileCase("archive of arrays of objects as corrupted images", as_corruption(np.savez)),
    HostileCase("pickle as idx", reading("file", payload, lambda path: read_idx(path, 3))),
    HostileCase("pickle as an image", reading("a.png", payload, read_image)),
    HostileCase("PostScript as an image", reading("a.png", postscript, read_image)),
    HostileCase("PostScript as an upload", reading("a.png", postscript, shown)),
    HostileCase(
        "pickle as records", reading("r.jsonl", partial(payload, protocol=0), refused_records), harmless=True
    ),
    HostileCase("pickle with a key that takes for ever", batch(doubled())),
    HostileCase("pickle with a shape that takes for ever", batch(long_shape())),
)
