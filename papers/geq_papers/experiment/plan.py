"""Plan of an experiment: its jobs, and the trainings that they share.

A job makes one record. Jobs of different experiments that train the same network in the same way with the
same seed share that training: its folder is named by what it depends on.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from geq.errors import InputError, OptionError, unknown_name
from geq.training.preset import preset_options
from geq.training.run_folder import RunFolder
from geq.training.train_options import CIRCUMSTANCES, TrainOptions
from geq_papers.experiment.experiment import Experiment, Measurement, ScaleName
from geq_papers.experiment.experiment_registry import find_experiment
from geq_papers.experiment.record import Record


@dataclass(frozen=True)
class Job:
    """One record to be made.

    Args:
        experiment, scale, arm: what it belongs to.
        options: of the training, with the seed, the folder of the runs and the name of its own.
        measurements: to be made afterwards.
        config_hash: of the options and measurements.
    """

    experiment: str
    scale: ScaleName
    arm: str
    options: TrainOptions
    measurements: tuple[Measurement, ...]
    config_hash: str

    @property
    def seed(self) -> int:
        return self.options.seed

    @property
    def folder(self) -> RunFolder:
        return RunFolder(Path(self.options.runs) / str(self.options.name))

    @property
    def record_file(self) -> Path:
        """Return the file in which the process of the run stores its record."""
        return self.folder.path / f"record-{self.experiment}-{self.arm}-{self.config_hash}.json"

    def made(self) -> Record | None:
        """The record that was left there; None if there is none, or it is damaged and must be made again."""
        try:
            return Record.from_line(self.record_file.read_text(encoding="utf-8"))
        except (FileNotFoundError, InputError, UnicodeDecodeError):
            return None


@dataclass(frozen=True)
class Work:
    """A training and the jobs that share it."""

    jobs: tuple[Job, ...]

    @property
    def options(self) -> TrainOptions:
        return self.jobs[0].options

    @property
    def folder(self) -> RunFolder:
        return self.jobs[0].folder

    @property
    def label(self) -> str:
        first = self.jobs[0]
        more = f" (+{len(self.jobs) - 1})" if len(self.jobs) > 1 else ""
        return f"{first.experiment} {first.arm}, seed {first.seed}{more}"


def arm_options(experiment: Experiment, scale: ScaleName, arm: str) -> TrainOptions:
    """The options of an arm's training, apart from the seed, the name and the folder."""
    setting = experiment.scale(scale)
    if arm not in experiment.arms:
        raise unknown_name(f"arm of {experiment.name}", arm, experiment.arms)
    chosen = experiment.arms[arm]
    if scale not in chosen.options:
        raise OptionError(f"{experiment.name} has no arm {arm!r} at scale {scale}")
    changes = dict(chosen.options[scale])
    start = preset_options(changes.pop("preset")) if "preset" in changes else {}
    own = TrainOptions.decoded({**setting.recipe, **changes}, f"{experiment.name}: {arm}")
    return TrainOptions(**{**start, **own})


def plan_job(experiment: Experiment, scale: ScaleName, arm: str, seed: int, runs: str | Path) -> Job:
    options = arm_options(experiment, scale, arm)
    measurements = (*experiment.scale(scale).measurements, *experiment.arms[arm].measurements)
    training = trained_by(options)
    name = f"{options.model}-{options.data}-{digest(training)[:8]}-seed{seed}"
    return Job(
        experiment.name,
        scale,
        arm,
        replace(options, seed=seed, runs=str(runs), name=name),
        measurements,
        digest({**training, "measurements": [described(one) for one in measurements]}),
    )


def plan(experiment: Experiment, scale: ScaleName, seeds: int, runs: str | Path) -> list[Job]:
    """The jobs of all arms, seed by seed, so that what is finished early is paired."""
    arms, first = experiment.arms_at(scale), experiment.scale(scale).first_seed
    numbers = range(first, first + seeds)
    return [plan_job(experiment, scale, arm, seed, runs) for seed in numbers for arm in arms]


def distinct_trainings(experiment: Experiment, scale: ScaleName) -> list[TrainOptions]:
    """The trainings of one seed. Arms with equal options share one, as in :func:`grouped`, but no network is
    loaded to find that.
    """
    arms = [arm_options(experiment, scale, arm) for arm in experiment.arms_at(scale)]
    return list({json.dumps(told(options), sort_keys=True): options for options in arms}.values())


def grouped(jobs: Iterable[Job]) -> list[Work]:
    """The trainings, in the order of the first job of each."""
    found: dict[Path, list[Job]] = {}
    for job in jobs:
        found.setdefault(job.folder.path, []).append(job)
    return [Work(tuple(same)) for same in found.values()]


def usable(
    experiment: Experiment | str, scale: ScaleName, records: Iterable[Record]
) -> tuple[list[Record], list[str]]:
    """The records of an experiment that were made as it is configured now, one for each arm and seed (the
    last), and a sentence for what is left out.
    """
    known = find_experiment(experiment) if isinstance(experiment, str) else experiment
    hashes = {arm: plan_job(known, scale, arm, 0, "runs").config_hash for arm in known.arms_at(scale)}
    found: dict[tuple[str, int], Record] = {}
    outdated: dict[tuple[str, str], int] = {}
    for record in records:
        if record.experiment != known.name or record.scale != scale:
            continue
        if record.config_hash == hashes.get(record.arm):
            found[record.arm, record.seed] = record
        else:
            key = (record.arm, record.config_hash)
            outdated[key] = outdated.get(key, 0) + 1
    order = list(known.arms)
    used = [found[key] for key in sorted(found, key=lambda key: (order.index(key[0]), key[1]))]
    return used, [
        f"{known.name}, arm {arm}: {number} record{'s' * (number > 1)} of another configuration "
        f"({config_hash}; now {hashes.get(arm, 'none')}): kept, but not used"
        for (arm, config_hash), number in outdated.items()
    ]


def trained_by(options: TrainOptions) -> dict[str, Any]:
    """All that a training depends on: the options, and what the name of the network stands for."""
    from geq.model.model_registry import model_spec

    mapping = options.as_mapping()
    config = model_spec(options.model).config
    return {
        "options": {name: mapping[name] for name in told(options) if name not in CIRCUMSTANCES},
        "network": told(config),
    }


def told(settings: Any) -> dict[str, Any]:
    """The fields of a dataclass; one that did not exist before changes nothing while it has its default, and
    one that was renamed keeps the name under which it is recorded.
    """
    return {
        item.metadata.get("recorded_as", item.name): getattr(settings, item.name)
        for item in fields(settings)
        if not (item.metadata.get("added_later") and getattr(settings, item.name) == item.default)
    }


def described(measurement: Measurement) -> dict[str, Any]:
    return {"measurement": type(measurement).__name__, **told(measurement)}


def digest(values: Mapping[str, Any]) -> str:
    """
    >>> digest({"a": 1, "b": (2,)}) == digest({"b": [2], "a": 1})
    True
    """
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:12]
