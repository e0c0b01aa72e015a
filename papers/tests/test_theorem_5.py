"""Theorem 5 on a map with a plane of fixed points and a regulariser that is convex, but not strongly."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

import geq
from geq_papers.theorem.theorem_5 import theorem5


class Seminorm(geq.regularizers.FeatureRegulariser):
    """R = ½⟨Az, z⟩ + ⟨b, z⟩ with a singular A ≥ 0."""

    def __init__(self, matrix: Tensor, shift: Tensor) -> None:
        super().__init__()
        self.matrix, self.shift = matrix, shift

    @property
    def smoothness(self) -> float | None:
        return float(torch.linalg.matrix_norm(self.matrix, 2))

    def value(self, z: Tensor) -> Tensor:
        return ((z @ self.matrix) * z).sum() / 2 + (z @ self.shift).sum()

    def gradient(self, z: Tensor) -> Tensor:
        return z @ self.matrix + self.shift


@dataclass
class Plane:
    """z = WᵀWz + a, WWᵀ = I, Wa = 0: every a + Wᵀy is a fixed point."""

    W: Tensor
    a: Tensor
    regulariser: Seminorm
    start: Tensor

    @property
    def map(self) -> Callable[[Tensor], Tensor]:
        return lambda z: z @ self.W.T @ self.W + self.a

    @property
    def selected(self) -> Tensor:
        """R(a + Wᵀy) is least where W(A(a + Wᵀy) + b) = 0."""
        A, b = self.regulariser.matrix, self.regulariser.shift
        y = torch.linalg.solve(self.W @ A @ self.W.T, -((self.a @ A + b) @ self.W.T).mT).mT
        return self.a + y @ self.W


def plane() -> Plane:
    generator = torch.Generator().manual_seed(1)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    W = torch.linalg.qr(draw(5, 5)).Q[:2]
    x = draw(3, 5)
    matrix = torch.diag(torch.tensor([2.0, 1.0, 1.0, 1.0, 0.0], dtype=torch.float64))
    shift = torch.tensor([0.3, -0.2, 0.5, 0.1, 0.0], dtype=torch.float64)
    return Plane(W, x - x @ W.T @ W, Seminorm(matrix, shift), draw(3, 5))


def test_theorem_5_holds_and_plain_iteration_ends_elsewhere() -> None:
    case = plane()
    sam = geq.gradients.SequentialAveraging(1, case.regulariser)
    check = theorem5(case.map, sam, case.start, case.selected, (10, 100, 1000, 5000))
    assert check.holds, check.verdict
    plain = case.map(case.start)
    torch.testing.assert_close(case.map(plain), plain)  # plain iteration has already ended
    assert case.regulariser.value(plain) - case.regulariser.value(case.selected) > 0.1
    assert not theorem5(case.map, sam, case.start, plain, (10, 100, 1000)).holds


def test_what_the_theorem_needs_is_checked() -> None:
    case = plane()
    sam = geq.gradients.SequentialAveraging(1, case.regulariser)
    expanding = theorem5(lambda z: 1.5 * z, sam, case.start, torch.zeros(3, 5).double(), (2, 4))
    assert "expansion of T" in expanding.verdict
    elsewhere = theorem5(case.map, sam, case.start, case.selected + 1, (2, 4))
    assert "T(z̄) against z̄" in elsewhere.verdict


def test_lag_behind_the_moving_target_has_the_rate_of_the_proof() -> None:
    """‖z^k − z*(β_k, λ_k)‖ = O(k^{−(1−ρ−2c)}), with z*(β, λ) the fixed point of the averaged map."""
    case = plane()
    sam = geq.gradients.SequentialAveraging(1, case.regulariser)
    identity = torch.eye(5, dtype=torch.float64)

    def target(count: int) -> Tensor:
        (beta, ridge), step = sam.schedule(count), sam.step_size
        gradient_step = (1 - step * ridge) * identity - step * case.regulariser.matrix
        slope = beta * gradient_step + (1 - beta) * case.W.T @ case.W
        constant = (1 - beta) * case.a - beta * step * case.regulariser.shift
        return torch.linalg.solve(identity - slope, constant.mT).mT

    z, lag = case.start, {}
    for count in range(1, 5001):
        z = sam.advance(case.map, z, count)
        if count in (50, 5000):
            lag[count] = float((z - target(count)).norm())
    rate = math.log(lag[50] / lag[5000]) / math.log(100)
    assert rate > 1 - sam.beta_power - 2 * sam.lambda_power
