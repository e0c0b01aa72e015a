"""The plane around an equilibrium, and the objective on it."""

from __future__ import annotations

import pytest
import torch

from geq.analysis.landscape import extent, landscape, log_floor, plane_of
from geq.analysis.solver_trace import trace
from geq.equilibrium import Equilibrium
from geq.layers import GEQ2d, OptEq2d


def test_a_way_in_a_plane_is_found() -> None:
    origin = torch.randn(20, dtype=torch.float64)
    basis = torch.linalg.qr(torch.randn(20, 2, dtype=torch.float64))[0].t()
    points = origin + torch.randn(6, 2, dtype=torch.float64) @ basis
    plane = plane_of(origin, points)
    assert plane.principal == 2
    assert plane.captured == pytest.approx(1)
    torch.testing.assert_close(plane.directions @ plane.directions.t(), torch.eye(2, dtype=torch.float64))
    torch.testing.assert_close(origin + plane.coordinates(points) @ plane.directions, points)
    assert bool((plane.coordinates(points)[0] > 0).all())


def test_captured_is_the_share_of_the_squares() -> None:
    points = torch.diag(torch.tensor([3.0, 2.0, 1.0], dtype=torch.float64))
    plane = plane_of(torch.zeros(3, dtype=torch.float64), points)
    assert plane.captured == pytest.approx(13 / 14)


@pytest.mark.parametrize("known", [0, 1])
def test_random_directions_replace_missing_ones(known: int) -> None:
    origin = torch.randn(20, dtype=torch.float64)
    points = origin + torch.randn(1, 20, dtype=torch.float64) * known
    plane, again, other = (plane_of(origin, points, seed) for seed in (4, 4, 5))
    assert plane.principal == known
    torch.testing.assert_close(plane.directions @ plane.directions.t(), torch.eye(2, dtype=torch.float64))
    assert torch.equal(plane.directions, again.directions)
    assert not torch.allclose(plane.directions, other.directions)
    assert all(first < 0 < last for first, last in extent(plane, points)[known:])


@pytest.mark.parametrize("layer", [GEQ2d(3, 16), OptEq2d(3, 16)], ids=["gaussian", "linear"])
def test_the_objective_is_lowest_at_the_equilibrium(
    layer: Equilibrium, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = layer.double().eval()
    x = torch.randn(1, 3, 8, 8, dtype=torch.float64)
    found = trace(layer, x, layer.well_posedness(layer.map_size(x)))
    plane = plane_of(found.equilibrium, found.plain.points)
    monkeypatch.setattr("geq.analysis.landscape.CHUNK", 10 * 16 * 8 * 8)  # several chunks, the last not full
    around = landscape(layer, x, plane, found.plain.points, resolution=7)
    assert around.energy.shape == (7, 7)
    assert bool(torch.isfinite(around.energy).all())
    assert float(around.energy.min()) >= -1e-10
    # One cell of the grid by hand: columns go along the first direction, rows along the second.
    where = torch.stack([around.across[5], around.along[1]])
    z = (found.equilibrium + where @ plane.directions).clamp_min(0).view(1, 16, 8, 8)
    assert found.energy is not None
    expected = layer.problem.energy(z, layer.problem.inject(x)).detach() - found.energy
    torch.testing.assert_close(around.energy[1, 5].view(1), expected)
    low, high = around.across[0], around.across[-1]
    where_points = plane.coordinates(found.plain.points)[:, 0]
    assert bool(((where_points > low) & (where_points < high)).all())


def test_logarithmic_pictures_end_somewhere() -> None:
    assert log_floor(torch.tensor([0.0, 100.0]), 3) == pytest.approx(0.1)
    assert log_floor(torch.zeros(3)) > 0
