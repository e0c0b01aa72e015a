"""Trains: a new run, or the rest of an interrupted one."""

from __future__ import annotations

import logging
import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from lightning.pytorch import Callback
from lightning.pytorch.utilities import rank_zero_only
from rich.console import Console

from geq.durable import explained_write_errors
from geq.error import CheckpointError, GeqError, OptionError
from geq.model.network import Network
from geq.problem.norm import restore_norm_memory
from geq.training.callback.attention import AttentionStatistics
from geq.training.callback.averaging import Averaging
from geq.training.callback.bar import Bar
from geq.training.callback.clock import Clock
from geq.training.callback.evaluation import Evaluation
from geq.training.callback.gradient import GradientNorm
from geq.training.callback.interrupt import Interrupt
from geq.training.callback.journal import Journal
from geq.training.callback.replica import SharedScales
from geq.training.callback.solver import SolverStatistics
from geq.training.callback.stopping import EarlyStop
from geq.training.checkpoint import Checkpoint, restore_random_state
from geq.training.choice import task_class
from geq.training.company import Company, explained_deaths
from geq.training.engine import begin_at, build_trainer, quiet_lightning
from geq.training.environment import describe_environment, differences
from geq.training.ingredient import (
    Datasets,
    build_model,
    evaluation_batch,
    evaluation_loader,
    open_datasets,
    open_split,
    training_loader,
)
from geq.training.option import TrainOptions
from geq.training.position import Position
from geq.training.run import RunFolder
from geq.training.task import Task
from geq.training.thread import limited_threads

log = logging.getLogger("geq.training")

PROBED = 64
"""Images on which attention and energy are followed."""


@dataclass(frozen=True)
class Outcome:
    """A finished run: its folder, the lines of its log, and the last of them."""

    folder: RunFolder
    history: list[dict[str, Any]]
    final: dict[str, Any]


def train(options: TrainOptions, console: Console | None = None) -> Outcome | None:
    """Start a new run; None in processes other than the first, which write nothing.

    Seeds the global generators of torch, numpy and Python.
    """
    with quiet_lightning():
        build_trainer(options, [])  # devices that are not there are an error before anything is written
    data = open_datasets(options)
    seed_everything(options.seed)
    description = data.describe()
    model = build_model(options, description)
    task_class(
        model, data.train
    )  # a network that does not fit the data is an error before anything is written
    with limited_threads(options, model):
        if not is_first():
            with explained_deaths(_safe(None)):
                _fit(None, options, model, data, None, console)
            return None
        folder = RunFolder.create(options)
        with folder.locked(), explained_write_errors(folder.path, "Nothing was trained."):
            folder.write_fingerprints(data.fingerprints())
            folder.describe(options, describe_environment(options.seed), description)
        return _complete(folder, options, model, data, None, console)


def resume(folder: RunFolder, console: Console | None = None) -> Outcome | None:
    """Go on where a run was interrupted; on the same machine the result has the same bits."""
    options = folder.options()
    if options.strategy == "fsdp":
        raise OptionError("a run with strategy fsdp cannot be resumed; use ddp, whose runs can")
    final = _result(folder)
    if final is not None:
        if options.picture and not folder.picture.exists() and is_first():
            _draw_again(folder, options)
        return Outcome(folder, folder.epochs(), final)
    # Killed before the first checkpoint, a run begins again.
    checkpoint = Checkpoint.load(folder.checkpoint) if folder.checkpoint.exists() else None
    data = open_datasets(options)
    data.check_unchanged(folder.fingerprints())
    seed_everything(options.seed)
    model = _network(options, data, checkpoint)
    with limited_threads(options, model):
        if not is_first():
            with explained_deaths(_safe(None)):
                _fit(None, options, model, data, checkpoint, console)
            return None
        changed = differences(folder.environment(), describe_environment(options.seed))
        if changed:
            log.warning(
                "changed since the start of the run, so its last bits may differ: %s", ", ".join(changed)
            )
        return _complete(folder, options, model, data, checkpoint, console)


def _network(options: TrainOptions, data: Datasets, checkpoint: Checkpoint | None) -> Network:
    """Return the network with the weights of ``checkpoint``, in the format that they were trained in."""
    model = build_model(options, data.describe())
    if options.precision == "64":
        model.double()  # Lightning does so later, when a network in single precision has rounded the weights
    if checkpoint is not None:
        model.load_state_dict(checkpoint.model)
    return model


def _result(folder: RunFolder) -> dict[str, Any] | None:
    """The last line of a finished run; none as well where the log is damaged, which the checkpoint holds."""
    try:
        return folder.result()
    except CheckpointError as problem:
        if not folder.checkpoint.exists():
            raise
        log.warning("%s; the log is written again from the last checkpoint", problem)
        return None


def _draw_again(folder: RunFolder, options: TrainOptions) -> None:
    """The picture comes last, so a run that was killed then has everything else."""
    try:
        test = open_split(options, "test")
        network = Network.from_pretrained(folder.model)
        with folder.locked(), explained_write_errors(folder.path, "The run itself is whole."):
            task_class(network, test).draw(folder, network, test)
    except GeqError as problem:
        log.warning("the picture of the run is missing, and cannot be drawn: %s", problem)


def seed_everything(seed: int) -> None:
    torch.manual_seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - the global generator is meant
    random.seed(seed)


def is_first() -> bool:
    """Whether this process, of all machines, is the one that writes."""
    return process_rank() == 0


def process_rank() -> int:
    """Number of this process among those of all machines."""
    return int(getattr(rank_zero_only, "rank", None) or 0)


def _complete(
    folder: RunFolder,
    options: TrainOptions,
    model: Network,
    data: Datasets,
    checkpoint: Checkpoint | None,
    console: Console | None,
) -> Outcome:
    safe = _safe(folder)
    with folder.locked(), explained_write_errors(folder.path, safe), explained_deaths(safe):
        folder.clean()
        history = _fit(folder, options, model, data, checkpoint, console)
        if (
            options.strategy == "fsdp"
        ):  # here are only parts of the weights; the last checkpoint has them whole
            model = _network(options, data, Checkpoint.load(folder.checkpoint))
        if options.early_stop is None:
            model.save_pretrained(folder.model)
        # What is measured is what was written.
        saved = Network.from_pretrained(folder.model)
        kind = task_class(saved, data.test)
        batches = evaluation_loader(data.test, statistics=data.statistics, workers=options.workers)
        result = kind.evaluate(saved, batches, options)
        final = {
            "kind": "final",
            "epochs": history[-1]["epoch"],
            "step": history[-1]["step"],
            "parameters": saved.parameter_count(),
            "seconds": sum(record["seconds"] for record in history),
            "cpu_seconds": sum(record["cpu_seconds"] for record in history),
            **{f"test_{name}": value for name, value in result.as_mapping().items()},
        }
        folder.write_log([*history, final])
        if options.picture:
            kind.draw(folder, saved, data.test)
    return Outcome(folder, history, final)


def _safe(folder: RunFolder | None) -> str:
    """What to say when a run breaks off."""
    if folder is None:  # of another process
        return "The last checkpoint is whole: continue with 'geq train --resume' and the folder of the run."
    return f"The last checkpoint is whole: afterwards continue with 'geq train --resume {folder.path}'."


def _fit(
    folder: RunFolder | None,
    options: TrainOptions,
    model: Network,
    data: Datasets,
    checkpoint: Checkpoint | None,
    console: Console | None,
) -> list[dict[str, Any]]:
    """Train ``model`` in place (to the averaged weights, if the run has them); returns the log."""
    rank = process_rank()
    checkpoint = None if checkpoint is None else checkpoint.of_process(rank)
    task = task_class(model, data.train)(
        model,
        options,
        training_loader(options, data.train, options.seed, rank, options.world_size),
        Position() if checkpoint is None else Position.from_mapping(checkpoint.position),
        None if checkpoint is None else checkpoint.optimizer,
    )
    history = [] if checkpoint is None else list(checkpoint.history)
    callbacks = _callbacks(folder, task, data, history, console)
    if checkpoint is not None:
        _restore(task, callbacks, checkpoint)
    stopping = [callback for callback in callbacks if isinstance(callback, EarlyStop)]
    if task.position.epoch < options.epochs and not any(c.exhausted(task.position.epoch) for c in stopping):
        with quiet_lightning():
            trainer = build_trainer(options, callbacks)
            begin_at(trainer, task.position.epoch)
            if checkpoint is not None:
                trainer.precision_plugin.load_state_dict(checkpoint.scaler)
                restore_random_state(checkpoint.random)
            monitored = evaluation_loader(
                data.monitored,
                statistics=data.statistics,
                workers=options.workers,
                rank=rank,
                world_size=options.world_size,
            )
            trainer.fit(task, val_dataloaders=monitored)
    if task.average is not None:
        task.average.swap(model)
    model.cpu()
    return history


def _callbacks(
    folder: RunFolder | None,
    task: Task,
    data: Datasets,
    history: list[dict[str, Any]],
    console: Console | None,
) -> list[Callback]:
    """In the order in which they must act: count, measure, decide, write, show, stop."""
    options = task.options
    callbacks: list[Callback] = [Clock()]
    if task.average is not None:
        callbacks.append(Averaging(task.average))
    callbacks += [GradientNorm(), Evaluation(data.monitored_name)]
    if task.model.equilibria():
        callbacks += [SolverStatistics(options.unconverged_warning), SharedScales()]
        if options.strategy != "fsdp":  # whose weights are nowhere whole
            number = min(PROBED, evaluation_batch(data.monitored))
            probed = evaluation_loader(data.monitored, statistics=data.statistics, batch_size=number)
            images, _ = next(iter(probed))
            callbacks.append(AttentionStatistics(images))
    if options.early_stop is not None:
        callbacks.append(EarlyStop(options.early_stop, folder))
    journal = Journal(folder, history, options.checkpoint_steps)
    callbacks.append(journal)
    if console is not None:
        callbacks.append(Bar(console, data.monitored_name, history))
    if options.world_size > 1:
        callbacks.append(Company(_safe(folder)))
    return [*callbacks, Interrupt(journal)]


def _restore(task: Task, callbacks: list[Callback], checkpoint: Checkpoint) -> None:
    restore_norm_memory(task.model, checkpoint.norms)
    task.train_measures.load_state_dict(checkpoint.measures)
    if task.average is not None and checkpoint.average is not None:
        task.average.load_state_dict(checkpoint.average)
    for callback in callbacks:
        state = checkpoint.callbacks.get(type(callback).__name__)
        if state:
            callback.load_state_dict(state)
