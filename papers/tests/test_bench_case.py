"""Targets, the catalogue, what happens to cases that cannot run, and one case from end to end."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from geq.cli import main
from geq.errors import DataError
from geq_papers.bench.case import BenchCase, BenchSetting, CaseResult, Skip
from geq_papers.bench.case_list import CASES
from geq_papers.bench.case_process import records
from geq_papers.bench.cifar_branches import BRANCHES
from geq_papers.bench.result_tables import markdown, plot, read_records, show
from geq_papers.bench.timing import constant
from geq_papers.command.bench import NAMES


def found(value: float) -> Iterator[CaseResult]:
    yield CaseResult("a thing", constant(value), "× another", at_most=1.0)


def test_targets() -> None:
    assert CaseResult("", constant(2.5), "", at_least=2.5).met is True
    assert CaseResult("", constant(2.4), "", at_least=2.5).met is False
    assert CaseResult("", constant(0.3), "", at_most=0.3).met is True
    assert CaseResult("", constant(0.4), "", at_most=0.3).met is False
    assert CaseResult("", constant(0.4), "").met is None


def test_the_branches_are_those_of_the_cifar_network() -> None:
    from geq.model.geq import CIFAR_5M

    pairs = set(zip(CIFAR_5M.scales, CIFAR_5M.mid_channels, strict=True))
    assert {(branch.side, branch.mid_channels) for branch in BRANCHES} <= pairs


def test_a_case_that_cannot_run_is_named_and_the_others_run() -> None:
    def cannot(setting: BenchSetting) -> Iterator[CaseResult]:
        yield from found(1.0)
        raise Skip("no compiler")

    first, second = records(BenchCase("odd", "", cannot), BenchSetting())
    assert first["status"] == "measured"
    assert (second["status"], second["case"], second["reason"]) == ("skipped", "odd", "no compiler")


def test_without_torchdeq_a_case_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchdeq", None)
    case = CASES["memory_b4"]
    found = list(records(case, BenchSetting(quick=True)))
    assert found[-1]["status"] == "skipped"
    assert "torchdeq is not installed" in found[-1]["reason"]


def test_a_broken_case_is_reported() -> None:
    def broken(setting: BenchSetting) -> Iterator[CaseResult]:
        yield from found(1.0)
        raise ZeroDivisionError("oh")

    assert [r["status"] for r in records(BenchCase("odd", "", broken), BenchSetting())] == [
        "measured",
        "failed",
    ]


def test_table_and_plot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [r for v in (0.5, 2.0) for r in records(BenchCase("odd", "", lambda s: found(v)), BenchSetting())]  # noqa: B023
    rows.append({"case": "other", "status": "skipped", "reason": "no torchdeq"})
    show(rows)
    printed = capsys.readouterr().out
    assert "met" in printed
    assert "missed" in printed
    assert "skipped: other: no torchdeq" in printed
    plot(rows, tmp_path / "bench.png")
    assert (tmp_path / "bench.png").stat().st_size > 1000


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--list"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert names == list(CASES) == list(NAMES)


def test_a_misspelt_case_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--case", "step_b33"]) == 2
    assert "step_b32" in capsys.readouterr().err


def test_a_cheap_case_from_end_to_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "bench.jsonl"
    assert main(["bench", "--case", "gradient_b4", "--quick", "--output", str(output)]) == 0
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    default = next(row for row in rows if row["what"] == "b4 dL/dW, ‖W‖ ≤ 0.95")
    assert default["met"] is True
    assert 0 < default["ratio"]["median"] <= 0.01
    assert not {"seconds", "milliseconds"} & set(default)
    assert "b4 dL/dW, ‖W‖ ≤ 0.95" in capsys.readouterr().out


@pytest.mark.parametrize("page, brief", [("docs/results.md", True), ("benchmarks/README.md", False)])
def test_pages_show_the_records(page: str, brief: bool) -> None:
    """Their tables are what ``geq bench --table`` prints for the records of the repository."""
    root = Path(__file__).resolve().parents[2]
    files = sorted((root / "benchmarks" / "record").glob("*.jsonl"))
    table = markdown((record for path in files for record in read_records(path)), brief)
    assert table.count("\n") > 10
    assert table in (root / page).read_text(encoding="utf-8")


def test_a_file_that_is_no_record_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "bench.jsonl"
    broken.write_text("not json\n")
    with pytest.raises(DataError, match=r"bench\.jsonl must be a file of records"):
        read_records(broken)
