"""Feedback of a network that restores images, and how well β finds the damage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from geq_papers.experiment.equilibrium_measurement import known, mean
from geq_papers.experiment.measurement import Metrics

if TYPE_CHECKING:
    from geq.training.run_folder import RunFolder


@dataclass(frozen=True)
class Restoration:
    """PSNR in dB of the damaged images; fraction explained ‖Wz‖/‖Ux + b‖, mean β and γ over the equilibria;
    evaluations on the test images; AUROC in % of a low β for the damaged pixels, at the first equilibrium and
    at the last (50 is chance, and what γ = 0 has).

    A pixel is damaged where any of its colours is another one than that of the clean image. Where all or none
    are, there is no AUROC.

    Args:
        images: first ones of the test images.
    """

    images: int = 250

    def measure(self, folder: RunFolder) -> Metrics:
        from geq.equilibrium import ignore_failures
        from geq.model.network import Network
        from geq.training.device import limited_threads
        from geq.training.equilibrium_probe import probe
        from geq.training.restoration_task import psnr
        from geq.training.setup import evaluation_loader, open_split
        from geq_papers.experiment.outlier_detection import detection, weights_of

        options, model = folder.options(), Network.from_pretrained(folder.model)
        test = open_split(options, "test")
        batches = evaluation_loader(test, statistics=folder.data().statistics, batch_size=self.images)
        images, labels = next(iter(batches))
        clean = labels / 255
        found: Metrics = {"damaged_psnr": float(psnr(images, clean).mean())}
        if not model.equilibria():
            return found
        pixels = ((images - clean).abs() > 1e-6).any(1)
        with limited_threads(options, model), ignore_failures(model):
            branches = list(probe(model, images).values())
            detected = [detection(solved, pixels) for solved, _ in weights_of(model, images)]
        return found | known(
            {
                "feedback": mean(branch.feedback for branch in branches),
                "gamma": mean(branch.gamma for branch in branches),
                "beta_mean": mean(
                    None if branch.attention is None else float(branch.attention.mean())
                    for branch in branches
                ),
                "evaluations": (folder.result() or {}).get("test_steps"),
                "beta_auroc": detected[0] if detected else None,
                "beta_auroc_last": detected[-1] if detected else None,
            }
        )
