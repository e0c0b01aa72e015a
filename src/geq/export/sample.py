"""Images on which an exported file is compared with its network."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from geq.data.transform.pixel import as_float
from geq.errors import GeqError
from geq.training.setup import open_split
from geq.training.train_options import TrainOptions


def random_images(number: int, shape: tuple[int, int, int]) -> Float[Tensor, "b c h w"]:
    """Smooth random patterns under noise, from 0 to 1; always the same ones."""
    channels, height, width = shape
    generator = torch.Generator().manual_seed(0)
    coarse = torch.rand(number, channels, 3, 3, generator=generator)
    smooth = F.interpolate(coarse, (height, width), mode="bilinear")
    return 0.8 * smooth + 0.2 * torch.rand(number, channels, height, width, generator=generator)


def sample_images(
    options: TrainOptions, shape: tuple[int, int, int], number: int, data_root: str | None = None
) -> tuple[Float[Tensor, "b c h w"], str]:
    """Test images of the run, or random ones where its data is not at hand; and which of the two."""
    try:
        dataset = open_split(replace(options, data_root=data_root), "test")
        chosen = torch.linspace(0, len(dataset) - 1, min(number, len(dataset))).long()
        images = as_float(dataset.batch(chosen)[0])
    except GeqError:
        return random_images(number, shape), "random images"
    if tuple(images.shape[1:]) != shape:
        return random_images(number, shape), "random images"
    return images, f"test images of {options.data}"
