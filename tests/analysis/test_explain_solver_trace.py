"""The solver's way: it is the layer's own, and keeps what the weights promise."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from geq.analysis.solver_trace import flat, own_way, trace
from geq.constraints import SpectralBound, Unconstrained
from geq.equilibrium import Equilibrium
from geq.errors import InputError
from geq.gradients import Unrolled
from geq.layers import DeepOptEq2d, GEQ2d, OptEq2d
from geq.model.model_registry import create_model
from geq.solvers import FISTA, Anderson, Broyden, Picard, ProximalGradient


def one_input() -> Tensor:
    return torch.randn(1, 3, 8, 8, dtype=torch.float64)


LAYERS = {
    "geq": lambda: GEQ2d(3, 16),
    "geq_without_features": lambda: GEQ2d(3, 16, constraint=Unconstrained()),
    "linear": lambda: OptEq2d(3, 16),
    "picard": lambda: GEQ2d(3, 16, constraint=SpectralBound(0.95), solver=Picard()),
    "broyden": lambda: GEQ2d(3, 16, solver=Broyden()),
    "fista": lambda: GEQ2d(3, 16, solver=FISTA()),
    "proximal": lambda: GEQ2d(3, 16, solver=ProximalGradient()),
    "deep": lambda: DeepOptEq2d(3, (8, 8)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_the_way_is_that_of_the_layers_own_solve(name: str) -> None:
    layer, x = LAYERS[name]().double().eval(), one_input()
    solution = layer.solve(x)
    way = own_way(layer, x)
    assert len(way.points) == len(way.residual) == int(solution.steps)
    # The last point is the image of the solution, or the solution itself where features are solved for.
    c = layer.cell.inject(x)
    image = flat(layer.cell(solution.value, c)).detach()[0]
    reached = way.points[-1]
    distance = min(float((reached - other).norm()) for other in (image, flat(solution.value)[0]))
    assert distance <= 1e-12 * float(reached.norm())


def test_the_way_of_an_unrolled_layer_is_its_iterations() -> None:
    layer, x = GEQ2d(3, 16, gradient=Unrolled(7, damping=0.5)).double().eval(), one_input()
    way = own_way(layer, x)
    assert len(way.points) == 7
    torch.testing.assert_close(way.points[-1], flat(layer(x).detach())[0])


@pytest.mark.parametrize(
    "make",
    [lambda: GEQ2d(3, 16, constraint=SpectralBound(0.95)), lambda: OptEq2d(3, 16)],
    ids=["gaussian", "linear"],
)
@pytest.mark.parametrize("seed", range(3))
def test_promises_are_kept(make: object, seed: int) -> None:
    torch.manual_seed(seed)
    layer, x = make().double().eval(), one_input()  # type: ignore[operator]
    layer.tol = 1e-8
    with torch.no_grad():
        layer.cell.inject(x)
    found = trace(layer, x, layer.well_posedness(layer.map_size(x)))
    promised = found.promised()
    assert found.rate is not None
    assert promised is not None
    assert found.rate < 1
    assert bool((found.plain.residual <= promised * (1 + 1e-9)).all())
    assert found.descends
    assert found.plain.energy is not None
    assert found.energy is not None
    falls = found.plain.energy.diff()
    assert bool((falls <= 1e-12 * abs(found.energy)).all())
    assert float(found.plain.energy.min()) >= found.energy - 1e-12 * abs(found.energy)


def test_the_equilibrium_is_exact() -> None:
    layer, x = GEQ2d(3, 16).double().eval(), one_input()
    found = trace(layer, x, layer.well_posedness(layer.map_size(x)))
    z = found.equilibrium.view(1, 16, 8, 8)
    residual = (layer.cell(z, layer.cell.inject(x)) - z).norm()
    assert residual <= 1e-9 * found.norm
    assert float(found.own.residual[-1]) <= layer.tol * found.norm


def test_no_promise_without_a_small_norm() -> None:
    layer, x = GEQ2d(3, 16, gamma=0.5, constraint=SpectralBound(1.45)).double().eval(), one_input()
    with torch.no_grad():  # weights at the bound
        layer.problem.W.raw_weight.mul_(20)
        layer.cell.inject(x)
    certificate = layer.well_posedness(layer.map_size(x))
    assert certificate.lower is not None
    assert certificate.lower < -1
    found = trace(layer, x, certificate)
    assert found.rate is None
    assert found.promised() is None
    assert not found.descends


def test_joint_states_have_residuals_but_no_energy() -> None:
    model = create_model("mdeq_tiny").double().eval()
    layer: Equilibrium = model.equilibria()["equilibrium"]
    x = model.inputs_of_equilibria(torch.randn(1, 1, 8, 8, dtype=torch.float64))["equilibrium"]
    found = trace(layer, x, layer.well_posedness(layer.map_size(x)))
    assert found.energy is None
    assert found.own.energy is None
    assert found.own.points.shape[1] == 8 * 8 * 8 + 8 * 4 * 4
    assert isinstance(layer.solver, Anderson)


def test_one_input_at_a_time() -> None:
    layer = GEQ2d(3, 16).double().eval()
    with pytest.raises(InputError, match="one input at a time: got 2"):
        trace(layer, torch.randn(2, 3, 8, 8, dtype=torch.float64), layer.well_posedness((8, 8)))
