"""Bad input: each an error of this package that says what must hold, what came and the usual fix."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import energy_problems
import geq

METHODS = ["__call__", "solve", "energy", "attention"]


def dense_layer(**options: object) -> geq.Equilibrium:
    return geq.Equilibrium(energy_problems.dense("gaussian"), **options)  # type: ignore[arg-type]


def conv_layer() -> geq.Equilibrium:
    return geq.Equilibrium(energy_problems.conv("patch"))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("poison", [math.nan, math.inf, -math.inf])
def test_input_must_be_finite(method: str, training: bool, poison: float) -> None:
    x = energy_problems.vectors()
    x[1, 2] = poison
    with pytest.raises(geq.errors.InputError, match="x must be finite: got NaN or infinity; check the data"):
        getattr(dense_layer().train(training), method)(x)


@pytest.mark.parametrize("layer", [geq.OptEqLinear(1, 4), geq.DeepOptEqLinear(1, (4,))], ids=["one", "deep"])
def test_injection_must_be_finite(layer: geq.Equilibrium) -> None:
    """−∞ would pass for any negative number: ReLU makes 0 of both."""
    layer = layer.half().eval()
    largest = torch.full((1, 1), 60_000.0, dtype=torch.float16)
    with torch.no_grad():
        for name, weight in layer.named_parameters():
            if ".U." in name or name.startswith("U."):
                weight.fill_(-2.0)
    with pytest.raises(geq.errors.InputError, match=r"Ux \+ b must be finite: .* 6.0e\+04 in torch.float16"):
        layer.solve(largest)
    assert bool(layer.solve(largest / 8).converged.all())


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("shape", "told"),
    [
        ((3, 5), r"must be \(batch, …, 4\): got \(3, 5\)"),
        ((4,), r"must be \(batch, …, 4\): got \(4,\)"),
    ],
)
def test_wrong_vectors(method: str, shape: tuple[int, ...], told: str) -> None:
    with pytest.raises(geq.errors.InputError, match=told):
        getattr(dense_layer(), method)(torch.randn(shape, dtype=torch.float64))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("shape", "told"),
    [
        ((3, 5, 4, 4), r"must be \(batch, 2, height, width\): got \(3, 5, 4, 4\)"),
        ((2, 4, 4), r"must be \(batch, 2, height, width\): got \(2, 4, 4\)"),
        ((3, 2, 5, 5), r"patch must divide the feature map: got patch 2 on a 5×5 map; use one of \[1, 5\]"),
        ((3, 2, 4, 6), None),
        ((3, 2, 4, 7), r"got patch 2 on a 4×7 map; use one of \[1\]"),
    ],
)
def test_wrong_maps(method: str, shape: tuple[int, ...], told: str | None) -> None:
    x = torch.randn(shape, dtype=torch.float64)
    if told is None:
        assert getattr(conv_layer(), method)(x) is not None
        return
    with pytest.raises(geq.errors.InputError, match=told):
        getattr(conv_layer(), method)(x)


@pytest.mark.parametrize("training", [True, False])
def test_wrong_start(training: bool) -> None:
    layer, x = dense_layer().train(training), energy_problems.vectors()
    with pytest.raises(
        geq.errors.InputError, match=r"z0 must have the shape of the state, \[\(3, 6\)\]: got \[\(3, 5\)\]"
    ):
        layer(x, z0=torch.zeros(3, 5, dtype=torch.float64))
    with pytest.raises(geq.errors.InputError, match="z0 must have the shape"):
        layer.solve(x, z0=(torch.zeros(3, 6), torch.zeros(3, 6)))
    with pytest.raises(geq.errors.InputError, match="starting state must be finite"):
        layer(x, z0=torch.full((3, 6), math.nan, dtype=torch.float64))


def test_map_that_changes_the_shape() -> None:
    class Growing(geq.Cell):
        def forward(self, z: Tensor, c: Tensor) -> Tensor:
            return torch.cat([z, c], 1)

    with pytest.raises(geq.errors.InputError, match="map must return what it is given"):
        geq.Equilibrium(Growing())(torch.ones(2, 3))


def test_map_that_becomes_nan() -> None:
    """Warned of or an error, as asked; the other samples are right."""

    class Poisonous(geq.Cell):
        def forward(self, z: Tensor, c: Tensor) -> Tensor:
            return 0.5 * z + torch.where(c > 2, math.nan, c)

    layer = geq.Equilibrium(Poisonous(), tol=1e-6)
    x = torch.ones(3, 2)
    x[1, 0] = 5.0
    with pytest.raises(geq.ConvergenceError, match=r"1 of 3 samples.*NaN") as caught:
        geq.Equilibrium(Poisonous(), tol=1e-6, on_failure="raise")(x)
    assert caught.value.solution.status is geq.Status.DIVERGED
    with pytest.warns(geq.ConvergenceWarning, match=r"1 of 3 samples.*NaN"):
        z = layer.eval()(x)
    assert layer.last_solution is not None
    assert layer.last_solution.converged.tolist() == [True, False, True]
    torch.testing.assert_close(z[[0, 2]], torch.full((2, 2), 2.0))


def test_every_error_is_one_of_this_package() -> None:
    with pytest.raises(geq.GeqError):
        dense_layer()(torch.full((1, 4), math.nan, dtype=torch.float64))
    with pytest.raises(ValueError, match="must be finite"):  # and what a caller would expect of Python
        dense_layer()(torch.full((1, 4), math.nan, dtype=torch.float64))
