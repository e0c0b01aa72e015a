from __future__ import annotations

import math

import pytest
import torch

import energy_problems
import geq
from energy_problems import vectors
from geq.certificates.well_posedness import MonotoneWellPosedness


def test_verdicts() -> None:
    gaussian = geq.certificates.WellPosedness(0.9, -0.81, 0.36)
    assert gaussian.rate == 0.81
    assert gaussian.contraction
    assert gaussian.unique
    assert gaussian.largest_step == pytest.approx(2 / 1.81)
    assert str(gaussian) == "feedback norm ≤ 0.900: one equilibrium, contracts by 0.810"

    strong = geq.certificates.WellPosedness(1.4, -1.96, 0.87)
    assert not strong.contraction
    assert strong.unique
    assert "one equilibrium, plain iteration not certified" in str(strong)

    hopeless = geq.certificates.WellPosedness(2.0, -4.0, 1.8)
    assert not hopeless.unique
    assert hopeless.largest_step is None
    assert "uniqueness not certified" in str(hopeless)


def test_nothing_known() -> None:
    unknown = geq.certificates.WellPosedness()
    assert unknown.rate is unknown.contraction is unknown.unique is unknown.largest_step is None
    assert str(unknown) == "nothing is proved: this map has no certificate"


def test_monotone_verdicts() -> None:
    """One equilibrium for m > 0, however large ‖W‖ is."""
    certificate = MonotoneWellPosedness(3.0, monotonicity=0.5, lipschitz=4.0)
    assert certificate.unique
    assert not certificate.contraction
    assert certificate.largest_step == pytest.approx(2 * 0.5 / 16)
    assert str(certificate) == (
        "I − W is monotone with m = 0.500: one equilibrium; ‖I − W‖ ≤ 4.000, ‖W‖ ≤ 3.000"
    )
    undecided = MonotoneWellPosedness(0.5, monotonicity=0.0, lipschitz=1.0)
    assert not undecided.unique
    assert undecided.largest_step is None
    assert undecided.contraction
    assert "uniqueness not certified" in str(undecided)


def test_the_gaussian_bound_of_uniqueness() -> None:
    """Strongly convex while ‖W‖² < e^{3/2}/2 ≈ 2.24, where the linear kernel needs ‖W‖ < 1."""
    limit = math.sqrt(math.exp(1.5) / 2)
    for factor, unique in [(0.999, True), (1.001, False)]:
        problem = energy_problems.dense("gaussian", constraint=geq.constraints.SpectralBound(factor * limit))
        with torch.no_grad():
            problem.W.raw_weight.mul_(10)
        assert problem.well_posedness().unique is unique
    linear = energy_problems.dense("linear", constraint=geq.constraints.SpectralBound(1.01))
    with torch.no_grad():
        linear.W.raw_weight.mul_(10)
    assert not linear.well_posedness().unique


@pytest.mark.parametrize("kernel", ["linear", "gaussian", "gaussian-zero"])
def test_the_certified_rate_is_one(kernel: str) -> None:
    """‖T(a) − T(b)‖ ≤ rate·‖a − b‖ at random pairs, near and far."""
    problem = energy_problems.dense(kernel)
    rate = problem.well_posedness().rate
    assert rate is not None
    assert rate < 1
    cell = problem
    c = problem.inject(vectors())
    for scale in (1e-3, 0.3, 3.0):
        for _ in range(20):
            a = torch.randn(3, energy_problems.STATE, dtype=torch.float64)
            b = a + scale * torch.randn_like(a)
            moved = (cell(a, c) - cell(b, c)).norm(dim=1)
            assert bool((moved <= rate * (a - b).norm(dim=1) + 1e-12).all())


def test_the_certified_step_converges_where_plain_iteration_does_not() -> None:
    problem = energy_problems.dense(
        "gaussian-zero", constraint=geq.constraints.SpectralBound(2.0), penalty=geq.penalties.NoPenalty()
    )
    with torch.no_grad():
        problem.W.raw_weight.mul_(10)
    certificate = problem.well_posedness()
    assert certificate.largest_step is not None
    assert not certificate.contraction
    x = vectors()

    def solved(solver: geq.solvers.Solver) -> geq.Solution:
        layer = geq.Equilibrium(problem, solver=solver, tol=1e-9, max_steps=2000, on_failure="ignore")
        return layer.eval().solve(x)

    assert solved(geq.solvers.ProximalGradient(step_size=0.9 * certificate.largest_step)).converged.all()
    assert not solved(geq.solvers.Picard()).converged.all()


def test_a_certificate_is_for_one_size() -> None:
    """A kernel's norm on 2×2 maps is another one than on 8×8: nothing is remembered, the size is said."""
    layer = geq.GEQ2d(3, 8, patch=2).eval()
    with torch.no_grad():
        layer.problem.W.raw_weight.mul_(10)  # so that the rule has to act
    small, large = (layer.problem.W.effective_weight((side, side)) for side in (2, 8))
    assert not torch.allclose(small, large, rtol=1e-2)
    before = layer.well_posedness((2, 2))
    assert before.size == (2, 2)
    assert "on 2×2 maps" in str(before)
    with torch.no_grad():
        layer(torch.randn(2, 3, 8, 8))
    assert layer.well_posedness((2, 2)) == before
    with pytest.raises(
        geq.errors.OptionError, match=r"depends on the size of its maps.*well_posedness\(\(8, 8\)\)"
    ):
        layer.well_posedness()
