"""Cells: which equation a state must satisfy, for problems with and without an energy."""

from geq.cells.base import Cell, CellEquation, Equation, FunctionCell
from geq.cells.deep import BoundLayer, DeepCell, DeepContext, UnitLayer
from geq.cells.energy import EnergyEquation, EnergyProblem
from geq.cells.features import ClosedLinearisation, FeatureEquation
from geq.cells.linearisation import Linearisation

__all__ = [
    "BoundLayer",
    "Cell",
    "CellEquation",
    "ClosedLinearisation",
    "DeepCell",
    "DeepContext",
    "EnergyEquation",
    "EnergyProblem",
    "Equation",
    "FeatureEquation",
    "FunctionCell",
    "Linearisation",
    "UnitLayer",
]
