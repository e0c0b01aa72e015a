from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from geq.gradients.implicit import conjugate_gradient
from geq.solvers import Solution, Status


def system(eigenvalues: list[float], batch: int = 3, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    n = len(eigenvalues)
    basis = torch.linalg.qr(torch.randn(batch, n, n, dtype=torch.float64, generator=generator))[0]
    return basis @ torch.diag(torch.tensor(eigenvalues, dtype=torch.float64)) @ basis.mT


def random(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@dataclass
class Problem:
    """q = Bg + BBᵀMq, the restriction of (I − BᵀMB)y = g with a ``matrix`` on the left to the rows of B."""

    matrix: Tensor
    B: Tensor
    g: Tensor

    @classmethod
    def of(cls, eigenvalues: list[float], batch: int = 3) -> Problem:
        n = len(eigenvalues)
        return cls(system(eigenvalues, batch), random(batch, n, n, seed=2), random(batch, n, seed=3))

    @property
    def core(self) -> Tensor:
        inverse = torch.linalg.inv(self.B)
        return inverse.mT @ (torch.eye(self.B.shape[1], dtype=torch.float64) - self.matrix) @ inverse

    @property
    def answer(self) -> Tensor:
        return (self.B @ torch.linalg.solve(self.matrix, self.g.unsqueeze(2))).squeeze(2)

    def solve(self, tol: float = 1e-10, max_steps: int = 50) -> tuple[Solution, Tensor]:
        target = (self.B @ self.g.unsqueeze(2)).squeeze(2)
        gram, core = product(self.B @ self.B.mT), product(self.core)
        return conjugate_gradient(gram, core, target, self.g.square().sum(1), tol, max_steps)


def product(matrix: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda y: torch.einsum("bij,bj->bi", matrix, y)


def test_solves_and_ends_within_the_dimension() -> None:
    problem = Problem.of([0.1, 0.5, 1.0, 1.7, 3.0])
    solution, indefinite = problem.solve()
    torch.testing.assert_close(solution.value, problem.answer)
    assert solution.converged.all()
    assert solution.status is Status.CONVERGED
    assert not indefinite.any()
    assert int(solution.steps.max()) <= 6
    assert bool((solution.residual <= 1e-10).all())


def test_a_bound_on_gram_saves_the_last_product() -> None:
    """... and keeps the tolerance: what is told is then an upper bound of the true residual."""
    problem = Problem.of([0.1, 0.5, 1.0, 1.7, 3.0, 4.0, 0.3])
    target = (problem.B @ problem.g.unsqueeze(2)).squeeze(2)
    gram, square = problem.B @ problem.B.mT, problem.g.square().sum(1)
    norm = float(torch.linalg.matrix_norm(gram, 2).max())
    saved, _ = conjugate_gradient(product(gram), product(problem.core), target, square, 1e-3, 50, norm)
    assert saved.converged.all()
    assert isinstance(saved.value, Tensor)
    y = torch.linalg.solve(problem.B, saved.value)
    true = (product(problem.matrix)(y) - problem.g).norm(dim=1) / problem.g.norm(dim=1)
    assert bool((true <= saved.residual).all())
    assert bool((saved.residual <= 1e-3).all())
    measured, _ = problem.solve(tol=float(saved.residual.min()))
    assert int(saved.steps.max()) < int(measured.steps.max())


def test_gram_may_be_singular() -> None:
    """Fewer rows than the states would need, as when most units are inactive."""
    problem = Problem.of([0.3, 0.5, 1.0, 1.7])
    core = problem.core
    problem.B = problem.B[:, :, :2]  # BBᵀ of rank 2 in dimension 4
    gram = problem.B @ problem.B.mT
    core = core / (2 * torch.linalg.matrix_norm(core, 2) * torch.linalg.matrix_norm(gram, 2)).view(-1, 1, 1)
    target = product(gram)(random(3, 4))
    solution, indefinite = conjugate_gradient(
        product(gram), product(core), target.clone(), target.square().sum(1), 1e-12, 50
    )
    wanted = torch.linalg.solve(torch.eye(4, dtype=torch.float64) - gram @ core, target)
    torch.testing.assert_close(solution.value, wanted)
    assert not indefinite.any()
    assert int(solution.steps.max()) <= 4


def test_residual_is_the_true_one_when_steps_run_out() -> None:
    problem = Problem.of([0.01, 0.5, 1.0, 1.7, 3.0])
    solution, _ = problem.solve(max_steps=3)
    assert isinstance(solution.value, Tensor)
    y = torch.linalg.solve(problem.B, solution.value)
    true = (product(problem.matrix)(y) - problem.g).norm(dim=1) / problem.g.norm(dim=1)
    torch.testing.assert_close(solution.residual, true)
    assert solution.status is Status.MAX_STEPS
    assert not solution.converged.any()
    assert solution.steps.tolist() == [3, 3, 3]


def test_negative_curvature_is_told_and_stops_only_its_sample() -> None:
    problem = Problem.of([0.5, 1.0, 2.0], batch=2)
    problem.matrix[1] = system([-0.5, 1.0, 2.0], batch=1)[0]
    solution, indefinite = problem.solve()
    assert indefinite.tolist() == [False, True]
    assert solution.converged.tolist() == [True, False]
    assert isinstance(solution.value, Tensor)
    torch.testing.assert_close(solution.value[0], problem.answer[0])


def test_nan_stops_only_its_sample() -> None:
    problem = Problem.of([0.5, 1.0, 2.0], batch=2)
    answer = problem.answer
    problem.g[0, 0] = torch.nan
    solution, _ = problem.solve()
    assert solution.converged.tolist() == [False, True]
    assert isinstance(solution.value, Tensor)
    torch.testing.assert_close(solution.value[1], answer[1])


def test_zero_target_is_its_own_solution() -> None:
    problem = Problem.of([0.5, 1.0, 2.0], batch=2)
    problem.g[0] = 0
    solution, _ = problem.solve()
    assert solution.steps[0] == 1
    assert solution.converged.all()
    assert isinstance(solution.value, Tensor)
    assert not solution.value[0].any()
