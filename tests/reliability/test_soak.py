"""The watch over a long training: slopes, and the interruption when its time is over."""

from __future__ import annotations

from pathlib import Path

import pytest
from stress.soak import SHORT, growth, soak


def test_slope_of_known_growth() -> None:
    seconds = [10.0 * number for number in range(700)]
    slope, margin = growth(seconds, [500 + 30 * second / 3600 for second in seconds])
    assert slope == pytest.approx(30, abs=1e-6)
    assert margin < 1e-6


@pytest.mark.slow
def test_training_is_interrupted_when_the_time_is_over(tmp_path: Path) -> None:
    endless = [*SHORT, "--epochs", "100000", "--name", "long"]
    row = soak(endless, tmp_path, every=0.2, most=15 / 3600)
    assert row.detail["hours"] < 1, "it would train for a day"
    assert any("stopped" in line for line in row.detail["end"]), row.detail["end"]
