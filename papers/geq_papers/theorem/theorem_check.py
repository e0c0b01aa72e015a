"""Result of an executable theorem: the comparison, and the difference of both sides."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Comparison:
    """Two sides of one claim, and how far apart they were found (0 where an inequality holds)."""

    what: str
    error: float
    tolerance: float

    @property
    def holds(self) -> bool:
        return self.error <= self.tolerance  # false for NaN


@dataclass(frozen=True)
class TheoremCheck:
    """One statement of the paper, tried on one instance.

    >>> check = TheoremCheck("theorem 0", "1 = 1", (Comparison("1 against 1", 0.0, 1e-12),))
    >>> check.holds, check.verdict
    (True, 'theorem 0 holds: largest error 0 of 1 comparison')
    """

    statement: str
    claim: str
    comparisons: tuple[Comparison, ...]

    @property
    def holds(self) -> bool:
        return all(comparison.holds for comparison in self.comparisons)

    @property
    def largest_error(self) -> float:
        return max(comparison.error for comparison in self.comparisons)

    @property
    def verdict(self) -> str:
        failed = [c for c in self.comparisons if not c.holds]
        if failed:
            parts = (f"{c.what}: {c.error:.2g} > {c.tolerance:.2g}" for c in failed)
            return f"{self.statement} fails: {'; '.join(parts)}"
        count = len(self.comparisons)
        return (
            f"{self.statement} holds: largest error {self.largest_error:.2g} of {count} "
            f"comparison{'s' if count > 1 else ''}"
        )
