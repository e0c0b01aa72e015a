"""The plain iteration."""

from __future__ import annotations

from dataclasses import dataclass

from geq.solvers.base import Rows, Solver, check_range


@dataclass(frozen=True)
class Picard(Solver[None]):
    """z ← (1 − damping)·z + damping·f(z).

    Converges linearly with the rate of the contraction. Damping below 1 also makes non-expansive maps and
    maps whose Jacobian has eigenvalues below −1 converge: an eigenvalue λ becomes 1 − damping·(1 − λ).
    """

    damping: float = 1.0

    def __post_init__(self) -> None:
        check_range(self, "damping", self.damping, 0.0, 1.0)

    def init(self, z: Rows) -> None:
        return None

    def step(self, z: Rows, fz: Rows, residual: Rows, memory: None) -> tuple[Rows, None]:
        return (fz if self.damping == 1 else z.add(residual, alpha=self.damping)), None
