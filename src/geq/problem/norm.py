"""Norm rules: how the stored weight of an operator becomes the effective one.

The iteration converges only if the feedback W is not too strong. ``WeightNorm`` is what the papers use; it
does not bound the operator. ``OperatorNorm`` does: it measures the true norm of the map (of the whole
convolution at its real spatial size, not of the reshaped kernel) by power iteration.
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
"""Up to this side the norm of a matrix is computed exactly (singular values) instead of by power iteration.
"""
ORDINARY = (1e-6, 1e6)
"""Largest entries of a weight between which a power iteration neither overflows nor underflows."""
JUMP = 0.5
"""A weight that changed by more than this share since the last solve was not trained but replaced."""


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


def top_direction(
    weight: Tensor, apply: Apply, adjoint: Apply, start: Tensor, steps: int, tol: float = 0.0
) -> Tensor:
    """Unit vector near the leading right singular vector, by power iteration on AᵀA from ``start``.

    Stops early once the estimated norm moves by less than ``tol`` relative to itself.
    """
    tiny = torch.finfo(start.dtype).tiny
    direction = start / start.norm().clamp_min(tiny)
    previous: Tensor | None = None
    for _ in range(steps):
        image = adjoint(weight, apply(weight, direction))
        norm = image.norm()
        direction = image / norm.clamp_min(tiny)
        if tol and previous is not None and bool((norm - previous).abs() <= tol * norm):
            break
        previous = norm
    return direction


def ordinary_unit(weight: Tensor) -> Tensor:
    """1, or the largest entry of a weight whose squares would overflow or vanish, and the bound with them."""
    largest = weight.abs().amax()
    ordinary = (largest == 0) | ((largest >= ORDINARY[0]) & (largest <= ORDINARY[1]))
    return torch.where(ordinary, 1.0, largest)


def same(one: Tensor, other: Tensor) -> bool:
    return one.dtype == other.dtype and one.device == other.device and torch.equal(one, other)


class OperatorNorm(NormRule):
    """W = V / max(1, σ/bound) with σ the operator norm of V, so that ‖W‖ ≤ bound.

    A small matrix has its norm computed exactly. Otherwise, in training, σ follows the weights by one power
    iteration per solve, from the direction of the last one (a buffer, saved with the model, so that a resumed
    run continues exactly), and to convergence where the weights jumped. In evaluation nothing is changed: the
    iteration runs to convergence, and its result is kept until the weights change, in whatever way. The
    gradient flows through σ as well, with the singular vectors held fixed, which is its exact derivative.
    """

    MOST_STEPS = 200

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
        self._followed: Tensor | None = None

    def adopt(self, weight: Tensor) -> None:
        self.direction = weight.new_empty(0)

    def start(self, weight: Tensor, shape: tuple[int, ...]) -> Tensor:
        """The remembered direction, or a fixed pseudo-random one where the size is new."""
        if tuple(self.direction.shape) == shape:
            return self.direction.to(weight.dtype)
        generator = torch.Generator().manual_seed(0)
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(weight)

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
        """σ by power iteration."""
        # Not in inference mode: what is kept must serve a later solve that records gradients.
        with torch.inference_mode(False), torch.no_grad():
            direction = self.find_direction(weight.detach(), apply, adjoint, shape)
        return apply(weight, direction).norm()

    def factor(self, sigma: Tensor) -> Tensor:
        """What a weight of norm ``sigma`` is multiplied with: a number, or one per row, as a column."""
        return (sigma / self.bound).clamp_min(1.0).reciprocal()

    def find_direction(self, weight: Tensor, apply: Apply, adjoint: Apply, shape: tuple[int, ...]) -> Tensor:
        start = self.start(weight, shape)
        tol = 1e-13 if weight.dtype == torch.float64 else 1e-5
        if self.training:
            followed = not self._jumped(weight) and tuple(self.direction.shape) == shape
            steps = 1 if followed else self.MOST_STEPS
            # A new tensor, never an in-place change: an earlier solve's graph may still refer to the old one.
            self.direction = top_direction(weight, apply, adjoint, start, steps, tol)
            return self.direction
        # Kept for these weights and this start, so that a saved and reloaded model finds the very same; by
        # value, because an edit of weight.data leaves no other trace.
        kept = self._settled
        if kept is None or not (same(kept[0], weight) and same(kept[1], start)):
            found = top_direction(weight, apply, adjoint, start, self.MOST_STEPS, tol)
            self._settled = kept = (weight.clone(), start.clone(), found)
        return kept[2]

    def _jumped(self, weight: Tensor) -> bool:
        """Whether the weight is another one than at the last training solve, and not the next one."""
        before, self._followed = self._followed, weight.clone()
        if before is None or before.shape != weight.shape or before.device != weight.device:
            return False
        return not bool((weight - before.to(weight.dtype)).norm() <= JUMP * before.norm())

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_settled": None, "_followed": None}

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        saved = state_dict.get(prefix + "direction")
        if saved is not None and saved.shape != self.direction.shape:
            # Its size is known from the first solve on.
            self.direction = self.direction.new_empty(saved.shape)
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def extra_repr(self) -> str:
        return f"bound={self.bound}"
