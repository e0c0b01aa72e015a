"""Lightning's Trainer, made from our options and without its noise.

Several devices, several machines
---------------------------------

    geq train --devices 4                                 # one machine: starts the processes itself
    torchrun --nproc-per-node 4 --no-python geq train --devices 4 --name NAME
    srun geq train --devices 4 --num-nodes 2 --name NAME        # SLURM: --ntasks-per-node=4 --nodes=2
    torchrun --nnodes 2 --nproc-per-node 4 --rdzv-endpoint HOST:29500 \\
        --no-python geq train --devices 4 --num-nodes 2 --name NAME

``--batch_size`` is that of all devices together, so the loss curve does not depend on their number. Two
things do: BatchNorm sees the share of one device (``--sync_batchnorm true`` on GPUs), and augmentation draws
its own numbers in each process. Only the first process writes the run.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lightning.pytorch import Callback, Trainer
from lightning.pytorch.utilities.exceptions import MisconfigurationException

from geq.error import OptionError
from geq.training.option import TrainOptions

NOISE = (
    # Lightning's own use of a torch function that torch has renamed.
    r"`isinstance\(treespec, LeafSpec\)` is deprecated",
)
"""Warnings that a user of this package can do nothing about."""


@contextmanager
def quiet_lightning() -> Iterator[None]:
    """Without Lightning's messages about hardware, tips and settings that are meant."""
    loggers = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.WARNING)
    try:
        with warnings.catch_warnings():
            for message in NOISE:
                warnings.filterwarnings("ignore", message=message)
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def build_trainer(options: TrainOptions, callbacks: list[Callback]) -> Trainer:
    """One epoch after the other, evaluated every ``evaluate_every``; all writing is left to the callbacks."""
    strategy: str = options.strategy
    if strategy == "auto" and options.world_size > 1:
        strategy = "ddp"
    try:
        return Trainer(
            accelerator=options.accelerator,
            devices=options.devices,
            num_nodes=options.num_nodes,
            strategy=strategy,
            precision=options.precision,
            max_epochs=options.epochs,
            check_val_every_n_epoch=options.evaluate_every,
            gradient_clip_val=options.clip or None,
            callbacks=callbacks,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            num_sanity_val_steps=0,
            use_distributed_sampler=False,
            sync_batchnorm=options.sync_batchnorm,
            deterministic=options.deterministic or None,
            # The rest of a resumed epoch is shorter than the next one.
            reload_dataloaders_every_n_epochs=1,
        )
    except (ValueError, RuntimeError, MisconfigurationException) as problem:
        raise OptionError(f"these devices cannot be used: {problem}") from problem


def begin_at(trainer: Trainer, epoch: int) -> None:
    """Let the trainer count from ``epoch``, as it does after a checkpoint of its own."""
    progress: Any = trainer.fit_loop.epoch_progress.current
    progress.processed = progress.completed = epoch
