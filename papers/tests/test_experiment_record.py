"""Records: what is written is read, and what is broken is named."""

from __future__ import annotations

import json
import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from geq_papers.experiment.record import Record, add_record, read_records, record_path


def record(seed: int = 0, **changes: Any) -> Record:
    values: dict[str, Any] = {
        "experiment": "geq-table-1a",
        "scale": "small",
        "arm": "geq",
        "seed": seed,
        "config_hash": "0123456789ab",
        "config": {"model": "geq_small", "override": ["γ=0"], "train_size": None},
        "commit": "abc1234",
        "versions": {"geq": "0.1", "torch": "2.0", "python": "3.12"},
        "machine": {"cpu": "some", "cores": 2, "device": "cpu"},
        "epochs": [{"epoch": 1, "train_loss": 1.25, "test_accuracy": 61.0}],
        "metrics": {"test_accuracy": 68.25, "parameters": 49005, "corruption/fog": 1 / 3},
        "solver": {"evaluations": 4.9, "residual": 6e-4, "converged": 1.0},
        "cpu_seconds": 523.0,
        "wall_seconds": 530.5,
        "finished": "2026-11-16T01:00:00Z",
    }
    return Record(**{**values, **changes})


def test_round_trip(tmp_path: Path) -> None:
    path = record_path(tmp_path, "small", "geq-table-1a")
    written = [record(0), record(1, commit=None, solver={})]
    for one in written:
        add_record(path, one)
    assert path == tmp_path / "small" / "geq-table-1a.jsonl"
    assert read_records(path) == (written, [])
    assert read_records(tmp_path) == (written, [])
    assert read_records(tmp_path / "nothing.jsonl") == ([], [])


def test_the_training_loss_that_a_run_ended_with_is_a_figure_of_it() -> None:
    epochs = [{"epoch": 1, "train_loss": 1.25}, {"epoch": 2, "train_loss": 0.75, "test_accuracy": 61.0}]
    one = record(epochs=epochs)
    cost = {"cpu_seconds": one.cpu_seconds}
    assert one.figures == {"train_loss": 0.75, **cost, **one.metrics}
    assert record(epochs=[]).figures == record(epochs=[{"epoch": 1}]).figures == cost | one.metrics
    assert record(epochs=epochs, metrics={"train_loss": 0.5}).figures == {"train_loss": 0.5, **cost}


def test_what_is_not_finite_is_null(tmp_path: Path) -> None:
    add_record(tmp_path / "a.jsonl", record(metrics={"test_accuracy": math.nan, "kl": math.inf}))
    (found,), _ = read_records(tmp_path / "a.jsonl")
    assert found.metrics == {"test_accuracy": None, "kl": None}


def test_broken_and_foreign_lines_are_named_and_the_rest_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    whole = json.loads(record(3).line())
    lines = [
        record(0).line(),
        record(1).line()[:50],
        '{"loss": 1}',
        "[1]",
        json.dumps({**whole, "seed": "three"}),
        json.dumps({k: v for k, v in whole.items() if k != "metrics"}),
        json.dumps({**whole, "colour": "red"}),
        json.dumps({**whole, "metrics": 3}),
        json.dumps({**whole, "format": 2}),
        record(2).line(),
    ]
    path.write_bytes("\n".join(lines).encode() + b"\n\xff\xfe\n")
    found, complaints = read_records(path)
    assert [one.seed for one in found] == [0, 2]
    expected = ["not JSON", "format 1: got None", "object", "seed", "misses: metrics", "colour", "metrics"]
    assert len(complaints) == 9
    for number, (what, complaint) in enumerate(zip(expected, complaints, strict=False), 2):
        assert complaint.startswith(f"{path}, line {number}: ")
        assert what in complaint


def test_a_torn_line_stays_and_swallows_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(record(0).line() + "\n" + record(1).line()[:40])
    add_record(path, record(2))
    found, complaints = read_records(path)
    assert [one.seed for one in found] == [0, 2]
    assert len(complaints) == 1
    assert record(1).line()[:40] in path.read_text()


def test_many_writers(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda seed: add_record(path, record(seed)), range(40)))
    found, complaints = read_records(path)
    assert sorted(one.seed for one in found) == list(range(40))
    assert complaints == []


def test_two_commands_that_wait_for_one_run_put_its_record_there_once(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    for seed in (0, 1, 0):
        add_record(path, record(seed))
    assert [one.seed for one in read_records(path)[0]] == [0, 1]
    add_record(path, record(0, cpu_seconds=1.0))  # the run made again, by another configuration or by hand
    assert len(read_records(path)[0]) == 3
