"""The learning rate against its formulas."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geq.training.optimizer import learning_rate_factor
from geq.training.train_options import ScheduleOptions


def factors(options: ScheduleOptions, steps_per_epoch: int = 10) -> list[float]:
    return [
        learning_rate_factor(options, step, steps_per_epoch)
        for step in range(options.epochs * steps_per_epoch)
    ]


def test_warm_up_rises_to_one_with_its_last_step() -> None:
    values = factors(ScheduleOptions(epochs=5, warmup_epochs=2.0))
    assert values[:20] == pytest.approx([(step + 1) / 20 for step in range(20)])
    assert values[20] == 1.0


def test_cosine() -> None:
    values = factors(ScheduleOptions(epochs=4, warmup_epochs=0.0))
    assert values == pytest.approx([0.5 + 0.5 * math.cos(math.pi * step / 40) for step in range(40)])


def test_poly() -> None:
    values = factors(ScheduleOptions(epochs=4, warmup_epochs=0.0, schedule="poly", power=2.0))
    assert values == pytest.approx([(1 - step / 40) ** 2 for step in range(40)])


def test_step() -> None:
    options = ScheduleOptions(
        epochs=4, warmup_epochs=0.0, schedule="step", milestones=(0.5, 0.75), step_factor=0.1
    )
    assert factors(options) == pytest.approx([1.0] * 20 + [0.1] * 10 + [0.01] * 10)


def test_constant() -> None:
    assert set(factors(ScheduleOptions(epochs=2, warmup_epochs=0.0, schedule="constant"))) == {1.0}


@given(
    kind=st.sampled_from(["cosine", "poly", "step", "constant"]),
    epochs=st.integers(1, 9),
    warmup=st.floats(0, 12),
    per_epoch=st.integers(1, 7),
)
def test_never_above_one_and_falling_after_the_warm_up(
    kind: str, epochs: int, warmup: float, per_epoch: int
) -> None:
    options = ScheduleOptions(epochs=epochs, warmup_epochs=warmup, schedule=kind)  # type: ignore[arg-type]
    values = factors(options, per_epoch)
    assert all(0 <= value <= 1 for value in values)
    rest = values[round(warmup * per_epoch) :]
    assert rest == sorted(rest, reverse=True)
