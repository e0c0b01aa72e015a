"""Batches of a dataset: shuffled, augmented, shared among processes, and the same every time.

Batch k of an epoch depends on (seed, epoch, k, rank) alone. Each worker makes whole batches, so their
number changes nothing, and a run that resumes at batch k continues exactly.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.utils import data

from geq.data.dataset import Dataset
from geq.data.transform.base import Transform
from geq.errors import CheckedOptions, DataError, GeqError, OptionError, check_seed

NEWS = 2.0
"""Seconds from the break of a worker's connection to the news of its death, at most."""

Batch = tuple[Float[Tensor, "b c h w"], Int64[Tensor, " b *mask"]]


def seeded(*key: int) -> torch.Generator:
    """A generator that depends on every number of ``key``; near keys give unrelated streams."""
    state = np.random.SeedSequence(key).generate_state(1, np.uint64)
    return torch.Generator().manual_seed(int(state[0] >> np.uint64(1)))


@dataclass(frozen=True)
class _Epoch(data.Dataset[Batch]):
    """The batches of one epoch by number: what a worker process gets."""

    dataset: Dataset
    transform: Transform
    order: Int64[Tensor, " n"]
    batch_size: int
    key: tuple[int, ...]

    def __getitem__(self, number: int) -> Batch:
        chosen = self.order[number * self.batch_size : (number + 1) * self.batch_size]
        images, labels = self.dataset.batch(chosen)
        generator = seeded(*self.key, number)
        if labels.ndim == 1:
            result = self.transform(images, generator)
        else:
            result, labels = self.transform.with_masks(images, labels, generator)
        if not result.is_floating_point():
            raise OptionError("a loader's transform must give floats: end it with Normalize")
        return result, labels


@dataclass(frozen=True)
class _Returned(data.Dataset["Batch | GeqError"]):
    """The batches, and errors instead of those that cannot be made: torch would put its worker's traceback
    into their text.
    """

    batches: _Epoch

    def __getitem__(self, number: int) -> Batch | GeqError:
        try:
            return self.batches[number]
        except GeqError as error:
            return error


class WorkerDeath(DataError):
    """A process that makes batches is no more."""


def _received(results: Iterator[Batch | GeqError]) -> Iterator[Batch]:
    """The batches of ``results``, whose workers end with the last one, with an error, or with the caller.

    No error that leaves here may hold ``results``, nor torch's frames, which do: code that keeps the error
    would keep the workers, and their end could meet the news of another worker's death, which is lost then.
    """
    try:
        for result in results:
            if isinstance(result, GeqError):
                raise result
            yield result
        return
    except (RuntimeError, ConnectionError, EOFError) as problem:
        try:
            death = _cause(problem)
        except RuntimeError as told:  # torch's signal handler raises at an arbitrary point, once
            death = worker_death(told)
        if death is None:
            raise
    finally:
        del results
    raise WorkerDeath(death)


def _cause(problem: Exception) -> str | None:
    """A sentence on the worker that has died, if that is what ``problem`` comes of."""
    if isinstance(problem, RuntimeError) or str(problem).startswith("Caught"):
        return worker_death(problem)
    time.sleep(NEWS)  # the connection broke first: the signal says more, and better raises here than later
    return _sentence(str(problem))


def worker_death(problem: BaseException) -> str | None:
    """Return a sentence if ``problem`` is torch's report of a dead worker."""
    if not (isinstance(problem, RuntimeError) and str(problem).startswith("DataLoader worker (pid")):
        return None
    return _sentence(str(problem))


def _sentence(reason: str) -> str:
    return (
        f"a process that makes batches has died ({reason.strip().rstrip('.')}), perhaps killed by the system "
        "for want of memory: take fewer --workers, or 0."
    )


class BatchLoader(metaclass=CheckedOptions):
    """Iterates over ``(normalised float images, labels)``; ``set_epoch`` chooses the order and the
    augmentation.

    With ``world_size`` > 1, process ``rank`` gets every ``world_size``-th image of the epoch's order.
    Training (``shuffle``) needs equally many batches everywhere: the order is cut (``drop_last``) or its
    start repeated to fit. Without ``shuffle`` every image is seen exactly once, so that sums over processes
    are right.

    ``num_workers`` 0 makes batches in this process, which is fastest for arrays in memory; files want
    workers.
    """

    def __init__(
        self,
        dataset: Dataset,
        batch_size: int,
        *,
        transform: Transform,
        shuffle: bool = False,
        seed: int = 0,
        drop_last: bool = False,
        num_workers: int = 0,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        if batch_size < 1 or num_workers < 0:
            raise OptionError(
                f"batch_size must be positive, num_workers not negative: got {batch_size}, {num_workers}"
            )
        check_seed(seed)
        if not 0 <= rank < world_size:
            raise OptionError(f"rank must lie in 0..world_size - 1: got rank {rank} of {world_size}")
        self.dataset = dataset
        self.batch_size = batch_size
        self.transform = transform
        self.shuffle = shuffle
        self.seed = seed
        self.drop_last = drop_last
        self.num_workers = num_workers
        self.rank = rank
        self.world_size = world_size
        self.epoch = 0
        if len(self) == 0:
            raise OptionError(
                f"{dataset.name} has {len(dataset)} images: not one batch of {batch_size} for each of "
                f"{world_size} processes; take a smaller batch_size, or drop_last=False"
            )

    def set_epoch(self, epoch: int) -> None:
        if epoch < 0:
            raise OptionError(f"epoch must not be negative: got {epoch}")
        self.epoch = epoch

    def __len__(self) -> int:
        share = self._share(len(self.dataset))
        return share // self.batch_size if self.drop_last else -(-share // self.batch_size)

    def __iter__(self) -> Iterator[Batch]:
        return self.iterate(self.epoch)

    def iterate(self, epoch: int, start_batch: int = 0) -> Iterator[Batch]:
        """The batches of ``epoch`` from number ``start_batch`` on: what a resumed run continues with."""
        if not 0 <= start_batch <= len(self):
            raise OptionError(f"start_batch must lie in 0..{len(self)}: got {start_batch}")
        batches = _Epoch(
            self.dataset,
            self.transform,
            self._order(epoch),
            self.batch_size,
            (self.seed, epoch, 1, self.rank),
        )
        numbers = range(start_batch, len(self))
        if self.num_workers == 0:
            return (batches[number] for number in numbers)
        # batch_size=None: an item is a batch already, and the workers' results come in the order of
        # `numbers`.
        return _received(
            iter(
                data.DataLoader(
                    _Returned(batches),
                    batch_size=None,
                    sampler=numbers,
                    num_workers=self.num_workers,
                    # From the global one, each start of workers would take a number, and a run that resumes
                    # starts them once more than an undisturbed one.
                    generator=torch.Generator(),
                )
            )
        )

    def _share(self, length: int) -> int:
        """Return the number of images of this process."""
        if self.shuffle:
            return length // self.world_size if self.drop_last else -(-length // self.world_size)
        return len(range(self.rank, length, self.world_size))

    def _order(self, epoch: int) -> Int64[Tensor, " m"]:
        length = len(self.dataset)
        if not self.shuffle:
            return torch.arange(self.rank, length, self.world_size)
        order = torch.randperm(length, generator=seeded(self.seed, epoch, 0))
        share = self._share(length)
        return order.repeat(-(-share * self.world_size // length))[: share * self.world_size][
            self.rank :: self.world_size
        ]
