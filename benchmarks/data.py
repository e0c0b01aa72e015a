"""Reading and augmenting against training: how much of a step the data may cost.

    python benchmarks/data.py [--model geq_small] [--batch-size 64] [--repeats 5] [--json]

Target: at most 10 % of a training step of geq_small, for each augmentation of CIFAR-10. The images are the
real ones where the data root has them, else random bytes of the same shape, which cost the same. Loading and
stepping are timed in turns, so that a busy machine slows both; medians are compared.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from itertools import islice
from pathlib import Path

import torch

from geq.data.cifar import CIFAR10_CLASSES, CIFAR10_STATISTICS
from geq.data.dataset import ImageDataset
from geq.data.dataset_registry import load_dataset
from geq.data.loader import BatchLoader
from geq.data.transform import Augment, default_transform
from geq.errors import DataError, GeqError

TARGET = 0.10
AUGMENTATIONS: tuple[Augment, ...] = ("none", "crop_flip", "randaugment")


def cifar10(root: Path | None) -> tuple[ImageDataset, str]:
    try:
        dataset = load_dataset("cifar10", "train", root=root, validation=0)
    except DataError:
        images = torch.randint(0, 256, (50_000, 3, 32, 32), dtype=torch.uint8)
        labels = torch.arange(50_000) % 10
        return ImageDataset(
            images, labels, CIFAR10_CLASSES, CIFAR10_STATISTICS, "random", "train"
        ), "random bytes"
    assert isinstance(dataset, ImageDataset)
    return dataset, "CIFAR-10"


def seconds_to_load(loader: BatchLoader, epoch: int, batches: int) -> float:
    start = time.perf_counter()
    for _ in islice(loader.iterate(epoch), batches):
        pass
    return (time.perf_counter() - start) / batches


class Step:
    """Forward, loss, backward and update of one model on one batch."""

    def __init__(self, name: str, images: torch.Tensor, labels: torch.Tensor) -> None:
        from geq.model.model_registry import create_model

        self.model = create_model(name, num_classes=10).train()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)
        self.images, self.labels = images, labels

    def seconds(self) -> float:
        start = time.perf_counter()
        self.optimizer.zero_grad()
        torch.nn.functional.cross_entropy(self.model(self.images), self.labels).backward()
        self.optimizer.step()
        return time.perf_counter() - start


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Data against a training step.")
    parser.add_argument("--model", default="geq_small", help="registered model whose step is compared")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--batches", type=int, default=20, help="batches in one measurement")
    parser.add_argument("--num-workers", type=int, default=0)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="of torch")
    parser.add_argument("--data_root", type=Path, default=None)
    parser.add_argument("--json", action="store_true", help="print records instead of lines")
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)

    dataset, source = cifar10(options.data_root)
    loaders = {
        augment: BatchLoader(
            dataset,
            options.batch_size,
            transform=default_transform("cifar10", True, augment),
            shuffle=True,
            drop_last=True,
            num_workers=options.num_workers,
        )
        for augment in AUGMENTATIONS
    }
    try:
        step = Step(options.model, *next(iter(loaders["crop_flip"])))
    except (GeqError, ImportError) as error:
        print(f"skipped: the step of {options.model} cannot be timed ({error})", file=sys.stderr)
        step = None

    loading: dict[str, list[float]] = {augment: [] for augment in AUGMENTATIONS}
    stepping: list[float] = []
    for repeat in range(options.repeats + 1):  # the first round warms up
        for augment, loader in loaders.items():
            seconds = seconds_to_load(loader, repeat, options.batches)
            if repeat:
                loading[augment].append(seconds)
        if step is not None:
            seconds = step.seconds()
            if repeat:
                stepping.append(seconds)

    middle = statistics.median(stepping) if stepping else None
    records = []
    for augment, times in loading.items():
        median = statistics.median(times)
        records.append(
            {
                "case": f"data/{augment}",
                "images": source,
                "batch_size": options.batch_size,
                "images_per_second": round(options.batch_size / median),
                "milliseconds": round(1000 * median, 3),
                "spread_milliseconds": round(1000 * (max(times) - min(times)), 3),
                "model": options.model if middle else None,
                "share_of_step": round(median / middle, 4) if middle else None,
                "target": TARGET,
                "met": median / middle <= TARGET if middle else None,
            }
        )
    if options.json:
        print(json.dumps(records, indent=1))
        return 0
    if middle:
        print(f"a training step of {options.model}, batch {options.batch_size}: {1000 * middle:.1f} ms")
    for record in records:
        line = f"{record['case']:<18} {record['images_per_second']:>8} images/s"
        line += f"  {record['milliseconds']:>8} ms a batch"
        if middle:
            line += (
                f"  {100 * record['share_of_step']:5.1f} % of a step ({'≤' if record['met'] else '>'} 10 %)"
            )
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
