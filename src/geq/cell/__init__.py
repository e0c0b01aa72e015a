"""The stationary map of a problem."""

from geq.cell.base import Cell, StationaryMap
from geq.cell.closed_form import ClosedLinearisation, FeatureMap
from geq.cell.proximal import ClosedFormCell, DerivedCell, ProximalCell, ProximalMap

__all__ = [
    "Cell",
    "ClosedFormCell",
    "ClosedLinearisation",
    "DerivedCell",
    "FeatureMap",
    "ProximalCell",
    "ProximalMap",
    "StationaryMap",
]
