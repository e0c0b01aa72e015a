from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from stress.attack.bomb import webp

from geq.data.image_reader import decode_image, read_image, read_mask
from geq.errors import DataError


def save(path: Path, mode: str, colour: object, **options: object) -> Path:
    Image.new(mode, (6, 4), colour).save(path, **options)
    return path


@pytest.mark.parametrize(
    "mode, colour, suffix, expected",
    [
        ("RGB", (10, 20, 30), "png", (10, 20, 30)),
        ("L", 77, "png", (77, 77, 77)),
        ("1", 1, "png", (255, 255, 255)),
        ("CMYK", (0, 255, 255, 0), "tiff", (255, 0, 0)),
        ("RGBA", (200, 100, 50, 255), "png", (200, 100, 50)),
        ("RGBA", (200, 100, 50, 0), "png", (0, 0, 0)),
        ("LA", (90, 255), "png", (90, 90, 90)),
        ("I;16", 0x8000, "png", (128, 128, 128)),
        ("I;16", 0xFFFF, "tiff", (255, 255, 255)),
    ],
)
def test_other_kinds_become_rgb(
    tmp_path: Path, mode: str, colour: object, suffix: str, expected: tuple[int, ...]
) -> None:
    pixels = read_image(save(tmp_path / f"image.{suffix}", mode, colour))
    assert pixels.shape == (4, 6, 3)
    assert pixels.dtype == np.uint8
    assert pixels.reshape(-1, 3).tolist() == [list(expected)] * 24


def test_palettes_become_rgb(tmp_path: Path) -> None:
    picture = Image.new("P", (2, 2), 1)
    picture.putpalette([0, 0, 0, 9, 8, 7])
    picture.save(tmp_path / "image.png")
    assert read_image(tmp_path / "image.png")[0, 0].tolist() == [9, 8, 7]


def test_floating_point_images_have_no_white(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="convert it to 8 or 16 bits"):
        read_image(save(tmp_path / "image.tiff", "F", 0.5))


def test_the_middle_square_is_kept_without_distortion(tmp_path: Path) -> None:
    wide = np.zeros((10, 30, 3), dtype=np.uint8)
    wide[:, 10:20] = 200
    Image.fromarray(wide).save(tmp_path / "wide.png")
    assert (read_image(tmp_path / "wide.png", size=10) == 200).all()
    assert read_image(tmp_path / "wide.png", size=7).shape == (7, 7, 3)


@pytest.mark.parametrize("side", [10_000, 60_000])
def test_a_decompression_bomb_is_refused_before_it_is_unpacked(tmp_path: Path, side: int) -> None:
    def chunk(kind: bytes, content: bytes) -> bytes:
        return (
            struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        )

    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    path = tmp_path / "bomb.png"
    content = zlib.compress(bytes(1 << 20))
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", content) + chunk(b"IEND", b"")
    )
    with pytest.raises(DataError, match=r"bomb\.png .*decompression bomb"):
        read_image(path)


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "cut.jpg")
    raw = (tmp_path / "cut.jpg").read_bytes()
    (tmp_path / "cut.jpg").write_bytes(raw[: len(raw) // 2])
    (tmp_path / "text.png").write_text("not an image")
    (tmp_path / "empty.png").touch()
    for name in ("cut.jpg", "text.png", "empty.png"):
        with pytest.raises(DataError, match=f"{name} is not an image that can be read"):
            read_image(tmp_path / name)
    with pytest.raises(DataError, match=r"there is no file .*none\.png"):
        read_image(tmp_path / "none.png")


def test_a_large_picture_needs_bytes(tmp_path: Path) -> None:
    """A WebP of one colour can have any size in 38 bytes, and unpacking it took a gigabyte."""
    (tmp_path / "large.webp").write_bytes(webp(4100, 4000))
    with pytest.raises(DataError, match=r"announces 4100 × 4000 pixels in \d+ bytes"):
        read_image(tmp_path / "large.webp")
    (tmp_path / "fair.webp").write_bytes(webp(900, 800))
    assert read_image(tmp_path / "fair.webp", 8).shape == (8, 8, 3)
    (tmp_path / "large.webp").write_bytes(
        webp(4100, 4000) + bytes(4100 * 4)
    )  # what follows the picture is ignored
    assert read_image(tmp_path / "large.webp", 8).shape == (8, 8, 3)


def test_bytes_are_read_like_files(tmp_path: Path) -> None:
    path = save(tmp_path / "image.png", "RGB", (1, 2, 3))
    assert np.array_equal(decode_image(io.BytesIO(path.read_bytes()), "image 0"), read_image(path))
    with pytest.raises(DataError, match="image 0 is not an image"):
        decode_image(io.BytesIO(b"nothing"), "image 0")


def test_masks_are_never_converted(tmp_path: Path) -> None:
    assert (read_mask(save(tmp_path / "mask.png", "L", 11)) == 11).all()
    with pytest.raises(DataError, match=r"one channel of 8 bits: got mode RGB"):
        read_mask(save(tmp_path / "colour.png", "RGB", (1, 2, 3)))


def test_a_format_for_which_another_program_would_be_started_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n"
    )
    with pytest.raises(DataError, match="no known format"):
        read_image(tmp_path / "a.png")


SHOWN = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3) * 10
STORED = {
    1: SHOWN,
    2: SHOWN[:, ::-1],
    3: SHOWN[::-1, ::-1],
    4: SHOWN[::-1],
    5: SHOWN.transpose(1, 0, 2),
    6: np.rot90(SHOWN),
    7: SHOWN[::-1, ::-1].transpose(1, 0, 2),
    8: np.rot90(SHOWN, -1),
}
"""EXIF orientation -> the pixels that a file of it holds (EXIF 2.3, section 4.6.4)."""


@pytest.mark.parametrize("suffix", ["png", "webp", "tiff"])
@pytest.mark.parametrize("orientation", STORED)
def test_every_image_is_read_upright(orientation: int, suffix: str, tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = tmp_path / f"photo.{suffix}"
    options = {"lossless": True} if suffix == "webp" else {}
    Image.fromarray(np.ascontiguousarray(STORED[orientation])).save(path, exif=exif, **options)
    assert np.array_equal(read_image(path), SHOWN)
    assert np.array_equal(decode_image(io.BytesIO(path.read_bytes()), "upload"), SHOWN)
    mask = SHOWN[..., 0]
    Image.fromarray(np.ascontiguousarray(STORED[orientation][..., 0])).save(tmp_path / "mask.png", exif=exif)
    assert np.array_equal(read_mask(tmp_path / "mask.png"), mask), "a mask must lie over its image"


def test_a_photo_is_turned_before_its_middle_is_cut(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    stored = np.zeros((40, 80, 3), dtype=np.uint8)
    stored[:20] = 200  # the upper half of what is stored is the right half of what is shown
    Image.fromarray(stored).save(tmp_path / "photo.jpg", exif=exif, quality=95)
    found = read_image(tmp_path / "photo.jpg", 8)
    assert found[:, 5:].min() > 150
    assert found[:, :3].max() < 50


def test_damaged_metadata_leaves_the_pixels(tmp_path: Path) -> None:
    for number, exif in enumerate(
        (b"Exif\0\0", b"Exif\0\0MM\0*\xff\xff\xff\xff", b"Exif\0\0II*\0\x08\0\0\0\xff\xff")
    ):
        path = tmp_path / f"{number}.jpg"
        Image.new("RGB", (4, 6), (90, 90, 90)).save(path, exif=exif)
        assert read_image(path).shape == (6, 4, 3)
    for value in (0, 9, 65535):
        damaged = Image.Exif()
        damaged[0x0112] = value
        Image.new("RGB", (4, 6)).save(tmp_path / "odd.png", exif=damaged)
        assert read_image(tmp_path / "odd.png").shape == (6, 4, 3)
