"""Proposition 3 and remark 2: how much the equilibrium moves when the input does.

For GEQ the paper prints

    L = (βμ² + √γBμ³) / (1 − βμ² − √γBμ³)                                                       (GEQ eq. 11)

with ‖W‖, ‖U‖ ≤ μ, inputs and outputs bounded by B, and β the largest attention weight. Its proof takes
‖Wᵀ(Ux − Wz)‖ ≤ Bμ², where the triangle inequality gives 2Bμ²; and it drops the bias, whose size then bounds
nothing. :func:`corrected_geq` is what that proof gives when both are put right. Two better bounds need
neither B nor γ:

* **sharp**: m(r) = e^{−γ‖r‖²}r satisfies ‖m(r) − m(s)‖ ≤ max(β_r, β_s, 2e^{−3/2})·‖r − s‖ for every pair, so
  L = s‖W‖‖U‖/(1 − s‖W‖²) with s = max(β, 2e^{−3/2}). It holds on inputs whose β is at most β;
* **certified**: the hidden objective is strongly convex with 1 − 2e^{−3/2}‖W‖², and m is 1-Lipschitz, so
  L = ‖W‖‖U‖/(1 − 2e^{−3/2}‖W‖²) for all inputs, while ‖W‖² < e^{3/2}/2.

docs/errata.md proves them. The linear kernel's bound ‖U‖/(1 − ‖W‖²) is right as printed.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from geq.analysis.analysed_network import Subject, solved_tightly
from geq.analysis.bound_constants import Constants, measure, unsuited
from geq.analysis.result import Bound, Result, TextTable
from geq.analysis.weight_norms import LayerNorms
from geq.equilibrium import Equilibrium
from geq.kernels.gaussian import PEAK_CURVATURE
from geq.number_format import shown

STEEPEST = math.sqrt(2 / math.e)
"""max 2ce^{−c²}, which |e^{−a²} − e^{−b²}| ≤ |a − b| times has in it; the paper uses 1."""


def quotient(gain: float, feedback: float) -> float:
    """gain/(1 − feedback), infinite where the denominator is not positive."""
    return gain / (1 - feedback) if feedback < 1 else math.inf


def paper_geq(beta: float, gamma: float, bound: float, mu: float) -> float:
    """GEQ eq. 11 as printed; see the module's text for what is wrong with it.

    >>> round(paper_geq(0.8, 0.04, 1.0, 0.9), 3)
    3.85
    """
    slope = beta * mu**2 + math.sqrt(gamma) * bound * mu**3
    return quotient(slope, slope)


def paper_opteq(mu: float) -> float:
    """GEQ eq. 12: μ/(1 − μ²)."""
    return quotient(mu, mu**2)


def corrected_geq(beta: float, gamma: float, radius: float, feedback: float, injection: float) -> float:
    """The paper's route with its slips put right: s = β + √(2/e)·√γ·R, L = s‖W‖‖U‖/(1 − s‖W‖²).

    Args:
        beta: largest attention weight of the inputs in question.
        gamma: γ.
        radius: R ≥ ‖Ux + b − Wz‖, for instance (‖U‖ + ‖W‖)B + ‖b‖.
        feedback, injection: ‖W‖ and ‖U‖.
    """
    slope = beta + STEEPEST * math.sqrt(gamma) * radius
    return quotient(slope * feedback * injection, slope * feedback**2)


def sharp_geq(beta: float, feedback: float, injection: float) -> float:
    """L = s‖W‖‖U‖/(1 − s‖W‖²), s = max(β, 2e^{−3/2}), on inputs with attention weights up to β."""
    slope = max(beta, PEAK_CURVATURE)
    return quotient(slope * feedback * injection, slope * feedback**2)


def certified_geq(feedback: float, injection: float, gamma_is_zero: bool = False) -> float:
    """L = ‖W‖‖U‖/(1 − 2e^{−3/2}‖W‖²), for all inputs; without a Gaussian (γ = 0) L = ‖W‖‖U‖."""
    return quotient(feedback * injection, 0.0 if gamma_is_zero else PEAK_CURVATURE * feedback**2)


def opteq(feedback: float, injection: float) -> float:
    """‖U‖/(1 − ‖W‖²) for the linear kernel."""
    return quotient(injection, feedback**2)


def bounds_of(constants: Constants, measured: float) -> list[Bound]:
    """Return every form of the bound for a layer, with the largest measured ratio."""
    c = constants
    if not c.gaussian:
        return [
            Bound("paper", paper_opteq(c.mu), measured),
            Bound("corrected", opteq(c.feedback, c.injection), measured),
        ]
    gamma = math.inf if c.gamma is None else c.gamma
    radius = (c.injection * c.input_norm) + c.norms.bias * (c.norms.projection or 1.0)
    radius += c.feedback * c.state_norm
    covered = c.gamma is not None
    paper = paper_geq(c.beta_max, gamma, c.bound, c.mu)
    corrected = corrected_geq(c.beta_max, gamma, radius, c.feedback, c.injection)
    return [
        Bound("paper", paper if covered else math.inf, measured),
        Bound("corrected", corrected if covered else math.inf, measured),
        Bound("sharp", sharp_geq(c.beta_max, c.feedback, c.injection) if covered else math.inf, measured),
        Bound(
            "certified",
            certified_geq(c.feedback, c.injection, c.gamma == 0) if covered else math.inf,
            measured,
        ),
    ]


def ratio(layer: Equilibrium, first: Tensor, second: Tensor) -> Tensor:
    """‖f(x₁) − f(x₂)‖/‖x₁ − x₂‖ of each pair."""
    z = layer(torch.cat([first, second]))
    moved = (z[: len(first)] - z[len(first) :]).flatten(1).norm(dim=1)
    return moved / (first - second).flatten(1).norm(dim=1)


def ascend(
    layer: Equilibrium, first: Tensor, second: Tensor, bound: float, steps: int = 60, rate: float = 0.05
) -> tuple[Tensor, Tensor, Tensor]:
    """Pairs with a large ratio, by gradient ascent on its logarithm from the given pairs.

    Inputs stay within ‖x‖ ≤ ``bound``, and a pair at least 1e-3 of its first distance apart.

    Returns:
        the best ratio of each pair, and the pair at which it was seen.
    """
    layer = solved_tightly(layer, tol=1e-8, max_steps=500)
    axes = (-1, *[1] * (first.dim() - 1))
    middle, half = (first + second) / 2, (first - second) / 2
    least = 1e-3 * half.flatten(1).norm(dim=1)
    scale = middle.flatten(1).norm(dim=1).mean() / math.sqrt(middle[0].numel())
    middle, half = middle.detach().requires_grad_(), half.detach().requires_grad_()
    climber = torch.optim.Adam(
        [
            {"params": [middle], "lr": rate * float(scale)},
            {"params": [half], "lr": rate * float(half.detach().abs().mean())},
        ],
        maximize=True,
    )
    best = torch.zeros(len(first), dtype=first.dtype)
    kept = [first.clone(), second.clone()]
    for _ in range(steps):
        pair = [(middle + half), (middle - half)]
        value = ratio(layer, *pair)
        with torch.no_grad():
            inside = torch.stack([x.flatten(1).norm(dim=1) <= bound * (1 + 1e-12) for x in pair]).all(0)
            better = (value > best) & inside
            best = torch.where(better, value, best)
            kept = [torch.where(better.view(axes), x, old) for x, old in zip(pair, kept, strict=True)]
        climber.zero_grad()
        value.clamp_min(1e-300).log().sum().backward()
        climber.step()
        with torch.no_grad():
            size = half.flatten(1).norm(dim=1)
            half.mul_((least / size.clamp_min(1e-300)).clamp_min(1).view(axes))
            largest = torch.stack([x.flatten(1).norm(dim=1) for x in (middle + half, middle - half)]).amax(0)
            shrink = (bound / largest.clamp_min(1e-300)).clamp_max(1).view(axes)
            middle.mul_(shrink)
            half.mul_(shrink)
    return best.detach(), kept[0].detach(), kept[1].detach()


def remark_2(beta: float, gamma: float, bound: float, mu: float) -> dict[str, Any]:
    """Check L_geq < L_opteq in three forms; the paper claims it for β < 0.8, B < 1 and √γ < 0.2."""
    return {
        "condition": beta < 0.8 and bound < 1 and math.sqrt(gamma) < 0.2,
        "paper": paper_geq(beta, gamma, bound, mu) < paper_opteq(mu),
        "corrected": corrected_geq(beta, gamma, 2 * bound * mu, mu, mu) < paper_opteq(mu),
        "sharp": sharp_geq(beta, mu, mu) < paper_opteq(mu),
    }


def analyse_layer(
    layer: Equilibrium, x: Tensor, steps: int, norms: LayerNorms | None = None
) -> dict[str, Any]:
    x = x[: 2 * (len(x) // 2)]
    pairs = x[::2], x[1::2]
    bound = float(x.flatten(1).norm(dim=1).max())
    found, first, second = ascend(layer, *pairs, bound, steps)
    # β and B are those of the pairs too: a bound is stated for the inputs that it is tried on.
    constants = measure(layer, torch.cat([x, first, second]), norms)
    bounds = bounds_of(constants, float(found.max()))
    remark = None
    if constants.gaussian and constants.gamma is not None:
        remark = remark_2(constants.beta_max, constants.gamma, constants.bound, constants.mu)
    return {
        "constants": constants.as_mapping(),
        "measured": float(found.max()),
        "bounds": {bound.name: bound.as_mapping() for bound in bounds},
        "remark_2": remark,
    }


def analyse(subject: Subject) -> Result:
    """Bounds and the largest ratio found, for every equilibrium that the proposition speaks of."""
    values: dict[str, Any] = {}
    notes = []
    for name, layer in subject.layers.items():
        reason = unsuited(layer)
        if reason is not None:
            notes.append(f"{name}: {reason}.")
            continue
        values[name] = analyse_layer(layer, subject.inputs[name], subject.settings.steps, subject.norms(name))
    for name, found in values.items():
        constants = found["constants"]
        if constants["mu"] >= 1:
            notes.append(f"{name}: the paper assumes μ < 1; here μ = {constants['mu']:.3f} (‖W_hᵀU‖).")
        if "sharp" in found["bounds"] and constants["gamma"] is None:
            notes.append(f"{name}: γ depends on the input, which no form covers.")
        if found["remark_2"] is not None and constants["mu"] < 1:
            met = "met" if found["remark_2"]["condition"] else "not met"
            tighter = "below" if found["remark_2"]["sharp"] else "not below"
            notes.append(
                f"{name}: remark 2's condition (β < 0.8, B < 1, √γ < 0.2) is {met}; at the same μ the sharp "
                f"bound is {tighter} the linear kernel's."
            )
    return Result(values, (table(values),), notes)


def table(values: dict[str, Any]) -> TextTable:
    rows = []
    for name, found in values.items():
        c = found["constants"]
        for form, bound in found["bounds"].items():
            rows.append(
                (
                    name,
                    shown(c["mu"]),
                    shown(c["beta_max"]),
                    shown(c["gamma"]),
                    shown(c["B"]),
                    form,
                    shown(bound["value"]),
                    shown(found["measured"], 4),
                    bound["verdict"],
                )
            )
    columns = ("equilibrium", "μ", "β_max", "γ", "B", "form", "L ≤", "L found ≥", "verdict")
    return TextTable("Proposition 3: ‖f(x₁) − f(x₂)‖ ≤ L‖x₁ − x₂‖", columns, tuple(rows))
