"""Reads the pickles of the official CIFAR files without running anything that they name.

A pickle is a program. This reader knows only the instructions that build dicts, lists, tuples, text,
numbers and one kind of array; any other ends the reading. The three names that numpy's arrays need are
answered with the inert objects below, so not even numpy sees what the file says.
"""

from __future__ import annotations

import io
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np

from geq.errors import DataError, one_line
from geq.safe_parsing import short

DIMENSIONS = 4
"""Of an array; the official ones have two."""
FIX = "delete it and fetch the dataset again ('geq data fetch')"


class _Bytes:
    """Stands for ``numpy.dtype``: only that of bytes."""

    __slots__ = ()

    def __call__(self, code: str, align: bool | int = False, copy: bool | int = False) -> _Bytes:
        if not isinstance(code, str) or code != "u1":
            raise pickle.UnpicklingError(f"an array of type {short(code)}; only unsigned bytes are read")
        return self

    def __setstate__(self, state: Any) -> None:
        """Byte order and alignment mean nothing for single bytes."""


class _Array:
    """Stands for ``numpy.ndarray`` while its shape and content arrive."""

    __slots__ = ("content",)

    def __init__(self) -> None:
        self.content: np.ndarray | None = None

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, column_order, raw = state
        data = raw.encode("latin-1") if isinstance(raw, str) else raw
        if not isinstance(kind, _Bytes) or not isinstance(data, bytes):
            raise pickle.UnpicklingError("an array that is not made of bytes")
        if (
            not isinstance(shape, tuple)
            or len(shape) > DIMENSIONS
            or not all(type(n) is int and 0 < n <= len(data) for n in shape)
            or math.prod(shape) != len(data)
        ):
            raise pickle.UnpicklingError(f"an array of shape {short(shape)} with {len(data)} bytes")
        self.content = np.frombuffer(data, dtype=np.uint8).reshape(shape, order="F" if column_order else "C")


class _Named:
    """The answer to a name: callable, without attributes that a pickle could change."""

    __slots__ = ()

    def __call__(self, *arguments: Any) -> _Array:
        return _Array()


_TYPE, _DTYPE, _RECONSTRUCT = _Named(), _Bytes(), _Named()
_KNOWN = {
    ("numpy", "ndarray"): _TYPE,
    ("numpy", "dtype"): _DTYPE,
    ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,
}


_INSTRUCTIONS = (
    *(pickle.PROTO, pickle.STOP, pickle.MARK, pickle.NONE, pickle.NEWTRUE, pickle.NEWFALSE),
    *(pickle.BININT, pickle.BININT1, pickle.BININT2, pickle.LONG1, pickle.BINFLOAT),
    *(pickle.BINSTRING, pickle.SHORT_BINSTRING, pickle.BINUNICODE, pickle.BINBYTES, pickle.SHORT_BINBYTES),
    *(pickle.EMPTY_DICT, pickle.SETITEM, pickle.SETITEMS, pickle.EMPTY_LIST, pickle.APPEND, pickle.APPENDS),
    *(pickle.EMPTY_TUPLE, pickle.TUPLE, pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3),
    *(pickle.BINPUT, pickle.LONG_BINPUT, pickle.BINGET, pickle.LONG_BINGET),
    *(pickle.GLOBAL, pickle.REDUCE, pickle.BUILD),
)


class _Reader(pickle._Unpickler):
    """Python's own reader with most instructions removed.

    It is the one written in Python: the one in C reserves memory for any number that a file names.
    """

    dispatch = {code[0]: pickle._Unpickler.dispatch[code[0]] for code in _INSTRUCTIONS}

    def set_items(self) -> None:
        """The content of a dict, with text, bytes or numbers as keys.

        A tuple that holds another one twice, which holds another one twice, is a short program that takes
        for ever to hash.
        """
        items: list[Any] = self.pop_mark()  # type: ignore[attr-defined]
        self._set(items)

    def set_item(self) -> None:
        value = self.stack.pop()  # type: ignore[attr-defined]
        self._set([self.stack.pop(), value])  # type: ignore[attr-defined]

    def _set(self, items: list[Any]) -> None:
        target = self.stack[-1]  # type: ignore[attr-defined]
        for key, value in zip(items[::2], items[1::2], strict=True):
            if type(target) is not dict or type(key) not in (str, bytes, int):
                raise pickle.UnpicklingError("a key that is neither text nor a number")
            target[key] = value

    dispatch |= {pickle.SETITEM[0]: set_item, pickle.SETITEMS[0]: set_items}  # type: ignore[dict-item]

    def find_class(self, module: str, name: str) -> Any:
        try:
            return _KNOWN[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which no dataset needs") from None


def read_pickle(path: Path) -> dict[str, Any]:
    """The dict in ``path``; text of Python 2 is read as latin-1, arrays come as read-only uint8."""
    try:
        raw = path.read_bytes()
        content = _Reader(io.BytesIO(raw), encoding="latin1").load()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}; {FIX}") from error
    except Exception as error:  # a damaged pickle can fail in any way, and none of them is the user's doing
        reason = f"instruction {error} is not allowed" if isinstance(error, KeyError) else one_line(error)
        raise DataError(
            f"{path} is not a file of this dataset and was not loaded: {reason}; {FIX}"
        ) from error
    if not isinstance(content, dict):
        raise DataError(f"{path} must hold a dict: got {type(content).__name__}; {FIX}")
    return {_text(key): _plain(value) for key, value in content.items()}


def _text(key: Any) -> str:
    return key.decode("latin-1") if isinstance(key, bytes) else str(key)


def _plain(value: Any) -> Any:
    return value.content if isinstance(value, _Array) else value
