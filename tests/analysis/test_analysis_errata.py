"""Errata that belong to no proposition, and that docs/errata.md names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import torch
from torch import Tensor

import geq

ROOT = Path(__file__).resolve().parents[2]


def test_the_objective_that_kerdeq_prints_does_not_have_the_layer_as_minimiser() -> None:
    """1ᵀσ̃(z), σ̃ = ½relu², does not forbid negative states: one is lower than the layer's output."""
    problem = geq.EnergyProblem(
        geq.kernels.GaussianKernel(gamma=0.5),
        W=geq.operators.Dense(1, 1, constraint=geq.constraints.Unconstrained()),
        U=geq.operators.Dense(1, 1),
    ).double()
    with torch.no_grad():
        problem.W.raw_weight.fill_(0.9)
        problem.U.raw_weight.fill_(1.0)  # type: ignore[union-attr, operator]
    layer = geq.Equilibrium(problem, tol=1e-12).eval()
    problem.requires_grad_(False)
    x = torch.tensor([[-1.0]], dtype=torch.float64)
    c = problem.inject(x)
    z = layer.solve(x).value
    assert isinstance(z, Tensor)
    assert z.item() == 0

    def printed(state: Tensor) -> float:
        return float(0.5 * state.relu().square().sum() - problem.score(state, c))

    elsewhere = torch.full_like(z, -0.5)
    assert printed(elsewhere) < printed(z)
    assert problem.energy(elsewhere, c).isinf().all(), "the right objective forbids it"
    nearby = torch.full_like(z, 0.01)
    assert problem.energy(nearby, c) > problem.energy(z, c)


def test_the_page_names_tests_that_exist() -> None:
    text = (ROOT / "docs" / "errata.md").read_text()
    names: list[str] = []
    for word in re.findall(r"`(test_\w+\.py)?\s*(?:-k (\w+))?`", text):
        file, wanted = word
        if file:
            folders = (ROOT / "tests" / "analysis", ROOT / "papers" / "tests")
            source = next(folder / file for folder in folders if (folder / file).is_file()).read_text()
            names = re.findall(r"^def (test_\w+)", source, re.MULTILINE)
        if wanted:
            assert any(wanted in name for name in names), (file, wanted)
