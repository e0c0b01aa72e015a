"""Other forms of a (deep) OptEq with the same equilibrium: in the features, in blocks, in other variables.

They are for study and for tests: :class:`~geq.cells.DeepCell` needs the least work per evaluation.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from geq.cells.base import Cell
from geq.cells.deep import DeepCell, DeepContext
from geq.errors import CheckedOptions, OptionError


class FeatureForm(Cell):
    """The reformulation, whose state is the features h_l = σ(W_l z_{l−1} + U_l x + b_l) of all layers.

    For one layer h = σ(WWᵀh + Ux + b) and z = Wᵀh: GEQ's form of OptEq (its eq. 3–4, with Wᵀ called W). For L
    layers the skips z_l = α_lW_lᵀh_l + (1 − α_l)z_{l−1} close the circle z_L = z_0, which gives

        z_0 = Σ_l c_l W_lᵀh_l,   c_l = α_l Π_{j>l}(1 − α_j) / (1 − Π_j(1 − α_j)),

    and the map computes z_0 from the features and the new features from z_0, layer by layer.

    Args:
        deep: the cell in its original form, without a regulariser.
    """

    def __init__(self, deep: DeepCell) -> None:
        super().__init__()
        if deep.regulariser is not None:
            raise OptionError("the form in the features exists for a cell without a regulariser")
        self.deep = deep

    def inject(self, x: Any) -> DeepContext:
        return self.deep.inject(x)

    def initial_state(self, c: DeepContext) -> tuple[Tensor, ...]:
        return self.features(c.start, c)

    def features(self, z: Tensor, c: DeepContext) -> tuple[Tensor, ...]:
        """h_1, …, h_L on the way from z through the layers."""
        found = []
        for layer in c.layers:
            found.append(layer.features(z))
            z = layer.mix(z, found[-1])
        return tuple(found)

    def original(self, h: tuple[Tensor, ...], c: DeepContext) -> Tensor:
        """z_0, the state of the original form."""
        total = torch.zeros_like(c.start)
        weight: Tensor | float = 0.0
        remaining: Tensor | float = 1.0
        for layer, features in zip(reversed(c.layers), reversed(h), strict=True):
            share = remaining * layer.alpha
            total = total + share * layer.W.adjoint(features)
            weight, remaining = weight + share, remaining - share
        return total / weight

    def forward(self, z: tuple[Tensor, ...], c: DeepContext) -> tuple[Tensor, ...]:
        return self.features(self.original(z, c), c)


class BlockForm(Cell):
    """Deep OptEq as one layer on blocks (lemma 3): z̃ = α W̃ᵀσ(W̃Pz̃ + Ũx + b̃) + (1 − α)Pz̃.

    The state is (z_1, …, z_{L−1}, z_0), W̃ has W_1, …, W_L on its diagonal, and the permutation P moves the
    last block to the front, so that every block is f_l of the one before it. (Eq. 7 omits the P inside σ.)

    Args:
        deep: the cell in its original form.
    """

    def __init__(self, deep: DeepCell) -> None:
        super().__init__()
        self.deep = deep
        self.couples_samples = deep.couples_samples

    def inject(self, x: Any) -> DeepContext:
        return self.deep.inject(x)

    def initial_state(self, c: DeepContext) -> tuple[Tensor, ...]:
        return (c.start,) * len(c.layers)

    def original(self, blocks: tuple[Tensor, ...], c: DeepContext) -> Tensor:
        """z_0, the state of the original form."""
        return blocks[-1]

    @staticmethod
    def permuted(blocks: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Pz̃."""
        return (blocks[-1], *blocks[:-1])

    def forward(self, z: tuple[Tensor, ...], c: DeepContext) -> tuple[Tensor, ...]:
        first, *others = self.permuted(z)
        before = (self.deep.regularised(first), *others)
        return tuple(layer(block) for layer, block in zip(c.layers, before, strict=True))


class AffineChange(nn.Module, metaclass=CheckedOptions):
    """A(y) = My + t on the channels (axis 1) of a state: rotations, scalings, translations.

    Args:
        matrix: M, square and invertible; default the identity.
        shift: t; default 0.
    """

    matrix: Tensor | None
    shift: Tensor | None

    def __init__(self, matrix: Tensor | None = None, shift: Tensor | None = None) -> None:
        super().__init__()
        if matrix is not None:
            square = matrix.dim() == 2 and matrix.shape[0] == matrix.shape[1]
            if not square or not float(torch.linalg.cond(matrix)) < 1 / torch.finfo(matrix.dtype).eps:
                raise OptionError(
                    "the matrix of a change of variable must be square and invertible: got shape "
                    f"{tuple(matrix.shape)}{' and no inverse' if square else ''}"
                )
        self.register_buffer("matrix", matrix)
        self.register_buffer("shift", shift)

    def offset(self, z: Tensor) -> Tensor | float:
        return 0.0 if self.shift is None else self.shift.view(-1, *[1] * (z.dim() - 2))

    def forward(self, y: Tensor) -> Tensor:
        moved = y if self.matrix is None else torch.einsum("oi,bi...->bo...", self.matrix, y)
        return moved + self.offset(y)

    def inverse(self, z: Tensor) -> Tensor:
        """A⁻¹(z) = M⁻¹(z − t)."""
        z = z - self.offset(z)
        if self.matrix is None:
            return z
        columns = z.transpose(0, 1)
        solved = torch.linalg.solve(self.matrix, columns.reshape(len(columns), -1))
        return solved.view(columns.shape).transpose(0, 1)


class ChangedForm(Cell):
    """Another variable, z = A(y): the map A⁻¹ ∘ T ∘ A, the equilibrium y* = A⁻¹(z*) (table 1, third row).

    Args:
        cell: T, with a tensor as its state.
        change: A.
    """

    def __init__(self, cell: Cell, change: AffineChange) -> None:
        super().__init__()
        self.cell, self.change = cell, change
        self.couples_samples = cell.couples_samples

    def inject(self, x: Any) -> Any:
        return self.cell.inject(x)

    def initial_state(self, c: Any) -> Tensor:
        start = self.cell.initial_state(c)
        assert isinstance(start, Tensor)
        return self.change.inverse(start)

    def original(self, y: Tensor, c: Any) -> Tensor:
        """z, the state of the original form."""
        return self.change(y)

    def forward(self, z: Tensor, c: Any) -> Tensor:
        return self.change.inverse(self.cell(self.change(z), c))
