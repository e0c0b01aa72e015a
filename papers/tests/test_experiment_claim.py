"""The verdicts, on records made up so that the answer is known."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from scipy import stats

from geq.errors import InputError
from geq_papers.experiment.claim import Claim, interval, judge
from geq_papers.experiment.record import Record

CLAIM = Claim("a is better than b", "a", "b", "test_accuracy", 1.0)


def record(arm: str, seed: int, value: Any, **changes: Any) -> Record:
    values: dict[str, Any] = {
        "experiment": "made-up",
        "scale": "small",
        "arm": arm,
        "seed": seed,
        "config_hash": f"{arm}00000000000",
        "config": {"model": arm},
        "commit": None,
        "versions": {"geq": "0"},
        "machine": {"cpu": "none", "cores": 1, "device": "cpu"},
        "epochs": [],
        "metrics": {"test_accuracy": value},
        "solver": {},
        "cpu_seconds": 1.0,
        "wall_seconds": 1.0,
        "finished": "2026-01-01T00:00:00Z",
    }
    return Record(**{**values, **changes})


def pairs(differences: list[float], shared: float = 5.0) -> list[Record]:
    """Runs whose accuracy varies much from seed to seed, but alike in both arms."""
    base = [70 + shared * math.sin(3 * seed) for seed in range(len(differences))]
    better = [record("a", seed, base[seed] + d) for seed, d in enumerate(differences)]
    return better + [record("b", seed, base[seed]) for seed in range(len(differences))]


def test_a_true_difference_holds() -> None:
    found = judge(CLAIM, pairs([1.0, 1.2, 0.8, 1.1, 0.9]))
    assert found.verdict == "holds"
    assert found.seeds == (0, 1, 2, 3, 4)
    assert found.mean == pytest.approx(1.0)
    half = 2.7764451051977987 * math.sqrt(0.025 / 5)
    assert found.low == pytest.approx(1 - half)
    assert found.high == pytest.approx(1 + half)


def test_pairs_of_different_processors_are_told() -> None:
    records = pairs([1.0, 1.2, 0.8, 1.1])
    other = {"cpu": "another", "cores": 1, "device": "cpu"}
    assert judge(CLAIM, records).caveat == ""
    both = [replace(r, machine=other) if r.seed == 1 else r for r in records]
    assert judge(CLAIM, both).caveat == "", "the runs of each pair have one in common"
    one = [replace(r, machine=other) if r.arm == "a" and r.seed < 3 else r for r in records]
    assert judge(CLAIM, one).caveat == "3 of 4 pairs ran on different processors"
    assert judge(CLAIM, one).verdict == judge(CLAIM, records).verdict
    unpaired = [r for r in one if r.arm == "b" or r.seed == 3]
    assert judge(CLAIM, unpaired).caveat == "", "what is not paired does not count"


def test_pairing_is_what_decides() -> None:
    """The same accuracies with the seeds of one arm exchanged say nothing: the spread between seeds is 5."""
    records = pairs([1.0, 1.2, 0.8, 1.1, 0.9])
    theirs = [r for r in records if r.arm == "b"]
    mixed = [record("a", (r.seed + 2) % 5, r.metrics["test_accuracy"]) for r in records if r.arm == "a"]
    assert judge(CLAIM, mixed + theirs).verdict == "undecided at this scale"


def test_the_opposite_fails() -> None:
    assert judge(CLAIM, pairs([-1.0, -1.2, -0.8])).verdict == "fails"


def test_none_is_undecided() -> None:
    found = judge(CLAIM, pairs([0.5, -0.6, 0.1, -0.2, 0.3]))
    assert found.verdict == "undecided at this scale"
    assert "contains 0" in found.reason


@pytest.mark.parametrize("number", [1, 2])
def test_never_from_fewer_than_three_seeds(number: int) -> None:
    found = judge(CLAIM, pairs([9.0, 9.0001][:number]))
    assert found.verdict == "undecided at this scale"
    assert found.mean == pytest.approx(9.0, abs=1e-3)
    assert "needs 3" in found.reason


def test_unpaired_seeds_do_not_count() -> None:
    records = [record("a", seed, 90.0 + seed / 10) for seed in range(5)]
    assert judge(CLAIM, records).verdict == "not run"
    records += [record("b", seed, 80.0 + seed / 9) for seed in (3, 4, 5, 6, 7)]
    found = judge(CLAIM, records)
    assert found.seeds == (3, 4)
    assert found.verdict == "undecided at this scale"
    assert judge(CLAIM, []).verdict == "not run"


@pytest.mark.parametrize("broken", [None, math.nan, math.inf])
def test_a_run_without_a_number_is_not_left_out_in_silence(broken: float | None) -> None:
    records = [*pairs([1.0, 1.2, 0.8, 1.1]), record("a", 9, broken), record("b", 9, 70.0)]
    found = judge(CLAIM, records)
    assert found.verdict == "undecided at this scale"
    assert "seed 9" in found.reason
    assert found.mean is not None
    assert math.isfinite(found.mean)


def test_lower_is_better() -> None:
    claim = Claim("a has the lower KL", "a", "b", "test_accuracy", 0.3, lower_is_better=True)
    assert judge(claim, pairs([-1.0, -1.2, -0.8])).verdict == "holds"


def test_threshold() -> None:
    records = pairs([-0.3, -0.2, -0.25, -0.35])
    assert judge(CLAIM, records).verdict == "fails"
    lenient = Claim("not worse by a point", "a", "b", "test_accuracy", at_least=-1.0)
    assert judge(lenient, records).verdict == "holds"


LEAD = Claim("a's lead over b is larger than c's over d", "a", "b", "test_accuracy", beyond=("c", "d"))


def test_a_lead_that_grows() -> None:
    """A lead of 3 against one of 1, both noisy from seed to seed."""
    smaller = [
        record({"a": "c", "b": "d"}[r.arm], r.seed, r.metrics["test_accuracy"])
        for r in pairs([1.0, 1.2, 0.8, 1.1], shared=3.0)
    ]
    found = judge(LEAD, pairs([3.0, 3.3, 2.9, 3.0]) + smaller)
    assert found.verdict == "holds"
    assert list(found.differences.values()) == pytest.approx([2.0, 2.1, 2.1, 1.9])
    assert judge(LEAD, pairs([1.1, 1.1, 1.0, 0.9]) + smaller).verdict == "undecided at this scale"
    assert judge(LEAD, pairs([3.0, 3.3, 2.9, 3.0])).verdict == "not run", "the other two were not"
    assert judge(LEAD, pairs([3.0, 3.3, 2.9, 3.0]) + smaller[1:]).seeds == (1, 2, 3)


def test_configurations_are_not_mixed() -> None:
    records = [*pairs([1.0, 1.2, 0.8]), record("a", 7, 99.0, config_hash="another")]
    with pytest.raises(InputError, match="one experiment, scale and configuration"):
        judge(CLAIM, records)


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 5, 9, 10, 30, 101])
def test_intervals_are_those_of_scipy(freedom: int) -> None:
    values = [math.sin(7 * number) for number in range(freedom + 1)]
    _, low, high = interval(values)
    expected = stats.t.interval(0.95, freedom, loc=math.fsum(values) / len(values), scale=stats.sem(values))
    assert (low, high) == pytest.approx(expected, rel=1e-10)
