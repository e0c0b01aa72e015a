"""The search: ranked on validation images only, skips what does not fit, resumes where it stopped."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from geq.cli import main
from geq.command.train import SUMMARY, declare
from geq.command.training_arguments import parse_training
from geq.errors import OptionError
from geq.training.hyperparameter_search import Search, SearchOptions
from geq.training.interrupt import TrainingInterrupted
from geq.training.run_folder import RunFolder
from geq.training.train_options import TrainOptions

Small = Callable[..., TrainOptions]


def search(options: TrainOptions, trials: int, **changes: Any) -> Search:
    return Search(SearchOptions(trials=trials, **changes), options)


def params(study: Any) -> list[dict[str, Any]]:
    return [trial.params for trial in study.trials]


def test_trials_differ_and_are_kept(small: Small) -> None:
    base = small(model="geq_tiny", train_size=32, epochs=1, validation=40)
    seen: list[int] = []
    study = search(base, 2, patch=(1, 2)).continue_until_done(lambda trial: seen.append(trial.number))
    assert seen == [0, 1]
    assert set(study.trials[0].params) == {"gamma", "patch", "channel_split", "learning_rate"}
    tried = params(study)
    record = search(base, 2).run_of(0)
    assert record.options().learning_rate == study.trials[0].params["learning_rate"]
    assert record.epochs()[-1]["validation_accuracy"] == study.trials[0].value
    more = search(base, 3, patch=(1, 2)).continue_until_done(lambda trial: None)
    assert params(more)[:2] == tried
    assert len(more.trials) == 3


def test_what_does_not_fit_is_skipped(small: Small) -> None:
    base = small(model="geq_tiny", train_size=32, epochs=1, validation=40)
    study = search(base, 1, patch=(3,)).continue_until_done(lambda trial: None)
    assert study.trials[0].state.name == "PRUNED"
    assert "patch must divide" in study.trials[0].user_attrs["unfit"]


def test_an_interrupted_trial_is_finished(small: Small, interrupt_at: Callable[[set[int]], None]) -> None:
    base = small(epochs=2, validation=40)
    whole = search(base, 2).continue_until_done(lambda trial: None)

    parts = search(dataclasses.replace(base, runs=base.runs + "-parts"), 2)
    interrupt_at({4})
    with pytest.raises(TrainingInterrupted):
        parts.continue_until_done(lambda trial: None)
    study = parts.continue_until_done(lambda trial: None)
    assert params(study) == params(whole)
    assert [trial.value for trial in study.trials] == [trial.value for trial in whole.trials]


def test_the_test_set_must_not_decide(small: Small) -> None:
    with pytest.raises(OptionError, match="--validation"):
        search(small(), 1)


def test_command(small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    options = small()
    arguments = ["--runs", options.runs, "--model=dnn_tiny", "--train_size=32", "--epochs=1", "--trials=1"]
    assert main(["tune", *arguments]) == 0
    printed = capsys.readouterr().out
    # Typed as it is printed, it trains what was judged.
    said = printed.split("train the best: geq train ")[1].strip()
    stated = parse_training("train", SUMMARY, shlex.split(said), declare, {})[1]
    judged = RunFolder.find("trial-000", Path(options.runs) / "study").options()
    assert replace(stated, name="trial-000", runs=judged.runs, picture=False) == judged
    assert stated.runs == options.runs
    assert main(["tune", "--trails=3"]) == 2
    assert "did you mean '--trials'" in capsys.readouterr().err
