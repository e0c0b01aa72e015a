"""Comparison of an exported file with the network, on sample images, before the file is written.

Two programs that stop at a tolerance of 1e-3 may stop one step apart, and then differ by about 1e-3. So the
comparison is made at a tolerance of 1e-6, where both are at the same fixed point; at the network's own
tolerance the predicted classes are compared.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from geq.data.dataset import Statistics
from geq.data.transform.base import as_float
from geq.equilibrium import ignore_failures
from geq.errors import GeqError
from geq.model.network import Network
from geq.training.setup import open_split
from geq.training.train_options import TrainOptions

TIGHT, MANY_STEPS = 1e-6, 200
"""Tolerance and most evaluations of the comparison."""

LIMIT = 1e-5
"""Largest difference of a logit, relative to the largest logit where that is above 1."""

Runner = Callable[[Tensor, bool], tuple[Tensor, ...]]
"""A file at work: its outputs for images, at its own tolerance or (True) at the tight one."""


@dataclass(frozen=True)
class Agreement:
    """
    Args:
        images: number compared.
        settled: how many of them have equilibria at the tight tolerance; only these are compared there.
        difference: largest difference of a logit at the tight tolerance.
        own_difference: the same at the network's own tolerance.
        same_class: share of images of the same class at the network's own tolerance.
        unconverged: images that the file reports as not converged at its own tolerance.
    """

    images: int
    settled: int
    difference: float
    own_difference: float
    same_class: float
    unconverged: int


def tightened(network: Network) -> Network:
    """A copy whose equilibria are solved to :data:`TIGHT`."""
    network = copy.deepcopy(network)
    layers = network.equilibria().values()
    own = max((layer.tol for layer in layers), default=1.0)
    for layer in layers:
        layer.tol, layer.max_steps = layer.tol * TIGHT / own, MANY_STEPS
    return network


@torch.no_grad()
def reference(network: Network, x: Float[Tensor, "b c h w"]) -> tuple[Tensor, Bool[Tensor, " b"]]:
    """Return logits, and which samples converged: residuals are within ten times the tight tolerance."""
    settled = torch.ones(len(x), dtype=torch.bool)
    with ignore_failures(network):
        logits = network(x)
    for layer in network.equilibria().values():
        if layer.gradient.iterations is None:
            assert layer.last_solution is not None
            settled &= layer.last_solution.residual <= 10 * TIGHT
    return logits, settled


def compare(
    network: Network, statistics: Statistics, run: Runner, images: Float[Tensor, "b c h w"], size: int = 64
) -> Agreement:
    """Measure how far ``run`` is from ``network`` on images from 0 to 1, and refuse what is too far.

    The first two batches have 1 and 3 images: a file is for any number of them.
    """
    dtype = next(network.parameters()).dtype
    mean, std = (torch.tensor(values).view(-1, 1, 1) for values in (statistics.mean, statistics.std))
    own, tight = copy.deepcopy(network).eval(), tightened(network).eval()
    worst, own_worst, largest, settled_number, same, failed = 0.0, 0.0, 1.0, 0, 0.0, 0
    sizes = [1, 3, *[size] * (len(images) // size + 1)]
    for batch in images.split(sizes_up_to(len(images), sizes)):
        x = ((batch - mean) / std).to(dtype)
        outputs, (expected, _) = run(batch, False), reference(own, x)
        own_worst = max(own_worst, gap(outputs[0], expected))
        same += float((outputs[0].argmax(1) == expected.argmax(1)).double().mean()) * len(batch)
        failed += int((~outputs[3]).sum()) if len(outputs) > 1 else 0
        found, (expected, settled) = run(batch, True)[0], reference(tight, x)
        settled_number += int(settled.sum())
        if bool(settled.any()):
            worst = max(worst, gap(found[settled], expected[settled]))
            largest = max(largest, float(expected[settled].abs().max()))
    agreement = Agreement(len(images), settled_number, worst, own_worst, same / len(images), failed)
    demand(agreement, largest)
    return agreement


def sizes_up_to(total: int, sizes: list[int]) -> list[int]:
    """The sizes, cut off where they add up to ``total``.

    >>> sizes_up_to(10, [1, 3, 64, 64])
    [1, 3, 6]
    """
    result: list[int] = []
    for size in sizes:
        result.append(min(size, total - sum(result)))
    return [size for size in result if size]


def gap(found: Tensor, expected: Tensor) -> float:
    """The largest difference; infinite where a number is not one."""
    return float((found.double() - expected.double()).abs().nan_to_num(nan=torch.inf).max())


def demand(agreement: Agreement, largest: float) -> None:
    if not agreement.settled:
        raise GeqError(
            f"the exported file must be compared with the network at its equilibria: none of the "
            f"{agreement.images} images has one within {10 * TIGHT:g} after {MANY_STEPS} steps; see "
            "'geq analyze' of the run"
        )
    if not agreement.difference <= LIMIT * largest:
        raise GeqError(
            f"the logits of the exported file must be within {LIMIT * largest:.1e} of the network's: they "
            f"differ by {agreement.difference:.1e} on {agreement.settled} images; nothing was written"
        )


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
