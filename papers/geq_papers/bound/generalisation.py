"""Proposition 2 on a run: margin loss, constants, both right-hand sides of
:mod:`geq_papers.bound.pac_bayes`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from geq.analysis.analysed_network import Subject
from geq.analysis.bound_constants import measure, unsuited
from geq.analysis.result import Bound, Result, TextTable
from geq.analysis.settings import Settings
from geq.analysis.weight_norms import AffineMap, LayerNorms, input_map
from geq.cells import EnergyProblem
from geq.certificates.fourier_bound import wrapped
from geq.equilibrium import Equilibrium, ignore_failures
from geq.number_format import shown
from geq.operators import Convolution, Operator
from geq.operators.operator import Size, size_of
from geq_papers.bound.pac_bayes import (
    Norms,
    corrected_geq,
    corrected_opteq,
    corrected_right_side,
    margin_loss,
    paper_geq,
    paper_opteq,
    paper_right_side,
    remark_1,
)

SUMMARY = "proposition 2: bounds of the test error"

PROBES = 32


@dataclass(frozen=True)
class WeightNorms:
    """Squared Frobenius norms of the maps written as matrices, and the largest side of one."""

    W: float
    gram: float
    U: float
    bias: float
    width: int


def frobenius(weight: Tensor, operator: Operator, size: Size | None) -> float:
    """‖A‖_F² of the unrolled matrix: every tap counts as often as it meets a pixel."""
    weight = weight.detach()
    if not isinstance(operator, Convolution):
        return float(weight.square().sum())
    assert size is not None
    height, width = size
    if operator.padding == "circular":
        return height * width * float(wrapped(weight, height, width).square().sum())
    offsets = (torch.arange(weight.shape[-1]) - weight.shape[-1] // 2).abs().to(weight.dtype)
    counts = (height - offsets).clamp_min(0)[:, None] * (width - offsets).clamp_min(0)[None, :]
    return float((weight.square() * counts).sum())


@torch.no_grad()
def weight_norms(problem: EnergyProblem, U: AffineMap, x: Tensor) -> WeightNorms:
    c: Any = problem.inject(x[:1])
    generator = torch.Generator().manual_seed(0)
    shape = (PROBES, *problem.initial_state(c).shape[1:])
    probe = torch.randint(0, 2, shape, generator=generator).to(x.dtype) * 2 - 1
    gram = float(c.W.adjoint(c.W(probe)).square().sum()) / PROBES  # Hutchinson's estimate of ‖WᵀW‖_F²
    sides = [t[0].numel() for t in (x, c.v, probe, c.W(probe[:1]))]
    return WeightNorms(
        frobenius(c.W.weight, problem.W, size_of(x)),
        gram,
        frobenius(U.weight, U.operator, U.size),
        U.bias_norm**2,
        max(sides),
    )


@torch.no_grad()
def analyse_layer(
    layer: Equilibrium,
    x: Tensor,
    head: Tensor,
    head_bias: Tensor,
    margin_losses: Any,
    settings: Settings,
    norms: LayerNorms | None = None,
) -> dict[str, Any]:
    """Both right-hand sides for one equilibrium, with the kernel's own and with the other's formula."""
    U = input_map(layer.problem.U, size_of(x))
    assert U is not None
    c = measure(layer, x, norms)
    sizes = weight_norms(layer.problem, U, x)
    extra = float(head.square().sum()) + float(head_bias.square().sum())
    head_norm = float(torch.linalg.matrix_norm(head.double(), 2))
    mu = max(c.mu, head_norm, c.norms.bias)
    m = c.feedback**2
    printed_weight = sizes.gram + sizes.U + sizes.bias + extra
    true_weight = sizes.W + sizes.U + sizes.bias + extra
    loss, samples = float(margin_losses["train"]), int(margin_losses["samples"])
    margin, confidence = settings.margin, settings.confidence

    def printed(constant: float) -> float:
        return paper_right_side(loss, constant, sizes.width, printed_weight, margin, samples, confidence)

    geq = printed(paper_geq(c.beta_max, m, mu, c.input_norm))
    opteq = printed(paper_opteq(m, mu, c.input_norm))
    fixed = Norms(c.feedback, c.injection, c.norms.bias, head_norm, c.input_norm)

    def corrected(size: float) -> float:
        return (corrected_geq if c.gaussian else corrected_opteq)(fixed, size)

    own = corrected_right_side(loss, corrected, sizes.width, true_weight, margin, samples, confidence)
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
        if reason is None and input_map(layer.problem.U, size_of(subject.inputs[name])) is None:
            reason = "its U is not known to be affine"
        if reason is not None:
            notes.append(f"{name}: {reason}.")
            continue
        bias = torch.zeros(1) if head.bias is None else head.bias
        layers[name] = analyse_layer(
            layer, subject.inputs[name], head.weight, bias, losses, settings, subject.norms(name)
        )
    values["layers"] = layers
    notes.extend(comments(layers))
    return Result(values, (table(layers),) if layers else (), notes)


@torch.no_grad()
def margin_losses(subject: Subject) -> dict[str, Any]:
    model, settings = subject.model.eval(), subject.settings
    like = next(model.parameters())
    found: dict[str, Any] = {}
    with ignore_failures(model):
        for split, margin in (("train", settings.margin), ("test", 0.0)):
            images, labels = subject.batch(split, settings.train_images)  # type: ignore[arg-type]
            logits = torch.cat([model(part) for part in images.to(like).split(250)])
            found[split] = margin_loss(logits, labels, margin)
            if split == "train":
                found["samples"] = len(labels)
    return found


def table(layers: dict[str, Any]) -> TextTable:
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
    return TextTable("Proposition 2: generalisation", columns, tuple(rows))


def comments(layers: dict[str, Any]) -> list[str]:
    found = []
    for name, values in layers.items():
        c, remark = values["constants"], values["remark_1"]
        if c["mu"] >= 1:
            found.append(f"{name}: the proposition assumes μ < 1; here μ = {c['mu']:.3f}.")
        met = "met" if remark["condition"] else "not met"
        if c["m"] < 1 and c["gamma"] is not None:
            better = remark["first"] and remark["second"]
            found.append(
                f"{name}: remark 1's condition (β < 0.8; μ, m > 0.9) is {met}; the printed Gaussian formula "
                f"is {'' if better else 'not '}below the linear one term by term."
            )
    return found
