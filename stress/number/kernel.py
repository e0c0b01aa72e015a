"""The compiled patch operation beside the formula it stands for, at the limits of the numbers."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from geq.kernels import PatchGaussianKernel, compiled_patch
from stress.number.verdict import Tally
from stress.part import Row


def run(short: bool, seed: int) -> Iterator[Row]:
    generator = torch.Generator().manual_seed(seed)
    if compiled_patch.load() is None:
        return  # without a compiler the formula serves, and there is nothing to compare
    yield twins(1 if short else 5, generator)


def twins(rounds: int, generator: torch.Generator) -> Row:
    tally = Tally("compiled kernel against the formula: value, product, gradients")
    for _ in range(rounds):
        for dtype in (torch.float32, torch.float64):
            for size in (0.0, 1e-40, 1e-30, 1e-15, 1e-3, 1.0, 1e3, 1e15, 1e30):
                for gamma in (0.0, 1e-30, 1e-3, 1.0, 1e5, 1e30):
                    for layout in (torch.contiguous_format, torch.channels_last):
                        case = f"{dtype}, size {size:g}, γ {gamma:g}"
                        compare(tally, case, dtype, size, gamma, layout, generator)
    return tally.row()


def compare(
    tally: Tally,
    case: str,
    dtype: torch.dtype,
    size: float,
    gamma: float,
    layout: torch.memory_format,
    generator: torch.Generator,
) -> None:
    similarity = PatchGaussianKernel(2, 4, 6, gamma=gamma).to(dtype)

    def drawn() -> Tensor:
        numbers = torch.randn(2, 8, 4, 4, generator=generator, dtype=torch.float64)
        return numbers.to(dtype).contiguous(memory_format=layout)

    v, u, q = size * drawn(), size * drawn(), drawn()
    # With a graph the formula is used, without one the library.
    recorded, bound = similarity.bind(v), similarity.bind(v)
    formula = [recorded.grad(u), recorded.product(u, q), *flat(recorded.pull_back(u, q))]
    with torch.no_grad():
        assert compiled_patch.usable(v, u, 16)
        library = [bound.grad(u), bound.product(u, q), *flat(bound.pull_back(u, q))]
    exponent = gamma * 30 * (size * size)
    names = "value", "product", "value", "in v", "in G", "in γ"
    # The gradient in γ is one sum of terms of either sign: it is as exact as these are large, not as itself.
    terms = min(size * size, 1e300) * float((q.double() * (u - v).double()).abs().sum())
    for name, one, other in zip(names, formula, library, strict=True):
        scale = terms if name == "in γ" and terms < float("inf") else 0.0
        said = f"{one.sum()} and {other.sum()}"
        tally.must(f"{case}, {name}", alike(one.detach(), other, exponent, scale), said)


def flat(found: tuple[Tensor, tuple[Tensor, ...]]) -> list[Tensor]:
    return [found[0], *found[1]]


def alike(one: Tensor, other: Tensor, exponent: float, scale: float = 0.0) -> bool:
    """Equal up to rounding of their largest value, or of ``scale``; not finite at the same places."""
    numbers = torch.finfo(one.dtype)
    finite = one.isfinite()
    if not torch.equal(finite, other.isfinite()):
        # At the very edge the order of a sum decides which of both overflows.
        edge = torch.where(finite, one, other).abs()
        return bool((edge[finite != other.isfinite()] > 1e-3 * numbers.max).all())
    one, other = one[finite].double(), other[finite].double()
    largest = max(scale, float(one.abs().max()), float(other.abs().max())) if one.numel() else 0.0
    slack = 256 * numbers.eps * (1 + min(exponent, 100.0)) * largest + 256 * numbers.tiny
    return bool(((one - other).abs() <= slack).all())
