"""Mutated files for every reader, drawn by hypothesis: read, or refused in words."""

from __future__ import annotations

import signal
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stress.fuzz.campaign import draw, row
from stress.fuzz.target import FuzzTally, Target, targets

from geq.errors import DataError, GeqError

TARGETS = targets()
QUICK = {"deadline": None, "database": None, "suppress_health_check": list(HealthCheck)}
"""Times are those of a shared machine; what was found once has its own test."""


LONGEST_MESSAGE = 2_000
"""Values of the file are shortened where a message quotes them."""


def refusal(target: Target, data: bytes) -> str | None:
    """Return the reader's refusal; None where it is read. Any other exception passes through."""
    try:
        target.one(data)
    except GeqError as error:
        return str(error)
    return None


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_a_mutated_file_is_read_or_refused(name: str) -> None:
    target = TARGETS[name]
    seeds = target.seeds()

    @settings(max_examples=int(200 * target.rate), **QUICK)
    @given(number=st.integers(0, 2**64 - 1))
    def attempt(number: int) -> None:
        said = refusal(target, draw(target, seeds, Random(number)))
        assert said is None or 0 < len(said) < LONGEST_MESSAGE

    attempt()


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_any_bytes_are_read_or_refused(name: str) -> None:
    target = TARGETS[name]

    @settings(max_examples=100, **QUICK)
    @given(data=st.binary(max_size=256))
    def attempt(data: bytes) -> None:
        said = refusal(target, data)
        assert said is None or 0 < len(said) < LONGEST_MESSAGE

    attempt()


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_reads_one_of_its_own_files(name: str) -> None:
    """A target that refuses everything would test nothing."""
    target = TARGETS[name]
    assert any(refusal(target, content) is None for content in target.seeds())


def reader(data: bytes) -> None:
    if data == b"clear":
        raise DataError("clear")
    if data == b"crash":
        raise KeyError("unclear")


def test_a_crash_is_a_finding_and_a_refusal_is_none() -> None:
    target = Target("invented", "for this test", reader, lambda: [b""])
    tally = FuzzTally(target)
    try:
        for data in (b"fine", b"clear", b"crash", b"crash"):
            tally.execute(data)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    found = tally.summary()
    assert (found["executions"], found["read"], found["refused"]) == (4, 1, 1)
    assert [finding["times"] for finding in found["findings"].values()] == [2]
    judged = row(target, found)
    assert not judged.held
    assert (judged.tried, judged.survived) == (4, 2)


def test_drawing_is_repeatable() -> None:
    target = TARGETS["idx"]
    seeds = target.seeds()
    first, second = ([draw(target, seeds, Random(seed)) for seed in range(20)] for _ in range(2))
    assert first == second
    assert len(set(first)) > 10


def test_an_error_of_many_lines_is_told_in_one() -> None:
    """A pickle that makes an array of the wrong kind of arguments: the check of types says a lot."""
    target = TARGETS["cifar100_pickle"]
    said = refusal(target, draw(target, target.seeds(), Random(1304)))
    assert said is not None
    assert "was not loaded" in said
    assert "\n" not in said
    assert len(said) < 600
