"""Do the weights β find the patches that are wrong, and does the network use that?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from geq.analysis.ood_scores import auroc
from geq.data.dataset import Dataset, ImageDataset
from geq.kernels import BoundGaussian
from geq.model.network import Network
from geq_papers.experiment.equilibrium_measurement import even_weights, first_seen, held_out, known, mean
from geq_papers.experiment.measurement import Metrics

if TYPE_CHECKING:
    from geq.data.dataset import Dataset
    from geq.training.run_folder import RunFolder


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


@dataclass(frozen=True)
class OutlierWeights:
    """AUROC in % of a low β for the damaged places, at the equilibrium that sees the image first (50 is
    chance), what even weights lose under each corruption and without one, and the rank correlation of β with
    the β that z = 0 would have: 1 where the weights tell the size of a patch and not how badly z explains it.

    Args:
        names: of the corruptions.
        images: first ones of the held-out images.
        severity: of the five.
        seed: of the corruptions.
    """

    names: tuple[str, ...]
    images: int = 500
    severity: int = 3
    seed: int = 0

    def measure(self, folder: RunFolder) -> Metrics:
        import torch

        from geq.analysis.corruption import Corrupted
        from geq.data.dataset import Labelled
        from geq.equilibrium import ignore_failures
        from geq.model.network import Network
        from geq.training.device import limited_threads
        from geq.training.evaluation import evaluate
        from geq.training.setup import evaluation_loader
        from geq_papers.experiment.outlier_measurement import (
            changed,
            detection,
            in_memory,
            rank_correlation,
            weights_of,
        )

        model, even = (Network.from_pretrained(folder.model) for _ in range(2))
        dataset = held_out(folder)
        assert isinstance(dataset, Labelled)
        chosen = torch.arange(min(self.images, len(dataset)))
        clean = dataset.subset(chosen)
        images = first_seen(folder, clean, len(clean))
        if not even_weights(even, images):
            return {}

        def lost(dataset: Dataset) -> float:
            loader = evaluation_loader(dataset, statistics=folder.data().statistics)
            return evaluate(model, loader).accuracy - evaluate(even, loader).accuracy

        with limited_threads(folder.options(), model), ignore_failures(model):
            found: Metrics = {
                "even_loss": lost(clean),
                "beta_by_size": mean(rank_correlation(*pair) for pair in weights_of(model, images)),
            }
            for name in self.names:
                damaged = in_memory(Corrupted(dataset, chosen, name, self.severity, self.seed))
                solved, _ = next(weights_of(model, first_seen(folder, damaged, len(damaged))))
                found[f"even_loss/{name}"] = lost(damaged)
                found[f"beta_auroc/{name}"] = detection(solved, changed(clean, damaged))
        return known(found)
