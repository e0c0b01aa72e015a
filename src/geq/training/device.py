"""Devices, processes, threads and number formats of a run, by Lightning Fabric.

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
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

import torch

from geq.errors import OptionError
from geq.model.network import Network
from geq.training.train_options import DeviceOptions, TrainOptions

if TYPE_CHECKING:
    from lightning.fabric import Fabric


@contextmanager
def quiet_lightning() -> Iterator[None]:
    """Silence Lightning's messages about hardware and start-up."""
    loggers = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def build_fabric(options: TrainOptions) -> Fabric:
    """Return the devices of the options, not launched yet; raise an error if they are missing."""
    from lightning.fabric import Fabric
    from lightning.fabric.plugins import MixedPrecision
    from lightning.fabric.utilities.exceptions import MisconfigurationException

    class UncachedPrecision(MixedPrecision):
        """Mixed precision that casts a weight at every use.

        Fabric's own casts it once a step, so that the gradients of its uses are added up in half precision.
        Inputs and outputs keep their type.
        """

        def forward_context(self) -> AbstractContextManager[Any]:
            kind = torch.bfloat16 if self.precision == "bf16-mixed" else torch.float16
            return torch.autocast(self.device, dtype=kind, cache_enabled=False)

        def convert_input(self, data: Any) -> Any:
            return data

        def convert_output(self, data: Any) -> Any:
            return data

    if options.deterministic:
        torch.use_deterministic_algorithms(True)
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    try:
        with quiet_lightning():
            fabric = Fabric(
                accelerator=options.accelerator,
                devices=options.devices,
                num_nodes=options.num_nodes,
                strategy="ddp" if options.world_size > 1 else options.strategy,
                precision=options.precision,
            )
    except (ValueError, RuntimeError, MisconfigurationException) as problem:
        raise OptionError(f"these devices cannot be used: {problem}") from problem
    precision = fabric.strategy.precision
    if isinstance(precision, MixedPrecision):
        mixed = UncachedPrecision("bf16-mixed", precision.device)
        if precision.scaler is not None:
            mixed = UncachedPrecision("16-mixed", precision.device, precision.scaler)
        fabric.strategy.precision = mixed
    return fabric


def is_first() -> bool:
    """Return whether this process, of all machines, is the one that writes."""
    from lightning.fabric.utilities.rank_zero import rank_zero_only

    return not getattr(rank_zero_only, "rank", None)


SMALL = 100_000
"""Parameters below which one thread is used: the tensors of such a network are too small to divide, and
threads that wait for a core that another program has cost up to twenty times what they save."""


@contextmanager
def limited_threads(options: DeviceOptions, model: Network) -> Iterator[None]:
    """torch uses the threads of the options inside, and as many as before afterwards."""
    before = torch.get_num_threads()
    chosen = options.threads or (1 if model.parameter_count() < SMALL else before)
    torch.set_num_threads(chosen)
    try:
        yield
    finally:
        torch.set_num_threads(before)
