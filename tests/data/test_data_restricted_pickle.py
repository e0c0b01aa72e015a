"""A CIFAR file is a pickle, and a pickle is a program: none of these may run."""

from __future__ import annotations

import contextlib
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from geq.data.restricted_pickle import read_pickle
from geq.errors import DataError


class Call:
    """Pickles to a call of ``function(*arguments)``."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.parts = (function, arguments)

    def __reduce__(self) -> Any:
        return self.parts


def test_plain_content_and_the_one_array_are_read(tmp_path: Path, official: Any) -> None:
    array = np.arange(12, dtype=np.uint8).reshape(3, 4)
    official(tmp_path / "file", {"data": array, "labels": [1, 2, 3], "name": "räder"})
    content = read_pickle(tmp_path / "file")
    assert np.array_equal(content["data"], array)
    assert content["labels"] == [1, 2, 3]


def test_column_order_is_kept(tmp_path: Path) -> None:
    array = np.asfortranarray(np.arange(12, dtype=np.uint8).reshape(3, 4))
    (tmp_path / "file").write_bytes(pickle.dumps({"data": array}, protocol=3))
    assert np.array_equal(read_pickle(tmp_path / "file")["data"], array)


def test_a_hostile_pickle_is_refused_and_nothing_runs(tmp_path: Path) -> None:
    import os

    touched = tmp_path / "touched"
    for payload in (
        Call(os.system, f"touch {touched}"),
        Call(eval, f"open({str(touched)!r}, 'w')"),
        Call(exec, f"open({str(touched)!r}, 'w')"),
        Call(open, str(touched), "w"),
        Call(np.save, str(touched), 1),
        Call(getattr, os, "system"),
    ):
        file = tmp_path / "file"
        for protocol in (0, 2, 4, 5):
            try:
                file.write_bytes(pickle.dumps({"data": payload, "labels": [0]}, protocol=protocol))
            except (pickle.PicklingError, TypeError):  # a module cannot be pickled as an argument
                file.write_bytes(b"\x80\x02cos\nsystem\n.")
            with pytest.raises(DataError, match="was not loaded"):
                read_pickle(file)
            assert not touched.exists()


def test_the_message_names_the_path_and_the_global(tmp_path: Path) -> None:
    import os

    (tmp_path / "file").write_bytes(pickle.dumps(Call(os.system, "true"), protocol=2))
    with pytest.raises(DataError, match=r"file is not a file of this dataset.*system.*fetch"):
        read_pickle(tmp_path / "file")


@pytest.mark.parametrize(
    "program",
    [
        b"cnumpy\ndtype\n}(Vcode\nI1\nub.",  # set an attribute on the stand-in for dtype
        b"cnumpy.core.multiarray\n_reconstruct\n(N}V__call__\nI1\nstb.",  # ... and on that of _reconstruct
        b"cnumpy\ndtype\n(VO8\nI0\nI1\ntR.",  # an array of objects would be read from raw pointers
        b"cnumpy\nndarray\n.",  # not a dict
        b"\x82\x01.",  # an extension code
        b"Pname\n.",  # a persistent id
        b"(lp0\n.",  # a list
        b"\x80\x02}q\x00(U\x04data",  # cut off
        b"",
    ],
)
def test_programs_by_hand_are_refused(tmp_path: Path, program: bytes) -> None:
    (tmp_path / "file").write_bytes(program)
    with pytest.raises(DataError):
        read_pickle(tmp_path / "file")


def test_an_array_whose_shape_lies_is_refused(tmp_path: Path) -> None:
    raw = pickle.dumps({"data": np.zeros((3, 4), dtype=np.uint8)}, protocol=3)
    (tmp_path / "file").write_bytes(raw.replace(b"K\x03K\x04\x86", b"K\x03K\x7f\x86"))
    with pytest.raises(DataError, match=r"shape \(3, 127\) with 12 bytes"):
        read_pickle(tmp_path / "file")


def test_an_array_of_other_numbers_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(pickle.dumps({"data": np.zeros(3)}, protocol=3))
    with pytest.raises(DataError, match="only unsigned bytes"):
        read_pickle(tmp_path / "file")


def test_a_missing_file_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="geq data fetch"):
        read_pickle(tmp_path / "none")


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(position=st.integers(0, 400), value=st.integers(0, 255))
def test_a_flipped_byte_gives_a_data_error_or_a_dict(tmp_path: Path, position: int, value: int) -> None:
    raw = bytearray(pickle.dumps({"data": np.zeros((2, 8), dtype=np.uint8), "labels": [1, 2]}, protocol=3))
    raw[position % len(raw)] = value
    (tmp_path / "file").write_bytes(bytes(raw))
    with contextlib.suppress(DataError):
        assert isinstance(read_pickle(tmp_path / "file"), dict)


def test_a_key_that_takes_for_ever_to_hash_is_refused(tmp_path: Path) -> None:
    tuple_of_two = b"q\x00h\x00\x86"
    (tmp_path / "file").write_bytes(b"\x80\x02}(K\x01" + tuple_of_two * 100 + b"K\x01u.")
    with pytest.raises(DataError, match="neither text nor a number"):
        read_pickle(tmp_path / "file")


def test_a_shape_of_a_hundred_thousand_huge_numbers_is_refused(tmp_path: Path) -> None:
    from stress.attack.code_execution import long_shape

    (tmp_path / "file").write_bytes(long_shape())
    with pytest.raises(DataError, match="an array of shape"):
        read_pickle(tmp_path / "file")
