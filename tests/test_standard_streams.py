"""Output under any encoding, into a closed pipe, a closed stream and a full disk."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from geq.cli import main, summaries
from geq.command.terminal import print_json
from geq.standard_streams import SPELT_OUT, prepare_streams

ENCODINGS = ("ascii", "cp1252", "latin-1", "cp437", "koi8-r", "utf-8", "utf-16")
GEQ = f'"{sys.executable}" -m geq.cli'


class Stream(io.TextIOWrapper):
    """An output of some encoding, strict as a terminal's."""

    def __init__(self, encoding: str) -> None:
        self.content = io.BytesIO()
        super().__init__(self.content, encoding=encoding, errors="strict")

    def text(self) -> str:
        self.flush()
        return self.content.getvalue().decode(self.encoding)


def redirected(encoding: str, monkeypatch: pytest.MonkeyPatch) -> Stream:
    """Not a fixture: pytest sets the output between these and the test."""
    stream = Stream(encoding)
    monkeypatch.setattr(sys, "stdout", stream)
    return stream


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_letter_can_be_written(encoding: str) -> None:
    everything = "".join(map(chr, range(0x20, 0x3000))) + "\U0001f600\udc80"
    assert everything.encode(encoding, SPELT_OUT)
    assert "β ‖W‖ ≤ 1 → ✓ 3×3 Γ".encode("ascii", SPELT_OUT) == b"beta ||W|| <= 1 -> ok 3x3 Gamma"


def test_only_encoding_is_helped() -> None:
    with pytest.raises(UnicodeDecodeError):
        b"\xff".decode("utf-8", SPELT_OUT)


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["show", "geq_tiny"],
        ["data", "list"],
        ["doctor"],
        ["bench", "--list"],
        ["weights", "geq-digits"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_commands_survive_every_encoding(
    arguments: list[str], encoding: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    output = redirected(encoding, monkeypatch)
    assert main(arguments) == 0
    assert output.text()


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
@pytest.mark.parametrize("name", summaries())
def test_every_help_survives(name: str, encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    output = redirected(encoding, monkeypatch)
    arguments = ["data", "list"] if name == "data" else [name]
    with pytest.raises(SystemExit) as end:
        main([*arguments, "--help"])
    assert end.value.code == 0
    assert "usage" in output.text().lower()


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_a_training_survives(encoding: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ended after its first epoch, because of the letter β."""
    output = redirected(encoding, monkeypatch)
    few = ["--train_size", "32", "--epochs", "2", "--picture", "false", "--threads", "1"]
    assert main(["train", *few, "--runs", str(tmp_path), "--name", "é→β"]) == 0
    assert "beta 0." in output.text() or "beta 1." in output.text()
    assert (tmp_path / "é→β" / "model" / "model.safetensors").exists()
    assert main(["runs", "--runs", str(tmp_path), "--json"]) == 0
    found = output.text()
    assert json.loads(found[found.index("[\n") :])[0]["name"] == "é→β"


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_json_keeps_every_letter(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    output = redirected(encoding, monkeypatch)
    prepare_streams()
    value = {"name": "β ≤ é \U0001f600", "file": "\udc80"}
    print_json(value)
    assert json.loads(output.text()) == value


@pytest.mark.slow
@pytest.mark.parametrize(
    "environment",
    [
        {"PYTHONIOENCODING": "cp1252"},
        {"PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
    ids=lambda environment: next(iter(environment)) + "=" + next(iter(environment.values())),
)
def test_a_whole_process_survives(environment: dict[str, str], tmp_path: Path) -> None:
    few = "--train_size 32 --epochs 1"
    for command in (f"train {few} --runs {tmp_path} --name a", f"evaluate a --runs {tmp_path}", "doctor"):
        done = subprocess.run(
            f"{GEQ} {command}",
            shell=True,
            capture_output=True,
            env={**os.environ, **environment},
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert b"Traceback" not in done.stderr


CLOSED = {
    "a pipe whose reader has ended": "({ %s 2>&3; } | true) 3>&1",
    "no output": "%s 2>&1 >&-",
    "no output and no input": "%s 2>&1 >&- <&-",
    "neither output nor error stream": "%s >&- 2>&-",
    "a full disk": "%s 2>&1 >/dev/full",
}


@pytest.mark.slow
@pytest.mark.parametrize("command", ["--help", "train --help", "show geq_tiny", "nonsense", "models x"])
@pytest.mark.parametrize("how", CLOSED)
def test_an_output_that_is_closed_gives_no_traceback(how: str, command: str, tmp_path: Path) -> None:
    line = CLOSED[how] % f"{GEQ} {command}"
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, encoding="utf-8", cwd=tmp_path, check=False
    )
    said = done.stdout + done.stderr
    assert "Traceback" not in said
    assert "Exception ignored" not in said
    assert len(said.splitlines()) <= 1, said
    assert all(words.startswith("geq: error:") for words in said.splitlines())


@pytest.mark.slow
def test_a_training_without_output_is_finished(tmp_path: Path) -> None:
    few = "--model dnn_tiny --train_size 32 --epochs 2 --picture false"
    line = f"{GEQ} train {few} --runs {tmp_path} --name quiet >&- 2>&-"
    assert subprocess.run(["bash", "-c", line], check=False).returncode == 0
    assert "final" in (tmp_path / "quiet" / "log.jsonl").read_text()
