"""Certificates of the equilibria of a trained network: what its weights prove, and what that says of each
input.

From the norm of the feedback follow verdicts (:class:`~geq.certificates.WellPosedness`): contraction, strong
convexity, one equilibrium. From a residual follows how far a state is from the equilibrium, for the map T =
prox(∇S) whose smooth part ½‖z‖² − S has curvature in [1 − upper, 1 − lower]:

* if T contracts with factor L < 1, then ‖z − z*‖ ≤ ‖z − T(z)‖/(1 − L);
* if the objective is strongly convex, ‖z − z*‖ ≤ (2 − lower)/(1 − upper)·‖z − T(z)‖, also where plain
  iteration does not converge.

The smaller of the two counts. docs/certificate.md derives them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from geq.analysis.analysed_network import Subject
from geq.analysis.result import Result, TextTable
from geq.analysis.weight_norms import LayerNorms, has_norms, layer_norms
from geq.cells import EnergyProblem
from geq.cells.base import Cell, State, parts_of
from geq.certificates.well_posedness import WellPosedness
from geq.equilibrium import Equilibrium
from geq.number_format import shown
from geq.operators.operator import Size, size_of
from geq.solvers import Picard, Solution, fixed_point

MEASURED_STEPS, MEASURED_TOL, MEASURED_INPUTS = 60, 1e-6, 2


def certify(problem: EnergyProblem, norms: LayerNorms, size: Size | None) -> WellPosedness:
    """The verdicts for a problem with these norms."""
    return problem.verdict(norms.feedback.upper, size)


def distance_factor(cell: Cell, certificate: WellPosedness) -> float | None:
    """‖z − z*‖ is at most this factor times ‖z − T(z)‖; None where nothing is proved."""
    rate = cell.contraction_rate(certificate)
    factors = [] if rate is None else [1 / (1 - rate)]
    if isinstance(cell, EnergyProblem) and certificate.unique:
        assert certificate.lower is not None
        assert certificate.upper is not None
        factors.append((2 - certificate.lower) / (1 - certificate.upper))
    return min(factors, default=None)


@dataclass(frozen=True)
class InputCertificates:
    """For each input: the residual ‖z − T(z)‖ at the layer's own solution, and what it proves.

    Args:
        residual: (batch,).
        norm: (batch,) ‖z‖.
        distance: (batch,) upper bound of ‖z − z*‖; infinite where nothing is proved.
    """

    residual: Tensor
    norm: Tensor
    distance: Tensor


@torch.no_grad()
def certify_inputs(layer: Equilibrium, x: Any, certificate: WellPosedness) -> InputCertificates:
    """Solve for ``x`` as the layer does, then measure and bound."""
    before, layer.on_failure = layer.on_failure, "ignore"
    try:
        z = layer.solve(x).value
    finally:
        layer.on_failure = before
    return certify_states(layer, x, z, certificate)


@torch.no_grad()
def certify_states(layer: Equilibrium, x: Any, z: State, certificate: WellPosedness) -> InputCertificates:
    """Return bounds of the distances between the states ``z`` and the equilibria for ``x``."""
    image = layer.cell.equation(x)(z)
    pairs = zip(parts_of(z), parts_of(image), strict=True)
    residual = torch.cat([(a - b).flatten(1) for a, b in pairs], 1).norm(dim=1)
    norm = torch.cat([part.flatten(1) for part in parts_of(z)], 1).norm(dim=1)
    factor = distance_factor(layer.cell, certificate)
    return InputCertificates(residual, norm, residual * (math.inf if factor is None else factor))


@torch.no_grad()
def plain_iteration(layer: Equilibrium, x: Any) -> Solution:
    """The plain iteration z ← T(z) from the initial state, with its trace."""
    equation = layer.cell.equation(x)
    return fixed_point(
        equation.__call__,  # a function: nothing may replace the map
        equation.start(),
        Picard(),
        tol=MEASURED_TOL,
        max_steps=MEASURED_STEPS,
        on_failure="ignore",
        trace=True,
    )


def measured_rate(solution: Solution) -> float | None:
    """Mean factor by which the residual fell in the second half of an iteration, of the slowest sample.

    None where it was over too soon to tell, or blew up.
    """
    rates = []
    assert solution.trace is not None
    for column, steps in zip(solution.trace.T.double(), solution.steps.tolist(), strict=True):
        residuals = column[:steps]
        residuals = residuals[(residuals > 0) & torch.isfinite(residuals)]
        if len(residuals) >= 4:
            first = len(residuals) // 2
            rates.append(float(residuals[-1] / residuals[first]) ** (1 / (len(residuals) - 1 - first)))
    return max(rates, default=None)


def certify_layer(layer: Equilibrium, x: Tensor, norms: LayerNorms | None = None) -> dict[str, Any]:
    """Norms (computed unless given), verdicts, rates and per-input bounds of one equilibrium."""
    size = size_of(x)
    if has_norms(layer):
        norms = layer_norms(layer.problem, size) if norms is None else norms
        certificate = certify(layer.problem, norms, size)
    else:
        certificate = layer.well_posedness(size)
    found = certify_inputs(layer, x, certificate)
    own = layer.last_solution
    plain = plain_iteration(layer, x[:MEASURED_INPUTS])
    relative = found.distance / found.norm.clamp_min(torch.finfo(found.norm.dtype).tiny)
    return {
        "kernel": type(layer.problem.kernel).__name__ if norms is not None else type(layer.cell).__name__,
        "norms": None if norms is None else norms.as_mapping(),
        "certificate": str(certificate),
        "feedback_norm": certificate.feedback_norm,
        "curvature": [certificate.lower, certificate.upper],
        "contraction": certificate.contraction,
        "strongly_convex": certificate.unique if norms is not None else None,
        "unique": certificate.unique,
        "largest_step": certificate.largest_step,
        "proved_rate": layer.cell.contraction_rate(certificate),
        "measured_rate": measured_rate(plain),
        "plain_iteration_converged": bool(plain.converged.all()),
        "solver_steps": None if own is None else float(own.steps.double().mean()),
        "tolerance": layer.tol,
        "distance_factor": distance_factor(layer.cell, certificate),
        "inputs": {
            "residual": found.residual.tolist(),
            "state_norm": found.norm.tolist(),
            "distance_bound": found.distance.tolist(),
            "relative_distance_bound": relative.tolist(),
        },
    }


def analyse(subject: Subject) -> Result:
    """The certificate of every equilibrium of a run."""
    values = {
        name: certify_layer(layer, subject.inputs[name], subject.norms(name))
        for name, layer in subject.layers.items()
    }
    return Result(values, (norm_table(values), verdict_table(values), input_table(values)), notes(values))


def said(verdict: bool | None) -> str:
    return "unknown" if verdict is None else "yes" if verdict else "not proved"


def norm_table(values: dict[str, Any]) -> TextTable:
    def between(pair: dict[str, Any] | None) -> str:
        return "–" if pair is None else f"{pair['lower']:.4f} … {pair['upper']:.4f}"

    rows = []
    for name, found in values.items():
        norms = found["norms"]
        if norms is None:
            rows.append((name, found["kernel"], *["–"] * 6))
            continue
        rows.append(
            (
                name,
                found["kernel"],
                between(norms["W"]),
                shown(norms["W_h"]),
                shown(norms["product"], 4),
                between(norms["feedback"]),
                between(norms["injection"]),
                norms["feedback"]["proof"],
            )
        )
    columns = ("equilibrium", "kernel", "‖W‖", "‖W_h‖", "‖W_h‖·‖W‖ ≤", "‖W_hᵀW‖ joint", "‖W_hᵀU‖", "proof")
    return TextTable("Operator norms: from below (Lanczos) … from above (proved)", columns, tuple(rows))


def verdict_table(values: dict[str, Any]) -> TextTable:
    rows = tuple(
        (
            name,
            shown(found["feedback_norm"], 4),
            said(found["unique"]),
            said(found["contraction"]),
            shown(found["proved_rate"]),
            shown(found["measured_rate"]),
            shown(found["solver_steps"], 1),
        )
        for name, found in values.items()
    )
    columns = (
        "equilibrium",
        "feedback norm ≤",
        "one equilibrium",
        "plain iteration contracts",
        "rate ≤",
        "measured rate",
        "solver steps",
    )
    return TextTable("What the weights prove", columns, rows)


def input_table(values: dict[str, Any]) -> TextTable:
    rows = []
    for name, found in values.items():
        inputs, factor = found["inputs"], found["distance_factor"]
        rows.append(
            (
                name,
                str(len(inputs["residual"])),
                shown(max(inputs["residual"])),
                shown(factor),
                shown(max(inputs["distance_bound"])),
                f"{100 * max(inputs['relative_distance_bound']):.3g} %" if factor is not None else "–",
            )
        )
    columns = (
        "equilibrium",
        "inputs",
        "largest residual ‖z − T(z)‖",
        "factor",
        "‖z − z*‖ ≤",
        "of ‖z‖, at most",
    )
    return TextTable("How far the computed states are from the equilibria", columns, tuple(rows))


def notes(values: dict[str, Any]) -> list[str]:
    found = []
    for name, value in values.items():
        measured, proved = value["measured_rate"], value["proved_rate"]
        if measured is not None and proved is not None and measured > proved + 1e-6:
            found.append(f"{name}: the measured rate {measured:.4f} exceeds the proved one {proved:.4f}.")
        if not value["plain_iteration_converged"]:
            found.append(f"{name}: {MEASURED_STEPS} plain iterations did not reach {MEASURED_TOL:g}.")
    return found
