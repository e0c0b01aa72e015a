"""Deep OptEq for one input, as a composition of unit layers with skip connections (eq. 5 and 6)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from geq.errors import ConvergenceError, OptionError
from geq.solvers import Anderson, fixed_point
from geq_papers.theorem.unit_layer import Unit


@dataclass(frozen=True)
class Composition:
    """T = f_L∘…∘f_1 with f_l(z) = α·unit_l(z) + (1 − α)z, α in (0, 1].

    >>> from geq.penalties import TanhPenalty
    >>> unit = Unit(torch.eye(2).double() / 2, torch.ones(2).double(), TanhPenalty())
    >>> deep = Composition((unit, unit), alpha=0.5)
    >>> z = deep.equilibrium()
    >>> bool((deep(z) - z).norm() < 1e-12)
    True
    """

    units: tuple[Unit, ...]
    alpha: float

    def __post_init__(self) -> None:
        if not self.units:
            raise OptionError("a deep OptEq needs at least one unit: got none")
        if not 0 < self.alpha <= 1:
            raise OptionError(f"alpha must be in (0, 1]: got {self.alpha}; the paper starts at 0.8")
        sizes = {unit.weight.shape[1] for unit in self.units}
        if len(sizes) > 1:
            raise OptionError(f"all units must act on the same state: got states of {sorted(sizes)} entries")

    @property
    def state_size(self) -> int:
        return self.units[0].weight.shape[1]

    def require_assumption_2(self) -> None:
        """Refuse units that are no proxes: the assumption of theorems 2 and 3."""
        for unit in self.units:
            unit.require_proximal()

    def layer(self, index: int, z: Float[Tensor, " state"]) -> Float[Tensor, " state"]:
        """f_{index + 1}(z)."""
        return self.alpha * self.units[index](z) + (1 - self.alpha) * z

    def __call__(self, z: Float[Tensor, " state"]) -> Float[Tensor, " state"]:
        for index in range(len(self.units)):
            z = self.layer(index, z)
        return z

    def blocks(self, z: Float[Tensor, " state"]) -> Float[Tensor, "layers state"]:
        """[z₁, …, z_{L−1}, z₀] for an equilibrium z₀: the states between the layers (lemma 3)."""
        states = [z]
        for index in range(len(self.units) - 1):
            states.append(self.layer(index, states[-1]))
        return torch.stack([*states[1:], z])

    def drift(self, z: Float[Tensor, " state"]) -> Float[Tensor, " state"]:
        """(T(z) − z)/α = Σ (unit_l − I)(z_{l−1}), which does not cancel where α is small."""
        total = torch.zeros_like(z)
        for unit in self.units:
            move = unit(z) - z
            total, z = total + move, z + self.alpha * move
        return total

    def drift_jacobian(self, z: Float[Tensor, " state"]) -> Float[Tensor, "state state"]:
        identity = torch.eye(len(z), dtype=z.dtype)
        through, total = identity, torch.zeros_like(identity)
        for unit in self.units:
            move = (unit.jacobian(z) - identity) @ through
            total, through, z = total + move, through + self.alpha * move, z + self.alpha * (unit(z) - z)
        return total

    def equilibrium(
        self, start: Float[Tensor, " state"] | None = None, tol: float = 1e-12, max_steps: int = 100
    ) -> Float[Tensor, " state"]:
        """z = T(z) by Newton's method, which does not slow down as α → 0; else by Anderson's."""
        weight = self.units[0].weight
        z = weight.new_zeros(self.state_size) if start is None else start
        for _ in range(max_steps):
            drift = self.drift(z)
            norm = drift.norm().item()
            if norm <= tol * (1 + z.norm().item()):
                return z
            step = torch.linalg.lstsq(self.drift_jacobian(z), -drift, driver="gelsd").solution
            length = 1.0
            while self.drift(z + length * step).norm().item() >= norm and length > 1e-6:
                length /= 2
            if length <= 1e-6:
                break  # a kink that Newton's method does not pass
            z = z + length * step
        return self._by_iteration(z, tol)

    def _by_iteration(self, z: Tensor, tol: float) -> Tensor:
        def mapping(state: Tensor) -> Tensor:
            return state + 0.5 * self.drift(state.squeeze(0)).unsqueeze(0) / len(self.units)

        solution = fixed_point(
            mapping, z.unsqueeze(0), Anderson(), tol=tol, max_steps=500, on_failure="ignore"
        )
        assert isinstance(solution.value, Tensor)
        found = solution.value.squeeze(0)
        missing = self.drift(found).norm().item()
        if not missing <= 100 * tol * (1 + found.norm().item()):
            raise ConvergenceError(
                f"no equilibrium was found: ‖T(z) − z‖/α = {missing:.3g}; with norms up to 1 there may be "
                "none, and below 1 there always is one",
                solution,
            )
        return found
