"""A search over γ rule, patch, split and learning rate that can be stopped and resumed.

Trials are ranked by the accuracy on validation images; the test set decides nothing. A study is a
folder with one run per trial and Optuna's records in ``study.db``.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from geq.atomic_io import explained_write_errors
from geq.errors import LARGEST_SEED, ConvergenceError, GeqError, InputError, MissingExtraError, OptionError
from geq.model.model_registry import model_spec
from geq.safe_parsing import short
from geq.training.headline_metric import headline_of
from geq.training.run_folder import CONFIG, RunFolder
from geq.training.train_options import LONGEST_NAME, TrainOptions, demand, is_folder_name

if TYPE_CHECKING:
    import optuna

log = logging.getLogger("geq.training")

UNFIT = "unfit"


@dataclass(frozen=True)
class SearchOptions:
    """search

    Args:
        study: name of the study's folder below --runs; an existing one is continued.
        trials: finished trials to reach, those of earlier calls included.
        gamma: γ rules to try.
        patch: sides of a patch to try.
        split: channels of a patch to try.
        lowest_rate: smallest learning rate.
        highest_rate: largest learning rate.
    """

    study: str = "study"
    trials: int = 20
    gamma: tuple[str, ...] = ("learned", "paper", "zero")
    patch: tuple[int, ...] = (1, 2, 4)
    split: tuple[int, ...] = (4, 8, 16)
    lowest_rate: float = 0.02
    highest_rate: float = 0.5

    def __post_init__(self) -> None:
        demand(
            is_folder_name(self.study),
            f"study must be the name of one folder, at most {LONGEST_NAME} bytes",
            short(self.study),
        )
        demand(self.trials >= 1, "trials must be at least 1", self.trials)
        demand(
            0 < self.lowest_rate < self.highest_rate,
            "the learning rates must satisfy 0 < lowest < highest",
            (self.lowest_rate, self.highest_rate),
        )

    def choices(self) -> dict[str, tuple[Any, ...]]:
        """Field of a network's configuration -> values to try."""
        return {"gamma": self.gamma, "patch": self.patch, "channel_split": self.split}


@dataclass(frozen=True)
class Search:
    """A study: what is searched, on what, and where it is kept."""

    search: SearchOptions
    base: TrainOptions

    def __post_init__(self) -> None:
        if not self.base.validation:
            raise OptionError("a search needs validation images, for instance --validation 0.2")
        if self.base.world_size > 1:
            raise OptionError("a search trains on one device: got --devices × --num_nodes above 1")

    @property
    def folder(self) -> Path:
        return Path(self.base.runs) / self.search.study

    def run_of(self, number: int) -> RunFolder:
        return RunFolder(self.folder / f"trial-{number:03d}")

    def options_for(self, trial: optuna.Trial) -> TrainOptions:
        """The base with what this trial tries; only fields that the network has are searched."""
        spec = model_spec(self.base.model)
        fields = {item.name for item in dataclasses.fields(spec.config)}
        for field, values in self.search.choices().items():
            if field in fields:
                trial.suggest_categorical(field, list(values))
        trial.suggest_float("learning_rate", self.search.lowest_rate, self.search.highest_rate, log=True)
        return dataclasses.replace(
            self.with_choices(trial.params),
            runs=str(self.folder),
            name=self.run_of(trial.number).name,
            picture=False,
        )

    def with_choices(self, chosen: dict[str, Any]) -> TrainOptions:
        """The base with the parameters of a trial."""
        override = {**self.base.override, **chosen}
        rate = override.pop("learning_rate")
        return dataclasses.replace(self.base, override=override, learning_rate=rate)

    def continue_until_done(self, report: Callable[[optuna.trial.FrozenTrial], None]) -> optuna.Study:
        """Finish interrupted trials, then add new ones up to ``trials``."""
        from geq.training.fit import train  # loads Lightning, which the options of a search do not need

        optuna = _optuna()
        with explained_write_errors(self.folder, "Finished trials are kept."):
            self.folder.mkdir(parents=True, exist_ok=True)
            study = optuna.create_study(
                study_name=self.search.study,
                storage=f"sqlite:///{self.folder / 'study.db'}",
                direction="maximize",
                load_if_exists=True,
            )
            for number in self._interrupted(study):
                self._finish(study, number)
                report(study.trials[number])
            while len(self.judged(study)) < self.search.trials:
                # A sampler for each trial: a continued study proposes what an undisturbed one would.
                seed = (self.base.seed + len(study.trials)) % (LARGEST_SEED + 1)
                study.sampler = optuna.samplers.TPESampler(seed=seed)
                trial = study.ask()
                try:
                    options = self.options_for(trial)
                    value = self._value(train(options))
                except (InputError, OptionError, ConvergenceError) as problem:
                    trial.set_user_attr(UNFIT, str(problem))
                    study.tell(trial, state=optuna.trial.TrialState.PRUNED)
                else:
                    study.tell(trial, value)
                report(study.trials[trial.number])
        return study

    def judged(self, study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
        return [trial for trial in study.trials if trial.state.is_finished()]

    def _interrupted(self, study: optuna.Study) -> list[int]:
        return [trial.number for trial in study.trials if trial.state.name == "RUNNING"]

    def _finish(self, study: optuna.Study, number: int) -> None:
        from geq.training.fit import resume

        optuna = _optuna()
        folder = self.run_of(number)
        if not (folder.path / CONFIG).exists():
            study.tell(number, state=optuna.trial.TrialState.FAIL)
            return
        try:
            study.tell(number, self._value(resume(folder)))
        except (InputError, ConvergenceError):
            study.tell(number, state=optuna.trial.TrialState.PRUNED)

    @staticmethod
    def _value(outcome: Any) -> float:
        """The accuracy (or mIoU) on the validation images after the last evaluation."""
        for record in reversed(outcome.history):
            reached = headline_of(record, "validation")
            if reached is not None:
                return reached[1]
        raise GeqError("a trial must be evaluated at least once: --evaluate_every must not exceed --epochs")


def _optuna() -> Any:
    try:
        import optuna
    except ImportError as problem:
        raise MissingExtraError.naming("optuna", "tune", "geq tune") from problem
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
