"""Proposition 1: the Gaussian kernel as an inner product of infinitely wide features.

With t = 2γ⟨a, v⟩ and the tensor powers Φ⁽ⁱ⁾(a) = √((2γ)ⁱ/i!)·a⊗…⊗a, which have nⁱ entries (not i·nⁱ),

    e^{−γ‖a − v‖²} = λ Σᵢ tⁱ/i! = λ ⟨Φ(a), Φ(v)⟩,      λ = e^{−γ‖a‖²}e^{−γ‖v‖²}.

The paper prints e^{−γ‖Wz‖} in λ; the square is missing, and with it the identity. Truncated after degree k
the remainder is at most λ|t|^{k+1}/(k + 1)!·max(1, eᵗ) (Taylor).

λ depends on z. Holding it fixed, as the problem of the proposition reads, gives the map βWᵀ(Ux + b) instead
of βWᵀ(Ux + b − Wz): the identity is one of values of the objective, not of a problem with a constant λ.
The factor 1/2γ of the objective is missing in eq. 7 as well.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from geq.analysis.analysed_network import Subject, solved_tightly
from geq.analysis.result import Result, TextTable
from geq.cells import EnergyProblem
from geq.equilibrium import Equilibrium
from geq.kernels import BoundGaussian, BoundKernel, GaussianKernel, PatchGaussianKernel, to_patches
from geq.number_format import shown

SUMMARY = "proposition 1: the kernel as an infinitely wide feature map"

DEGREES = (0, 1, 2, 3, 4, 6, 8, 12)


def feature_map(a: Float[Tensor, "*batch n"], gamma: float, degree: int) -> Float[Tensor, "*batch features"]:
    """Φ of degrees 0 … ``degree``, written out: 1 + n + n² + … entries.

    >>> feature_map(torch.ones(3), 0.5, 2).shape
    torch.Size([13])
    """
    power = a.new_ones(*a.shape[:-1], 1)
    parts = [power]
    for i in range(1, degree + 1):
        power = (power.unsqueeze(-1) * a.unsqueeze(-2)).flatten(-2) * math.sqrt(2 * gamma / i)
        parts.append(power)
    return torch.cat(parts, -1)


def truncated_kernel(
    a: Float[Tensor, "*batch n"], v: Float[Tensor, "*batch n"], gamma: float, degree: int
) -> Float[Tensor, "*batch"]:
    """λ Σ_{i ≤ degree} tⁱ/i!, which is λ⟨Φ(a), Φ(v)⟩ without writing Φ out."""
    t = 2 * gamma * (a * v).sum(-1)
    total, term = torch.ones_like(t), torch.ones_like(t)
    for i in range(1, degree + 1):
        term = term * t / i
        total = total + term
    return scale(a, v, gamma) * total


def scale(a: Tensor, v: Tensor, gamma: float, squared: bool = True) -> Tensor:
    """λ; ``squared=False`` is the printed e^{−γ‖a‖²}e^{−γ‖v‖}, with a = Ux + b and v = Wz."""
    size = v.square().sum(-1)
    return torch.exp(-gamma * (a.square().sum(-1) + (size if squared else size.sqrt())))


def remainder_bound(a: Tensor, v: Tensor, gamma: float, degree: int) -> Tensor:
    """Return an upper bound of the terms beyond ``degree``."""
    t = 2 * gamma * (a * v).sum(-1)
    order = degree + 1
    logarithm = order * t.abs().clamp_min(1e-300).log() - math.lgamma(order + 1) + t.clamp_min(0)
    return scale(a, v, gamma) * logarithm.exp()


@torch.no_grad()
def projected_patches(layer: Equilibrium, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(Ux + b)W_h and WzW_h by patch at the equilibrium, and γ of each sample (or one γ)."""
    problem = layer.problem
    c = problem.inject(x)
    assert isinstance(c, BoundKernel)
    assert isinstance(c, BoundGaussian)
    z = solved_tightly(layer).solve(x).value
    assert isinstance(z, Tensor)
    similarity = problem.kernel
    pair = []
    for maps in (c.v, c.W(z)):
        if isinstance(similarity, PatchGaussianKernel):
            cut = to_patches(maps, similarity.patch, similarity.channel_split)
            pair.append((cut @ similarity.projection.to(cut.dtype)).flatten(1, -2))
        else:
            pair.append(maps.flatten(1).unsqueeze(1))
    return pair[0], pair[1], c.gamma


def analyse_layer(layer: Equilibrium, x: Tensor) -> dict[str, Any]:
    a, v, gammas = projected_patches(layer, x)
    gamma = float(gammas.mean())  # where γ differs between inputs, the mean stands for all
    exact = torch.exp(-gamma * (a - v).square().sum(-1))
    t = 2 * gamma * (a * v).sum(-1)
    errors = {k: float((truncated_kernel(a, v, gamma, k) - exact).abs().max()) for k in DEGREES}
    bounds = {k: float(remainder_bound(a, v, gamma, k).max()) for k in DEGREES}
    printed = scale(a, v, gamma, squared=False) * t.exp()
    held = exact.unsqueeze(-1) * a  # ∂/∂Wz with λ held fixed is βv, and β(v − Wz) is right
    right = exact.unsqueeze(-1) * (a - v)
    return {
        "gamma": gamma,
        "dimension": a.shape[-1],
        "largest_t": float(t.abs().max()),
        "error": errors,
        "bound": bounds,
        "holds": all(errors[k] <= bounds[k] + 1e-13 for k in DEGREES),
        "printed_lambda_error": float((printed - exact).abs().max()),
        "constant_lambda_error": float((held - right).norm() / right.norm().clamp_min(1e-300)),
    }


def analyse(subject: Subject) -> Result:
    """Truncated feature maps against the kernel, on the patches of real images."""
    values: dict[str, Any] = {}
    notes = []
    for name, layer in subject.layers.items():
        gaussian = isinstance(layer.cell, EnergyProblem) and isinstance(layer.problem.kernel, GaussianKernel)
        if not gaussian:
            notes.append(f"{name}: proposition 1 is about Gaussian kernels.")
            continue
        values[name] = analyse_layer(layer, subject.inputs[name])
    shown_degrees = (0, 1, 2, 4, 8)
    rows = tuple(
        (
            name,
            str(found["dimension"]),
            shown(found["largest_t"]),
            *(shown(found["error"][k]) for k in shown_degrees),
            "holds" if found["holds"] else "violated",
            shown(found["printed_lambda_error"]),
            shown(found["constant_lambda_error"]),
        )
        for name, found in values.items()
    )
    columns = (
        "equilibrium",
        "n",
        "largest |t|",
        *(f"degree {k}" for k in shown_degrees),
        "remainder bound",
        "printed λ",
        "λ held fixed",
    )
    if rows:
        notes.append(
            "Errors are the largest over patches of the kernel's value; 'printed λ' is the error of the "
            "paper's e^{−γ‖Wz‖} at all degrees, 'λ held fixed' the relative error of the map."
        )
    return Result(
        values, (TextTable("Proposition 1: truncated features", columns, rows),) if rows else (), notes
    )
