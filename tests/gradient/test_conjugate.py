from __future__ import annotations

import pytest
import torch
from torch import Tensor

from geq.gradient.conjugate import conjugate_gradient
from geq.solver import Status


def system(eigenvalues: list[float], batch: int = 3, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    n = len(eigenvalues)
    basis = torch.linalg.qr(torch.randn(batch, n, n, dtype=torch.float64, generator=generator))[0]
    return basis @ torch.diag(torch.tensor(eigenvalues, dtype=torch.float64)) @ basis.mT


def product(matrix: Tensor):  # type: ignore[no-untyped-def]
    return lambda y: torch.einsum("bij,bj->bi", matrix.to(y.dtype), y)


def test_solves_and_ends_within_the_dimension() -> None:
    matrix = system([0.1, 0.5, 1.0, 1.7, 3.0])
    target = torch.randn(3, 5, dtype=torch.float64)
    solution, indefinite = conjugate_gradient(product(matrix), target, 1e-10, 50)
    torch.testing.assert_close(solution.value, torch.linalg.solve(matrix, target))
    assert solution.converged.all()
    assert solution.status is Status.CONVERGED
    assert not indefinite.any()
    assert int(solution.steps.max()) <= 6
    assert bool((solution.residual <= 1e-10).all())


def test_residual_is_the_true_one_when_steps_run_out() -> None:
    matrix = system([0.01, 0.5, 1.0, 1.7, 3.0])
    target = torch.randn(3, 5, dtype=torch.float64)
    solution, _ = conjugate_gradient(product(matrix), target, 1e-10, 2)
    assert isinstance(solution.value, Tensor)
    true = (product(matrix)(solution.value) - target).norm(dim=1) / target.norm(dim=1)
    torch.testing.assert_close(solution.residual, true)
    assert solution.status is Status.MAX_STEPS
    assert not solution.converged.any()
    assert solution.steps.tolist() == [2, 2, 2]


def test_negative_curvature_is_told_and_stops_only_its_sample() -> None:
    matrix = system([0.5, 1.0, 2.0], batch=2)
    matrix[1] = system([-0.5, 1.0, 2.0], batch=1)[0]
    target = torch.randn(2, 3, dtype=torch.float64)
    solution, indefinite = conjugate_gradient(product(matrix), target, 1e-10, 50)
    assert indefinite.tolist() == [False, True]
    assert solution.converged.tolist() == [True, False]
    assert isinstance(solution.value, Tensor)
    torch.testing.assert_close(solution.value[0], torch.linalg.solve(matrix[0], target[0]))


def test_nan_stops_only_its_sample() -> None:
    matrix = system([0.5, 1.0, 2.0], batch=2)
    matrix[0, 0, 0] = torch.nan
    target = torch.randn(2, 3, dtype=torch.float64)
    solution, indefinite = conjugate_gradient(product(matrix), target, 1e-10, 50)
    assert indefinite.tolist() == [True, False]
    assert isinstance(solution.value, Tensor)
    torch.testing.assert_close(solution.value[1], torch.linalg.solve(matrix[1], target[1]))


def test_zero_target_needs_no_product() -> None:
    target = torch.zeros(2, 3, dtype=torch.float64)
    target[1] = 1.0
    solution, _ = conjugate_gradient(product(system([0.5, 1.0, 2.0], batch=2)), target, 1e-10, 50)
    assert solution.steps[0] == 0
    assert solution.converged.all()
    assert isinstance(solution.value, Tensor)
    assert not solution.value[0].any()


@pytest.mark.parametrize("scale", [1e-30, 1e-18, 1.0, 1e18, 1e30])
def test_scale_of_the_target_does_not_matter(scale: float) -> None:
    """In single precision the square of 1e-20 is zero: the system is solved for a target of unit size."""
    matrix = system([0.5, 1.0, 2.0, 2.5])
    target = torch.randn(3, 4)
    plain, _ = conjugate_gradient(product(matrix), target, 1e-6, 50)
    scaled, indefinite = conjugate_gradient(product(matrix), target * scale, 1e-6, 50)
    assert not indefinite.any()
    assert torch.equal(scaled.steps, plain.steps)
    assert isinstance(scaled.value, Tensor)
    assert isinstance(plain.value, Tensor)
    torch.testing.assert_close(scaled.value / scale, plain.value, rtol=1e-5, atol=1e-5)
