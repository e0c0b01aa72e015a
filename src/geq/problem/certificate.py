"""What can be proved about a hidden problem from the norm of its feedback alone."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class WellPosedness:
    """Verdicts that follow from bounds on the eigenvalues of ∇²S.

    With ∇²S in [lower, upper] the smooth part ½‖z‖² − S has curvature in [1 − upper, 1 − lower]. Hence

    * plain iteration contracts with factor ``rate = max(|lower|, |upper|)`` if that is below 1 (a prox is
      1-Lipschitz);
    * the objective is strongly convex, and the equilibrium unique, if ``upper < 1``; then a proximal step
      with a step size below ``2/(1 − lower)`` finds it.

    ``None`` means that nothing is known for this map, not that it is ill posed.
    """

    feedback_norm: float | None = None
    lower: float | None = None
    upper: float | None = None

    @property
    def rate(self) -> float | None:
        """Upper bound of the Lipschitz constant of the map."""
        return None if self.lower is None or self.upper is None else max(abs(self.lower), abs(self.upper))

    @property
    def contraction(self) -> bool | None:
        return None if self.rate is None else self.rate < 1

    @property
    def unique(self) -> bool | None:
        return None if self.upper is None else self.upper < 1

    @property
    def largest_step(self) -> float | None:
        """Proximal steps below this size converge where the equilibrium is unique."""
        return None if self.lower is None or not self.unique else 2 / (1 - self.lower)

    def __str__(self) -> str:
        if self.feedback_norm is None:
            return "nothing is known about existence or uniqueness for this map"
        if self.rate is None:
            return f"‖W‖ ≤ {self.feedback_norm:.3f}; no bound is known for this similarity"
        unique = "one equilibrium" if self.unique else "uniqueness not certified"
        contracts = f"contracts by {self.rate:.3f}" if self.contraction else "plain iteration not certified"
        return f"feedback norm ≤ {self.feedback_norm:.3f}: {unique}, {contracts}"


@dataclass(frozen=True)
class MonotoneWellPosedness(WellPosedness):
    """What follows for z = prox(Wz + c) from I − W ⪰ mI in the sense of its symmetric part (Winston and
    Kolter 2020, theorem 1): exactly one equilibrium if m > 0, whatever the norm of W.

    Forward-backward steps α below ``largest_step`` = 2m/‖I − W‖² find it: with m the strong monotonicity and
    L = ‖I − W‖ a step contracts with factor √(1 − 2αm + α²L²).

    Args:
        feedback_norm: bound of ‖W‖; below 1 the plain iteration contracts as well.
        monotonicity: m.
        lipschitz: bound of ‖I − W‖.
    """

    monotonicity: float = 0.0
    lipschitz: float = 0.0

    @property
    def rate(self) -> float | None:
        return self.feedback_norm

    @property
    def unique(self) -> bool | None:
        return self.monotonicity > 0

    @property
    def largest_step(self) -> float | None:
        return 2 * self.monotonicity / self.lipschitz**2 if self.unique else None

    def __str__(self) -> str:
        unique = "one equilibrium" if self.unique else "uniqueness not certified"
        return (
            f"I − W is monotone with m = {self.monotonicity:.3f}: {unique}; "
            f"‖I − W‖ ≤ {self.lipschitz:.3f}, ‖W‖ ≤ {self.feedback_norm:.3f}"
        )
