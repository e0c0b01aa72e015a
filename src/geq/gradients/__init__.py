"""How the output of a solve is differentiated."""

from geq.gradients.averaging import SequentialAveraging
from geq.gradients.base import Gradient
from geq.gradients.implicit import Implicit
from geq.gradients.phantom import JacobianFree, Phantom
from geq.gradients.unrolled import Unrolled

__all__ = ["SAM", "Gradient", "Implicit", "JacobianFree", "Phantom", "Unrolled"]
