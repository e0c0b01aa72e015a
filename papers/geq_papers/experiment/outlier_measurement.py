"""Do the weights β find the patches that are wrong, and does the network use that?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from geq_papers.experiment.equilibrium_measurement import even_weights, first_seen, held_out, known, mean
from geq_papers.experiment.measurement import Metrics

if TYPE_CHECKING:
    from geq.data.dataset import Dataset
    from geq.training.run_folder import RunFolder


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
        from geq_papers.experiment.outlier_detection import (
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
