"""Small files that unpack to large ones, and headers that announce more than there is."""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
import zlib

from PIL import Image

from geq.data.archive import unpack
from geq.data.corruption.cifar_c import read_cifar_c
from geq.data.image_reader import read_image
from geq.data.mnist import read_idx
from stress.attack import Attack, Ground, HostileCase, reading, written
from stress.attack.code_execution import shown


def idx(shape: tuple[int, ...], content: int, packed: bool) -> Attack:
    """Offer an idx file that announces ``shape`` and holds ``content`` zeros."""

    def raw(ground: Ground) -> bytes:
        plain = bytes([0, 0, 8, len(shape)]) + struct.pack(f">{len(shape)}I", *shape) + bytes(content)
        return gzip.compress(plain) if packed else plain

    return reading("file.gz" if packed else "file", raw, lambda path: read_idx(path, len(shape)))


def tar_bomb(ground: Ground) -> None:
    """Unpack 200 MB of zeros from 200 kB."""
    path = ground.inside / "a.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        member = tarfile.TarInfo("set/zeros")
        member.size = 200 << 20
        tar.addfile(member, io.BytesIO(bytes(member.size)))
    unpack(path, ground.inside / "root")


def tar_header_bomb(kind: bytes) -> Attack:
    """Unpack a file whose name has 200 MB, which tarfile would read into memory."""

    def attack(ground: Ground) -> None:
        member = tarfile.TarInfo("././@LongLink")
        member.type, member.size = kind, 200 << 20
        raw = member.tobuf(tarfile.GNU_FORMAT) + bytes(member.size) + bytes(1024)
        unpack(written(ground.inside / "a.tar.gz", gzip.compress(raw, 1)), ground.inside / "root")

    return attack


def tar_of_holes(ground: Ground) -> None:
    """Unpack a sparse member of 40 GB in one block."""
    member = tarfile.TarInfo("holes")
    member.type, member.size = tarfile.GNUTYPE_SPARSE, 0
    raw = bytearray(member.tobuf(tarfile.GNU_FORMAT))
    raw[386 : 386 + 24] = b"00000000000\x0000000000000\x00"
    raw[483:495] = b"%011o\x00" % (40 << 30)
    raw[148:156] = b" " * 8
    raw[148:156] = b"%06o\x00 " % sum(raw[:512])
    unpack(written(ground.inside / "a.tar", bytes(raw) + bytes(1024)), ground.inside / "root")


def png(width: int, height: int, rows: int) -> bytes:
    """Return a PNG that announces a size, and holds so many rows of it."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    content = zlib.compress(bytes((width + 1) * rows), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", content) + chunk(b"IEND", b"")


def png_text(size: int) -> bytes:
    """Return a PNG with a compressed comment of ``size`` bytes."""
    buffer = io.BytesIO()
    Image.new("L", (8, 8)).save(buffer, "PNG")
    whole = buffer.getvalue()
    data = b"Comment\x00\x00" + zlib.compress(bytes(size), 9)
    text = struct.pack(">I", len(data)) + b"zTXt" + data + struct.pack(">I", zlib.crc32(b"zTXt" + data))
    return whole[:33] + text + whole[33:]


def image(content: bytes) -> Attack:
    return reading("a.png", content, lambda path: read_image(path, 32))


def jpeg(width: int, height: int) -> bytes:
    buffer = io.BytesIO()
    Image.new("L", (8, 8)).save(buffer, "JPEG")
    raw = bytearray(buffer.getvalue())
    at = raw.index(b"\xff\xc0") + 5
    raw[at : at + 4] = struct.pack(">HH", height, width)
    return bytes(raw)


def webp(width: int, height: int) -> bytes:
    """Return a picture of one colour: 38 bytes, whatever its size."""
    buffer = io.BytesIO()
    Image.new("RGBA", (8, 8), (9, 9, 9, 9)).save(buffer, "WEBP", lossless=True)
    raw = bytearray(buffer.getvalue())
    at = raw.index(b"VP8L") + 9
    (bits,) = struct.unpack_from("<I", raw, at)
    struct.pack_into("<I", raw, at, bits >> 28 << 28 | height - 1 << 14 | width - 1)
    return bytes(raw)


def npy(ground: Ground) -> None:
    """Read an array that announces a terabyte."""
    header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (5, 1000000, 70000, 3), }"
    header = header.ljust(117) + b"\n"
    raw = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header
    written(ground.inside / "labels.npy", raw)
    written(ground.inside / "fog.npy", raw)
    read_cifar_c(ground.inside, "fog", 1)


CASES = (
    HostileCase("idx that announces 200 TB", idx((60000, 60000, 60000), 0, packed=True)),
    HostileCase(
        "idx that announces 1 GB and holds nothing", idx((1 << 10, 1 << 10, 1 << 10), 0, packed=False)
    ),
    HostileCase("idx of 100 MB in 100 kB", idx((100, 1 << 10, 1 << 10), 100 << 20, packed=True)),
    HostileCase("idx that announces little and holds 100 MB", idx((1, 28, 28), 100 << 20, packed=True)),
    HostileCase("idx without images, each of 16 EB", idx((0, (1 << 32) - 1, (1 << 32) - 1), 0, packed=False)),
    HostileCase("archive of 200 MB in 200 kB", tar_bomb),
    HostileCase("archive with a name of 200 MB", tar_header_bomb(tarfile.GNUTYPE_LONGNAME)),
    HostileCase("archive with attributes of 200 MB", tar_header_bomb(tarfile.XHDTYPE)),
    HostileCase("archive with a file of holes", tar_of_holes),
    HostileCase("PNG of 400 megapixels", image(png(20000, 20000, 20000))),
    HostileCase("PNG that announces 2^62 pixels", image(png((1 << 31) - 1, (1 << 31) - 1, 0))),
    HostileCase(
        "PNG that announces 60 megapixels and holds a row", image(png(10000, 6000, 1)), harmless=True
    ),
    HostileCase("PNG with a comment of 200 MB", image(png_text(200 << 20)), harmless=True),
    HostileCase("WebP of 60 megapixels in 38 bytes", image(webp(10000, 6000))),
    HostileCase("JPEG of 4 gigapixels", image(jpeg(65535, 65535))),
    HostileCase("upload of 400 megapixels", reading("a.png", png(20000, 20000, 1), shown)),
    HostileCase("upload of 11 MB", reading("a.png", bytes(11 << 20), shown)),
    HostileCase("array that announces a terabyte", npy),
)
