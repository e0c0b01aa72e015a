"""Readers of datasets and pictures: CIFAR, idx, corrupted images, archives, folders, masks, uploads."""

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
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from PIL import Image

import geq.data.archive
from geq.data.archive import unpack
from geq.data.cifar import read_cifar
from geq.data.class_folders import read_image_folder
from geq.data.corruption.cifar_c import read_cifar_c
from geq.data.dataset import Statistics
from geq.data.mnist import read_mnist
from geq.data.segmentation import SegmentationDataset, read_camvid, read_cityscapes
from geq.errors import GeqError
from geq.training.setup import DataDescription
from geq_demo.input_image import FilePicture
from stress.fuzz.mutation import in_gzip, in_pickle
from stress.fuzz.target import put, scratch, target


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


def batch(key: str, protocol: int, images: int = 2) -> bytes:
    pixels = np.random.default_rng(0).integers(0, 256, (images, 3072), dtype=np.uint8)
    buffer = io.BytesIO()
    kind = OfficialPickler if protocol == 2 else pickle.Pickler
    content = {"batch_label": "one", key: [n % 10 for n in range(images)], "data": pixels}
    kind(buffer, protocol).dump(content)
    return buffer.getvalue()


def records(label_bytes: int, images: int = 2) -> bytes:
    random = np.random.default_rng(1)
    return b"".join(bytes([n] * label_bytes) + random.bytes(3072) for n in range(images))


def read_as(kind: Any, folder: str, name: str, data: bytes, labels: Any = "fine") -> None:
    """Read it as that file of CIFAR-10 or -100."""
    put(scratch(f"{folder}-root/{folder}") / name, data)
    read_cifar(kind, "test", scratch(f"{folder}-root"), labels)


@target(lambda: [batch("labels", 2), batch("labels", 3, 1)], in_pickle)
def cifar10_pickle(data: bytes) -> None:
    """A batch of CIFAR-10."""
    read_as("cifar10", "cifar-10-batches-py", "test_batch", data)


@target(lambda: [batch("fine_labels", 2), batch("coarse_labels", 3, 1)], in_pickle)
def cifar100_pickle(data: bytes) -> None:
    """A file of CIFAR-100."""
    read_as("cifar100", "cifar-100-python", "test", data, "coarse" if len(data) % 2 else "fine")


@target(lambda: [records(1), records(2), records(1, 1)])
def cifar_binary(data: bytes) -> None:
    """A binary file of CIFAR-10 or -100."""
    if len(data) % 3074:
        read_as("cifar10", "cifar-10-batches-bin", "test_batch.bin", data)
    else:
        read_as("cifar100", "cifar-100-binary", "test.bin", data, "coarse" if data[:1] < b"\x80" else "fine")


def idx_file(*shape: int) -> bytes:
    content = np.random.default_rng(2).integers(0, 10, shape, dtype=np.uint8).tobytes()
    return bytes([0, 0, 8, len(shape)]) + struct.pack(f">{len(shape)}I", *shape) + content


def mnist(data: bytes, ending: str) -> None:
    """Read it as the images, and as the labels, of two images."""
    as_images, as_labels = mnist_folders(ending, str(scratch()))
    with contextlib.suppress(GeqError):
        put(as_images / "mnist" / f"t10k-images-idx3-ubyte{ending}", data)
        read_mnist("mnist", "test", as_images)
    put(as_labels / "mnist" / f"t10k-labels-idx1-ubyte{ending}", data)
    read_mnist("mnist", "test", as_labels)


@lru_cache(maxsize=4)
def mnist_folders(ending: str, process: str) -> tuple[Path, Path]:
    """Return one with labels that fit any two images, and one with two images."""
    pack = gzip.compress if ending else bytes
    for name in ("images", "labels"):
        scratch(f"{name}{ending}/mnist")
    folders = scratch(f"images{ending}"), scratch(f"labels{ending}")
    put(folders[0] / "mnist" / f"t10k-labels-idx1-ubyte{ending}", pack(idx_file(2)))
    put(folders[1] / "mnist" / f"t10k-images-idx3-ubyte{ending}", pack(idx_file(2, 6, 6)))
    return folders


@target(lambda: [idx_file(2, 6, 6), idx_file(2), idx_file(1)], largest=1024)
def idx(data: bytes) -> None:
    """idx files of MNIST."""
    mnist(data, "")


@target(
    lambda: [gzip.compress(one, 1, mtime=0) for one in (idx_file(2, 6, 6), idx_file(2))],
    in_gzip,
    largest=1024,
)
def idx_gzip(data: bytes) -> None:
    """The same, gzipped."""
    mnist(data, ".gz")


def array_file(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


@target(lambda: [array_file(np.zeros((5, 4, 4, 3), dtype=np.uint8)), array_file(np.zeros(5))], largest=2048)
def npy(data: bytes) -> None:
    """An array of corrupted images (.npy)."""
    folder = scratch("cifar_c")
    if not (folder / "labels.npy").exists():
        np.save(folder / "labels.npy", np.arange(5, dtype=np.uint8))
    put(folder / "fog.npy", data)
    read_cifar_c(folder, "fog", 3)


# Nothing of a fuzzer need survive a power failure, and the disk is shared.
geq.data.archive.sync_everything = lambda: None


def tar(names: tuple[str, ...], form: int = tarfile.GNU_FORMAT) -> bytes:
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


def archives() -> list[bytes]:
    plain = tar(("set/", "set/one", "set/in/two"))
    long = tar(("set/" + "n" * 150,), tarfile.PAX_FORMAT)
    return [plain, long, tar(("n" * 120,)), gzip.compress(plain, 1, mtime=0), lzma.compress(plain, preset=0)]


@target(archives, in_gzip, largest=16384)
def archive(data: bytes) -> None:
    """A fetched archive (tar, plain or packed)."""
    folder = scratch("archive")
    try:
        unpack(put(folder / "archive", data), folder / "root", largest=1 << 22)
    finally:
        shutil.rmtree(folder / "root", ignore_errors=True)


@target(lambda: [b"cat\ndog\n", b"# animals\ndog # barks\n"], largest=512)
def class_list(data: bytes) -> None:
    """The list of classes of a folder of images."""
    folder = scratch("folder")
    for name in ("cat", "dog"):
        place = scratch(f"folder/train/{name}") / "one.png"
        if not place.exists():
            place.touch()
    read_image_folder(folder, "train", class_list=put(folder / "list.txt", data))


def drawn(mode: str, form: str, side: int = 8) -> bytes:
    """Return a small picture as a file."""
    random, buffer = np.random.default_rng(3), io.BytesIO()
    picture = Image.fromarray(random.integers(0, 256, (side, side, 3), dtype=np.uint8))
    if mode == "LAB":
        picture = Image.new("LAB", (4, 4))
    (picture.convert("L").convert("I;16") if mode == "I;16" else picture.convert(mode)).save(buffer, form)
    return buffer.getvalue()


FORMS = {
    "PNG": "RGB L P RGBA LA 1 I;16",
    "JPEG": "RGB L CMYK",
    "WEBP": "RGB",
    "BMP": "RGB",
    "PPM": "RGB",
    "TIFF": "RGB CMYK F LAB",
}
"""Modes of the pictures of each form."""


def pictures() -> list[bytes]:
    return [drawn(mode, form) for form, modes in FORMS.items() for mode in modes.split()]


@target(pictures, largest=4096)
def image(data: bytes) -> None:
    """An image of a folder of classes."""
    put(scratch("images/train/cat") / "one.png", data)
    read_image_folder(scratch("images"), "train", size=16).read(0)


def mask_file(form: str = "PNG", palette: bool = False) -> bytes:
    picture = Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8) % 12)
    if palette:
        picture.putpalette(bytes(range(256)) * 3)
    buffer = io.BytesIO()
    picture.save(buffer, form)
    return buffer.getvalue()


@lru_cache(maxsize=1)
def scenes(process: str) -> tuple[SegmentationDataset, SegmentationDataset]:
    root = scratch("scenes")
    for path, content in (
        ("cityscapes/leftImg8bit/train/bonn/a_leftImg8bit.png", drawn("RGB", "PNG")),
        ("cityscapes/gtFine/train/bonn/a_gtFine_labelIds.png", mask_file()),
        ("camvid/train/a.png", drawn("RGB", "PNG")),
        ("camvid/trainannot/a.png", mask_file()),
    ):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
    return read_cityscapes("train", root), read_camvid("train", root)


@target(
    lambda: [
        mask_file(),
        mask_file(palette=True),
        mask_file("BMP"),
        mask_file() + b"\x00",
        drawn("RGB", "PNG"),
    ],
    largest=4096,
)
def mask(data: bytes) -> None:
    """A mask of Cityscapes or CamVid."""
    dataset = scenes(str(scratch()))[len(data) % 2]
    put(dataset.paths[0][1], data)
    dataset.read(0)


DIGITS = DataDescription("digits", tuple("0123456789"), Statistics((0.5,), (0.5,)), (1, 8, 8))
PHOTOS = DataDescription("photos", ("cat", "dog"), Statistics((0.5,) * 3, (0.5,) * 3), (3, 16, 16))
uploads = count(1)


@target(pictures, largest=4096)
def upload(data: bytes) -> None:
    """A file given to the demo."""
    # The page remembers files by their path, and each visitor's has its own.
    path = put(scratch("uploads") / f"{next(uploads)}.png", data)
    try:
        FilePicture(path, "mine.png").fitted(DIGITS if len(data) % 2 else PHOTOS)
    finally:
        path.unlink()
