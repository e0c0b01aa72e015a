"""Proposition 2 and remark 1: PAC-Bayesian bounds of the test error.

With probability 1 − δ over M training samples the paper states L₀ ≤ L̂_η + √(16h ln(24h)K²B_W/(η²M) +
ln(M√M/δ)/M) with

    K_geq   = βμ⁴B/(1 − βm)² + (2μβ + 1)μB/(1 − βm) + 1,        K_opteq = μ³B/(1 − m)² + μB/(1 − m) + 1.

K is how much the logits move, at most, per unit of perturbation of the weights; everything rests on it. The
printed K is not such a bound: the proof has B + 1 where the bias counts (at x = 0 the printed K is 1, and a
perturbed bias moves the logits by more), it lets β stand still while the weights move, and B_W counts
‖WᵀW‖_F² where W itself is perturbed, whose square norm is larger. The constant 4 and the M − 1 of the lemma
are lost too. :func:`corrected_geq` and :func:`corrected_opteq` are bounds of the perturbation that hold, for
norms up to μ that are fixed in advance; docs/errata.md derives them.

A bound above 1 is void: an error rate is at most 1 anyway. These are, and the report says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Float, Int64
from torch import Tensor

from geq.kernels.gaussian import PEAK_CURVATURE


def margin_loss(logits: Float[Tensor, "b classes"], labels: Int64[Tensor, " b"], margin: float) -> float:
    """Share of samples whose class does not lead by more than ``margin`` (GEQ eq. 9).

    >>> import torch
    >>> margin_loss(torch.tensor([[2.0, 0.0], [1.0, 0.9]]), torch.tensor([0, 0]), 0.5)
    0.5
    """
    right = logits.gather(1, labels[:, None])[:, 0]
    others = logits.scatter(1, labels[:, None], -math.inf).amax(1)
    return float((right <= margin + others).double().mean())


def paper_geq(beta: float, m: float, mu: float, bound: float) -> float:
    """K_geq as printed; infinite where βm ≥ 1."""
    rest = 1 - beta * m
    if rest <= 0:
        return math.inf
    return beta * mu**4 * bound / rest**2 + (2 * mu * beta + 1) * mu * bound / rest + 1


def paper_opteq(m: float, mu: float, bound: float) -> float:
    """K_opteq as printed; infinite where m ≥ 1."""
    return mu**3 * bound / (1 - m) ** 2 + mu * bound / (1 - m) + 1 if m < 1 else math.inf


@dataclass(frozen=True)
class Norms:
    """Bounds, fixed in advance, of ‖W‖, ‖U‖, ‖b‖ and ‖W_c‖, and B of the inputs."""

    W: float
    U: float
    b: float
    W_c: float
    B: float

    @classmethod
    def all_at(cls, mu: float, bound: float) -> Norms:
        """The proposition's setting: one μ for all."""
        return cls(mu, mu, mu, mu, bound)


def corrected_geq(norms: Norms, size: float) -> float:
    """K such that ‖Δlogits‖ ≤ K·size where W, U, b, W_c and b_c each move by at most ``size``.

    With v̄ and z̄ of the moved weights: ‖v̄‖ ≤ (‖U‖ + size)B + ‖b‖ + size, ‖z̄‖ ≤ (‖W‖ + size)‖v̄‖, and strong
    convexity bounds the move of z by size·(‖v̄‖ + ‖W‖(B + 1 + ‖z̄‖))/(1 − 2e^{−3/2}‖W‖²).
    """
    rest = 1 - PEAK_CURVATURE * norms.W**2
    if rest <= 0:
        return math.inf
    v = (norms.U + size) * norms.B + norms.b + size
    z = (norms.W + size) * v
    moved = (v + norms.W * (norms.B + 1 + z)) / rest
    return z + norms.W_c * moved + 1


def corrected_opteq(norms: Norms, size: float) -> float:
    """The same for the linear kernel: ‖z̄‖ ≤ ‖v̄‖/(1 − (‖W‖ + size)²)."""
    if norms.W + size >= 1:
        return math.inf
    v = (norms.U + size) * norms.B + norms.b + size
    z = v / (1 - (norms.W + size) ** 2)
    moved = ((2 * norms.W + size) * z + norms.B + 1) / (1 - norms.W**2)
    return z + norms.W_c * moved + 1


def largest_perturbation(constant: Callable[[float], float], margin: float) -> float:
    """The size at which K(size)·size = margin/4, by bisection; K grows with the size."""
    low, high = 0.0, margin
    for _ in range(200):
        middle = (low + high) / 2
        if constant(middle) * middle <= margin / 4:
            low = middle
        else:
            high = middle
    return low


def paper_right_side(
    loss: float, constant: float, width: int, weight: float, margin: float, samples: int, confidence: float
) -> float:
    """L̂_η + √(16h ln(24h)K²B_W/(η²M) + ln(M√M/δ)/M)."""
    if not math.isfinite(constant):
        return math.inf
    complexity = 16 * width * math.log(24 * width) * constant**2 * weight / (margin**2 * samples)
    return loss + math.sqrt(complexity + math.log(samples**1.5 / confidence) / samples)


def corrected_right_side(
    loss: float,
    constant: Callable[[float], float],
    width: int,
    weight: float,
    margin: float,
    samples: int,
    confidence: float,
) -> float:
    """L̂_η + 4√((KL + ln(6M/δ))/(M − 1)), KL = B_W/2σ², σ√(2h ln 24h) the largest allowed perturbation."""
    size = largest_perturbation(constant, margin)
    if size <= 0 or not math.isfinite(constant(size)):
        return math.inf
    variance = size**2 / (2 * width * math.log(24 * width))
    divergence = weight / (2 * variance)
    return loss + 4 * math.sqrt((divergence + math.log(6 * samples / confidence)) / (samples - 1))


def remark_1(beta: float, m: float, mu: float) -> dict[str, bool]:
    """The paper: for β < 0.8 and μ, m > 0.9 both fractions of GEQ are below OptEq's 1/(1 − m)."""
    rest = 1 - beta * m
    return {
        "condition": beta < 0.8 and mu > 0.9 and 0.9 < m < 1,
        "first": m < 1 and beta * mu / rest < 1 / (1 - m),
        "second": m < 1 and (2 * mu * beta + 1) / rest <= 1 / (1 - m),
    }
