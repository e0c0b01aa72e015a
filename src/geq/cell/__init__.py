"""The stationary map of a problem."""

from geq.cell.base import Cell, JointMap, StationaryMap
from geq.cell.closed_form import ClosedLinearisation, FeatureMap
from geq.cell.deep import BoundLayer, DeepCell, DeepContext, UnitLayer
from geq.cell.form import AffineChange, BlockForm, ChangedForm, FeatureForm
from geq.cell.proximal import ClosedFormCell, DerivedCell, ProximalCell, ProximalMap

__all__ = [
    "AffineChange",
    "BlockForm",
    "BoundLayer",
    "Cell",
    "ChangedForm",
    "ClosedFormCell",
    "ClosedLinearisation",
    "DeepCell",
    "DeepContext",
    "DerivedCell",
    "FeatureForm",
    "FeatureMap",
    "JointMap",
    "ProximalCell",
    "ProximalMap",
    "StationaryMap",
    "UnitLayer",
]
