"""What can be proved about a hidden problem from the norm of its feedback alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class WellPosedness:
    """Verdicts that follow from bounds on the eigenvalues of ∇²S.

    With ∇²S in [lower, upper] the smooth part ½‖z‖² − S has curvature in [1 − upper, 1 − lower]. Hence

    * plain iteration contracts with factor ``rate = max(|lower|, |upper|)`` if that is below 1 (a prox is
      1-Lipschitz);
    * the objective is strongly convex, and the equilibrium unique, if ``upper < 1``; then a proximal step
      with a step size below ``2/(1 − lower)`` finds it.

    ``None`` means that nothing is proved for this map, not that it is ill posed; ``reason`` then says which
    assumption could not be checked.

    The certificate assumes that the layer is the map of this package's classes with the weights in use, on
    maps of ``size`` where W is a convolution, evaluated in exact arithmetic.
    """

    feedback_norm: float | None = None
    lower: float | None = None
    upper: float | None = None
    size: tuple[int, int] | None = None
    reason: str = ""

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

    @property
    def place(self) -> str:
        return "" if self.size is None else f" on {self.size[0]}×{self.size[1]} maps"

    def __str__(self) -> str:
        if self.feedback_norm is None:
            return f"nothing is proved: {self.reason or 'this map has no certificate'}"
        if self.rate is None:
            reason = self.reason or "no bound is known for this kernel"
            return f"‖W‖ ≤ {self.feedback_norm:.3f}{self.place}; nothing is proved: {reason}"
        unique = "one equilibrium" if self.unique else "uniqueness not certified"
        contracts = f"contracts by {self.rate:.3f}" if self.contraction else "plain iteration not certified"
        return f"feedback norm ≤ {self.feedback_norm:.3f}{self.place}: {unique}, {contracts}"


def uncertified(owner: object, certificate: str, methods: Iterable[str]) -> str:
    """Why the method ``certificate`` of an object does not speak for it, or "".

    A certificate is about what its class computes. A class from outside of this package that replaces one of
    the ``methods`` computes something else, and must replace the certificate too, or loses it.

    >>> from geq.kernels import LinearKernel
    >>> kernel = LinearKernel()
    >>> uncertified(kernel, "curvature", ("value", "grad"))
    ''
    >>> kernel.value = lambda u, v: 2 * (u * v).sum(1)
    >>> uncertified(kernel, "curvature", ("value", "grad"))
    'LinearKernel replaces value and gives no curvature of its own'
    """
    names = tuple(methods)
    kinds = [(kind, vars(kind), not kind.__module__.startswith("geq.")) for kind in type(owner).__mro__]
    # What an instance was given replaces what its class has.
    for kind, given, outside in [(type(owner), vars(owner), True), *kinds]:
        if certificate in given:
            return ""
        replaced = [name for name in names if outside and name in given]
        if replaced:
            return f"{kind.__name__} replaces {replaced[0]} and gives no {certificate} of its own"
    return ""


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
        return None if self.reason else self.monotonicity > 0

    @property
    def largest_step(self) -> float | None:
        return 2 * self.monotonicity / self.lipschitz**2 if self.unique else None

    def __str__(self) -> str:
        if self.reason:
            return f"nothing is proved: {self.reason}"
        unique = "one equilibrium" if self.unique else "uniqueness not certified"
        return (
            f"I − W is monotone with m = {self.monotonicity:.3f}{self.place}: {unique}; "
            f"‖I − W‖ ≤ {self.lipschitz:.3f}, ‖W‖ ≤ {self.feedback_norm:.3f}"
        )
