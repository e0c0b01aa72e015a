"""A small dataset of every kind that can be made offline, which a network learns in seconds.

Test images are brighter than training images, the last class of the folders is missing among them, and some
files carry an EXIF orientation: what treats splits or commands differently shows in the figures.
"""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from geq.data.segmentation import CITYSCAPES_TRAIN_IDS
from scenes import PAINT, scene, write_camvid

TRAIN, TEST, BRIGHTER, EXIF_ORIENTATION = 90, 30, 40, 0x0112
CLASSES = ("ant", "bee", "cat")


def pictures(
    count: int, side: int, seed: int, brightness: int = 0, classes: int = 3
) -> tuple[np.ndarray, np.ndarray]:
    """Stripes and checks under noise, a texture for each class; RGB images and labels."""
    random = np.random.default_rng(seed)
    labels = np.arange(count) % classes
    images = random.normal(50, 30, (count, side, side, 3))
    y, x = np.mgrid[:side, :side]
    textures = [y, x, x + y, y // 2, x // 2, x // 2 + y // 2, 0 * x]
    for image, label in zip(images, labels, strict=True):
        image += 45 * (textures[label] % 2)[..., None]
    return (images + brightness).clip(0, 255).astype(np.uint8), labels


def split(name: str, side: int, classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    if name == "train":
        return pictures(TRAIN, side, 0, classes=classes)
    return pictures(TEST, side, 1, BRIGHTER, classes)


def save(path: Path, image: np.ndarray, orientation: int = 1) -> None:
    """Write a PNG that a viewer shows as ``image``, with the pixels as a turned camera stores them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    exif = Image.Exif()
    if orientation == 6:  # shown turned by 90° clockwise, so stored turned the other way
        exif[EXIF_ORIENTATION] = 6
        image = np.rot90(image)
    Image.fromarray(np.ascontiguousarray(image)).save(path, exif=exif)


def write_folder(root: Path) -> None:
    for part, kept in (("train", 3), ("val", 2)):
        for number, (image, label) in enumerate(zip(*split(part, 8), strict=True)):
            if label < kept:
                save(root / "pictures" / part / CLASSES[label] / f"{number:03d}.png", image, 6 * (number % 2))
    (root / "pictures" / "train" / "ant" / "._000.png").write_bytes(b"\0\x05\x16\x07")


def write_hub(root: Path, folder: str = "hub", darker: int = 0) -> None:
    """Write a dataset of the Hugging Face hub; its last training image may be ``darker``."""
    import datasets

    features = datasets.Features(
        {"image": datasets.Image(), "label": datasets.ClassLabel(names=list(CLASSES))}
    )
    parts = {}
    for part in ("train", "test"):
        images, labels = split(part, 8)
        images[-1] -= np.uint8(darker) if part == "train" else np.uint8(0)
        rows = {"image": [Image.fromarray(image) for image in images], "label": labels.tolist()}
        parts[part] = datasets.Dataset.from_dict(rows, features=features)
    datasets.DatasetDict(parts).save_to_disk(root / folder)


def write_cifar(root: Path, folder: str, files: dict[str, str], label_bytes: int) -> None:
    (root / folder).mkdir(parents=True)
    for file, part in files.items():
        images, labels = split(part, 32)
        head = np.repeat(labels[:, None].astype(np.uint8), label_bytes, axis=1)
        pixels = images.transpose(0, 3, 1, 2).reshape(len(images), -1)
        np.concatenate([head, pixels], axis=1).tofile(root / folder / file)


def write_cifar10(root: Path) -> None:
    files = {f"data_batch_{number}.bin": "train" for number in range(1, 6)} | {"test_batch.bin": "test"}
    write_cifar(root, "cifar-10-batches-bin", files, 1)


def write_cifar100(root: Path) -> None:
    write_cifar(root, "cifar-100-binary", {"train.bin": "train", "test.bin": "test"}, 2)


def write_idx(root: Path, folder: str) -> None:
    (root / folder).mkdir(parents=True)
    for prefix, part in (("train", "train"), ("t10k", "test")):
        images, labels = split(part, 28, classes=7)
        shape = struct.pack(">4B3I", 0, 0, 8, 3, len(images), 28, 28)
        (root / folder / f"{prefix}-images-idx3-ubyte").write_bytes(shape + images[..., 0].tobytes())
        head = struct.pack(">4BI", 0, 0, 8, 1, len(labels))
        (root / folder / f"{prefix}-labels-idx1-ubyte").write_bytes(head + labels.astype(np.uint8).tobytes())


def write_cityscapes(root: Path) -> None:
    label_id = {name: number for number, name in CITYSCAPES_TRAIN_IDS.items()}
    of_camvid = dict(zip(PAINT, (label_id["sky"], label_id["road"], label_id["car"], 0), strict=True))
    for seed, part in enumerate(("train", "val")):
        for number in range(6):
            image, mask = scene(100 * seed + number)
            stem = f"bonn_{number:03d}"
            save(root / "cityscapes/leftImg8bit" / part / "bonn" / f"{stem}_leftImg8bit.png", image)
            truth = np.vectorize(of_camvid.get)(mask).astype(np.uint8)
            save(root / "cityscapes/gtFine" / part / "bonn" / f"{stem}_gtFine_labelIds.png", truth)
    (root / "cityscapes/leftImg8bit/train/bonn/._bonn_000_leftImg8bit.png").write_bytes(b"\0\x05\x16\x07")


@dataclass(frozen=True)
class Kind:
    """A dataset kind.

    Args:
        data: Name of the dataset.
        write: Write its files below a data root.
        override: Options of the dataset.
        changed: A file that :meth:`write` makes and that holds training images.
    """

    data: str
    write: Callable[[Path], Any]
    override: Mapping[str, Any] = field(default_factory=dict)
    changed: str = ""

    def change(self, root: Path) -> None:
        """Replace one training image by one that differs in a pixel or a little brightness."""
        path = root / self.changed
        if self.data == "hub":
            write_hub(root, "other", darker=1)
            shutil.rmtree(root / "hub")
            (root / "other").rename(root / "hub")
        elif path.suffix == ".png":
            image = np.array(Image.open(path))
            image[0, 0] ^= 1
            Image.fromarray(image).save(path)
        else:
            content = bytearray(path.read_bytes())
            content[-1] ^= 1
            path.write_bytes(content)


KINDS: dict[str, Kind] = {
    "digits": Kind("digits", lambda root: None),
    "mnist": Kind("mnist", lambda root: write_idx(root, "mnist"), changed="mnist/train-images-idx3-ubyte"),
    "fashion_mnist": Kind(
        "fashion_mnist",
        lambda root: write_idx(root, "fashion-mnist"),
        changed="fashion-mnist/train-images-idx3-ubyte",
    ),
    "cifar10": Kind("cifar10", write_cifar10, changed="cifar-10-batches-bin/data_batch_3.bin"),
    "cifar100": Kind("cifar100", write_cifar100, changed="cifar-100-binary/train.bin"),
    "cifar100 coarse": Kind(
        "cifar100", write_cifar100, {"labels": "coarse"}, changed="cifar-100-binary/train.bin"
    ),
    "imagefolder": Kind(
        "imagefolder",
        write_folder,
        {"folder": "pictures", "image_size": 8},
        changed="pictures/train/bee/001.png",
    ),
    "hub": Kind("hub", write_hub, {"folder": "hub"}, changed="hub"),
    "camvid": Kind("camvid", write_camvid, changed="camvid/train/003.png"),
    "cityscapes": Kind(
        "cityscapes",
        write_cityscapes,
        changed="cityscapes/leftImg8bit/train/bonn/bonn_002_leftImg8bit.png",
    ),
}
MASKS = ("camvid", "cityscapes")
"""Those that label pixels."""
