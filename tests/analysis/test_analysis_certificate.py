"""Certificates: the distance to the equilibrium, the rate, and what is said of every kind of layer."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import geq
import random_layers
from energy_problems import hessian_of_score, matrix_of
from geq.analysis.analysed_network import equilibria, in_double, inputs, solved_tightly
from geq.analysis.certificate import (
    certify,
    certify_layer,
    certify_states,
    distance_factor,
    measured_rate,
    plain_iteration,
)
from geq.analysis.weight_norms import input_map, layer_norms
from geq.kernels.gaussian import PEAK_CURVATURE
from geq.model.model_registry import create_model
from geq.operators.operator import Size
from random_layers import Recipe


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(random_layers.recipes(largest=1.4), st.floats(0, 2), st.integers(0, 100))
def test_the_true_distance_never_exceeds_the_certified_one(recipe: Recipe, off: float, seed: int) -> None:
    """At random states, not only near solutions; and also where plain iteration is not certified."""
    case = recipe.build()
    layer, x = case.layer, case.x
    size = layer.map_size(x)
    certificate = certify(layer.problem, layer_norms(layer.problem, size), size)
    assert certificate.unique
    exact = geq.Equilibrium(
        layer.cell, geq.solvers.Anderson(), tol=1e-12, max_steps=5000, on_failure="ignore"
    )
    solution = exact.eval().solve(x)
    true = solution.value
    torch.manual_seed(seed)
    states = (true + off * true.abs().mean() * torch.randn_like(true)).clamp_min(0)
    found = certify_states(layer, x, states, certificate)
    slack = 1e-9 * (1 + true.flatten(1).norm(dim=1))
    assert bool(((states - true).flatten(1).norm(dim=1) <= found.distance + slack)[solution.converged].all())


@settings(max_examples=60, deadline=None)
@given(random_layers.recipes(kernels=("gaussian", "patch", "conv-gaussian"), largest=1.4))
def test_the_eigenvalues_of_the_hessian_lie_where_the_certificate_says(recipe: Recipe) -> None:
    """∇²S in [−1, 2e^{−3/2}]·‖W_hᵀW‖², at random states."""
    case = recipe.build()
    problem = case.layer.problem
    x = case.x[:1]
    c = problem.inject(x)
    norm = layer_norms(problem, case.layer.map_size(x)).feedback.upper
    z = torch.rand_like(problem.initial_state(c)) * x.abs().mean()
    values = torch.linalg.eigvalsh(hessian_of_score(problem, z, c))
    assert values[0] >= -(norm**2) - 1e-9
    assert values[-1] <= PEAK_CURVATURE * norm**2 + 1e-9


def test_the_range_of_eigenvalues_is_reached() -> None:
    """−1 at d = 0 and 2e^{−3/2} at γ‖d‖² = 3/2: no smaller range is true."""
    problem = geq.EnergyProblem(
        geq.kernels.GaussianKernel(gamma=0.5),
        W=geq.operators.Dense(1, 1, constraint=geq.constraints.Unconstrained()),
        U=geq.operators.Dense(1, 1),
    ).double()
    with torch.no_grad():
        problem.W.raw_weight.fill_(1.0)
        problem.U.raw_weight.fill_(1.0)  # type: ignore[union-attr, operator]
    state = torch.zeros(1, 1, dtype=torch.float64)
    for distance, expected in ((0.0, -1.0), (math.sqrt(3.0), PEAK_CURVATURE)):
        c = problem.inject(torch.full((1, 1), distance, dtype=torch.float64))
        assert hessian_of_score(problem, state, c).item() == pytest.approx(expected)


@settings(max_examples=40, deadline=None)
@given(random_layers.recipes())
def test_plain_iteration_is_as_fast_as_proved(recipe: Recipe) -> None:
    case = recipe.build()
    layer, x = case.layer, case.x
    size = layer.map_size(x)
    certificate = certify(layer.problem, layer_norms(layer.problem, size), size)
    rate = layer.cell.contraction_rate(certificate)
    assert rate is not None
    fn = layer.cell.equation(x)
    z = fn.start()
    previous = None
    for _ in range(6):
        image = fn(z)
        step = (image - z).flatten(1).norm(dim=1)
        if previous is not None:
            assert bool((step <= rate * previous + 1e-13).all())
        previous, z = step, image


def test_two_factors_and_the_smaller_counts() -> None:
    cell = random_layers.build("gaussian", 0, 0.9, 0.1, 1.0, 1.0, 1.0).layer.cell
    mild, strong, beyond = (
        geq.certificates.WellPosedness(n, -(n**2), PEAK_CURVATURE * n**2) for n in (0.5, 0.95, 1.6)
    )
    assert distance_factor(cell, mild) == pytest.approx(1 / (1 - 0.25))
    convex = (2 + 0.95**2) / (1 - PEAK_CURVATURE * 0.95**2)
    assert distance_factor(cell, strong) == pytest.approx(convex)
    assert convex < 1 / (1 - 0.95**2)
    assert distance_factor(cell, beyond) is None
    assert distance_factor(cell, geq.certificates.WellPosedness()) is None


@pytest.mark.parametrize("name", ["geq_tiny", "geq_tiny_nonpatch", "geq_tiny_control", "mopteq_tiny"])
def test_every_branch_of_a_network_is_certified(name: str) -> None:
    model = create_model(name).double().eval()
    images = torch.randn(4, 1, 8, 8, dtype=torch.float64)
    given_to = inputs(model, images)
    for place, layer in equilibria(model, "x").items():
        found = certify_layer(layer, given_to[place])
        assert found["contraction"]
        assert found["unique"]
        assert found["measured_rate"] is None or found["measured_rate"] <= found["proved_rate"] + 1e-3
        assert found["norms"]["feedback"]["upper"] <= 0.953
        true = solved_tightly(layer, 1e-12).solve(given_to[place]).value
        own = layer.solve(given_to[place]).value
        distance = (true - own).flatten(1).norm(dim=1)
        assert bool((distance <= torch.tensor(found["inputs"]["distance_bound"]) + 1e-12).all())


@pytest.mark.parametrize("splitting", ["peaceman_rachford", "forward_backward"])
def test_a_monotone_network_is_certified(splitting: str) -> None:
    model = create_model("mon_tiny", splitting=splitting).double().eval()
    images = torch.randn(3, *model.input_shape, dtype=torch.float64)
    given_to = inputs(model, images)
    for place, layer in model.equilibria().items():
        found = certify_layer(layer, given_to[place])
        assert found["unique"]
        assert found["norms"] is None
        factor = found["distance_factor"]
        assert factor is not None
        true = solved_tightly(layer, 1e-12, 5000).solve(given_to[place]).value
        own = layer.solve(given_to[place]).value
        bound = torch.tensor(found["inputs"]["distance_bound"])
        assert bool(((true - own).flatten(1).norm(dim=1) <= bound + 1e-10).all())


def test_of_a_multiscale_network_nothing_is_proved() -> None:
    model = create_model("mdeq_tiny").double().eval()
    given_to = inputs(model, torch.randn(2, *model.input_shape, dtype=torch.float64))
    (place, layer), *_ = model.equilibria().items()
    found = certify_layer(layer, given_to[place])
    assert found["unique"] is None
    assert found["distance_factor"] is None
    assert math.isinf(found["inputs"]["distance_bound"][0])


def test_a_network_without_equilibrium_is_refused() -> None:
    model = create_model("resnet_tiny")
    with pytest.raises(geq.errors.InputError, match=r"analyse: resnet_tiny .* choose a run of geq"):
        equilibria(model, "runs/a")


def test_the_input_map_is_what_the_layer_injects() -> None:
    """With batch norm folded in, and a scale."""
    layer = geq.GEQ2d(3, 8, 8, injection_scale=0.3).double()
    layer(torch.randn(4, 3, 4, 4, dtype=torch.float64))
    layer.eval()
    U = layer.problem.U
    U.norm.running_mean.normal_()
    x = torch.randn(2, 3, 4, 4, dtype=torch.float64)
    found = input_map(U, (4, 4))
    assert found is not None
    expected = torch.nn.functional.conv2d(x, found.weight, found.bias, padding=1)
    torch.testing.assert_close(U(x), expected)
    zero = U(torch.zeros_like(x[:1]))
    matrix = matrix_of(lambda z: U(z) - zero, (3, 4, 4))
    exact = torch.linalg.matrix_norm(matrix, 2).item()
    norm = found.norm(None)
    assert norm.lower <= exact * (1 + 1e-9)
    assert exact <= norm.upper <= 1.003 * exact
    assert found.bias_norm == pytest.approx(found.bias.norm().item() * 4)
    assert input_map(torch.nn.ReLU(), (4, 4)) is None


def test_the_measured_rate_of_a_known_iteration() -> None:
    """z ← 0.5z + 1 halves its residual; z ← 3z blows up, and there is none."""

    class Affine(geq.Cell):
        def forward(self, z: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
            return 0.5 * z + c

    layer = geq.Equilibrium(Affine()).eval()
    solution = plain_iteration(layer, torch.ones(2, 3, dtype=torch.float64))
    assert measured_rate(solution) == pytest.approx(0.5, abs=0.01)


def effective_weights(model: geq.model.Network, sizes: dict[str, Size | None]) -> list[Tensor]:
    return [
        operator.effective_weight(sizes[name]).clone()
        for name, layer in model.equilibria().items()
        for operator in layer.modules()
        if isinstance(operator, geq.operators.Convolution)
    ]


@pytest.mark.parametrize("name", ["geq_tiny", "mopteq_tiny", "mon_tiny"])
def test_a_network_in_double_precision_computes_the_same(name: str) -> None:
    model = create_model(name).eval()
    images = torch.randn(3, *model.input_shape)
    with torch.no_grad():
        expected = model(images)
        sizes = model.map_sizes()
        weights = effective_weights(model, sizes)
        precise = in_double(model)
        torch.testing.assert_close(precise(images.double()).float(), expected, atol=1e-3, rtol=1e-2)
        for weight, converted in zip(weights, effective_weights(precise, sizes), strict=True):
            assert converted.dtype == torch.float64
            torch.testing.assert_close(converted.float(), weight, rtol=1e-5, atol=1e-7)
