"""Fixed points z = f(z); knows nothing of problems."""

from geq.solvers.base import Anderson, Picard, Solution, Solver, Status
from geq.solvers.broyden import Broyden
from geq.solvers.fixed_point import fixed_point
from geq.solvers.proximal import FISTA, ProximalGradient

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
