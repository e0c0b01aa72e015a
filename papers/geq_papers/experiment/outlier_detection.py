"""Damaged places of an image, and how well the weights β detect them."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from geq.analysis.ood_scores import auroc
from geq.data.dataset import Dataset, ImageDataset
from geq.kernels import BoundGaussian
from geq.model.network import Network

CHANGED = 25 / 255
"""A pixel that a corruption moves by less than a tenth of the range is no outlier."""


def in_memory(dataset: Dataset) -> ImageDataset:
    """Read once: :class:`Corrupted` corrupts an image each time that it is asked for it."""
    images, labels = dataset.batch(torch.arange(len(dataset)))
    return ImageDataset(images, labels, dataset.classes, dataset.statistics, dataset.name, dataset.split)


def changed(clean: Dataset, damaged: Dataset) -> Bool[Tensor, "b h w"]:
    """The pixels that are outliers now."""
    before, after = (one.batch(torch.arange(len(one)))[0].float() for one in (clean, damaged))
    return (after - before).abs().amax(1) > 255 * CHANGED


def detection(weights: Float[Tensor, "b groups rows columns"], pixels: Bool[Tensor, "b h w"]) -> float | None:
    """AUROC in % of a low weight, mean over the channel groups, for the places with a damaged pixel; None
    where all or none are.
    """
    places = F.adaptive_max_pool2d(pixels.float(), weights.shape[-2:]) > 0
    if places.all() or not places.any():
        return None
    score = -weights.mean(1)
    return 100 * auroc(score[~places], score[places])


@torch.no_grad()
def weights_of(model: Network, images: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """β at the equilibrium and at z = 0, of each equilibrium with patches, in the order of the network."""
    model.eval()
    inputs = model.inputs_of_equilibria(images)
    for name, layer in model.equilibria().items():
        c = layer.problem.inject(inputs[name])
        if isinstance(c, BoundGaussian) and c.gram is not None:
            z = layer.solve(inputs[name]).value
            assert isinstance(z, Tensor)
            yield layer.problem.attention(z, c), layer.problem.attention(torch.zeros_like(z), c)


def rank_correlation(one: Tensor, other: Tensor) -> float | None:
    """Spearman's; None where one of them is constant.

    >>> rank_correlation(torch.tensor([1.0, 2.0, 30.0]), torch.tensor([0.1, 0.5, 0.6]))
    1.0
    """
    if one.min() == one.max() or other.min() == other.max():
        return None
    ranks = [values.flatten().argsort().argsort().double() for values in (one, other)]
    return round(float(torch.corrcoef(torch.stack(ranks))[0, 1]), 6)
