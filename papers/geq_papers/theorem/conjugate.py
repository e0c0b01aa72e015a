"""φ = ψ* − ½‖·‖² of theorem 1: in closed form for ReLU and an invertible W, numerically for all others."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from geq.errors import InputError, OptionError
from geq.penalties import NonNegative
from geq_papers.theorem.unit_layer import Unit

OUTSIDE = 1e-7
"""A relative residual ‖y − f(v)‖ that no longer falls below this means that y is outside of dom ψ*."""
LARGEST_STEP = 1e12


@dataclass(frozen=True)
class Conjugate:
    """ψ*(y) = sup_v ⟨y, v⟩ − ψ(v), with what proves it.

    Attributes:
        value: ψ*(y); infinite where y is outside of the domain.
        maximiser: v, which is a subgradient of ψ* at y. Where the supremum is not attained (tanh, at the edge
            of its domain), or is infinite, the last point of a maximising sequence.
        gradient_norm: ‖y − f(v)‖, which is 0 at a maximiser. ``value`` is ψ* *exactly* at f(v), so it belongs
            to a point this near to y. Outside of the domain it is the distance of y from it.
        gap: upper bound minus lower bound of ψ*(y): the dual h*(p) at a p with Wᵀp = y, minus ⟨y, v⟩ − ψ(v).
            Infinite where the dual point near v is not feasible, so that only ``gradient_norm`` testifies.
    """

    value: float
    maximiser: Float[Tensor, " state"]
    gradient_norm: float
    gap: float


def conjugate(
    unit: Unit, y: Float[Tensor, " state"], start: Float[Tensor, " state"] | None = None, tol: float = 1e-12
) -> Conjugate:
    """ψ*(y) by proximal points v ← argmax ⟨y, v⟩ − ψ(v) − ‖v − v_k‖²/2t with growing t.

    Each is a strongly concave problem for Newton's method, for any rank of W. The residual y − f(v)
    falls monotonically to the difference between y and its projection on the closure of dom ψ*, so it tells
    whether ψ*(y) is finite.

    >>> from geq.penalties import NonNegative
    >>> unit = Unit(torch.eye(1).double(), torch.zeros(1).double(), NonNegative())
    >>> [conjugate(unit, torch.tensor([y]).double()).value for y in (3.0, -1.0)]
    [4.5, inf]
    """
    if y.dtype != torch.float64 or y.shape[0] != unit.weight.shape[1] or not bool(y.isfinite().all()):
        raise InputError(
            f"y must be a finite vector of {unit.weight.shape[1]} entries in float64: got {tuple(y.shape)} "
            f"in {y.dtype}"
        )
    v = torch.zeros_like(y) if start is None else start
    magnitude = 1 + y.norm().item()
    step = 1.0
    residual = y - unit(v)
    norm, before = residual.norm().item(), math.inf
    while norm > tol * magnitude and step <= LARGEST_STEP:
        if step > 1e3 and norm > 0.99 * before and _grows_for_ever(unit, y, v, residual):
            break
        v = unit.solve(step, v + step * y, v)
        residual, before = y - unit(v), norm
        norm = residual.norm().item()
        step *= 8
    if norm > max(OUTSIDE, tol) * magnitude:
        return Conjugate(math.inf, v, norm, math.inf)
    value = (y @ v).item() - unit.potential(v)
    return Conjugate(value, v, norm, _upper_bound(unit, y, v, residual) - value)


def _grows_for_ever(unit: Unit, y: Tensor, v: Tensor, direction: Tensor) -> bool:
    """Return whether the concave ⟨y, ·⟩ − ψ still rises as steeply very far away: then it has no maximum."""
    far = y - unit(v + (LARGEST_STEP / direction.norm().item()) * direction)
    return (far @ direction).item() > 0.5 * direction.square().sum().item()


def _upper_bound(unit: Unit, y: Tensor, v: Tensor, residual: Tensor) -> float:
    """h* at a feasible p: at v's own, moved so that Wᵀp = y, along the features that can move."""
    features = unit.weight @ v + unit.bias
    active = unit.activation.slope(features.unsqueeze(0)).squeeze(0) > 0
    rows = unit.weight * active.unsqueeze(1)
    own = unit.sigma(features) / unit.scale
    p = own + active * torch.linalg.lstsq(rows.T, residual, driver="gelsd").solution
    p = torch.where(unit.activation.cost((unit.scale * p).unsqueeze(0)).squeeze(0).isfinite(), p, own)
    feasible = (unit.weight.T @ p - y).norm().item() <= 1e-11 * (1 + y.norm().item() + p.norm().item())
    return unit.dual(p) if feasible else math.inf


def objective(unit: Unit, y: Float[Tensor, " state"]) -> float:
    """φ(y) = ψ*(y) − ½‖y‖², which f is the prox of and whose minimisers are the fixed points of f."""
    return conjugate(unit, y).value - 0.5 * y.square().sum().item()


def relu_objective(unit: Unit, y: Float[Tensor, " state"]) -> float:
    """φ(y) in closed form for ReLU and an invertible W (eq. 4).

    With p = W⁻ᵀy it is ½μ‖p‖² − ⟨a, p⟩ − ½‖y‖² where p ≥ 0, and infinite elsewhere.

    Erratum: the paper prints σ̃*(p) = ∞ for p ≤ 0; it is ∞ for p < 0 and 0 at p = 0. The equilibrium has
    p = 0 at every feature that ReLU switches off, so with the printed form φ would be infinite at its own
    minimiser.
    """
    if not isinstance(unit.activation, NonNegative):
        raise OptionError(
            f"eq. 4 is for ReLU: got {type(unit.activation).__name__}; use objective(), which is for all"
        )
    rows, columns = unit.weight.shape
    if rows != columns or torch.linalg.cond(unit.weight).item() > 1e12:
        raise OptionError(
            f"eq. 4 needs an invertible weight: got {rows} × {columns}"
            f"{', singular' if rows == columns else ''}; use objective(), which is for all"
        )
    p = torch.linalg.solve(unit.weight.T, y)
    # Rounding of the solve must not make a zero negative.
    p = p.where(p.abs() > 1e-13 * p.abs().max(), 0.0)
    return unit.dual(p) - 0.5 * y.square().sum().item()
