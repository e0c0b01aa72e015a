"""Every kind of file that a run or a reproduction leaves, cut at several places.

A command then gives what the whole files give, or a sentence that says what is wrong: nothing else.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

from geq.training.run import RunFolder
from geq_papers.experiment.record import read_records
from stress.fault.child import Child, End, done, geq
from stress.fault.reproduction import command as reproduce
from stress.fault.reproduction import results
from stress.fault.run import options, timeless
from stress.fault.scale import Scale, Trials
from stress.part import Row

FILES = ("config.yaml", "last.ckpt", "log.jsonl", "environment.json", "data.json", "fingerprint.json")
MODEL = ("model/model.safetensors", "model/config.json")


def attack(scale: Scale) -> Iterator[Row]:
    yield run_files(scale)
    yield record_files(scale)


def cuts(path: Path, scale: Scale) -> list[int]:
    """Lengths to which a file is cut: nothing, a little less than all, and places between."""
    size = path.stat().st_size
    chance = scale.random(path.name)
    between = [chance.randrange(1, size) for _ in range(scale.pick(0, 3))]
    return sorted({0, size // 2, size - 1, *between})


def run_files(scale: Scale) -> Row:
    folder = scale.within("runs")
    given = options(model="dnn_tiny", runs=folder)
    done(geq("train", *given, "--name=whole", "--quiet"), folder / "log.txt")
    expected = [timeless(line) for line in RunFolder(folder / "whole").log()]
    figures = timeless(json.loads(evaluated(folder / "whole", folder).text))
    trials, resumed = Trials("files of a run, cut", ""), 0
    for name in (*FILES, *MODEL):
        for length in cuts(folder / "whole" / name, scale):
            run = folder / "cut"
            shutil.rmtree(run, ignore_errors=True)
            shutil.copytree(folder / "whole", run)
            with (run / name).open("r+b") as file:
                file.truncate(length)
            if name in MODEL:
                ended = evaluated(run, folder)
                right = ended.code == 0 and timeless(json.loads(ended.text)) == {**figures, "run": str(run)}
            else:
                ended = Child(geq("train", "--resume", run, "--quiet"), folder / "log.txt").wait()
                right = ended.code == 0 and [timeless(line) for line in RunFolder(run).log()] == expected
            resumed += right
            told = f"{name} of {length} bytes: {ended.code} {ended.text[-300:]}"
            trials.add([] if right or ended.clear else [told])
    trials.good = f"{resumed} gave the undisturbed result from what is whole, the others a sentence"
    return trials.row()


def evaluated(run: Path, folder: Path) -> End:
    return Child(geq("evaluate", run, "--json"), folder / "evaluated.txt").wait()


def record_files(scale: Scale) -> Row:
    """A reproduction whose records are cut makes them again from its runs, which are not trained again."""
    folder = scale.within("records")
    done(reproduce(folder, 1), folder / "log.txt")
    expected = results(folder)
    (table,) = (folder / "results").rglob("*.jsonl")
    (record,) = folder.glob("runs/*/record-*.json")
    (weights,) = folder.glob("runs/*/model/model.safetensors")
    kept = {path: path.read_bytes() for path in (table, record)}
    trained = weights.stat().st_mtime_ns
    trials = Trials("records, cut", "made again from the finished run, which is not trained again")
    for path in (table, record):
        for length in cuts(path, scale):
            for other, content in kept.items():
                other.write_bytes(content)
            if path == record:
                table.unlink()  # else nobody looks at the other
            path.write_bytes(kept[path][:length])
            ended = Child(reproduce(folder, 1), folder / "log.txt").wait()
            complaints = read_records(table)[1]
            # A line that was cut in the results stays there, complained of, for its owner to look at.
            right = results(folder) == expected and (ended.code == 0 or (path == table and bool(complaints)))
            right = right and weights.stat().st_mtime_ns == trained and "Traceback" not in ended.text
            told = f"{path.name} of {length} bytes: {ended.code} {ended.text[-300:]}"
            trials.add([] if right else [told])
    return trials.row()
