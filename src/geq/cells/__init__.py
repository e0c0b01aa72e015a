"""Cells: which equation a state must satisfy, for problems with and without an energy."""

from geq.cells.base import Cell, CellEquation, Equation
from geq.cells.deep import BoundLayer, DeepCell, DeepContext, UnitLayer
from geq.cells.energy import EnergyEquation, EnergyProblem
from geq.cells.features import ClosedLinearisation, FeatureEquation
from geq.cells.form import AffineChange, BlockForm, ChangedForm, FeatureForm
from geq.cells.linearisation import Linearisation

__all__ = [
    "AffineChange",
    "BlockForm",
    "BoundLayer",
    "Cell",
    "CellEquation",
    "ChangedForm",
    "ClosedLinearisation",
    "DeepCell",
    "DeepContext",
    "EnergyEquation",
    "EnergyProblem",
    "Equation",
    "FeatureEquation",
    "FeatureForm",
    "Linearisation",
    "UnitLayer",
]
