"""Readers of pictures: files of folders, masks of street scenes, uploads of the demo."""

from __future__ import annotations

import io
from functools import lru_cache

import numpy as np
from PIL import Image

from geq.data.dataset import Statistics
from geq.data.folder import read_image_folder
from geq.data.segmentation import SegmentationDataset, read_camvid, read_cityscapes
from geq.training.ingredient import DataDescription
from geq_demo.picture import FilePicture
from stress.fuzz.target import add, put, scratch


def drawn(mode: str, form: str, side: int = 8) -> bytes:
    """A small picture as a file."""
    random = np.random.default_rng(3)
    colours = Image.fromarray(random.integers(0, 256, (side, side, 3), dtype=np.uint8))
    buffer = io.BytesIO()
    (colours.convert("L").convert("I;16") if mode == "I;16" else colours.convert(mode)).save(buffer, form)
    return buffer.getvalue()


def pictures() -> list[bytes]:
    kinds = (
        *(("RGB", "PNG"), ("L", "PNG"), ("P", "PNG"), ("RGBA", "PNG"), ("LA", "PNG"), ("1", "PNG")),
        *(("I;16", "PNG"), ("RGB", "JPEG"), ("L", "JPEG"), ("CMYK", "JPEG"), ("RGB", "WEBP"), ("RGB", "BMP")),
        *(("RGB", "PPM"), ("RGB", "TIFF"), ("CMYK", "TIFF"), ("F", "TIFF"), ("LAB", "TIFF")),
    )
    return [_lab() if mode == "LAB" else drawn(mode, form) for mode, form in kinds]


def _lab() -> bytes:
    buffer = io.BytesIO()
    Image.new("LAB", (4, 4)).save(buffer, "TIFF")
    return buffer.getvalue()


def _folder(data: bytes) -> None:
    folder = scratch("images")
    place = folder / "train" / "cat"
    place.mkdir(parents=True, exist_ok=True)
    put(place / "one.png", data)
    read_image_folder(folder, "train", size=16).read(0)


@lru_cache(maxsize=1)
def _scenes(process: str) -> tuple[SegmentationDataset, SegmentationDataset]:
    root = scratch("scenes")
    image, mask = drawn("RGB", "PNG"), _mask()
    for path, content in (
        ("cityscapes/leftImg8bit/train/bonn/a_leftImg8bit.png", image),
        ("cityscapes/gtFine/train/bonn/a_gtFine_labelIds.png", mask),
        ("camvid/train/a.png", image),
        ("camvid/trainannot/a.png", mask),
    ):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
    return read_cityscapes("train", root), read_camvid("train", root)


def _mask(form: str = "PNG", palette: bool = False) -> bytes:
    picture = Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8) % 12)
    if palette:
        picture.putpalette(bytes(range(256)) * 3)
    buffer = io.BytesIO()
    picture.save(buffer, form)
    return buffer.getvalue()


def _scene(data: bytes) -> None:
    dataset = _scenes(str(scratch()))[len(data) % 2]
    put(dataset.paths[0][1], data)
    dataset.read(0)


_DIGITS = DataDescription("digits", tuple("0123456789"), Statistics((0.5,), (0.5,)), (1, 8, 8))
_PHOTOS = DataDescription("photos", ("cat", "dog"), Statistics((0.5,) * 3, (0.5,) * 3), (3, 16, 16))
_count = 0


def _upload(data: bytes) -> None:
    global _count  # the page remembers files by their path, and each visitor's has its own
    _count += 1
    path = put(scratch("uploads") / f"{_count}.png", data)
    try:
        FilePicture(path, "mine.png").fitted(_DIGITS if len(data) % 2 else _PHOTOS)
    finally:
        path.unlink()


add("image", "an image of a folder of classes", _folder, pictures, largest=4096)
add(
    "mask",
    "a mask of Cityscapes or CamVid",
    _scene,
    lambda: [_mask(), _mask(palette=True), _mask("BMP"), _mask() + b"\x00", drawn("RGB", "PNG")],
    largest=4096,
)
add("upload", "a file given to the demo", _upload, pictures, largest=4096)
