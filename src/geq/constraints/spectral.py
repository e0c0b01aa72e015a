"""Constraints: how the stored weight of an operator becomes the effective one.

The iteration converges only if the feedback W is not too strong. ``WeightNorm`` is what the papers use; it
does not bound the operator. ``SpectralBound`` does: it measures the true norm of the map (of the whole
convolution at its real spatial size, not of the reshaped kernel).
"""

from __future__ import annotations

import functools
import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from geq.constraints.power_iteration import generic_direction, top_direction
from geq.errors import CheckedOptions, OptionError

Apply = Callable[[Tensor, Tensor], Tensor]
"""``(weight, argument) -> value``: an operator, or its adjoint, with the weight left open."""

SMALL_MATRIX = 512
"""Up to this side the norm of a matrix is computed exactly (singular values) instead of by power iteration.
"""
ORDINARY = (1e-6, 1e6)
"""Largest entries of a weight between which a power iteration neither overflows nor underflows."""
DIVISIBLE = 0.85
"""Power of the smallest and largest number that leaves room for the entries of a unit vector."""
JUMP = 0.5
"""A weight that changed by more than this share since the last solve was not trained but replaced."""
NUDGE = 0.01
"""Share of the fixed start that is mixed into a direction before it is followed by a step."""
START = 2.0
"""Of the learned numbers: sigmoid(2) ≈ 0.88, near the bound and not yet flat."""


class Constraint(nn.Module, metaclass=CheckedOptions):
    """Base class. ``adopt`` is called once with the fresh weight, ``forward`` once per solve."""

    bound: float = math.inf
    """Bound on the norm of the operator that the constraint guarantees."""

    def adopt(self, weight: Tensor) -> None:
        """Create what the rule has to learn or remember."""

    @abstractmethod
    def forward(self, weight: Tensor, apply: Apply, adjoint: Apply, shape: tuple[int, ...]) -> Tensor:
        """Return the effective weight, for an argument of ``shape`` (one sample, batch axis of 1)."""


class Unconstrained(Constraint):
    """The weight as it is."""

    def forward(self, weight: Tensor, apply: Apply, adjoint: Apply, shape: tuple[int, ...]) -> Tensor:
        return weight


class WeightNorm(Constraint):
    """W = g·V/‖V‖ per output row, g learned (the papers' choice). It does not bound the operator norm."""

    gain: nn.Parameter

    def adopt(self, weight: Tensor) -> None:
        self.gain = nn.Parameter(weight.detach().flatten(1).norm(dim=1))

    def forward(self, weight: Tensor, apply: Apply, adjoint: Apply, shape: tuple[int, ...]) -> Tensor:
        row_norm = weight.flatten(1).norm(dim=1).clamp_min(torch.finfo(weight.dtype).tiny)
        return weight * (self.gain / row_norm).view(-1, *[1] * (weight.dim() - 1))


def ordinary_unit(weight: Tensor) -> Tensor:
    """1, or the largest entry of a weight whose squares would overflow or vanish, and the bound with them.

    Limited to what a vector can be divided by.
    """
    low, high = weight.aminmax()  # without a tensor of absolute values
    largest = torch.maximum(high, -low)
    ordinary = (largest == 0) | ((largest >= ORDINARY[0]) & (largest <= ORDINARY[1]))
    numbers = torch.finfo(weight.dtype)
    return torch.where(ordinary, 1.0, largest.clamp(numbers.tiny**DIVISIBLE, numbers.max**DIVISIBLE))


def divided(map: Apply, unit: Tensor) -> Apply:
    """Return a map for the weight divided by ``unit``, which divides the argument: it is the smaller one."""
    return lambda weight, argument: map(weight, argument / unit)


class Measured(NamedTuple):
    """The leading direction of a weight."""

    weight: Tensor
    direction: Tensor


def fitting(kept: Measured | None, weight: Tensor, shape: tuple[int, ...]) -> Measured | None:
    """Return the kept direction if weight and maps have the same kind, else None."""
    if kept is None or tuple(kept.direction.shape) != shape:
        return None
    old = kept.weight
    alike = old.shape == weight.shape and old.dtype == weight.dtype and old.device == weight.device
    return kept if alike else None


class SpectralBound(Constraint):
    """W = V / max(1, σ/bound) with σ the operator norm of V, so that ‖W‖ ≤ bound.

    A small matrix has its norm computed exactly. Otherwise, in evaluation, σ is found by iteration from a
    fixed start and kept until the weights change, in whatever way: it is a function of the weights alone. In
    training σ follows the weights by one power iteration per solve, from the direction of the last one, and
    is found as in evaluation where the weights jumped. The gradient flows through σ as well, with the
    singular vectors held fixed, which is its exact derivative.

    What training remembers is no buffer: its shape is that of the maps, and averaged models copy buffers. A
    checkpoint that must continue to the last bit saves :func:`constraint_memory` beside the state dictionary.
    """

    MOST_STEPS = 200

    def __init__(self, bound: float = 0.95) -> None:
        super().__init__()
        if not bound > 0:
            raise OptionError(
                f"the bound of an operator norm must be positive: got {bound}; the usual one is 0.95"
            )
        self.bound = float(bound)
        self.forget()

    def forget(self) -> None:
        self.followed: Measured | None = None
        self._settled: Measured | None = None
        self._generic: Tensor | None = None

    def adopt(self, weight: Tensor) -> None:
        self.forget()

    def forward(self, weight: Tensor, apply: Apply, adjoint: Apply, shape: tuple[int, ...]) -> Tensor:
        precise = weight.to(torch.promote_types(weight.dtype, torch.float32))
        if weight.dim() == 2 and min(weight.shape) <= SMALL_MATRIX:
            sigma = torch.linalg.matrix_norm(precise, 2)
        else:
            unit = ordinary_unit(precise.detach())
            sigma = unit * self._measured(precise, divided(apply, unit), divided(adjoint, unit), shape)
        # A product: the backward of a division keeps four more tensors of the weight's size.
        return weight * self.factor(sigma).to(weight.dtype)

    def _measured(self, weight: Tensor, apply: Apply, adjoint: Apply, shape: tuple[int, ...]) -> Tensor:
        """σ by iteration."""
        # Not in inference mode: what is kept must serve a later solve that records gradients.
        with torch.inference_mode(False), torch.no_grad():
            find = self._follow if self.training else self._settle
            direction = find(weight.detach(), apply, adjoint, shape)
        return apply(weight, direction).norm()

    def factor(self, sigma: Tensor) -> Tensor:
        """Return the factor for a weight of norm ``sigma``: a number, or a column with one per row."""
        return (sigma / self.bound).clamp_min(1.0).reciprocal()

    def _follow(self, weight: Tensor, apply: Apply, adjoint: Apply, shape: tuple[int, ...]) -> Tensor:
        """Return the direction in training."""
        kept = fitting(self.followed, weight, shape)
        if kept is not None:
            # In place, so that nothing else of the weight's size is held; and both numbers by one transfer.
            size = kept.weight.norm()
            moved = kept.weight.sub_(weight).norm()
            change, before = torch.stack((moved, size)).tolist()
            kept.weight.copy_(weight)
            if change == 0:
                return kept.direction  # as when a checkpointed forward pass is computed again
            if change <= JUMP * before < math.inf:
                # Iterated alone, a direction that is a singular vector, not the leading one, would stay.
                start = kept.direction + NUDGE * self._start(weight, shape)
                image = adjoint(weight, apply(weight, start))
                direction = image / image.norm().clamp_min(torch.finfo(image.dtype).tiny)
                self.followed = Measured(kept.weight, direction)
                return direction
        self.followed = self._found(weight, apply, adjoint, shape)
        return self.followed.direction

    def _settle(self, weight: Tensor, apply: Apply, adjoint: Apply, shape: tuple[int, ...]) -> Tensor:
        """Return the direction in evaluation."""
        kept = fitting(self._settled, weight, shape)
        # By value, because an edit of weight.data leaves no other trace.
        if kept is None or not torch.equal(kept.weight, weight):
            self._settled = kept = self._found(weight, apply, adjoint, shape)
        return kept.direction

    def _found(self, weight: Tensor, apply: Apply, adjoint: Apply, shape: tuple[int, ...]) -> Measured:
        """Return the direction from the fixed start, to convergence."""
        maps = functools.partial(apply, weight), functools.partial(adjoint, weight)
        direction = top_direction(*maps, self._start(weight, shape), self.MOST_STEPS)
        return Measured(weight.clone(), direction)

    def _start(self, weight: Tensor, shape: tuple[int, ...]) -> Tensor:
        kept = self._generic
        if kept is None or tuple(kept.shape) != shape or kept.dtype != weight.dtype:
            self._generic = kept = generic_direction(shape, weight.dtype)
        return kept.to(weight.device)

    def _apply(self, fn: Any, recurse: bool = True) -> SpectralBound:
        """Move what is remembered along with the weights."""
        if self.followed is not None:
            self.followed = Measured(*map(fn, self.followed))
        return super()._apply(fn, recurse)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_settled": None, "_generic": None}

    def extra_repr(self) -> str:
        return f"bound={self.bound}"


class SpectralEquality(SpectralBound):
    """W = bound·V/σ: the norm *is* the bound, however small V becomes."""

    def factor(self, sigma: Tensor) -> Tensor:
        return self.bound / sigma.clamp_min(torch.finfo(sigma.dtype).tiny)


class LearnedSpectralBound(SpectralEquality):
    """W = bound·s(θ)·V/σ with s the logistic function and one number θ learned: any norm below the bound."""

    theta: nn.Parameter

    def adopt(self, weight: Tensor) -> None:
        super().adopt(weight)
        self.theta = nn.Parameter(weight.new_full((), START))

    def factor(self, sigma: Tensor) -> Tensor:
        return super().factor(sigma) * self.theta.to(sigma.dtype).sigmoid()


class ChannelGainBound(SpectralEquality):
    """W = diag(s(θ))·bound·V/σ: a learned gain below 1 for each output channel, which keeps the bound."""

    theta: nn.Parameter

    def adopt(self, weight: Tensor) -> None:
        super().adopt(weight)
        self.theta = nn.Parameter(weight.new_full((weight.shape[0], *[1] * (weight.dim() - 1)), START))

    def factor(self, sigma: Tensor) -> Tensor:
        return super().factor(sigma) * self.theta.to(sigma.dtype).sigmoid()


class FrobeniusBound(SpectralBound):
    """W = V/max(1, s/bound) with s = √k·‖V‖_F, k the number of taps of a convolution (1 for a matrix).

    ‖A‖ ≤ Σ_taps ‖V_tap‖_F ≤ √k·‖V‖_F, so the bound holds, without an iteration, but far from reached.
    """

    def forward(self, weight: Tensor, apply: Apply, adjoint: Apply, shape: tuple[int, ...]) -> Tensor:
        taps = weight[0, 0].numel()
        return weight * self.factor(taps**0.5 * weight.norm())


def constraint_memory(model: nn.Module) -> dict[str, dict[str, Tensor]]:
    """Return the training state of a model's norm bounds, by name, for a checkpoint to resume exactly."""
    return {
        name: {part: tensor.clone() for part, tensor in rule.followed._asdict().items()}
        for name, rule in model.named_modules()
        if isinstance(rule, SpectralBound) and rule.followed is not None
    }


def restore_constraint_memory(model: nn.Module, memory: dict[str, dict[str, Tensor]]) -> None:
    """The inverse of :func:`constraint_memory`, for a model on the device where the memory is."""
    for name, rule in model.named_modules():
        if isinstance(rule, SpectralBound):
            rule.forget()
            if name in memory:
                rule.followed = Measured(**{part: tensor.clone() for part, tensor in memory[name].items()})
