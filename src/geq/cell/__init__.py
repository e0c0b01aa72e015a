"""The stationary map of a problem."""

from geq.cell.base import Cell, StationaryMap
from geq.cell.proximal import ClosedFormCell, DerivedCell, ProximalCell, ProximalMap

__all__ = ["Cell", "ClosedFormCell", "DerivedCell", "ProximalCell", "ProximalMap", "StationaryMap"]
