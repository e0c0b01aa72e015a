"""Fixed points z = f(z); knows nothing of problems."""

from geq.solver.anderson import Anderson
from geq.solver.base import Solver
from geq.solver.broyden import Broyden
from geq.solver.fixed_point import fixed_point
from geq.solver.picard import Picard
from geq.solver.proximal import FISTA, ProximalGradient
from geq.solver.solution import Solution, Status

__all__ = [
    "FISTA",
    "Anderson",
    "Broyden",
    "Picard",
    "ProximalGradient",
    "Solution",
    "Solver",
    "Status",
    "fixed_point",
]
