"""Seeded changes of a file: those of any fuzzer, and some that know a format.

What is no longer of its format is changed like any other file.
"""

from __future__ import annotations

import gzip
import io
import json
import pickletools
import struct
import zipfile
from random import Random
from typing import Any

INTERESTING = (
    *(0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF),
    *(1 << 40, 1 << 63),
)
"""Numbers at the ends of integer types."""


def mutated(data: bytes, random: Random, corpus: list[bytes], largest: int) -> bytes:
    """Make one to four changes: flipped bits, other bytes, extreme numbers, cuts, repetitions, splices."""
    raw = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 2, 4))):
        raw = _changed(raw, random, corpus)
    return bytes(raw[:largest])


def _changed(raw: bytearray, random: Random, corpus: list[bytes]) -> bytearray:
    # Headers are where files say what they are: half of the changes go there.
    reach = len(raw) if random.random() < 0.5 else min(len(raw), 64)
    at = random.randrange(reach) if raw else 0
    kind = random.randrange(9)
    if not raw or kind == 0:
        raw[at:at] = random.randbytes(random.randint(1, 8))
    elif kind == 1:
        raw[at] ^= 1 << random.randrange(8)
    elif kind == 2:
        raw[at] = random.randrange(256)
    elif kind == 3:
        width, order = random.choice((1, 2, 4, 8)), random.choice("<>")
        value = random.choice(INTERESTING) & ((1 << 8 * width) - 1)
        packed = struct.pack(f"{order}Q", value)
        raw[at : at + width] = packed[:width] if order == "<" else packed[8 - width :]
    elif kind == 4:
        del raw[at : at + random.choice((1, 2, 4, 16, 256))]
    elif kind == 5:
        del raw[at:]
    elif kind == 6:
        length = random.choice((1, 4, 16, 64))
        raw[at:at] = raw[at : at + length] * random.choice((1, 2, 16))
    elif kind == 7:
        other = random.choice(corpus)
        start = random.randrange(len(other) + 1)
        raw[at : at + 64] = other[start : start + 64]
    else:
        end = min(len(raw), at + random.choice((2, 8, 32)))
        piece = list(raw[at:end])
        random.shuffle(piece)
        raw[at:end] = bytes(piece)
    return raw


def alone(data: bytes, random: Random) -> bytes:
    return mutated(data, random, [data], 1 << 16)


def in_gzip(data: bytes, random: Random) -> bytes:
    """Change what is packed, and pack it again with a right checksum."""
    try:
        plain = gzip.decompress(data)
    except Exception:
        plain = data
    return gzip.compress(alone(plain, random), 1, mtime=0)


VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 1, 1.5, 1e308, float("nan"), float("inf"), 10**30, 10**400, 2**63),
    *("", "x", "../../x", "\x00", "\ud800", "x" * 300),
    *([], {}, [[]], [1, 2, 3], {"class": []}, {"class": "x"}),
)
"""Values to put where another belongs."""


def in_json(data: bytes, random: Random) -> bytes:
    """Replace, remove, repeat or deepen a value of a JSON document."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return alone(data, random)
    for _ in range(random.choice((1, 1, 2))):
        document = _other(document, random)
    return json.dumps(document).encode()


def in_json_lines(data: bytes, random: Random) -> bytes:
    lines = data.split(b"\n")
    at = random.randrange(len(lines))
    lines[at] = in_json(lines[at], random)
    return b"\n".join(lines)


def _other(value: Any, random: Random) -> Any:
    if isinstance(value, dict) and value and random.random() < 0.9:
        key = random.choice(list(value))
        result = dict(value)
        kind = random.random()
        if kind < 0.1:
            del result[key]
        elif kind < 0.2:
            result[random.choice(("", "x", "class", "__class__", key + "_"))] = result[key]
        else:
            result[key] = _other(result[key], random)
        return result
    if isinstance(value, list) and value and random.random() < 0.8:
        at = random.randrange(len(value))
        return [*value[:at], _other(value[at], random), *value[at + 1 :]]
    if isinstance(value, int) and not isinstance(value, bool) and random.random() < 0.5:
        return random.choice((-value, value + 1, value * 1000, random.choice(INTERESTING)))
    if random.random() < 0.05:
        return [[value, value]] * random.choice((1, 100))
    return random.choice(VALUES)


def in_pickle(data: bytes, random: Random) -> bytes:
    """Remove, repeat or swap whole instructions of a pickle."""
    try:
        starts = [place for _, _, place in pickletools.genops(data) if place is not None]
    except Exception:
        return alone(data, random)
    ends = [*starts[1:], len(data)]
    program = [data[a:b] for a, b in zip(starts, ends, strict=True)]
    for _ in range(random.choice((1, 1, 2, 3))):
        at, other = random.randrange(len(program)), random.randrange(len(program))
        kind = random.randrange(5)
        if kind == 0 and len(program) > 1:
            del program[at]
        elif kind == 1:
            program.insert(at, program[other])
        elif kind == 2:
            program[at], program[other] = program[other], program[at]
        elif kind == 3:
            program.insert(at, random.choice(INSTRUCTIONS))
        else:
            program[at] = mutated(program[at], random, program, 1 << 14)
    return b"".join(program)


INSTRUCTIONS = (
    *(bytes([code]) for code in b"201Rbo\x81\x93i}])(t\x85\x86\x87aesuN\x88\x94Q."),
    *(b"K\x01", b"M\xff\xff", b"J\xff\xff\xff\x7f", b"\x8a\x10" + b"\xff" * 15 + b"\x7f"),
    *(b"h\x00", b"h\x01", b"q\x00", b"r\xff\xff\xff\x7f", b"X\x01\x00\x00\x00x"),
    *(b"B\xff\xff\xff\x7f", b"T\xff\xff\xff\x7f", b"C\x02ab", b"\x82\x01"),
    *(b"cos\nsystem\n", b"cbuiltins\neval\n", b"cbuiltins\nbytearray\n"),
    *(b"cnumpy\ndtype\n", b"cnumpy\nndarray\n"),
)


def in_zip(data: bytes, random: Random) -> bytes:
    """Change one member of a zip archive, and write it again with right checksums."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = [(item, archive.read(item)) for item in archive.infolist()]
    except Exception:
        return alone(data, random)
    if not members:
        return data
    at = random.randrange(len(members))
    item, content = members[at]
    kind = random.random()
    if kind < 0.1:
        del members[at]
    elif item.filename.endswith(".pkl"):
        members[at] = (item, in_pickle(content, random))
    else:
        members[at] = (item, alone(content, random))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for item, content in members:
            packing = zipfile.ZIP_DEFLATED if random.random() < 0.05 else zipfile.ZIP_STORED
            archive.writestr(zipfile.ZipInfo(item.filename), content, packing)
    return buffer.getvalue()


def in_safetensors(data: bytes, random: Random) -> bytes:
    """Change the header of a safetensors file, and its length with it."""
    if len(data) < 8:
        return alone(data, random)
    (length,) = struct.unpack("<Q", data[:8])
    header, rest = data[8 : 8 + length], data[8 + length :]
    header = in_json(header, random)
    return struct.pack("<Q", len(header)) + header + rest
