"""The training loop: epoch, batch, step, measure, log, checkpoint.

Lightning Fabric places the network on its device, starts the processes and keeps the number format; all that
is done, and in which order, is here.
"""

from __future__ import annotations

import time
from contextlib import ExitStack, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from rich.console import Console
from torch import Tensor, nn

from geq.constraints.spectral import constraint_memory, restore_constraint_memory
from geq.equilibrium import ignore_failures
from geq.errors import ConvergenceError
from geq.training.checkpoint import Checkpoint, Position, random_state, restore_random_state
from geq.training.interrupt import Interrupt, TrainingInterrupted
from geq.training.metrics import SolverMeasures
from geq.training.optimizer import build_optimizer, learning_rate_factor
from geq.training.process_monitor import ProcessMonitor
from geq.training.run_folder import RunFolder
from geq.training.run_log import EpochBar, Journal
from geq.training.setup import Datasets, evaluation_batch, evaluation_loader, training_loader
from geq.training.task import Task
from geq.training.training_monitors import AttentionStatistics, EarlyStop, GradientNorm, SolverStatistics
from geq.training.weight_average import WeightAverage, average_scales

if TYPE_CHECKING:
    from lightning.fabric import Fabric

PROBED = 64
"""Images on which attention and energy are followed."""


class Loop:
    """The training of one network, from a position on.

    Args:
        fabric: devices and processes.
        task: the network, its loss and its measures.
        data: of the run.
        folder: where to write; None in processes that do not.
        console: where to show the progress; None for nowhere.
        checkpoint: checkpoint to resume from; None to begin.
    """

    def __init__(
        self,
        fabric: Fabric,
        task: Task,
        data: Datasets,
        folder: RunFolder | None = None,
        console: Console | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        options = task.options
        self.fabric, self.task, self.model, self.options = fabric, task, task.model, options
        self.folder, self.first = folder, fabric.is_global_zero
        rank, processes = fabric.global_rank, fabric.world_size
        self.batches = training_loader(options, data.train, options.seed, rank, processes)
        self.held_out_name = data.monitored_name
        self.held_out = evaluation_loader(
            data.monitored,
            statistics=data.statistics,
            workers=options.workers,
            rank=rank,
            world_size=processes,
        )
        self.position = Position()
        self.history: list[dict[str, Any]] = []
        self.average = WeightAverage(self.model, options.ema) if options.ema else None
        self.measures = task.new_measures()
        self.gradient = GradientNorm()
        self.solver = self.attention = None
        if self.model.equilibria():
            self.solver = SolverStatistics(options.unconverged_warning)
            number = min(PROBED, evaluation_batch(data.monitored))
            probed = evaluation_loader(data.monitored, statistics=data.statistics, batch_size=number)
            decays = options.decay_all and options.weight_decay > 0
            self.attention = AttentionStatistics(next(iter(probed))[0], decays)
        self.best = None if options.early_stop is None else EarlyStop(options.early_stop)
        self.bar: EpochBar | None = None
        if console is not None and self.first:
            self.bar = EpochBar(console, data.monitored_name, options.epochs * len(self.batches))
        self.interrupt = Interrupt()
        self.checkpoint = None if checkpoint is None else checkpoint.of_process(rank)
        if self.checkpoint is not None:
            self.restore(self.checkpoint)

    @property
    def finished(self) -> bool:
        epoch = self.position.epoch
        return epoch >= self.options.epochs or (self.best is not None and self.best.exhausted(epoch))

    def run(self, safe: str) -> list[dict[str, Any]]:
        """Train the network in place, to the averaged weights if the run has them; returns the log.

        Args:
            safe: what to log where another process dies.
        """
        if not self.finished:
            with ExitStack() as stack:
                self.begin(stack, safe)
                while not self.finished:
                    self.epoch()
        if self.average is not None:
            self.average.swap(self.model)
        self.model.cpu()
        return self.history

    def begin(self, stack: ExitStack, safe: str) -> None:
        """Start the processes, and put everything where it is used; ``stack`` undoes it."""
        stack.enter_context(ignore_failures(self.model))  # the log counts them, and warns above a share
        self.fabric.launch()
        processes = ProcessMonitor(safe)
        stack.callback(processes.stop)
        processes.start(list(getattr(self.fabric.strategy.launcher, "procs", ())))
        if self.options.sync_batchnorm and self.fabric.world_size > 1:
            nn.SyncBatchNorm.convert_sync_batchnorm(self.model)
        self.module = self.fabric.setup_module(self.model)
        self.optimizer = build_optimizer(self.options, self.model)
        self.precision = self.fabric.strategy.precision
        if self.average is not None:
            self.average.follow(self.model)
        self.measures.to(self.fabric.device)
        self.gradient.measures.to(self.fabric.device)
        if self.solver is not None:
            self.solver.measures.to(self.fabric.device)
        if self.attention is not None and self.first:
            self.attention.begin(self.model)
        self.journal = None if self.folder is None else Journal(self.folder, self.position.step)
        if self.journal is not None:
            stack.callback(self.journal.close)
        if self.bar is not None:
            stack.callback(self.bar.stop)
            self.bar.start(self.position)
        stack.callback(self.interrupt.stop)
        self.interrupt.start()
        if self.checkpoint is not None:
            self.optimizer.load_state_dict(self.checkpoint.optimizer)
            self.precision.load_state_dict(self.checkpoint.scaler)
            restore_random_state(self.checkpoint.random)
            self.checkpoint = None

    def epoch(self) -> None:
        """Train on the rest of an epoch, evaluate, log and save."""
        wall, processor = time.perf_counter(), time.process_time()
        self.model.train()
        for images, labels in self.batches.iterate(self.position.epoch, self.position.batch):
            images, labels = self.received(images, labels)
            loss, outputs = self.step(images, labels)
            # The last batch of an epoch is followed by its evaluation: save and stop after that.
            within_epoch = self.position.batch < len(self.batches)
            every = self.options.checkpoint_steps
            if every and self.position.step % every == 0 and within_epoch:
                self.save()
            if self.bar is not None:
                self.bar.step(self.position, self.task, loss, outputs, labels)
            if within_epoch and self.asked_to_stop():
                self.save()
                raise self.stopped()
        number = self.position.epoch + 1
        record: dict[str, float] = {}
        if number % self.options.evaluate_every == 0:
            record |= self.evaluate(number)
        record["learning_rate"] = self.optimizer.param_groups[0]["lr"]
        record["seconds"] = time.perf_counter() - wall
        record["cpu_seconds"] = time.process_time() - processor
        record |= self.measures.finish("train") | self.gradient.finish_epoch()
        if self.solver is not None:
            record |= self.solver.finish_epoch(number, self.model, self.first)
        self.position = self.position.after_epoch()
        line = {"kind": "epoch", "epoch": number, "step": self.position.step}
        self.history.append(line | dict(sorted(record.items())))
        self.save()
        if self.journal is not None:
            self.journal.write(self.history)
        if self.bar is not None:
            self.bar.epoch(self.history[-1])
        if number < self.options.epochs and self.asked_to_stop():
            raise self.stopped()

    def step(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Take one step of the optimiser; returns the loss and the outputs."""
        factor = learning_rate_factor(self.options, self.position.step, len(self.batches))
        for group in self.optimizer.param_groups:
            group["lr"] = self.options.learning_rate * factor
        with self.precision.forward_context():
            outputs = self.module(images)
            loss = self.task.loss(outputs, labels, self.options.label_smoothing)
            if not bool(torch.isfinite(loss)):
                raise ConvergenceError(
                    f"the loss became {float(loss.detach())} in step {self.position.step + 1}: try a lower "
                    "--learning_rate, a longer --warmup_epochs or a smaller --clip"
                )
            self.measures.update(loss, outputs, labels)
        self.optimizer.zero_grad()
        self.fabric.backward(loss)
        self.precision.unscale_gradients(self.optimizer)
        self.gradient.update(self.model)
        if self.options.clip:
            parameters = self.precision.main_params(self.optimizer)
            nn.utils.clip_grad_norm_(parameters, self.options.clip)
        self.fabric.strategy.optimizer_step(self.optimizer)
        self.position = self.position.after_batch()
        if self.average is not None:
            self.average.update(self.model)
        if self.solver is not None:
            self.solver.measures.update(self.model, len(images))
        if self.fabric.world_size > 1:
            average_scales(self.model, self.fabric)
        return loss.detach(), outputs.detach()

    @torch.no_grad()
    def evaluate(self, epoch: int) -> dict[str, float]:
        """Measure the held-out images, with the averaged weights if there are such."""
        if self.fabric.world_size > 1:  # running statistics are those of the first process
            for buffer in self.model.buffers():
                torch.distributed.broadcast(buffer, 0)
        measures = self.task.new_measures().to(self.fabric.device)
        solver = SolverMeasures().to(self.fabric.device)
        lent = nullcontext() if self.average is None else self.average.lent_to(self.model)
        with lent, ignore_failures(self.model):
            self.model.eval()
            for images, labels in self.held_out:
                with self.precision.forward_context():
                    self.task.measure(*self.received(images, labels), measures, solver)
            name = self.held_out_name
            record = measures.finish(name) | solver.finish(name)
            if self.attention is not None and self.first:
                record |= self.attention.look(self.model, epoch)
            best = self.best is not None and self.best.improved(record[f"{name}_{self.task.headline}"], epoch)
            if best and self.folder is not None:
                self.model.save_pretrained(self.folder.model)
        return record

    def received(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return the batch on this device, in the number format of the run."""
        return self.precision.convert_input(self.fabric.to_device((images, labels)))

    def asked_to_stop(self) -> bool:
        # All processes must stop after the same batch: one that continued would wait for the others for ever.
        return self.fabric.strategy.reduce_boolean_decision(self.interrupt.requested, all=False)

    def stopped(self) -> TrainingInterrupted:
        epoch = f"epoch {self.position.epoch + 1} of {self.options.epochs}"
        where = f"stopped in {epoch}, after step {self.position.step}"
        if self.folder is None:
            return TrainingInterrupted(where)
        return TrainingInterrupted(
            f"{where}; everything is saved. Continue with:\n  geq train --resume {self.folder.path}"
        )

    def monitors(self) -> dict[str, Any]:
        """Return what a checkpoint keeps of the measurements, by class."""
        found = (self.gradient, self.solver, self.attention, self.best)
        return {type(monitor).__name__: monitor for monitor in found if monitor is not None}

    def save(self) -> None:
        """Write the checkpoint; every process gives what it has for itself."""
        own = {
            "measures": dict(self.measures.state_dict()),
            "callbacks": {name: monitor.state_dict() for name, monitor in self.monitors().items()},
            "random": random_state(),
        }
        everyone: list[dict[str, Any]] = [own]
        if self.fabric.world_size > 1:
            everyone = [own] * self.fabric.world_size
            torch.distributed.all_gather_object(everyone, own)
        if self.folder is None:
            return
        Checkpoint(
            position=vars(self.position),
            model=self.model.state_dict(),
            norms=constraint_memory(self.model),
            optimizer=self.optimizer.state_dict(),
            scaler=self.precision.state_dict(),
            average=None if self.average is None else self.average.state_dict(),
            history=self.history,
            others=everyone[1:],
            **own,
        ).save(self.folder.checkpoint)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go on where a checkpoint was written; the network has its weights already."""
        self.position = Position(**checkpoint.position)
        self.history = list(checkpoint.history)
        restore_constraint_memory(self.model, checkpoint.norms)
        self.measures.load_state_dict(checkpoint.measures)
        if self.average is not None and checkpoint.average is not None:
            self.average.load_state_dict(checkpoint.average)
        for name, monitor in self.monitors().items():
            if name in checkpoint.callbacks:
                monitor.load_state_dict(checkpoint.callbacks[name])
