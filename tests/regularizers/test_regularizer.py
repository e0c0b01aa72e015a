"""Every feature regulariser: value, gradient and operator against autograd, a convex solver and formulas."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import Tensor

import geq
from geq.regularizers.features import FeatureRegulariser, SeparableRegulariser

REGULARISERS: dict[str, FeatureRegulariser] = {
    "decay": geq.regularizers.FeatureDecay(),
    "sparsity": geq.regularizers.FeatureSparsity(),
    "elastic_net": SeparableRegulariser(geq.penalties.ElasticNet(0.3, 0.5)),
    "incay": geq.regularizers.Incay(0.3),
    "decorrelation": geq.regularizers.Decorrelation(),
    "hsic": geq.regularizers.HSIC(0.7),
    "hsic_fixed": geq.regularizers.HSIC(0.7, relative=False),
    "hsic_fourier": geq.regularizers.HSIC(0.7, fourier=9),
}
SHAPES = [(5, 4), (3, 4, 2, 3)]


def state(shape: tuple[int, ...], seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.fixture(params=REGULARISERS)
def regulariser(request: pytest.FixtureRequest) -> FeatureRegulariser:
    return REGULARISERS[request.param]


@pytest.mark.parametrize("shape", SHAPES)
def test_gradient_is_that_of_the_value(regulariser: FeatureRegulariser, shape: tuple[int, ...]) -> None:
    z = state(shape).requires_grad_()
    (expected,) = torch.autograd.grad(regulariser.value(z), z)
    torch.testing.assert_close(regulariser.gradient(z), expected)
    assert expected.abs().max() > 1e-4
    with torch.no_grad():
        torch.testing.assert_close(regulariser.gradient(z), expected)


@pytest.mark.parametrize("shape", SHAPES)
def test_operator_can_be_trained_through(regulariser: FeatureRegulariser, shape: tuple[int, ...]) -> None:
    z = state(shape).requires_grad_()
    assert torch.autograd.gradcheck(lambda z: regulariser.operator(z, 0.3), z)


@pytest.mark.parametrize("name", ["incay", "decorrelation", "hsic", "hsic_fixed", "hsic_fourier"])
def test_operator_without_prox_is_the_gradient_step(name: str) -> None:
    z = state((5, 4))
    regulariser = REGULARISERS[name]
    torch.testing.assert_close(regulariser.operator(z, 0.3), z - 0.3 * regulariser.gradient(z))
    assert regulariser.value(regulariser.operator(z, 0.05)) < regulariser.value(z)


@pytest.mark.parametrize("name", ["decay", "sparsity", "elastic_net"])
def test_prox_is_the_minimiser_that_scipy_finds(name: str) -> None:
    regulariser, s, step = REGULARISERS[name], state((2, 3)), 0.4

    def objective(split: np.ndarray) -> float:
        # z = a − b with a, b ≥ 0, which makes |z| smooth for the solver.
        a, b = torch.from_numpy(split).view(2, 2, 3)
        penalty = regulariser.value(a + b) if name != "decay" else regulariser.value(a - b)
        return float(step * penalty + (a - b - s).square().sum() / 2)

    found = minimize(objective, np.full(12, 0.3), bounds=[(0, None)] * 12, options={"ftol": 1e-15})
    a, b = torch.from_numpy(found.x).view(2, 2, 3)
    torch.testing.assert_close(a - b, regulariser.operator(s, step), atol=1e-4, rtol=0)


@pytest.mark.parametrize("name", ["decay", "incay"])
def test_smoothness_bounds_the_hessian_and_is_reached(name: str) -> None:
    regulariser = REGULARISERS[name]
    assert regulariser.smoothness is not None
    largest = 0.0
    for scale in (0.0, 0.1, 0.3, 1.0, 3.0):
        hessian = torch.autograd.functional.hessian(regulariser.value, scale * state((1, 4)))
        largest = max(largest, float(torch.linalg.matrix_norm(hessian.view(4, 4), 2)))
    assert largest <= regulariser.smoothness * (1 + 1e-12)
    assert largest == pytest.approx(regulariser.smoothness)


def test_incay_expands_and_decay_shrinks() -> None:
    z = state((3, 4))
    assert bool((geq.regularizers.Incay().operator(z, 0.5).norm(dim=1) > z.norm(dim=1)).all())
    assert bool((geq.regularizers.FeatureDecay().operator(z, 0.5).norm(dim=1) < z.norm(dim=1)).all())


def test_decorrelation_is_equation_13() -> None:
    z = state((6, 4))
    rows = z.T
    inverse = torch.diag(1 / rows.norm(dim=1))
    expected = (inverse @ rows @ rows.T @ inverse - torch.eye(4)).square().sum() / 2
    torch.testing.assert_close(geq.regularizers.Decorrelation(1e-15).value(z), expected)


def test_decorrelation_ignores_dead_features_and_the_scale_of_the_others() -> None:
    z = state((6, 4))
    z[:, 1] = 0
    regulariser = geq.regularizers.Decorrelation(1e-12)
    torch.testing.assert_close(regulariser.value(z), regulariser.value(z[:, [0, 2, 3]]))
    assert bool((regulariser.gradient(z)[:, 1] == 0).all())
    torch.testing.assert_close(regulariser.value(3 * z), regulariser.value(z))


def test_a_feature_of_a_map_is_a_channel() -> None:
    z = state((3, 4, 2, 3))
    channels = z.transpose(0, 1).reshape(4, -1)
    torch.testing.assert_close(
        geq.regularizers.Decorrelation().value(z), geq.regularizers.Decorrelation().value(channels.T)
    )


@pytest.mark.parametrize("name", ["decorrelation", "hsic", "hsic_fourier"])
@pytest.mark.parametrize("shape", [(1, 4), (1, 4, 2, 2)])
def test_a_batch_of_one_is_refused(name: str, shape: tuple[int, ...]) -> None:
    for method in (REGULARISERS[name].value, REGULARISERS[name].gradient):
        with pytest.raises(geq.errors.InputError, match=r"at least 2: got 1; use a larger batch"):
            method(state(shape))
    assert REGULARISERS[name].couples_samples


@pytest.mark.parametrize("name", ["decay", "sparsity", "incay"])
def test_the_others_treat_each_sample_by_itself(name: str) -> None:
    z, regulariser = state((3, 4)), REGULARISERS[name]
    torch.testing.assert_close(regulariser.operator(z, 0.3)[1:2], regulariser.operator(z[1:2], 0.3))
    assert not regulariser.couples_samples


def test_bad_options_are_refused() -> None:
    with pytest.raises(geq.errors.OptionError, match="epsilon must be above 0"):
        geq.regularizers.Incay(0.0)
    with pytest.raises(geq.errors.OptionError, match="epsilon must be above 0"):
        geq.regularizers.Decorrelation(-1.0)
    with pytest.raises(geq.errors.OptionError, match="did you mean 'epsilon'"):
        geq.regularizers.Incay(epsilom=1.0)
