"""Run folders with fresh weights, for tests that need runs of any accuracy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from geq.training.environment import describe_environment
from geq.training.run_folder import RunFolder
from geq.training.setup import build_model, open_datasets
from geq.training.train_options import TrainOptions


def saved_run(runs: Path, name: str, seed: int = 0, **options: Any) -> RunFolder:
    """The folder that ``geq train`` would have written, without the training."""
    chosen = TrainOptions(runs=str(runs), name=name, threads=1, **options)
    description = open_datasets(chosen).describe()
    torch.manual_seed(seed)
    model = build_model(chosen, description)
    folder = RunFolder.create(chosen)
    folder.describe(chosen, describe_environment(seed), description)
    model.save_pretrained(folder.model)
    return folder


def write_cifar10(root: Path, per_file: int = 20) -> Path:
    """CIFAR-10 in the binary layout: as many images of each class, bright ones in even classes."""
    folder = root / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    names = [*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"]
    for number, name in enumerate(names):
        random = np.random.default_rng(number)
        labels = np.arange(per_file, dtype=np.uint8) % 10
        images = random.integers(0, 128, size=(per_file, 3072), dtype=np.uint8) + 100 * (labels[:, None] % 2)
        np.concatenate([labels[:, None], images.astype(np.uint8)], axis=1).tofile(folder / name)
    return root
