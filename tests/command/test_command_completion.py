"""``geq completion``: what a real bash proposes; scripts for zsh and fish, which bash cannot read."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from geq.cli import main, summaries
from geq.command.completion import WRITERS, quoted
from geq.command.completion_words import Syntax, whole_syntax
from geq.data.dataset_registry import dataset_names
from geq.model.model_registry import list_models
from geq_papers.experiment.experiment_registry import EXPERIMENTS, GROUPS


@pytest.fixture(scope="module")
def syntaxes() -> list[Syntax]:
    return whole_syntax()


@pytest.fixture(scope="module")
def script(syntaxes: list[Syntax], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("completion") / "geq.bash"
    path.write_text(WRITERS["bash"](summaries(), syntaxes))
    return path


def proposed(script: Path, folder: Path, *words: str) -> list[str]:
    """Return the proposals of bash for the last of ``words``, which come as bash itself divides them."""
    code = f"""
    source {script}
    COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
    _geq
    printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    done = subprocess.run(
        [bash, "--norc", "--noprofile", "-c", code, "bash", "geq", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_commands(script: Path, tmp_path: Path) -> None:
    assert proposed(script, tmp_path, "") == [*summaries(), "--help", "--version"]
    assert proposed(script, tmp_path, "tr") == ["train", "tradeoff"]
    assert proposed(script, tmp_path, "data", "") == ["list", "check", "fetch", "corrupt"]


def test_options_and_their_choices(script: Path, tmp_path: Path) -> None:
    assert proposed(script, tmp_path, "train", "--mom") == ["--momentum"]
    assert proposed(script, tmp_path, "train", "--model.gamma_") == ["--model.gamma_value"]
    assert proposed(script, tmp_path, "train", "--data.classes", "") == ["all", "known", "unseen"]
    assert proposed(script, tmp_path, "train", "--schedule", "") == ["cosine", "step", "poly", "constant"]
    assert proposed(script, tmp_path, "train", "--schedule", "=", "co") == ["cosine", "constant"]
    assert proposed(script, tmp_path, "train", "--nesterov", "=") == ["true", "false"]
    assert proposed(script, tmp_path, "reproduce", "all", "--scale", "s") == ["smoke", "small"]
    assert proposed(script, tmp_path, "data", "list", "--j") == ["--json"]


def test_names(script: Path, tmp_path: Path) -> None:
    assert proposed(script, tmp_path, "train", "--model", "geq_t") == list_models("geq_t*")
    assert proposed(script, tmp_path, "train", "--seed", "3", "--data", "") == list(dataset_names())
    assert proposed(script, tmp_path, "show", "") == list_models()
    assert proposed(script, tmp_path, "reproduce", "") == [*EXPERIMENTS, *GROUPS]
    assert proposed(script, tmp_path, "data", "check", "digits", "cifar") == ["cifar10", "cifar100"]
    assert "small/geq_cifar10" in proposed(script, tmp_path, "train", "--preset", "small/")
    assert proposed(script, tmp_path, "completion", "z") == ["zsh"]


def test_runs(script: Path, tmp_path: Path) -> None:
    for folder, name in (("runs", "first"), ("runs", "second"), ("other", "third")):
        (tmp_path / folder / name).mkdir(parents=True)
        (tmp_path / folder / name / "config.yaml").touch()
    (tmp_path / "runs" / "no-run").mkdir()
    assert proposed(script, tmp_path, "evaluate", "") == ["first", "second"]
    assert proposed(script, tmp_path, "evaluate", "--batch_size", "8", "s") == ["second"]
    assert proposed(script, tmp_path, "evaluate", "--runs", "other", "") == ["third"]
    assert proposed(script, tmp_path, "evaluate", "--runs", "=", "other", "") == ["third"]
    assert proposed(script, tmp_path, "compare", "first", "") == ["first", "second"]
    assert proposed(script, tmp_path, "train", "--resume", "f") == ["first"]
    # There is only one run to evaluate; behind it come options, and behind 'predict RUN' files.
    assert "--json" in proposed(script, tmp_path, "evaluate", "first", "")
    assert proposed(script, tmp_path, "predict", "first", "") == []


def test_bash_completes_while_one_types(script: Path, tmp_path: Path) -> None:
    """Through bash's own machinery, with a word that only one command begins with."""
    code = f"source {script}; complete -p geq"
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "complete -o default -F _geq geq\n"


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_other_shells_know_the_same(shell: str, syntaxes: list[Syntax], tmp_path: Path) -> None:
    text = WRITERS[shell](summaries(), syntaxes)
    for name in (*summaries(), "geq_tiny", "cifar100", "geq-table-1a", "hsic_fourier"):
        assert name in text
    for syntax in syntaxes:
        for option in syntax.options:
            assert (option.flag if shell == "zsh" else f"-l {option.flag[2:]} ") in text
    assert text.count("'") % 2 == 0
    program = shutil.which(shell)
    if program is None:
        return  # the shell itself would have the last word
    path = tmp_path / "script"
    path.write_text(text)
    subprocess.run([program, "-n", str(path)], check=True)


def test_every_option_takes_what_its_parser_takes(syntaxes: list[Syntax]) -> None:
    train = {
        option.flag: option for syntax in syntaxes if syntax.name == "train" for option in syntax.options
    }
    assert train["--json"].value is None
    assert train["--epochs"].value is not None
    assert train["--epochs"].value.kind == "free"
    assert train["--resume"].value is not None
    assert train["--resume"].value.kind == "run"
    assert all(len(option.summary) <= 72 for syntax in syntaxes for option in syntax.options)


def test_quoting() -> None:
    assert quoted("the run's") == "'the run’s'"


def test_the_command_prints_it(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "fish"]) == 0
    assert "complete -c geq" in capsys.readouterr().out
    assert main(["completion", "fsh"]) == 2
    assert "fish" in capsys.readouterr().err
