"""Proofs about a cell: uniqueness, contraction, step sizes, and the operator norms that they rest on."""

from geq.certificates.enclosure import Enclosure
from geq.certificates.well_posedness import MonotoneWellPosedness, WellPosedness

__all__ = ["Enclosure", "MonotoneWellPosedness", "WellPosedness"]
