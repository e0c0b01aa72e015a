"""Trains: a new run, or the rest of an interrupted one."""

from __future__ import annotations

import logging
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from rich.console import Console

from geq.atomic_io import explained_write_errors
from geq.errors import CheckpointError, GeqError
from geq.model.network import Network
from geq.training.checkpoint import Checkpoint
from geq.training.device import build_fabric, is_first, limited_threads, quiet_lightning
from geq.training.environment import describe_environment, differences
from geq.training.loop import Loop
from geq.training.photo_folder_options import in_words, named_in_full
from geq.training.process_monitor import explained_deaths
from geq.training.run_folder import RunFolder
from geq.training.segmentation_task import task_class
from geq.training.setup import Datasets, build_model, evaluation_loader, open_datasets, open_split
from geq.training.train_options import TrainOptions

if TYPE_CHECKING:
    from lightning.fabric import Fabric

log = logging.getLogger("geq.training")


@dataclass(frozen=True)
class TrainingOutcome:
    """A finished run: its folder, the lines of its log, and the last of them."""

    folder: RunFolder
    history: list[dict[str, Any]]
    final: dict[str, Any]


def train(options: TrainOptions, console: Console | None = None) -> TrainingOutcome | None:
    """Start a new run; None in processes other than the first, which write nothing.

    Seeds the global generators of torch, numpy and Python.
    """
    options = named_in_full(options)
    fabric = build_fabric(options)  # devices that are not there are an error before anything is written
    data = open_datasets(options)
    if console is not None and fabric.is_global_zero:
        for line in in_words(options, data.train, data.monitored, data.test):
            console.print(line, highlight=False, soft_wrap=True, markup=False)
    seed_everything(options.seed)
    description = data.describe()
    model = build_model(options, description)
    task_class(model, data.train)  # and so is a network that does not fit the data
    with limited_threads(options, model):
        if not fabric.is_global_zero:
            _join(fabric, options, model, data, None)
            return None
        folder = RunFolder.create(options)
        with folder.locked(), explained_write_errors(folder.path, "Nothing was trained."):
            folder.write_fingerprints(data.fingerprints())
            folder.describe(options, describe_environment(options.seed), description)
        return _complete(fabric, folder, options, model, data, None, console)


def resume(folder: RunFolder, console: Console | None = None) -> TrainingOutcome | None:
    """Go on where a run was interrupted; on the same machine the result has the same bits."""
    options = folder.options()
    final = _result(folder)
    if final is not None:
        if options.picture and not folder.picture.exists() and is_first():
            _draw_again(folder, options)
        return TrainingOutcome(folder, folder.epochs(), final)
    fabric = build_fabric(options)
    # Killed before the first checkpoint, a run begins again.
    checkpoint = Checkpoint.load(folder.checkpoint) if folder.checkpoint.exists() else None
    data = open_datasets(options)
    data.check_unchanged(folder.fingerprints())
    seed_everything(options.seed)
    model = _network(options, data, checkpoint)
    with limited_threads(options, model):
        if not fabric.is_global_zero:
            _join(fabric, options, model, data, checkpoint)
            return None
        changed = differences(folder.environment(), describe_environment(options.seed))
        if changed:
            log.warning(
                "changed since the start of the run, so its last bits may differ: %s", ", ".join(changed)
            )
        return _complete(fabric, folder, options, model, data, checkpoint, console)


def _network(options: TrainOptions, data: Datasets, checkpoint: Checkpoint | None) -> Network:
    """Return the network with the weights of ``checkpoint``, in the format that they were trained in."""
    model = build_model(options, data.describe())
    if options.precision == "64":
        model.double()  # Fabric does so later, when a network in single precision has rounded the weights
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
            task_class(network, test)(network, options).draw(folder, test)
    except GeqError as problem:
        log.warning("the picture of the run is missing, and cannot be drawn: %s", problem)


def seed_everything(seed: int) -> None:
    torch.manual_seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - the global generator is meant
    random.seed(seed)


def _join(
    fabric: Fabric, options: TrainOptions, model: Network, data: Datasets, checkpoint: Checkpoint | None
) -> None:
    """Take part in a training that another process writes."""
    with explained_deaths(_safe(None)), quiet_lightning():
        task = task_class(model, data.train)(model, options)
        Loop(fabric, task, data, checkpoint=checkpoint).run(_safe(None))


def _complete(
    fabric: Fabric,
    folder: RunFolder,
    options: TrainOptions,
    model: Network,
    data: Datasets,
    checkpoint: Checkpoint | None,
    console: Console | None,
) -> TrainingOutcome:
    safe = _safe(folder)
    with folder.locked(), explained_write_errors(folder.path, safe), explained_deaths(safe):
        folder.clean()
        with quiet_lightning():
            task = task_class(model, data.train)(model, options)
            history = Loop(fabric, task, data, folder, console, checkpoint).run(safe)
        if options.early_stop is None:
            model.save_pretrained(folder.model)
        # Evaluate the saved network, not the one in memory.
        saved = Network.from_pretrained(folder.model)
        task = task_class(saved, data.test)(saved, options)
        batches = evaluation_loader(data.test, statistics=data.statistics, workers=options.workers)
        result = task.evaluate(batches)
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
            task.draw(folder, data.test)
    return TrainingOutcome(folder, history, final)


def _safe(folder: RunFolder | None) -> str:
    """Return the message for an interrupted run."""
    if folder is None:  # of another process
        return "The last checkpoint is whole: continue with 'geq train --resume' and the folder of the run."
    return f"The last checkpoint is whole: afterwards continue with 'geq train --resume {folder.path}'."
