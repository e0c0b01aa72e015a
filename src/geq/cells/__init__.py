"""The stationary map of a problem."""

from geq.cells.base import Cell, JointMap, StationaryMap
from geq.cells.closed_form import ClosedLinearisation, FeatureMap
from geq.cells.deep import BoundLayer, DeepCell, DeepContext, UnitLayer
from geq.cells.form import AffineChange, BlockForm, ChangedForm, FeatureForm
from geq.cells.proximal import ClosedFormCell, DerivedCell, ProximalCell, ProximalMap

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
