"""The page on reliability says what the records say."""

from __future__ import annotations

import json
from pathlib import Path

from stress.record_tables import README, tables, written
from stress.stress_parts import RECORD


def test_readme_has_the_records() -> None:
    text = README.read_text(encoding="utf-8")
    assert text == written(text), "run python -m stress.record_tables"


def test_what_did_not_hold_is_shown(tmp_path: Path) -> None:
    row = {"what": "a|b", "tried": 1200, "survived": 1199, "note": "one\nlost", "held": False}
    record = {"day": "2026-01-01", "seconds": 7200, "versions": {"geq": "1"}, "rows": [row]}
    (tmp_path / "fault.json").write_text(json.dumps(record))
    said = tables(tmp_path)
    assert "2.0 h" in said
    assert r"| a\|b | 1,200 | **1,199** | one lost |" in said


def test_records_name_no_folder_of_a_machine() -> None:
    for path in RECORD.rglob("*.json"):
        text = path.read_text(encoding="utf-8")
        assert not any(place in text for place in ("/home/", "/root/", "/Users/", "/tmp/")), path.name
