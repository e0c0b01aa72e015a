"""Gradients: how the solution of an equilibrium is differentiated."""

from geq.gradients.base import Gradient
from geq.gradients.implicit import Implicit
from geq.gradients.phantom import JacobianFree, Phantom
from geq.gradients.reversible import Reversible
from geq.gradients.unrolled import SequentialAveraging, Unrolled

__all__ = ["Gradient", "Implicit", "JacobianFree", "Phantom", "Reversible", "SequentialAveraging", "Unrolled"]
