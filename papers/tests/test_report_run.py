"""Analyses of runs on the page: drawn from JSON, embedded where there is only a picture."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from geq.errors import DataError
from geq_papers.report.evidence import sort
from geq_papers.report.page import page
from geq_papers.report.section import Section
from geq_papers.report.section.run import MOST, SIGNATURE, runs
from synthetic_records import experiments, records

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
BINS = [
    {"from": 0.0, "to": 0.5, "images": 0, "confidence": None, "accuracy": None},
    {"from": 0.5, "to": 1.0, "images": 40, "confidence": 0.8, "accuracy": 0.7},
]


def body(section: Section) -> str:
    text = page(sort(records(), [], experiments()), [section])
    return text.partition('<section id="analysis">')[2].partition("</section>")[0]


def analysis(folder: Path, name: str, values: object) -> None:
    (folder / "analysis").mkdir(parents=True, exist_ok=True)
    (folder / "analysis" / f"{name}.json").write_text(json.dumps({"values": values}))


def test_reliability_and_corruption_are_drawn_anew(tmp_path: Path) -> None:
    run = tmp_path / "geq-1"
    analysis(run, "calibration", {"bins": BINS})
    analysis(run, "corruption", {"runs": {"geq-1": {"errors": {"shot_noise": [30.0, 50.0]}}}})
    (run / "analysis" / "calibration.png").write_bytes(PIXEL)
    section = runs(tmp_path)
    assert section is not None
    text = body(section)
    assert "Expected calibration error 0.100" in text
    assert "geq-1, shot noise: 60" in text
    assert "<img" not in text, "what is drawn needs no picture"


def test_pictures_are_embedded(tmp_path: Path) -> None:
    run = tmp_path / "small" / "geq-1"
    (run / "analysis").mkdir(parents=True)
    (run / "explain").mkdir()
    (run / "analysis" / "calibration.png").write_bytes(PIXEL)
    for number in range(MOST + 2):
        (run / "explain" / f"frog-{number}.saliency.png").write_bytes(PIXEL)
    section = runs(tmp_path)
    assert section is not None
    text = body(section)
    assert text.count('<img src="data:image/png;base64,') == MOST + 1
    assert "small/geq-1: saliency of frog-0" in text
    assert "2 of 10 saliency grids" in text


def test_damaged_files_are_named(tmp_path: Path) -> None:
    run = tmp_path / "geq-1"
    analysis(run, "calibration", {"bins": [{"from": "<script>"}]})
    analysis(run, "corruption", [1])
    (run / "analysis" / "ood.png").write_bytes(b"<svg onload=alert(1)>")
    (run / "analysis" / "attack.png").write_bytes(SIGNATURE + bytes(4_000_000))
    section = runs(tmp_path)
    assert section is not None
    text = body(section)
    for file in ("calibration.json", "corruption.json", "ood.png", "attack.png"):
        assert file in text
    assert "<img" not in text
    assert "<script" not in text


def test_without_analyses_there_is_no_section(tmp_path: Path) -> None:
    assert runs(tmp_path) is None
    with pytest.raises(DataError, match="must be a folder of runs"):
        runs(tmp_path / "missing")
