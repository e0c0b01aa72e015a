"""Contract of every kernel that is listed in ``energy_problems``."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import energy_problems
import geq
from energy_problems import PATCHED, SIMILARITIES, hessian_of_score
from geq.kernels.gaussian import PEAK_CURVATURE

CURVED = ["linear", "gaussian", "gaussian-learned", "gaussian-paper", "gaussian-zero"]


def pair(kernel: str, on_maps: bool) -> tuple[geq.kernels.Kernel, Tensor, Tensor]:
    similarity = {**SIMILARITIES, **PATCHED}[kernel]().double().eval()
    shape = (4, 4, 4, 4) if on_maps else (4, 5)
    u, v = torch.randn(2, *shape, dtype=torch.float64)
    return similarity, u, v


ALL = [(kernel, False) for kernel in SIMILARITIES] + [(kernel, True) for kernel in [*SIMILARITIES, *PATCHED]]


@pytest.mark.parametrize(("kernel", "on_maps"), ALL)
def test_grad_is_the_derivative_of_value(kernel: str, on_maps: bool) -> None:
    similarity, u, v = pair(kernel, on_maps)
    u.requires_grad_()
    value = similarity.value(u, v)
    assert value.shape == (4,)
    (expected,) = torch.autograd.grad(value.sum(), u)
    assert float(expected.abs().max()) > 1e-6
    torch.testing.assert_close(similarity.grad(u, v), expected)
    bound = similarity.bind(v)
    torch.testing.assert_close(bound.grad(u), expected)
    torch.testing.assert_close(bound.value(u), value)


@pytest.mark.parametrize(("kernel", "on_maps"), ALL)
def test_grad_can_be_differentiated(kernel: str, on_maps: bool) -> None:
    """In u and in v: the adjoint system needs the one, learning the other."""
    similarity, u, v = pair(kernel, on_maps)
    u, v = u[:1, ..., :2].clone() if not on_maps else u[:1], v[:1, ..., :2].clone() if not on_maps else v[:1]
    u.requires_grad_()
    v.requires_grad_()
    assert torch.autograd.gradcheck(similarity.grad, (u, v), fast_mode=True)


@pytest.mark.parametrize(("kernel", "on_maps"), ALL)
def test_samples_do_not_meet(kernel: str, on_maps: bool) -> None:
    similarity, u, v = pair(kernel, on_maps)
    together, order = similarity.grad(u, v), torch.tensor([2, 0, 3, 1])
    for sample in range(4):
        alone = slice(sample, sample + 1)
        torch.testing.assert_close(similarity.grad(u[alone], v[alone]), together[alone])
        torch.testing.assert_close(similarity.value(u[alone], v[alone]), similarity.value(u, v)[alone])
    torch.testing.assert_close(similarity.grad(u[order], v[order]), together[order])


@pytest.mark.parametrize("kernel", CURVED)
@pytest.mark.parametrize("strength", [0.7, 1.3])
def test_curvature_bounds_hold_on_vectors(kernel: str, strength: float) -> None:
    """The eigenvalues of ∇²S lie in the stated interval, for random weights, inputs and states."""
    for seed in range(12):
        problem = energy_problems.dense(kernel, constraint=geq.constraints.SpectralBound(strength), seed=seed)
        norm = torch.linalg.matrix_norm(problem.W.weight, 2).item()
        bounds = problem.kernel.curvature(norm)
        certificate = problem.well_posedness()
        assert bounds is not None
        assert certificate.lower == pytest.approx(bounds[0])
        assert certificate.upper == pytest.approx(bounds[1])
        x = 0.5 * energy_problems.vectors(1, seed)
        for scale in (0.0, 0.3, 2.0):
            z = scale * torch.randn(1, energy_problems.STATE, dtype=torch.float64)
            eigenvalues = torch.linalg.eigvalsh(hessian_of_score(problem, z, problem.inject(x)))
            assert float(eigenvalues.min()) >= bounds[0] - 1e-10
            assert float(eigenvalues.max()) <= bounds[1] + 1e-10


@pytest.mark.parametrize("kernel", PATCHED)
@pytest.mark.parametrize("padding", energy_problems.PADDINGS)
def test_curvature_bounds_hold_on_maps(kernel: str, padding: str) -> None:
    for seed in range(2):
        problem = energy_problems.conv(
            kernel, padding, constraint=geq.constraints.SpectralBound(1.2), seed=seed
        )
        x = energy_problems.maps(1, seed)
        c = problem.inject(x)
        certificate = problem.well_posedness(energy_problems.SIZE)
        z = 0.5 * torch.randn_like(problem.initial_state(c))
        eigenvalues = torch.linalg.eigvalsh(hessian_of_score(problem, z, c))
        assert certificate.lower is not None
        assert certificate.upper is not None
        assert certificate.lower - 1e-10 <= float(eigenvalues.min())
        assert float(eigenvalues.max()) <= certificate.upper + 1e-10


def test_peak_curvature_is_reached() -> None:
    """The upper bound is not loose: ‖d‖² = 3/(2γ) attains it, and the lower one at d = 0."""
    gamma = 0.4
    similarity = geq.kernels.GaussianKernel(gamma)

    def eigenvalues(t: float) -> Tensor:
        d = torch.zeros(1, 3, dtype=torch.float64)
        d[0, 1] = math.sqrt(t / gamma)
        matrix = torch.autograd.functional.hessian(
            lambda u: similarity.value(u[None], torch.zeros_like(d)).sum(), d[0]
        )
        return torch.linalg.eigvalsh(matrix)

    assert float(eigenvalues(1.5).max()) == pytest.approx(PEAK_CURVATURE, abs=1e-12)
    assert float(eigenvalues(0.0).min()) == pytest.approx(-1.0, abs=1e-12)
    for t in torch.linspace(0, 6, 25).tolist():
        assert float(eigenvalues(t).max()) <= PEAK_CURVATURE + 1e-12


@pytest.mark.parametrize("kernel", ["polynomial", "sigmoid", "own"])
def test_no_bound_is_claimed_where_none_is_known(kernel: str) -> None:
    certificate = energy_problems.dense(kernel).well_posedness()
    assert (
        certificate.rate is certificate.contraction is certificate.unique is certificate.largest_step is None
    )
    assert "no bound is known" in str(certificate)


@pytest.mark.parametrize("degree", [1, 0, -3])
def test_degree_must_be_at_least_two(degree: int) -> None:
    with pytest.raises(geq.errors.OptionError, match=f"at least 2: got {degree}; degree 1 is Linear"):
        geq.kernels.PolynomialKernel(degree)


@pytest.mark.parametrize("width", [0.0, -1.0, float("nan")])
def test_width_of_the_polynomial_must_be_positive(width: float) -> None:
    with pytest.raises(geq.errors.OptionError, match=f"width must be finite and positive: got {width}"):
        geq.kernels.PolynomialKernel(width=width)
    with pytest.raises(geq.errors.OptionError, match="width is of the mean: got 4"):
        geq.kernels.PolynomialKernel(averaged=False, width=4.0)


def test_a_wide_polynomial_has_an_equilibrium_where_the_narrow_one_has_none() -> None:
    """Without W, z = kv with k = 1 + ⟨v, z⟩/n = 1 + k·m/width for the mean m of v²: k = 1/(1 − m/width)."""
    U, W = (
        geq.operators.Dense(1, 6, constraint=geq.constraints.Unconstrained()),
        geq.operators.Dense(6, 2, constraint=geq.constraints.Unconstrained()),
    )
    U.raw_weight.data.fill_(1.5)
    W.raw_weight.data.zero_()
    x = torch.ones(1, 1)
    wide = geq.Equilibrium(
        geq.EnergyProblem(geq.kernels.PolynomialKernel(width=4.0), W=W, U=U), tol=1e-6
    ).eval()
    torch.testing.assert_close(wide(x), torch.full((1, 6), 1.5 / (1 - 1.5**2 / 4)))
    narrow = geq.Equilibrium(geq.EnergyProblem(geq.kernels.PolynomialKernel(), W=W, U=U)).eval()
    with pytest.warns(geq.ConvergenceWarning):
        narrow(x)


def test_value_must_give_one_number_per_sample() -> None:
    class PerEntry(geq.kernels.Kernel):
        def value(self, u: Tensor, v: Tensor) -> Tensor:
            return u * v

    problem = geq.EnergyProblem(PerEntry(), W=geq.operators.Dense(3, 2), U=geq.operators.Dense(4, 2))
    with pytest.raises(
        geq.errors.InputError, match=r"one number per sample, shape \(5,\): got \(5, 2\); sum over"
    ):
        geq.Equilibrium(problem)(torch.randn(5, 4))


def test_value_that_ignores_the_state_is_refused() -> None:
    """It cannot be told from one whose u was detached; a constant kernel gives its gradient, zero."""

    class Constant(geq.kernels.Kernel):
        def value(self, u: Tensor, v: Tensor) -> Tensor:
            return v.sum(1)

    class ConstantWithGradient(Constant):
        def grad(self, u: Tensor, v: Tensor) -> Tensor:
            return torch.zeros_like(u)

    def layer(kernel: geq.kernels.Kernel) -> geq.Equilibrium:
        return geq.Equilibrium(
            geq.EnergyProblem(kernel, W=geq.operators.Dense(3, 2), U=geq.operators.Dense(4, 2))
        )

    with pytest.raises(geq.errors.GradientError, match="a result that does not depend on it"):
        layer(Constant())(torch.randn(5, 4))
    z = layer(ConstantWithGradient())(torch.randn(5, 4))
    assert not z.any()
    z.sum().backward()


def test_own_similarity_needs_only_a_value() -> None:
    """The example of the documentation; by hand dS/du = (v − u)(1 + ‖v − u‖²)^{−3/2}."""
    similarity = energy_problems.InverseMultiquadric()
    u, v = torch.randn(2, 3, 4, dtype=torch.float64)
    with torch.no_grad():
        gradient = similarity.grad(u, v)
    d = v - u
    torch.testing.assert_close(gradient, d * (1 + d.square().sum(1, keepdim=True)) ** -1.5)
    assert not gradient.requires_grad


def test_derived_gradient_is_refused_where_it_would_be_zero() -> None:
    similarity = energy_problems.InverseMultiquadric()
    with torch.inference_mode(), pytest.raises(geq.errors.GradientError, match="inference_mode"):
        similarity.grad(torch.zeros(1, 2), torch.ones(1, 2))


def test_repr_shows_the_options() -> None:
    assert (
        repr(geq.kernels.PolynomialKernel(3))
        == "PolynomialKernel(degree=3, offset=1.0, averaged=True, width=1)"
    )
    assert repr(geq.kernels.SigmoidKernel(averaged=False)) == "SigmoidKernel(averaged=False)"
