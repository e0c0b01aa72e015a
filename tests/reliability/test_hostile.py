"""Every hostile case of the stress suite: refused in words, nothing executed, nothing written elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from stress.attack import Ground, HostileCase, examine
from stress.hostile import CASES

from geq.errors import DataError


@pytest.mark.parametrize(
    "case", [case for cases in CASES.values() for case in cases], ids=lambda case: case.name
)
def test_a_hostile_file_is_refused(case: HostileCase, tmp_path: Path) -> None:
    assert examine(case, tmp_path) is None


def refuse(ground: Ground) -> None:
    raise DataError("refused")


def execute(ground: Ground) -> None:
    ground.canary.touch()
    refuse(ground)


def overwrite(ground: Ground) -> None:
    (ground.outside / "precious.txt").write_text("hostile")
    refuse(ground)


def escape(ground: Ground) -> None:
    (ground.outside / "new.txt").touch()
    refuse(ground)


@pytest.mark.parametrize(
    ("attack", "words"),
    [
        (lambda ground: None, "was not refused"),
        (lambda ground: 1 // 0, "ZeroDivisionError instead"),
        (execute, "was executed"),
        (overwrite, "outside of its folder"),
        (escape, "outside of its folder"),
    ],
)
def test_the_judge_notices(attack: object, words: str, tmp_path: Path) -> None:
    assert words in (examine(HostileCase("guilty", attack), tmp_path) or "")  # type: ignore[arg-type]


def test_the_judge_accepts_a_refusal(tmp_path: Path) -> None:
    assert examine(HostileCase("innocent", refuse), tmp_path) is None
