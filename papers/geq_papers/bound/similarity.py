"""Proposition 4 and remark 3: how alike the outputs of two inputs are, in expectation over a Gaussian U.

κ(x₁, x₂) = E[f(x₁)ᵀf(x₂)]. For one layer σ(Ux) with n rows of variance s² it is n·s²‖x₁‖‖x₂‖J(θ)/2π, J(θ) =
sin θ + (π − θ)cos θ, θ the angle between the inputs. The paper prints for the linear and the Gaussian kernel

    κ̄_opteq = s²‖x₁‖‖x₂‖J/(2π(1 − μ²)²),
    κ̄_geq = μ²De^{−(γ/4)σ_min(U)²‖x₁ − x₂‖²}·s²‖x₁‖‖x₂‖J/(2π(1 − βμ²)²).

Neither is a bound. The factor n is missing; the proof takes z₁ᵀWᵀWz₂ ≤ μ²z₁ᵀz₂, which fails where W mixes
coordinates (at θ = π both bounds are 0 and κ is not); and D = e^{γBμ²} needs B². With ‖z‖ ≤ ‖σ(Ux)‖/(1 − μ²)
(linear) and ‖z‖ ≤ βμ‖Ux‖ (Gaussian) instead,

    κ_opteq ≤ n·s²‖x₁‖‖x₂‖·[J/2π + ½(1/(1 − μ²)² − 1)],
    κ_geq ≤ μ²e^{μ⁴/2e}·√(A₁A₂),      A_i = E[e^{−(γ/4)‖U(x₁ − x₂)‖²}‖Ux_i‖²],

A_i in closed form; with patches κ_geq ≤ ‖W_hᵀW‖²‖W_h‖²·n·s²‖x₁‖‖x₂‖. For convolutions x stands for the
columns that the kernel sees, summed over pixels.
docs/errata.md derives them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from geq.analysis.analysed_network import Subject
from geq.analysis.bound_constants import unsuited
from geq.analysis.result import Bound, Result, TextTable
from geq.analysis.weight_norms import AffineMap, LayerNorms, input_map
from geq.cells import EnergyEquation, EnergyProblem
from geq.equilibrium import Equilibrium
from geq.kernels import BoundGaussian, GaussianKernel, LinearKernel
from geq.number_format import shown
from geq.operators import Convolution
from geq.operators.operator import size_of
from geq.solvers import Anderson, fixed_point

SUMMARY = "proposition 4: how alike outputs of two inputs are"


def angle_factor(cosine: Tensor) -> Tensor:
    """J(θ) = sin θ + (π − θ)cos θ, from cos θ.

    >>> [round(float(j), 4) for j in angle_factor(torch.tensor([1.0, 0.0]))]
    [3.1416, 1.0]
    """
    cosine = cosine.clamp(-1, 1)
    theta = torch.arccos(cosine)
    return torch.sin(theta) + (math.pi - theta) * cosine


def one_layer(first: Float[Tensor, "pixels n"], second: Float[Tensor, "pixels n"], variance: float) -> float:
    """E[σ(u·x₁)σ(u·x₂)] of one row u, summed over pixels (a single one for vectors)."""
    sizes = first.norm(dim=1) * second.norm(dim=1)
    cosine = (first * second).sum(1) / sizes.clamp_min(1e-300)
    return variance * float((sizes * angle_factor(cosine)).sum()) / (2 * math.pi)


def paper_opteq(single: float, mu: float) -> float:
    """κ̄_opteq as printed (GEQ eq. 15), ``single`` from :func:`one_layer`."""
    return single / (1 - mu**2) ** 2 if mu < 1 else math.inf


def paper_geq(
    single: float, mu: float, beta: float, gamma: float, bound: float, least: float, distance: float
) -> float:
    """κ̄_geq as printed (GEQ eq. 14), with σ_min(U) = ``least`` and ‖x₁ − x₂‖ = ``distance``."""
    if beta * mu**2 >= 1:
        return math.inf
    decay = math.exp(gamma * bound * mu**2 - gamma / 4 * least**2 * distance**2)
    return mu**2 * decay * single / (1 - beta * mu**2) ** 2


def corrected_opteq(
    first: Float[Tensor, "pixels n"], second: Float[Tensor, "pixels n"], rows: int, variance: float, mu: float
) -> float:
    """n·s²[‖x₁‖‖x₂‖J/2π + ½‖x₁‖‖x₂‖(1/(1 − μ²)² − 1)]."""
    if mu >= 1:
        return math.inf
    spread = float(first.norm() * second.norm()) / 2 * (1 / (1 - mu**2) ** 2 - 1)
    return rows * (one_layer(first, second, variance) + variance * spread)


def weighted_square(x: Tensor, difference: Tensor, rows: int, variance: float, rate: float) -> float:
    """E[e^{−rate‖UΔ‖²}‖Ux‖²] for U with ``rows`` Gaussian rows of this variance, in closed form."""
    size = float(difference.square().sum())
    damping = 1 + 2 * rate * variance * size
    along = 0.0 if size == 0 else float((x * difference).sum()) ** 2 / size
    square = variance * (float(x.square().sum()) - along + along / damping)
    return rows * damping ** (-rows / 2) * square


def corrected_geq(
    first: Float[Tensor, "pixels n"],
    second: Float[Tensor, "pixels n"],
    rows: int,
    variance: float,
    mu: float,
    gamma: float | None = None,
) -> float:
    """μ²e^{μ⁴/2e}√(A₁A₂) for vectors and one distance per sample; else (γ None) μ²·n·s²‖x₁‖‖x₂‖."""
    plain = mu**2 * rows * variance * float(first.norm() * second.norm())
    if gamma is None:
        return plain
    parts = [weighted_square(x, first - second, rows, variance, gamma / 4) for x in (first, second)]
    return min(plain, mu**2 * math.exp(mu**4 / (2 * math.e)) * math.sqrt(parts[0] * parts[1]))


def remark_3(mu: float, gamma: float, bound: float, least: float, distance: float) -> dict[str, bool]:
    """Check De^{−(γ/4)σ²‖x₁−x₂‖²} ≤ 1, which makes κ̄_geq ≤ κ̄_opteq, and two conditions for it.

    The paper's condition ‖x₁ − x₂‖ ≥ 2√(ln D)/σ_min(U) lacks a division by √γ; it compares κ̄_geq with itself.
    """
    logarithm = gamma * bound * mu**2
    return {
        "decayed": logarithm - gamma / 4 * (least * distance) ** 2 <= 1e-12,
        "printed_condition": least > 0 and distance >= 2 * math.sqrt(logarithm) / least,
        "corrected_condition": least > 0 and distance >= 2 * math.sqrt(logarithm / gamma) / least,
    }


@dataclass(frozen=True)
class Estimate:
    """A Monte-Carlo estimate: mean and standard error, and what was seen on the way."""

    mean: float
    error: float
    beta_max: float
    state_norm: float
    gamma: float


def columns(x: Float[Tensor, "..."], operator: Any) -> Float[Tensor, "pixels n"]:
    """Return the inputs of the rows of U: x itself, or for a convolution the neighbourhood of each pixel."""
    if not isinstance(operator, Convolution):
        return x.reshape(1, -1)
    margin, side = operator.margin, 2 * operator.margin + 1
    mode = "constant" if operator.padding == "zeros" else "circular"
    padded = F.pad(x.unsqueeze(0), (margin,) * 4, mode=mode) if margin else x.unsqueeze(0)
    return F.unfold(padded, side)[0].t()


@torch.no_grad()
def monte_carlo(
    problem: EnergyProblem,
    pair: tuple[Float[Tensor, "pixels n"], Float[Tensor, "pixels n"]],
    shape: tuple[int, ...],
    variance: float,
    draws: int,
    seed: int = 0,
) -> Estimate:
    """κ over Gaussian U, with the problem's own W and kernel and no bias; ``shape`` is that of one Ux."""
    generator = torch.Generator().manual_seed(seed)
    U = torch.randn(draws, shape[0], pair[0].shape[1], generator=generator, dtype=torch.float64)
    U = U * math.sqrt(variance)
    v = torch.cat([(U @ columns.t()).reshape(draws, *shape) for columns in pair])
    c = problem.bind(v)
    equation = EnergyEquation(problem, c)
    z: Any = fixed_point(equation, None, Anderson(), tol=1e-8, max_steps=500, on_failure="ignore").value
    products = (z[:draws] * z[draws:]).flatten(1).sum(1)
    beta, gamma = 1.0, 0.0
    if isinstance(c, BoundGaussian):
        beta, gamma = float(c.attention(c.W(z)).max()), float(c.gamma.mean())
    return Estimate(
        float(products.mean()),
        float(products.std()) / math.sqrt(draws),
        beta,
        float(z.flatten(1).norm(dim=1).max()),
        gamma,
    )


def analyse_pair(
    problem: EnergyProblem,
    U: AffineMap,
    pair: tuple[Tensor, Tensor],
    norms: LayerNorms,
    draws: int,
    seed: int,
) -> dict[str, Any]:
    """The estimate of κ for two inputs of a layer, beside each bound."""
    mu, projection = norms.feedback.upper, norms.projection or 1.0
    variance = float(U.weight.square().mean())
    seen = columns(pair[0], U.operator), columns(pair[1], U.operator)
    rows = U.weight.shape[0]
    shape = (rows, *pair[0].shape[1:]) if isinstance(U.operator, Convolution) else (rows,)
    found = monte_carlo(problem, seen, shape, variance, draws, seed)
    single, tolerance = one_layer(*seen, variance), 3 * found.error
    distance = float((pair[0] - pair[1]).norm())
    if isinstance(problem.kernel, LinearKernel):
        bounds = [
            Bound("paper", paper_opteq(single, mu), found.mean, tolerance),
            Bound("corrected", corrected_opteq(*seen, rows, variance, mu), found.mean, tolerance),
        ]
    else:
        largest = max(found.state_norm, *(float(x.norm()) for x in pair))
        # A convolution has directions that it hardly sees; σ_min = 0 makes the printed bound largest.
        printed = paper_geq(single, mu, found.beta_max, found.gamma, largest, 0.0, distance)
        exponent = found.gamma if type(problem.kernel) is GaussianKernel and len(seen[0]) == 1 else None
        own = corrected_geq(*seen, rows, variance, mu, exponent) * projection**2
        bounds = [
            Bound("paper", printed, found.mean, tolerance),
            Bound("corrected", own, found.mean, tolerance),
        ]
    return {
        "kappa": found.mean,
        "standard_error": found.error,
        "distance": distance,
        "beta_max": found.beta_max,
        "gamma": found.gamma,
        "bounds": {bound.name: bound.as_mapping() for bound in bounds},
    }


def choose_pairs(labels: Tensor) -> dict[str, tuple[int, int]]:
    """The first two images of one class, and of two classes."""
    found: dict[str, tuple[int, int]] = {}
    for i in range(len(labels)):
        for j in range(i + 1, len(labels)):
            found.setdefault("same class" if labels[i] == labels[j] else "other class", (i, j))
    return dict(sorted(found.items(), reverse=True))


def analyse(subject: Subject) -> Result:
    """κ of two images of one class and of two classes, at every equilibrium that the proposition covers."""
    settings = subject.settings
    _, labels = subject.batch("test", settings.images)
    values: dict[str, Any] = {}
    notes = ["U is drawn again with the variance of the trained U's entries; W is the trained one, b = 0."]
    rows = []
    for name, layer in subject.layers.items():
        reason = unsuited(layer)
        U = input_map(layer.problem.U, size_of(subject.inputs[name])) if reason is None else None
        if reason is None and U is None:
            reason = "its U is not known to be affine"
        norms = subject.norms(name)
        if reason is not None or U is None or norms is None:
            notes.append(f"{name}: {reason}.")
            continue
        values[name] = analyse_layer(
            layer, U, norms, subject.inputs[name], labels, settings.draws, settings.seed
        )
        for kind, found in values[name].items():
            for form, bound in found["bounds"].items():
                estimate = f"{shown(found['kappa'])} ± {shown(found['standard_error'])}"
                rows.append((name, kind, estimate, form, shown(bound["value"]), bound["verdict"]))
    columns = ("equilibrium", "pair", "κ, Monte Carlo", "form", "κ ≤", "verdict")
    tables = (TextTable("Proposition 4: similarity of two outputs", columns, tuple(rows)),) if rows else ()
    return Result(values, tables, notes)


def analyse_layer(
    layer: Equilibrium, U: AffineMap, norms: LayerNorms, x: Tensor, labels: Tensor, draws: int, seed: int
) -> dict[str, Any]:
    return {
        kind: analyse_pair(layer.problem, U, (x[i], x[j]), norms, draws, seed)
        for kind, (i, j) in choose_pairs(labels).items()
    }
