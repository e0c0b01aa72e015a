"""The page as text: what it says, and that nothing of a record becomes part of its markup."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from geq.errors import DataError
from geq_papers.experiment.record import Record
from geq_papers.report.evidence import Evidence, gather, sort
from geq_papers.report.page import page, sections
from geq_papers.report.section import Section
from geq_papers.report.table import ReportTable
from synthetic_records import experiments, record, records, write

HOSTILE = '"><script>alert(1)</script><img src=https://example.com/x onerror=alert(2)>|\n=1+1'


class Outline(HTMLParser):
    """Elements with their attributes, and the text outside of style and script."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.inside = tag

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        if self.inside not in ("style", "script"):
            self.words += data

    def count(self, name: str) -> int:
        return sum(tag == name for tag, _ in self.elements)


def outline(text: str) -> Outline:
    found = Outline()
    found.feed(text)
    found.close()
    return found


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    return sort(records(), [], experiments())


@pytest.fixture(scope="module")
def parts(evidence: Evidence) -> list[Section]:
    return sections(evidence)


@pytest.fixture(scope="module")
def text(evidence: Evidence, parts: list[Section]) -> str:
    return page(evidence, parts)


def table_of(parts: list[Section], name: str) -> ReportTable:
    return next(table for part in parts for table in part.tables if table.anchor == name)


def test_claims_come_first_with_every_verdict(parts: list[Section]) -> None:
    assert parts[0].anchor == "claims"
    rows = {row["claim"]: row for row in csv.DictReader(io.StringIO(table_of(parts, "claims").csv()))}
    better = rows["GEQ is more accurate than MOptEq on CIFAR-10"]
    assert (better["verdict"], better["seeds"], better["published difference"]) == ("holds", "5", "1.0")
    assert 0 < float(better["low"]) < float(better["our difference"]) < float(better["high"])
    assert rows["GEQ is more accurate than a ResNet of the same size"]["verdict"] == "fails"
    (asked,) = csv.DictReader(io.StringIO(table_of(parts, "own-questions").csv()))
    assert asked["claim"] == "GEQ is more accurate than its γ = 0 control", "no paper claims it"
    assert asked["claim"] not in rows
    assert rows["γ = 0.5 is better than γ = 2"]["verdict"] == "undecided at this scale", (
        "two seeds decide nothing"
    )
    (other,) = csv.DictReader(io.StringIO(table_of(parts, "claims-that-were-not-run").csv()))
    assert (other["claim"], other["verdict"]) == ("Deep OptEq segments better than FCN", "not run")


def test_published_and_obtained_stand_side_by_side(parts: list[Section]) -> None:
    table = table_of(parts, "geq-table-1a-small")
    labels = [column.full_label for column in table.columns]
    at = labels.index("test accuracy (%): published")
    assert labels[at + 1] == "test accuracy (%): ours"
    rows = {row[0].text: row for row in table.rows}
    assert rows["MOptEq"][at].text == "94.6 ± 0.2"
    values = [
        one.metrics["test_accuracy"]
        for one in records()
        if (one.experiment, one.arm) == ("geq-table-1a", "mopteq")
    ]
    assert rows["MOptEq"][at + 1].value == pytest.approx(sum(values) / 5)
    assert rows["GEQ, γ = 0"][at].text == "–"


def test_markdown_has_what_the_page_has(parts: list[Section]) -> None:
    lines = table_of(parts, "geq-table-1a-small").markdown().splitlines()
    assert lines[0] == "### GEQ table 1a, scale small"
    assert any(line.startswith("| MOptEq | ") and "94.6 ± 0.2" in line for line in lines)


def test_the_same_records_give_the_same_bytes(text: str) -> None:
    again = sort(list(reversed(records())), [], experiments())
    assert page(again, sections(again)) == text


def test_the_page_begins_with_its_doctype(text: str) -> None:
    assert text.startswith('<!DOCTYPE html>\n<html lang="en">')


def test_nothing_is_loaded_from_anywhere(text: str) -> None:
    found = outline(text)
    for tag, attributes in found.elements:
        assert tag not in ("link", "iframe", "object", "embed", "base", "audio", "video"), tag
        for name in ("src", "href", "action", "srcset", "data", "poster"):
            value = attributes.get(name) or "#"
            assert value.startswith(("#", "data:image/png;base64,")), value
    assert not re.search(r"@import|url\(|fetch\(|XMLHttpRequest|https?://", text)
    (policy,) = [a["content"] for _, a in found.elements if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None
    assert policy.startswith("default-src 'none'")


def test_figures_have_words(text: str) -> None:
    found = outline(text)
    assert found.count("figure") == found.count("figcaption") == 9
    for tag, attributes in found.elements:
        if tag == "svg":
            assert attributes.get("aria-label") or attributes.get("aria-hidden") == "true"


def hostile_record() -> Record:
    """Every string, key and value that a line of JSON can hold, as bad as can be."""
    base = record("geq-table-1a", "geq", 0, 70.0)
    epochs = [{"epoch": HOSTILE, "train_loss": 1.0}, {"epoch": 1, "train_loss": HOSTILE, HOSTILE: [HOSTILE]}]
    return replace(
        base,
        experiment=HOSTILE,
        scale=HOSTILE,
        arm=HOSTILE,
        config_hash=HOSTILE,
        commit=HOSTILE,
        config={HOSTILE: HOSTILE},
        versions={HOSTILE: HOSTILE},
        machine={HOSTILE: {HOSTILE: 1}},
        epochs=epochs,
        metrics={HOSTILE: 1.0, f"corruption/{HOSTILE}": 2.0, "test_accuracy": HOSTILE, "parameters": 10**400},
        solver={"evaluations": [], "residual": HOSTILE},
        finished=HOSTILE,
    )


def test_hostile_records_stay_text(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    folder.mkdir()
    (folder / "a.jsonl").write_text(
        f"{hostile_record().line()}\n{json.dumps({'format': HOSTILE})}\n{HOSTILE}\n"
    )
    evidence = gather(folder, experiments())
    parts = sections(evidence)
    text = page(evidence, parts)
    found = outline(text)
    assert found.count("script") == 1
    assert found.count("img") == 0
    assert not [a for _, a in found.elements if any(name.startswith("on") for name in a)]
    assert "<script>alert(1)" in found.words, "it is shown, as text"
    for part in parts:
        for table in part.tables:
            assert "<script" not in table.markdown()
            assert re.fullmatch(r"[a-z0-9-]+", table.anchor)


def test_broken_and_foreign_lines_are_named_and_the_rest_is_shown(tmp_path: Path) -> None:
    write(tmp_path, records()[:5])
    (tmp_path / "small" / "foreign.jsonl").write_bytes(b'{"format": 9}\n\xff\xfe{\n[1]\n')
    evidence = gather(tmp_path, experiments())
    assert len(evidence.complaints) == 3
    assert len(evidence.records) == 5
    words = outline(page(evidence, sections(evidence))).words
    assert "3 remarks on the records; everything else is shown." in words
    assert "foreign.jsonl, line 2" in words


def test_an_empty_folder_names_the_command_that_fills_it(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="geq reproduce"):
        gather(tmp_path, experiments())
    with pytest.raises(DataError, match="is not there"):
        gather(tmp_path / "missing", experiments())
    (tmp_path / "a.jsonl").write_text("{}\n")
    with pytest.raises(DataError, match="1 lines are something else"):
        gather(tmp_path, experiments())


def test_configurations_are_not_mixed() -> None:
    old = [
        replace(record("geq-table-1a", "geq", seed, 10.0), config_hash="0" * 12, finished="2020")
        for seed in range(3)
    ]
    new = [record("geq-table-1a", "geq", seed, 70.0) for seed in range(2)]
    found = sort(old + new, [], experiments())
    assert [one.config_hash for one in found.records] == [new[0].config_hash] * 2
    assert "3 runs of geq with an older configuration are left out" in found.complaints[0]
    chosen = sort(
        old + new, [], experiments(), lambda experiment, scale, given: (given[:3], ["two are left out"])
    )
    assert len(chosen.records) == 3
    assert chosen.complaints == ("two are left out",)


def test_many_arms_are_drawn_in_parts_and_folded() -> None:
    found = [record("another", f"arm-{number:02}", 0, 50.0) for number in range(14)]
    evidence = sort(found, [], {})
    text = page(evidence, sections(evidence))
    assert outline(text).count("figure") == 6, "accuracy and loss, in three parts each"
    assert "training loss, part 3 of 3" in text
    assert "<summary>6 training curves</summary>" in text
    assert "this version knows no such experiment" in text


def test_a_validation_at_the_end_is_no_curve() -> None:
    """The accuracy of the training images, known for each epoch, is drawn instead."""
    lines = [{"epoch": number, "train_accuracy": 40.0 + number} for number in (1, 2, 3)]
    once, always = (
        [*lines[:2], {**lines[2], "validation_accuracy": 41.0}],
        [{**line, "validation_accuracy": 41.0} for line in lines],
    )
    for epochs, drawn, not_drawn in (
        (once, "Training accuracy (%) after", "Validation accuracy (%) after"),
        (always, "Validation accuracy (%) after", "Training accuracy (%) after"),
        (once[2:], "Validation accuracy (%) after", "Training accuracy (%) after"),
    ):
        evidence = sort([replace(record("another", "arm", 0, 50.0), epochs=epochs)], [], {})
        text = page(evidence, sections(evidence))
        assert drawn in text
        assert not_drawn not in text


def test_axes_of_one_name_share_a_picture() -> None:
    known = experiments()
    halves = {"γ, low": {"gamma-0.1": 0.1, "gamma-0.25": 0.25}, "γ, high": {"gamma-1": 1, "gamma-2": 2}}
    known["kerdeq-gamma"] = replace(known["kerdeq-gamma"], axes=halves)
    evidence = sort(records(), [], known)
    text = page(evidence, sections(evidence))
    assert text.count("test accuracy over γ.</strong>") == 1
    assert "Best γ: 0.25 (low), 1 (high)." in text


def test_a_seed_counts_once() -> None:
    first = record("geq-table-1a", "geq", 0, 10.0, {"finished": "2026-01-01"})
    again = record("geq-table-1a", "geq", 0, 70.0, {"finished": "2026-01-02"})
    found = sort([again, first], [], experiments())
    assert [one.metrics["test_accuracy"] for one in found.records] == [again.metrics["test_accuracy"]]
    assert "the last counts" in found.complaints[0]


def test_a_number_that_is_none_leaves_a_gap_not_a_hole() -> None:
    found = [
        record("geq-table-1a", "geq", seed, 70.0, {"metrics": {"test_accuracy": None}}) for seed in range(3)
    ]
    evidence = sort(found, [], experiments())
    row = table_of(sections(evidence), "geq-table-1a-small").rows[0]
    assert row[0].text == "GEQ"
    assert row[3].text == "–"
