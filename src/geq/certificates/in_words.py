"""What certificates prove of a whole network, in plain sentences."""

from __future__ import annotations

from collections.abc import Iterable

from geq.certificates.well_posedness import WellPosedness


def proved_unique(certificates: Iterable[WellPosedness]) -> bool:
    """Whether every equilibrium of a network is proved to be the only one."""
    return all(certificate.unique is True for certificate in certificates)


def existence(certificates: Iterable[WellPosedness]) -> str:
    """Say how many equilibria there are for an image.

    >>> existence([WellPosedness(lower=-0.5, upper=0.5)])
    'For every image there is exactly one equilibrium, so it does not matter where one starts.'
    """
    known = list(certificates)
    if proved_unique(known):
        return "For every image there is exactly one equilibrium, so it does not matter where one starts."
    if all(certificate.unique is None for certificate in known):
        return "For this kind of network nothing is known about how many equilibria there are."
    return "The weights are too large for a proof that there is only one equilibrium; there may still be."


def speed(rates: Iterable[float | None]) -> str:
    """Say how fast plain repetition finds an equilibrium, by the factors that its errors shrink by.

    >>> speed([0.5, 0.8])
    'Each plain repetition leaves at most 80 % of the error.'
    """
    found = list(rates)
    known = [rate for rate in found if rate is not None]
    if len(known) < len(found):
        return "How fast plain repetition gets there, or whether it does, is not proved."
    return f"Each plain repetition leaves at most {100 * max(known):.0f} % of the error."
