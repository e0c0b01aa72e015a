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
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from geq.analysis.constant import measure, unsuited
from geq.analysis.norm import AffineMap, input_map
from geq.analysis.result import Bound, Result, Table, shown
from geq.analysis.subject import Subject
from geq.equilibrium import Equilibrium
from geq.problem import Conv2d, HiddenProblem, Operator
from geq.problem.enclosure import wrapped
from geq.problem.similarity import PEAK_CURVATURE
from geq.training.tolerance import measured_failures

PROBES = 32


def margin_loss(logits: Float[Tensor, "b classes"], labels: Int64[Tensor, "b"], margin: float) -> float:
    """Share of samples whose class does not lead by more than ``margin`` (GEQ eq. 9).

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


@dataclass(frozen=True)
class WeightNorms:
    """Squared Frobenius norms of the maps written as matrices, and the largest side of one."""

    W: float
    gram: float
    U: float
    bias: float
    width: int


def frobenius(weight: Tensor, operator: Operator) -> float:
    """‖A‖_F² of the unrolled matrix: every tap counts as often as it meets a pixel."""
    weight = weight.detach()
    if not isinstance(operator, Conv2d):
        return float(weight.square().sum())
    height, width = operator.grid
    if operator.padding == "circular":
        return height * width * float(wrapped(weight, height, width).square().sum())
    offsets = (torch.arange(weight.shape[-1]) - weight.shape[-1] // 2).abs().to(weight.dtype)
    counts = (height - offsets).clamp_min(0)[:, None] * (width - offsets).clamp_min(0)[None, :]
    return float((weight.square() * counts).sum())


@torch.no_grad()
def weight_norms(problem: HiddenProblem, U: AffineMap, x: Tensor) -> WeightNorms:
    c: Any = problem.inject(x[:1])
    generator = torch.Generator().manual_seed(0)
    shape = (PROBES, *problem.initial_state(c).shape[1:])
    probe = torch.randint(0, 2, shape, generator=generator).to(x.dtype) * 2 - 1
    gram = float(c.W.adjoint(c.W(probe)).square().sum()) / PROBES  # Hutchinson's estimate of ‖WᵀW‖_F²
    sides = [t[0].numel() for t in (x, c.injection, probe, c.W(probe[:1]))]
    return WeightNorms(
        frobenius(c.W.weight, problem.W),
        gram,
        frobenius(U.weight, U.operator),
        U.bias_norm**2,
        max(sides),
    )


@torch.no_grad()
def analyse_layer(
    layer: Equilibrium, x: Tensor, head: Tensor, head_bias: Tensor, margin_losses: Any, settings: Any
) -> dict[str, Any]:
    """Both right-hand sides for one equilibrium, with the kernel's own and with the other's formula."""
    U = input_map(layer.problem.U)
    assert U is not None
    c = measure(layer, x)
    sizes = weight_norms(layer.problem, U, x)
    extra = float(head.square().sum()) + float(head_bias.square().sum())
    head_norm = float(torch.linalg.matrix_norm(head.double(), 2))
    mu = max(c.mu, head_norm, c.norms.bias)
    m = c.feedback**2
    common = (sizes.width,)
    rest = (settings.margin, margin_losses["samples"], settings.confidence)
    printed_weight = sizes.gram + sizes.U + sizes.bias + extra
    true_weight = sizes.W + sizes.U + sizes.bias + extra
    loss = margin_losses["train"]
    geq = paper_right_side(loss, paper_geq(c.beta_max, m, mu, c.input_norm), *common, printed_weight, *rest)
    opteq = paper_right_side(loss, paper_opteq(m, mu, c.input_norm), *common, printed_weight, *rest)

    norms = Norms(c.feedback, c.injection, c.norms.bias, head_norm, c.input_norm)

    def corrected(size: float) -> float:
        return (corrected_geq if c.gaussian else corrected_opteq)(norms, size)

    own = corrected_right_side(loss, corrected, *common, true_weight, *rest)
    test = margin_losses["test"]
    return {
        "constants": {**c.as_mapping(), "mu": mu, "m": m, "W_c": head_norm, "h": sizes.width},
        "B_W": printed_weight,
        "B_W_corrected": true_weight,
        "paper_geq": Bound("paper, GEQ", geq, test).as_mapping(),
        "paper_opteq": Bound("paper, OptEq", opteq, test).as_mapping(),
        "corrected": Bound("corrected", own, test).as_mapping(),
        "remark_1": remark_1(c.beta_max, m, mu),
    }


def analyse(subject: Subject) -> Result:
    """Margin loss, constants and right-hand sides for every equilibrium that the proposition speaks of."""
    model, settings = subject.precise, subject.settings
    head = getattr(model, "head", None)
    if not isinstance(head, torch.nn.Linear):
        return Result({}, (), [f"{type(model).__name__} has no linear classifier after its equilibria."])
    losses = margin_losses(subject)
    values: dict[str, Any] = {"margin_loss": losses}
    layers: dict[str, Any] = {}
    notes = [
        "W_c is the network's classifier; that fusion, norm and pooling stand before it the formulas ignore.",
        f"Margin loss on {losses['samples']} training images at η = {settings.margin:g}: "
        f"{losses['train']:.4f}; test error {losses['test']:.4f}.",
    ]
    for name, layer in subject.layers.items():
        reason = unsuited(layer)
        if reason is None and input_map(layer.problem.U) is None:
            reason = "its U is not known to be affine"
        if reason is not None:
            notes.append(f"{name}: {reason}.")
            continue
        bias = torch.zeros(1) if head.bias is None else head.bias
        layers[name] = analyse_layer(layer, subject.inputs[name], head.weight, bias, losses, settings)
    values["layers"] = layers
    notes.extend(comments(layers))
    return Result(values, (table(layers),) if layers else (), notes)


@torch.no_grad()
def margin_losses(subject: Subject) -> dict[str, Any]:
    model, settings = subject.model.eval(), subject.settings
    like = next(model.parameters())
    found: dict[str, Any] = {}
    with measured_failures(model):
        for split, margin in (("train", settings.margin), ("test", 0.0)):
            images, labels = subject.batch(split, settings.train_images)  # type: ignore[arg-type]
            logits = torch.cat([model(part) for part in images.to(like).split(250)])
            found[split] = margin_loss(logits, labels, margin)
            if split == "train":
                found["samples"] = len(labels)
    return found


def table(layers: dict[str, Any]) -> Table:
    rows = []
    for name, found in layers.items():
        c = found["constants"]
        for form, key in (
            ("paper, Gaussian formula", "paper_geq"),
            ("paper, linear formula", "paper_opteq"),
            ("corrected, own kernel", "corrected"),
        ):
            bound = found[key]
            weight = found["B_W_corrected" if key == "corrected" else "B_W"]
            void = bound["value"] is not None and bound["value"] >= 1 and math.isfinite(bound["value"])
            rows.append(
                (
                    name,
                    shown(c["mu"]),
                    shown(c["m"]),
                    shown(c["beta_max"]),
                    str(c["h"]),
                    shown(weight),
                    form,
                    shown(bound["value"]),
                    "holds (void: ≥ 1)" if void and bound["verdict"] == "holds" else bound["verdict"],
                )
            )
    columns = ("equilibrium", "μ", "m", "β_max", "h", "B_W", "form", "test error ≤", "verdict")
    return Table("Proposition 2: generalisation", columns, tuple(rows))


def comments(layers: dict[str, Any]) -> list[str]:
    found = []
    for name, values in layers.items():
        c, remark = values["constants"], values["remark_1"]
        if c["mu"] >= 1:
            found.append(f"{name}: the proposition assumes μ < 1; here μ = {c['mu']:.3f}.")
        met = "met" if remark["condition"] else "not met"
        if c["m"] < 1:
            better = remark["first"] and remark["second"]
            found.append(
                f"{name}: remark 1's condition (β < 0.8; μ, m > 0.9) is {met}; the printed Gaussian formula "
                f"is {'' if better else 'not '}below the linear one term by term."
            )
    return found
