"""Tables of single classes in ``geq evaluate``."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from geq.command.class_table import MATRIX, MISTAKES, WORST, class_accuracy, class_tables, mistakes
from geq.training.run_picture import draw_confusion


def matrix(number: int) -> tuple[list[list[int]], tuple[str, ...]]:
    """Counts in which class k is right 2k times and taken for its successor k + 1 times."""
    counts = np.diag(2 * np.arange(number))
    for k in range(number):
        counts[k, (k + 1) % number] += k + 1
    return counts.tolist(), tuple(f"class_{k:02d}" for k in range(number))


def printed(number: int) -> str:
    console = Console(width=200, file=io.StringIO(), record=True)
    for part in class_tables(*matrix(number)):
        console.print(part)
    return console.export_text()


def test_few_classes_are_shown_with_the_whole_matrix() -> None:
    rows = {line.split()[0]: line.split()[1:] for line in printed(4).splitlines() if "class_" in line}
    assert rows["class_02"] == ["7", "57.14", "%", "·", "·", "4", "3"]
    assert rows["class_03"] == ["10", "60.00", "%", "4", "·", "·", "6"]
    assert rows["class_00"] == ["1", "0.00", "%", "·", "1", "·", "·"]


def test_of_many_classes_the_worst_are_shown() -> None:
    text = printed(MATRIX + 8)
    worst, _, frequent = text.partition("The most frequent mistakes:")
    named = [line.split()[0] for line in worst.splitlines() if line.strip().startswith("class_")]
    assert named == [f"class_{k:02d}" for k in range(WORST)], "small k are right least often"
    taken = [line.split()[:3] for line in frequent.splitlines() if line.strip().startswith("class_")]
    assert taken[0] == ["class_19", "class_00", "20"]
    assert len(taken) == MISTAKES


def test_classes_that_are_not_there_and_classes_without_a_name() -> None:
    counts = [[2, 0, 1], [0, 0, 0], [0, 0, 0]]
    assert class_accuracy(counts, ("cat", "dog")) == {"cat": pytest.approx(200 / 3), "dog": None}
    assert mistakes(counts, ("cat", "dog")) == [("cat", "class 2", 1, pytest.approx(100 / 3))]


@pytest.mark.parametrize("number", [2, 16, 17, 60])
def test_the_picture_has_room_for_any_number_of_classes(number: int) -> None:
    content = draw_confusion(*matrix(number), "title")
    with Image.open(io.BytesIO(content)) as picture:
        pixels = np.asarray(picture.convert("RGB")).astype(int)
    assert content == draw_confusion(*matrix(number), "title"), "the same figure, the same bytes"
    blue = (pixels[..., 2] - pixels[..., 0] > 60).mean()
    assert blue > 0.01, "the diagonal is drawn"
