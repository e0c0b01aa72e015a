"""How the output of a solve is differentiated."""

from geq.gradient.base import Gradient
from geq.gradient.implicit import Implicit
from geq.gradient.phantom import JacobianFree, Phantom
from geq.gradient.sam import SAM
from geq.gradient.unrolled import Unrolled

__all__ = ["SAM", "Gradient", "Implicit", "JacobianFree", "Phantom", "Unrolled"]
