"""Terminal and script behaviour of every command: colours, quiet, JSON, Ctrl-C and a closed pipe."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from stress.soak import heed_interrupts

from geq.cli import main, summaries
from geq.command.argument_parser import parse
from geq.command.completion_words import syntax_of
from geq.command.terminal import console_for, print_json
from geq.errors import OptionError

GEQ = [sys.executable, "-m", "geq.cli"]

SCRIPTED = {
    "analyze",
    "bench",
    "compare",
    "data check",
    "data list",
    "doctor",
    "evaluate",
    "explain",
    "models",
    "predict",
    "report",
    "reproduce",
    "runs",
    "show",
    "theorems",
    "tradeoff",
    "train",
    "tune",
}
"""Commands that tell a script what they found."""

SILENT = {
    "analyze",
    "data check",
    "data corrupt",
    "data fetch",
    "doctor",
    "explain",
    "export",
    "predict",
    "report",
    "reproduce",
    "tradeoff",
    "train",
    "tune",
    "weights",
}
"""Commands that leave files, or whose exit status says it all."""


@pytest.mark.slow
def test_each_command_has_the_output_that_scripts_want() -> None:
    syntaxes = [syntax for name in summaries() for syntax in syntax_of(name)]
    flags = {syntax.name: {option.flag for option in syntax.options} for syntax in syntaxes}
    assert {name for name in SCRIPTED if "--json" not in flags[name]} == set()
    assert {name for name in SILENT if "--quiet" not in flags[name]} == set()


@pytest.mark.parametrize(
    ("arguments", "keys"),
    [
        (["show", "resnet_tiny", "--json"], {"model", "source", "reported", "tree"}),
        (["data", "list", "--json"], {"root", "datasets"}),
        (["data", "check", "digits", "--json"], {"root", "problems", "checked"}),
        (["models", "geq_tiny*", "--json"], None),
        (["reproduce", "--json"], None),
        (["bench", "--list", "--json"], None),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_the_output_is_one_document(
    arguments: list[str], keys: set[str] | None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 0
    found = json.loads(capsys.readouterr().out)
    if keys is None:
        assert all("name" in row for row in found)
        assert found
    else:
        assert set(found) == keys


def test_the_tree_of_a_network_counts_what_it_holds(capsys: pytest.CaptureFixture[str]) -> None:
    main(["show", "geq_tiny", "--json"])
    tree = json.loads(capsys.readouterr().out)["tree"]
    main(["models", "geq_tiny", "--json"])
    assert tree["parameters"] == json.loads(capsys.readouterr().out)[0]["parameters"]
    assert tree["outputs"] == [[10]]
    assert sum(child["parameters"] for child in tree["children"]) == tree["parameters"]
    main(["show", "geq_tiny", "--json", "--depth", "1"])
    shallow = json.loads(capsys.readouterr().out)["tree"]
    assert all(child["children"] == [] for child in shallow["children"])


def test_training_for_scripts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    quick = ["--model", "dnn_tiny", "--epochs", "1", "--train_size", "64", "--picture", "false"]
    assert main(["train", *quick, "--runs", str(tmp_path), "--name", "one", "--json"]) == 0
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert found["run"] == str(tmp_path / "one")
    assert 0 <= found["test_accuracy"] <= 100
    assert "epoch   1" in said.err  # progress is for people
    assert main(["train", *quick, "--runs", str(tmp_path), "--name", "two", "--quiet"]) == 0
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "")
    assert main(["train", "--resume", str(tmp_path / "two"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["test_accuracy"] == found["test_accuracy"]


def test_undefined_numbers_are_null(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": float("nan"), "b": [float("inf"), 1.5]})
    assert json.loads(capsys.readouterr().out) == {"a": None, "b": [None, 1.5]}


def test_no_colours_where_they_are_not_wanted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    console_for().print("[red]word[/red]")
    assert capsys.readouterr().out == "word\n"  # not a terminal
    monkeypatch.setenv("FORCE_COLOR", "1")
    console_for().print("[red]word[/red]")
    assert "\x1b[31m" in capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    console_for().print("[red]word[/red]")
    assert "\x1b[31m" not in capsys.readouterr().out


def on_a_terminal(arguments: list[str], **environment: str) -> tuple[int, str]:
    """The exit status of geq on a terminal of its own, and all that it printed there."""
    pty = pytest.importorskip("pty")
    parent, child = pty.openpty()
    process = subprocess.Popen(
        [*GEQ, *arguments],
        stdin=child,
        stdout=child,
        stderr=child,
        env={**os.environ, "TERM": "xterm", **environment},
    )
    os.close(child)
    printed = b""
    try:
        while chunk := os.read(parent, 4096):
            printed += chunk
    except OSError:
        pass  # the other end is closed
    os.close(parent)
    return process.wait(60), printed.decode()


def test_an_error_is_red_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    status, printed = on_a_terminal(["trian"])
    assert status == 2
    assert printed.startswith("\x1b[1;31mgeq: error:\x1b[0m unknown command 'trian'")
    assert on_a_terminal(["trian"], NO_COLOR="1")[1].startswith("geq: error: unknown")


def test_a_closed_pipe_is_silent() -> None:
    # More than a pipe holds, so that the writer meets its end whatever the timing.
    script = (
        "import geq.cli, geq.errors; geq.cli.overview = lambda: 'word ' * 100_000; geq.cli.main(['--help'])"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", f"import sys; {script}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(10)
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    process.wait(60)


@pytest.mark.slow
def test_a_table_into_a_closed_pipe_is_silent() -> None:
    done = subprocess.run(
        ["bash", "-c", '"$0" -m geq.cli models | head -1', sys.executable],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 1


@contextmanager
def started(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    """A process that heeds interrupts, also where the tests ignore them, and is gone afterwards."""
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_interrupts,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
@pytest.mark.parametrize("wait", [0.0, 0.3, 0.6, 0.9, 1.2])
def test_ctrl_c_is_one_line_and_130(wait: float) -> None:
    """In the middle of loading, where torch would swallow it, or soon after.

    It is told from within the command that it has begun: before, Python itself answers the interrupt.
    """
    script = """
import sys, geq.cli
run = geq.cli.run
def begun(arguments):
    print("begun", flush=True)
    return run(arguments)
geq.cli.run = begun
sys.exit(geq.cli.main(["theorems", "--seeds", "100000"]))
"""
    with started([sys.executable, "-c", script]) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        time.sleep(wait)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert errors == "geq: stopped\n"
    assert process.returncode == 130


@pytest.mark.slow
def test_ctrl_c_in_a_training_says_how_to_go_on(tmp_path: Path) -> None:
    options = ["--epochs", "1000", "--runs", str(tmp_path), "--name", "one", "--picture", "false"]
    with started([*GEQ, "train", *options]) as process:
        deadline = time.monotonic() + 300
        while not (tmp_path / "one" / "last.ckpt").exists():
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "geq train --resume" in output
    assert errors == ""


def test_dashes_and_underscores_are_the_same() -> None:
    def declare(parser: object) -> None:
        parser.add_argument("--data_root", type=str)  # type: ignore[attr-defined]

    assert parse("x", "", ["--data-root", "here"], declare).data_root == "here"
    with pytest.raises(OptionError, match="did you mean '--data_root'"):
        parse("x", "", ["--data-rot", "here"], declare)
