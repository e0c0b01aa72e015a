"""The task of restoring damaged images, in the same loop as classification.

With values from 0 to 1, x̂ the output cut to these and N the number of values of an image:

    loss = mean |output − x|      PSNR = −10 log₁₀(‖x̂ − x‖²/N), mean over images
    SSIM with the usual Gaussian windows, see :func:`ssim`
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn import functional
from torchmetrics import MeanMetric

from geq.data.dataset import Dataset
from geq.data.loader import BatchLoader
from geq.training.evaluation import EvaluationResult, evaluating
from geq.training.metrics import SolverMeasures, TaskMeasures
from geq.training.run_folder import RunFolder
from geq.training.task import Task

WINDOW = 11
"""Side of the window of SSIM; of an image that is smaller, the largest odd side that fits."""
WIDTH, K1, K2 = 1.5, 0.01, 0.03
"""Of SSIM: σ of the window in pixels, and the constants that keep its quotients finite."""
CLOSE = 10 / 255
"""A value that is restored to less than this counts as right for the bar of a training."""


@dataclass(frozen=True, kw_only=True)
class RestorationResult(EvaluationResult):
    """
    Args:
        psnr: in dB, mean over images.
        ssim: mean over images.
    """

    psnr: float
    ssim: float


def psnr(found: Float[Tensor, "b c h w"], truth: Float[Tensor, "b c h w"]) -> Float[Tensor, " b"]:
    """Peak signal-to-noise ratio of each image in dB, for values from 0 to 1.

    >>> round(psnr(torch.full((1, 1, 2, 2), 0.6), torch.full((1, 1, 2, 2), 0.5)).item(), 4)
    20.0
    """
    error = (found.clamp(0, 1) - truth).square().flatten(1).mean(1)
    return -10 * error.clamp_min(1e-10).log10()


def ssim(found: Float[Tensor, "b c h w"], truth: Float[Tensor, "b c h w"]) -> Float[Tensor, " b"]:
    """Structural similarity of each image, for values from 0 to 1 (Wang et al. 2004): the mean over all
    windows that lie within the image, and over the colours.

    >>> image = torch.rand(1, 3, 16, 16)
    >>> ssim(image, image).item()
    1.0
    """
    x, y = found.clamp(0, 1), truth
    side = min(WINDOW, int(x.shape[-1]), int(x.shape[-2]))
    side -= 1 - side % 2
    places = torch.arange(side, dtype=x.dtype, device=x.device) - side // 2
    weights = (-places.square() / (2 * WIDTH**2)).exp()
    weights = weights / weights.sum()

    def windowed(maps: Tensor) -> Tensor:
        single = maps.reshape(-1, 1, *maps.shape[-2:])
        return functional.conv2d(
            functional.conv2d(single, weights.view(1, 1, -1, 1)), weights.view(1, 1, 1, -1)
        )

    mean_x, mean_y = windowed(x), windowed(y)
    var_x, var_y = windowed(x * x) - mean_x**2, windowed(y * y) - mean_y**2
    covariance = windowed(x * y) - mean_x * mean_y
    luminance = (2 * mean_x * mean_y + K1**2) / (mean_x**2 + mean_y**2 + K1**2)
    structure = (2 * covariance + K2**2) / (var_x + var_y + K2**2)
    return (luminance * structure).reshape(len(x), -1).mean(1)


class RestorationMeasures(TaskMeasures):
    """Loss, PSNR in dB and SSIM.

    Args:
        shared: whether the processes of a run measure together, or this one by itself.
    """

    def __init__(self, shared: bool = True) -> None:
        super().__init__({name: MeanMetric(sync_on_compute=shared) for name in ("loss", "psnr", "ssim")})

    def update(
        self, loss: Tensor, outputs: Float[Tensor, "b c h w"], labels: Int64[Tensor, "b c h w"]
    ) -> None:
        found, truth = outputs.detach().float(), labels.float() / 255
        members = self.members()
        members["loss"].update(loss.detach(), weight=float(len(labels)))
        members["psnr"].update(psnr(found, truth))
        members["ssim"].update(ssim(found, truth))


class RestorationTask(Task):
    """Mean absolute error; PSNR and SSIM. The best weights are those of the best PSNR."""

    headline = "psnr"

    def new_measures(self) -> RestorationMeasures:
        return RestorationMeasures()

    def loss(self, outputs: Tensor, labels: Tensor, label_smoothing: float = 0.0) -> Tensor:
        return functional.l1_loss(outputs, labels.to(outputs.dtype) / 255)

    def share_correct(self, outputs: Tensor, labels: Tensor) -> float:
        return float(((outputs - labels / 255).abs() < CLOSE).float().mean())

    def evaluate(self, batches: BatchLoader) -> RestorationResult:
        like = next(self.model.parameters())
        measures = RestorationMeasures(shared=False).to(like.device)
        solver = SolverMeasures(shared=False).to(like.device)
        with evaluating(self.model, batches.dataset):
            for images, labels in batches:
                self.measure(images.to(like), labels.to(like.device), measures, solver)
        return RestorationResult(
            images=len(batches.dataset), confusion=[], **measures.compute(), **solver.compute()
        )

    def draw(self, folder: RunFolder, test: Dataset) -> None:
        from geq.training.restoration_picture import draw_restoration_run

        draw_restoration_run(folder, self.model, test)
