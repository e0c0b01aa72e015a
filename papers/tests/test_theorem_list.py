"""The table of theorems: every one of them on random instances, and what a failure looks like."""

from __future__ import annotations

import math

import pytest

from geq.errors import OptionError
from geq_papers.theorem import THEOREMS, Comparison, TheoremCheck, check_theorem, check_theorems


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", THEOREMS)
def test_every_theorem_holds(name: str, seed: int) -> None:
    check = check_theorem(name, seed)
    assert check.holds, check.verdict
    assert check.largest_error <= max(comparison.tolerance for comparison in check.comparisons)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(3, 30))
def test_every_theorem_holds_for_many_instances(seed: int) -> None:
    for check in check_theorems(seed).values():
        assert check.holds, check.verdict


def test_a_seed_is_an_instance() -> None:
    assert check_theorem("theorem-2", 1) == check_theorem("theorem-2", 1)
    assert check_theorem("theorem-2", 1) != check_theorem("theorem-2", 4)


def test_unknown_names_are_answered_with_the_nearest() -> None:
    with pytest.raises(OptionError, match="unknown theorem 'teorem-2'; did you mean 'theorem-2'"):
        check_theorem("teorem-2")


def test_a_failed_check_says_what_failed() -> None:
    good, bad = Comparison("one", 0.0, 1e-9), Comparison("two", 0.5, 1e-9)
    check = TheoremCheck("theorem 0", "claim", (good, bad))
    assert not check.holds
    assert check.largest_error == 0.5
    assert check.verdict == "theorem 0 fails: two: 0.5 > 1e-09"
    assert not Comparison("nan", math.nan, 1.0).holds
