"""Readers of datasets: CIFAR's pickles and binaries, idx, arrays of corrupted images, archives."""

from __future__ import annotations

import contextlib
import gzip
import io
import lzma
import pickle
import shutil
import struct
import tarfile
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from geq.data import archive
from geq.data.archive import unpack
from geq.data.cifar import read_cifar
from geq.data.corruption.cifar_c import read_cifar_c
from geq.data.folder import read_image_folder
from geq.data.idx import read_mnist
from geq.errors import GeqError
from stress.fuzz.mutation import in_gzip, in_pickle
from stress.fuzz.target import add, put, scratch


class OfficialPickler(pickle._Pickler):
    """Writes bytes and text as Python 2 did, which is how the official files are pickled."""

    dispatch: ClassVar[Any] = dict(pickle._Pickler.dispatch)

    def save_raw(self, raw: bytes) -> None:
        self.write(pickle.BINSTRING + struct.pack("<i", len(raw)) + raw)  # type: ignore[attr-defined]
        self.memoize(raw)  # type: ignore[attr-defined]

    def save_text(self, text: str) -> None:
        raw = text.encode("latin-1")
        self.write(pickle.BINSTRING + struct.pack("<i", len(raw)) + raw)  # type: ignore[attr-defined]

    dispatch[bytes] = save_raw
    dispatch[str] = save_text


def _batch(key: str, protocol: int, images: int = 2) -> bytes:
    pixels = np.random.default_rng(0).integers(0, 256, (images, 3072), dtype=np.uint8)
    buffer = io.BytesIO()
    kind = OfficialPickler if protocol == 2 else pickle.Pickler
    content = {"batch_label": "one", key: [n % 10 for n in range(images)], "data": pixels}
    kind(buffer, protocol).dump(content)
    return buffer.getvalue()


def _cifar10(data: bytes) -> None:
    put(scratch("cifar10/cifar-10-batches-py") / "test_batch", data)
    read_cifar("cifar10", "test", scratch("cifar10"))


def _cifar100(data: bytes) -> None:
    put(scratch("cifar100/cifar-100-python") / "test", data)
    read_cifar("cifar100", "test", scratch("cifar100"), "coarse" if len(data) % 2 else "fine")


def _binary(data: bytes) -> None:
    if len(data) % 3074:
        put(scratch("binary10/cifar-10-batches-bin") / "test_batch.bin", data)
        read_cifar("cifar10", "test", scratch("binary10"))
    else:
        put(scratch("binary100/cifar-100-binary") / "test.bin", data)
        read_cifar("cifar100", "test", scratch("binary100"), "coarse" if data[:1] < b"\x80" else "fine")


def _records(label_bytes: int, images: int = 2) -> bytes:
    random = np.random.default_rng(1)
    return b"".join(bytes([n] * label_bytes) + random.bytes(3072) for n in range(images))


def _idx(shape: tuple[int, ...]) -> bytes:
    content = np.random.default_rng(2).integers(0, 10, shape, dtype=np.uint8).tobytes()
    return bytes([0, 0, 8, len(shape)]) + struct.pack(f">{len(shape)}I", *shape) + content


def _mnist(data: bytes, ending: str) -> None:
    """As the images, and as the labels, of two images."""
    as_images, as_labels = _mnist_folders(ending, str(scratch()))
    with contextlib.suppress(GeqError):
        put(as_images / "mnist" / f"t10k-images-idx3-ubyte{ending}", data)
        read_mnist("mnist", "test", as_images)
    put(as_labels / "mnist" / f"t10k-labels-idx1-ubyte{ending}", data)
    read_mnist("mnist", "test", as_labels)


@lru_cache(maxsize=4)
def _mnist_folders(ending: str, process: str) -> tuple[Path, Path]:
    """One with labels that fit any two images, one with two images."""
    pack = gzip.compress if ending else bytes
    folders = scratch(f"images{ending}"), scratch(f"labels{ending}")
    for folder in folders:
        (folder / "mnist").mkdir(exist_ok=True)
    put(folders[0] / "mnist" / f"t10k-labels-idx1-ubyte{ending}", pack(_idx((2,))))
    put(folders[1] / "mnist" / f"t10k-images-idx3-ubyte{ending}", pack(_idx((2, 6, 6))))
    return folders


def _array(data: bytes) -> None:
    folder = scratch("cifar_c")
    if not (folder / "labels.npy").exists():
        np.save(folder / "labels.npy", np.arange(5, dtype=np.uint8))
    put(folder / "fog.npy", data)
    read_cifar_c(folder, "fog", 3)


def _npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


# Nothing of a fuzzer need survive a power failure, and the disk is shared.
archive.sync_everything = lambda: None


def _archive(data: bytes) -> None:
    folder = scratch("archive")
    target = folder / "root"
    try:
        unpack(put(folder / "archive", data), target, largest=1 << 22)
    finally:
        shutil.rmtree(target, ignore_errors=True)


def _tar(names: tuple[str, ...], form: int = tarfile.GNU_FORMAT) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as tar:
        for name in names:
            member = tarfile.TarInfo(name)
            if name.endswith("/"):
                member.type = tarfile.DIRTYPE
                tar.addfile(member)
            else:
                member.size = 9
                tar.addfile(member, io.BytesIO(b"content" + b"\x00\x01"))
    return buffer.getvalue().rstrip(b"\x00") + bytes(1024)


def _archives() -> list[bytes]:
    plain = _tar(("set/", "set/one", "set/in/two"))
    long = _tar(("set/" + "n" * 150,), tarfile.PAX_FORMAT)
    return [plain, long, _tar(("n" * 120,)), gzip.compress(plain, 1, mtime=0), lzma.compress(plain, preset=0)]


def _class_list(data: bytes) -> None:
    folder = scratch("folder")
    for name in ("cat", "dog"):
        place = folder / "train" / name
        if not place.exists():
            place.mkdir(parents=True)
            (place / "one.png").touch()
    read_image_folder(folder, "train", class_list=put(folder / "list.txt", data))


add(
    "cifar10_pickle",
    "a batch of CIFAR-10",
    _cifar10,
    lambda: [_batch("labels", 2), _batch("labels", 3, 1)],
    in_pickle,
)
add(
    "cifar100_pickle",
    "a file of CIFAR-100",
    _cifar100,
    lambda: [_batch("fine_labels", 2), _batch("coarse_labels", 3, 1)],
    in_pickle,
)
add(
    "cifar_binary",
    "a binary file of CIFAR-10 or -100",
    _binary,
    lambda: [_records(1), _records(2), _records(1, 1)],
)
add(
    "idx",
    "idx files of MNIST",
    lambda data: _mnist(data, ""),
    lambda: [_idx((2, 6, 6)), _idx((2,)), _idx((1,))],
    largest=1024,
)
add(
    "idx_gzip",
    "the same, gzipped",
    lambda data: _mnist(data, ".gz"),
    lambda: [gzip.compress(_idx(shape), 1, mtime=0) for shape in ((2, 6, 6), (2,))],
    in_gzip,
    largest=1024,
)
add(
    "npy",
    "an array of corrupted images (.npy)",
    _array,
    lambda: [_npy(np.zeros((5, 4, 4, 3), dtype=np.uint8)), _npy(np.zeros(5))],
    largest=2048,
)
add("archive", "a fetched archive (tar, plain or packed)", _archive, _archives, in_gzip, largest=16384)
add(
    "class_list",
    "the list of classes of a folder of images",
    _class_list,
    lambda: [b"cat\ndog\n", b"# animals\ndog # barks\n"],
    largest=512,
)
