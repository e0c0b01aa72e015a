"""Fixed-point problems that carry their answer, found by a second method.

Every problem is a map of a batch, a start, and the exact fixed point of every sample, in double precision.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import geq

State = Tensor | tuple[Tensor, ...]


@dataclass(frozen=True)
class Problem:
    """z = fn(z) from ``start``; ``answer`` is its fixed point, ``energy`` says that fn has ``proximal``."""

    name: str
    fn: Callable[[Any], Any]
    start: State
    answer: State
    energy: bool = False


class Affine:
    """z ↦ A z + b, one matrix per sample; with a symmetric A also the gradient step of ½zᵀ(I − A)z − bᵀz."""

    def __init__(self, matrix: Tensor, offset: Tensor) -> None:
        self.matrix, self.offset = matrix, offset

    def __call__(self, z: Tensor) -> Tensor:
        return torch.einsum("bij,bj->bi", self.matrix, z) + self.offset

    def __getitem__(self, samples: Any) -> Affine:
        return Affine(self.matrix[samples], self.offset[samples])

    @property
    def answer(self) -> Tensor:
        return torch.linalg.solve(
            torch.eye(self.offset.shape[1], dtype=self.offset.dtype) - self.matrix, self.offset
        )


class NonNegativeQuadratic(geq.cells.Equation):
    """The proximal step of ½zᵀPz − bᵀz over z ≥ 0: z ↦ max(0, z − (Pz − b))."""

    def __init__(self, hessian: Tensor, linear: Tensor) -> None:
        self.hessian, self.linear = hessian, linear

    def move(self, z: Tensor, step: float) -> Tensor:
        return (z - step * (torch.einsum("bij,bj->bi", self.hessian, z) - self.linear)).clamp_min(0)

    def __call__(self, z: Tensor) -> Tensor:
        return self.move(z, 1.0)

    def proximal(self, step: float) -> geq.cells.Equation:
        return geq.cells.Equation(lambda z: z + (self.move(z, step) - z) / step)

    @property
    def answer(self) -> Tensor:
        """By enumeration: of all active sets, the one that satisfies the Karush–Kuhn–Tucker conditions."""
        batch, size = self.linear.shape
        found = torch.full_like(self.linear, float("nan"))
        for sample in range(batch):
            for code in range(2**size):
                free = torch.tensor([code >> i & 1 for i in range(size)], dtype=torch.bool)
                z = torch.zeros_like(self.linear[sample])
                z[free] = torch.linalg.solve(self.hessian[sample][free][:, free], self.linear[sample][free])
                slope = self.hessian[sample] @ z - self.linear[sample]
                if bool((z >= 0).all()) and bool((slope[~free] >= -1e-12).all()):
                    found[sample] = z
                    break
        assert bool(torch.isfinite(found).all())
        return found


def matrices(batch: int, size: int, norm: float, seed: int = 0) -> Tensor:
    """Random matrices of the given spectral norm."""
    random = torch.randn(
        batch, size, size, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)
    )
    return norm * random / torch.linalg.matrix_norm(random, 2)[:, None, None]


def vectors(batch: int, size: int, seed: int = 1) -> Tensor:
    return torch.randn(batch, size, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def symmetric(batch: int, eigenvalues: Tensor, seed: int = 2) -> Tensor:
    """Random symmetric matrices with the given eigenvalues."""
    basis = torch.linalg.qr(matrices(batch, eigenvalues.numel(), 1.0, seed))[0]
    return basis @ torch.diag(eigenvalues) @ basis.transpose(1, 2)


def affine(batch: int = 4, size: int = 6) -> Problem:
    fn = Affine(matrices(batch, size, 0.8), vectors(batch, size))
    return Problem("affine", fn, torch.zeros(batch, size, dtype=torch.float64), fn.answer)


def stiff(batch: int = 3, size: int = 6) -> Problem:
    """Eigenvalues of the map from −0.5 to 0.95: the plain iteration needs hundreds of steps."""
    eigenvalues = torch.linspace(-0.5, 0.95, size, dtype=torch.float64)
    fn = Affine(symmetric(batch, eigenvalues), vectors(batch, size))
    return Problem("stiff", fn, torch.zeros(batch, size, dtype=torch.float64), fn.answer)


def tanh(batch: int = 4, size: int = 6) -> Problem:
    """z = tanh(Az + b): choose the answer z and b = artanh(z) − Az follows."""
    matrix, answer = matrices(batch, size, 0.9), 0.9 * torch.tanh(vectors(batch, size))
    fn = Affine(matrix, torch.atanh(answer) - torch.einsum("bij,bj->bi", matrix, answer))
    return Problem("tanh", lambda z: torch.tanh(fn(z)), torch.zeros_like(answer), answer)


def quadratic(batch: int = 4, size: int = 6, smallest: float = 0.3) -> Problem:
    fn = NonNegativeQuadratic(
        symmetric(batch, torch.linspace(smallest, 1.5, size, dtype=torch.float64)), vectors(batch, size)
    )
    return Problem("quadratic", fn, torch.zeros(batch, size, dtype=torch.float64), fn.answer, energy=True)


def image(batch: int = 2) -> Problem:
    """An affine map of feature maps whose memory is ordered channels last: a circular convolution."""
    shape = (batch, 3, 4, 4)
    generator = torch.Generator().manual_seed(3)
    weight = torch.randn(3, 3, 3, 3, dtype=torch.float64, generator=generator)
    offset = torch.randn(shape, dtype=torch.float64, generator=generator).to(
        memory_format=torch.channels_last
    )

    def linear(z: Tensor) -> Tensor:
        return torch.nn.functional.conv2d(torch.nn.functional.pad(z, (1, 1, 1, 1), "circular"), weight)

    dense = linear(torch.eye(48, dtype=torch.float64).view(48, 3, 4, 4)).flatten(1).T
    scale = 0.8 / torch.linalg.matrix_norm(dense, 2)
    answer = torch.linalg.solve(
        torch.eye(48, dtype=torch.float64) - scale * dense, offset.flatten(1).T
    ).T.view(shape)
    start = torch.zeros_like(offset)

    def fn(z: Tensor) -> Tensor:
        return (scale * linear(z) + offset).contiguous(memory_format=torch.channels_last)

    return Problem("image", fn, start, answer)


def two_scales(batch: int = 3) -> Problem:
    """Two coupled tensors of different shape."""
    fn = Affine(matrices(batch, 10, 0.8), vectors(batch, 10))

    def parts(rows: Tensor) -> tuple[Tensor, Tensor]:
        return rows[:, :4], rows[:, 4:].reshape(batch, 2, 3)

    def coupled(z: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        return parts(fn(torch.cat([z[0], z[1].flatten(1)], 1)))

    return Problem(
        "two_scales", coupled, parts(torch.zeros(batch, 10, dtype=torch.float64)), parts(fn.answer)
    )


def diverging(batch: int = 2, size: int = 3) -> Problem:
    """z ↦ 3z + 1: a fixed point exists, but the plain iteration runs away from it."""
    start = torch.zeros(batch, size, dtype=torch.float64)
    return Problem("diverging", lambda z: 3 * z + 1, start, torch.full_like(start, -0.5))


SOLVABLE = [affine(), stiff(), tanh(), quadratic(), image(), two_scales()]
