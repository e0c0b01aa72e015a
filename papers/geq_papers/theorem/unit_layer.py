"""The unit layer f(z) = (1/μ)Wᵀσ(Wz + a) that everything in OptEq is made of."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from geq.errors import ConvergenceError, InputError, OptionError
from geq.penalties import Penalty

ROUNDING = 1e-9
"""How far ‖W‖² may exceed μ before the condition counts as violated."""


@dataclass(frozen=True)
class Unit:
    """f(z) = (1/μ)Wᵀσ(Wz + a), the gradient of ψ(z) = (1/μ)1ᵀσ̃(Wz + a) (OptEq, theorem 1).

    The input is fixed, so it is part of the bias: a = Ux + b. Everything is dense and in float64.

    Args:
        weight: W, features × state; need not be square.
        bias: a.
        activation: the penalty whose prox is σ, so that L_σ = 1; c·σ is σ with μ/c.
        scale: μ.

    >>> from geq.penalties import NonNegative
    >>> unit = Unit(torch.eye(2).double(), torch.tensor([1.0, -3.0]).double(), NonNegative(), scale=2.0)
    >>> unit(torch.ones(2).double())
    tensor([1., 0.], dtype=torch.float64)
    """

    weight: Float[Tensor, "features state"]
    bias: Float[Tensor, " entries"]
    activation: Penalty
    scale: float = 1.0

    def __post_init__(self) -> None:
        for name, tensor in (("weight", self.weight), ("bias", self.bias)):
            if tensor.dtype != torch.float64 or not bool(tensor.isfinite().all()):
                raise InputError(
                    f"{name} must be finite and in float64, because theorems are checked to many digits: got "
                    f"{tensor.dtype}; use .double()"
                )
        if self.bias.shape[0] != self.weight.shape[0]:
            raise InputError(
                f"bias must have one entry per row of weight, {self.weight.shape[0]}: got "
                f"{self.bias.shape[0]}"
            )
        if not (math.isfinite(self.scale) and self.scale > 0):
            raise OptionError(f"scale, the paper's μ, must be above 0: got {self.scale}")

    def __call__(self, z: Float[Tensor, "*batch state"]) -> Float[Tensor, "*batch state"]:
        return self.sigma(z @ self.weight.T + self.bias) @ self.weight / self.scale

    def sigma(self, s: Tensor) -> Tensor:
        # Penalties have the batch first, and these vectors have none.
        return self.activation.prox(s.unsqueeze(0)).squeeze(0)

    def potential(self, z: Float[Tensor, " state"]) -> float:
        """ψ(z), whose gradient is f."""
        return self.activation.primitive((self.weight @ z + self.bias).unsqueeze(0)).sum().item() / self.scale

    def jacobian(self, z: Float[Tensor, " state"]) -> Float[Tensor, "state state"]:
        """(1/μ)WᵀDW, symmetric and positive semi-definite; at a kink one of the generalised Jacobians."""
        slope = self.activation.slope((self.weight @ z + self.bias).unsqueeze(0)).squeeze(0)
        return self.weight.T @ (slope.unsqueeze(1) * self.weight) / self.scale

    @cached_property
    def rate(self) -> float:
        """‖W‖²/μ, a Lipschitz constant of f."""
        return torch.linalg.matrix_norm(self.weight, 2).square().item() / self.scale

    def require_proximal(self) -> None:
        """Refuse μ < L_σ‖W‖², where φ = ψ* − ½‖·‖² need not be convex and f need not be a prox."""
        if self.rate > 1 + ROUNDING:
            raise OptionError(
                f"theorem 1 needs μ ≥ L_σ‖W‖² = {self.rate * self.scale:.6g}: got μ = {self.scale:.6g}; "
                "raise scale or divide the weight by its norm"
            )

    def dual(self, p: Float[Tensor, " features"]) -> float:
        """h*(p) = (1/μ)1ᵀσ̃*(μp) − ⟨a, p⟩, which bounds ψ*(Wᵀp) from above; σ̃* = penalty + ½|·|²."""
        q = self.scale * p
        cost = self.activation.cost(q.unsqueeze(0)).squeeze(0) + 0.5 * q.square()
        return (cost.sum() / self.scale - self.bias @ p).item()

    def at_image(self, v: Float[Tensor, " state"]) -> float:
        """φ(f(v)) = ⟨f(v), v⟩ − ψ(v) − ½‖f(v)‖²: at an image of f, Fenchel and Young give φ exactly."""
        u = self(v)
        return (u @ v).item() - self.potential(v) - 0.5 * u.square().sum().item()

    def solve(
        self,
        factor: float,
        target: Float[Tensor, " state"],
        start: Float[Tensor, " state"],
        tol: float = 1e-13,
        max_steps: int = 200,
    ) -> Float[Tensor, " state"]:
        """v with v + factor·f(v) = target, by Newton's method with a line search.

        It minimises ½‖v‖² + factor·ψ(v) − ⟨v, target⟩, which is strongly convex for factor·‖W‖²/μ > −1. Every
        resolvent and every proximal step of the conjugate is such an equation.
        """
        here = _Trial(self, factor, target, start)
        identity = torch.eye(len(target), dtype=target.dtype)
        reference = 1.0
        for _ in range(max_steps):
            # What rounding leaves of v + factor·f(v) − target, in terms of its parts.
            reference = 1 + (target.norm() + here.v.norm() * (1 + abs(factor) * self.rate)).item()
            reference += abs(factor) * self.bias.norm().item()
            if here.size <= tol * reference:
                return here.v
            step = torch.linalg.solve(identity + factor * self.jacobian(here.v), here.gradient)
            slope, length = (here.gradient @ step).item(), 1.0
            there = _Trial(self, factor, target, here.v - step)
            # The values do not resolve the last digits of the gradient, so a shorter gradient will do too.
            while there.value > here.value - 1e-4 * length * slope and there.size > 0.9 * here.size:
                length /= 2
                if length < 1e-8:
                    break
                there = _Trial(self, factor, target, here.v - length * step)
            if length < 1e-8:
                break
            here = there
        if here.size <= 1e-8 * reference:
            return here.v
        raise ConvergenceError(
            f"Newton's method did not reach {tol:.1g} in {max_steps} steps: the residual is {here.size:.3g} "
            f"of {reference:.3g}; the weight may be badly conditioned"
        )


class _Trial:
    """A point of the search: the value ½‖v‖² + factor·ψ(v) − ⟨v, target⟩ and its gradient."""

    def __init__(self, unit: Unit, factor: float, target: Tensor, v: Tensor) -> None:
        features = (unit.weight @ v + unit.bias).unsqueeze(0)
        factor = factor / unit.scale
        self.v = v
        self.gradient = v - target + factor * (unit.activation.prox(features).squeeze(0) @ unit.weight)
        self.size = self.gradient.norm().item()
        potential = factor * unit.activation.primitive(features).sum()
        self.value = (0.5 * v @ v + potential - v @ target).item()
