"""Norm rules: how the stored weight of an operator becomes the effective one.

The iteration converges only if the feedback W is not too strong. ``WeightNorm`` is what the papers use; it
does not bound the operator. ``OperatorNorm`` does: it measures the true norm of the map (of the whole
convolution at its real spatial size, not of the reshaped kernel) by iteration.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from geq.error import CheckedOptions, OptionError

Apply = Callable[[Tensor, Tensor], Tensor]
"""``(weight, argument) -> value``: an operator, or its adjoint, with the weight left open."""

SMALL_MATRIX = 512
"""Up to this side the norm of a matrix is computed exactly (singular values) instead of by iteration."""
ORDINARY = (1e-6, 1e6)
"""Largest entries of a weight between which the iteration neither overflows nor underflows."""
FOLLOWED = 1e-4
"""How well a direction must fit the weights of a training step: σ is then right to about a percent."""
DIRECTIONS = 2
"""Singular directions that are followed: the second is there when training makes it the first."""


class NormRule(nn.Module, metaclass=CheckedOptions):
    """Base class. ``adopt`` is called once with the fresh weight, ``forward`` once per solve."""

    def adopt(self, weight: Tensor) -> None:
        """Create what the rule has to learn or remember."""

    @abstractmethod
    def forward(self, weight: Tensor, apply: Apply, adjoint: Apply, shape: tuple[int, ...]) -> Tensor:
        """The effective weight of an operator whose argument has ``shape`` (one sample, batch axis of 1)."""


class NoNorm(NormRule):
    """The weight as it is."""

    def forward(self, weight: Tensor, apply: Apply, adjoint: Apply, shape: tuple[int, ...]) -> Tensor:
        return weight


class WeightNorm(NormRule):
    """W = g·V/‖V‖ per output row, g learned (the papers' choice). It does not bound the operator norm."""

    gain: nn.Parameter

    def adopt(self, weight: Tensor) -> None:
        self.gain = nn.Parameter(weight.detach().flatten(1).norm(dim=1))

    def forward(self, weight: Tensor, apply: Apply, adjoint: Apply, shape: tuple[int, ...]) -> Tensor:
        row_norm = weight.flatten(1).norm(dim=1).clamp_min(torch.finfo(weight.dtype).tiny)
        return weight * (self.gain / row_norm).view(-1, *[1] * (weight.dim() - 1))


def top_directions(
    weight: Tensor, apply: Apply, adjoint: Apply, start: Tensor, steps: int, tol: float
) -> Tensor:
    """Unit vectors near the leading right singular ones, the largest first, by iteration from ``start``.

    Each step takes the best combinations of the vectors, of what AᵀA makes of them, and of the last changes
    (LOBPCG of Knyazev 2001): close singular values, which large maps have, would take power iteration
    thousands of steps. The last step is the first one before which AᵀA was as good as a multiple:
    ‖AᵀAv‖ ≤ (1 + tol)‖Av‖².
    """
    count = len(start)
    directions = orthonormal(start)
    image = apply(weight, directions)
    change = directions[:0]
    for step in range(steps):
        back = adjoint(weight, image)
        fits = step + 1 == steps or not bool(back[0].norm() > (1 + tol) * image[0].square().sum())
        basis = orthonormal(torch.cat([directions, back, change]))
        images = torch.cat([image, apply(weight, basis[count:])])
        gram = images.flatten(1) @ images.flatten(1).t()
        empty = basis.flatten(1).any(dim=1).logical_not()
        mix = leading(gram - torch.diag(empty.to(gram.dtype)), count)
        change = torch.tensordot(mix[:, count:], basis[count:], dims=1)
        directions = torch.tensordot(mix, basis, dims=1)
        image = torch.tensordot(mix, images, dims=1)
        if fits:
            break
    return orthonormal(directions)


def orthonormal(rows: Tensor) -> Tensor:
    """Gram–Schmidt; a row that depends on those before it becomes zero."""
    found: list[Tensor] = []
    for row in rows:
        left, length = row, row.norm()
        for other in [*found, *found]:  # once is not enough to stay orthogonal
            left = left - (other * left).sum() * other
        size = left.norm()
        independent = size > 8 * torch.finfo(row.dtype).eps * length
        found.append(torch.where(independent, left / size, 0.0))
    return torch.stack(found)


def leading(gram: Tensor, count: int) -> Tensor:
    """The eigenvectors of the largest eigenvalues as rows, the largest first."""
    if gram.is_meta:
        return gram[:count]
    small = gram.double().cpu()
    if not small.isfinite().all():  # left to those who check the result
        return torch.eye(len(gram), dtype=gram.dtype, device=gram.device)[:count]
    return torch.linalg.eigh(small)[1][:, -count:].flip(1).t().to(gram)


def ordinary_unit(weight: Tensor) -> Tensor:
    """1, or the largest entry of a weight whose squares would overflow or vanish, and the bound with them."""
    largest = weight.abs().amax()
    ordinary = (largest == 0) | ((largest >= ORDINARY[0]) & (largest <= ORDINARY[1]))
    return torch.where(ordinary, 1.0, largest)


def same(one: Tensor, other: Tensor) -> bool:
    return one.dtype == other.dtype and one.device == other.device and torch.equal(one, other)


class OperatorNorm(NormRule):
    """W = V / max(1, σ/bound) with σ the operator norm of V, so that ‖W‖ ≤ bound.

    A small matrix has its norm computed exactly. Otherwise, in training, σ follows the weights by
    iteration from the directions of the last solve (a buffer, saved with the model, so that a resumed run
    continues exactly), once or until they fit, so that a fast step passes the bound by little and briefly. In
    evaluation nothing is changed: the iteration runs to convergence, and its result is kept until the weights
    change, in whatever way. The gradient flows through σ as well, with the singular vectors held fixed, which
    is its exact derivative.
    """

    MOST_STEPS = 100

    direction: Tensor

    def __init__(self, bound: float = 0.95) -> None:
        super().__init__()
        if not bound > 0:
            raise OptionError(
                f"the bound of an operator norm must be positive: got {bound}; the usual one is 0.95"
            )
        self.bound = float(bound)
        self.register_buffer("direction", torch.empty(0))
        self._settled: tuple[Tensor, Tensor, Tensor] | None = None

    def adopt(self, weight: Tensor) -> None:
        self.direction = weight.new_empty(0)

    def start(self, weight: Tensor, shape: tuple[int, ...]) -> Tensor:
        """The remembered directions, or fixed pseudo-random ones where the size is new."""
        if tuple(self.direction.shape) == shape:
            return self.direction.to(weight.dtype)
        generator = torch.Generator().manual_seed(0)
        fresh = torch.randn(shape, generator=generator, dtype=torch.float64).to(weight)
        if self.direction.shape[1:] == shape[1:]:  # saved when there was one direction
            fresh[: len(self.direction)] = self.direction
        return fresh

    def forward(self, weight: Tensor, apply: Apply, adjoint: Apply, shape: tuple[int, ...]) -> Tensor:
        precise = weight.to(torch.promote_types(weight.dtype, torch.float32))
        if weight.dim() == 2 and min(weight.shape) <= SMALL_MATRIX:
            sigma = torch.linalg.matrix_norm(precise, 2)
        else:
            unit = ordinary_unit(precise.detach())
            sigma = unit * self._measured(precise / unit, apply, adjoint, shape)
        # A product: the backward of a division keeps four more tensors of the weight's size.
        return weight * self.factor(sigma).to(weight.dtype)

    def _measured(self, weight: Tensor, apply: Apply, adjoint: Apply, shape: tuple[int, ...]) -> Tensor:
        """σ by iteration."""
        # Not in inference mode: what is kept must serve a later solve that records gradients.
        with torch.inference_mode(False), torch.no_grad():
            direction = self.find_direction(weight.detach(), apply, adjoint, shape)
        return apply(weight, direction).norm()

    def factor(self, sigma: Tensor) -> Tensor:
        """What a weight of norm ``sigma`` is multiplied with: a number, or one per row, as a column."""
        return (sigma / self.bound).clamp_min(1.0).reciprocal()

    def find_direction(self, weight: Tensor, apply: Apply, adjoint: Apply, shape: tuple[int, ...]) -> Tensor:
        """The leading direction, as a batch of one."""
        several = (DIRECTIONS, *shape[1:])
        start = self.start(weight, several)
        tol = 1e-13 if weight.dtype == torch.float64 else 1e-6
        if self.training:
            tol = FOLLOWED if tuple(self.direction.shape) == several else tol
            # A new tensor, never an in-place change: an earlier solve's graph may still refer to the old one.
            self.direction = top_directions(weight, apply, adjoint, start, self.MOST_STEPS, tol)
            return self.direction[:1]
        # Kept for these weights and this start, so that a saved and reloaded model finds the very same; by
        # value, because an edit of weight.data leaves no other trace.
        kept = self._settled
        if kept is None or not (same(kept[0], weight) and same(kept[1], start)):
            found = top_directions(weight, apply, adjoint, start, self.MOST_STEPS, tol)
            self._settled = kept = (weight.clone(), start.clone(), found[:1])
        return kept[2]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_settled": None}

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        saved = state_dict.get(prefix + "direction")
        if saved is not None and saved.shape != self.direction.shape:
            # Its size is known from the first solve on.
            self.direction = self.direction.new_empty(saved.shape)
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def extra_repr(self) -> str:
        return f"bound={self.bound}"
