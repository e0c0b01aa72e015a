"""Nothing that comes from a record becomes markup."""

from __future__ import annotations

import csv
import io

from hypothesis import given, settings
from hypothesis import strategies as st

from geq.safe_parsing import identifier, printable
from geq_papers.report.page import templates
from geq_papers.report.table import Column, ReportTable, TableCell
from markup_reader import READABLE, read


def html(table: ReportTable) -> str:
    return str(templates().get_template("part.html.j2").module.table(table))  # type: ignore[attr-defined]


quickly = settings(deadline=None, max_examples=40)


@quickly
@given(READABLE)
def test_text_and_attributes_survive_as_they_were(words: str) -> None:
    found = read(
        html(ReportTable("t", (Column(words),), ((TableCell(words, words, aside=words, below=(words,)),),)))
    )
    assert ("data-label", words) in found.attributes
    assert ("data-value", TableCell(words, words).sorted_by) in found.attributes
    assert found.words.count(words) >= 4


def test_control_characters_are_replaced() -> None:
    assert printable("a\x00b\x1b[0m\ud800") == "a\ufffdb\ufffd[0m\ufffd"
    assert "a\ufffdb" in html(ReportTable("a\x00b", (Column("n"),), ()))


@quickly
@given(st.text())
def test_identifiers_are_safe_in_links_and_file_names(text: str) -> None:
    found = identifier(text)
    assert found
    assert set(found) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")


@quickly
@given(READABLE)
def test_a_table_keeps_its_shape_in_every_form(hostile: str) -> None:
    table = ReportTable(
        hostile, (Column(hostile), Column("n", numeric=True)), ((TableCell(hostile), TableCell("1", 1.0)),)
    )
    found = read(html(table))
    assert found.tags.count("td") == 2
    assert {"script", "img", "iframe"}.isdisjoint(found.tags)
    lines = [line for line in table.markdown().splitlines() if line.startswith("| ")]
    assert len(lines) == 3
    rows = list(csv.reader(io.StringIO(table.csv())))
    assert [len(row) for row in rows] == [2, 2]
    assert not rows[1][0].startswith(("=", "+", "-", "@"))
    assert rows[1][1] == "1.0"


def test_groups_of_columns_span_their_columns() -> None:
    columns = (Column("model"), Column("published", "accuracy"), Column("ours", "accuracy"), Column("seeds"))
    text = html(ReportTable("t", columns, ()))
    assert '<th scope="colgroup" colspan="2">accuracy</th>' in text
    assert ReportTable("t", columns, ()).csv() == "model,accuracy: published,accuracy: ours,seeds\n"
