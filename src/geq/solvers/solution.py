"""What every solve returns."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from jaxtyping import Bool, Float, Int64
from torch import Tensor

from geq.cells.base import State


class Status(enum.Enum):
    """How a solve ended; the value says it to a person, with what to try."""

    CONVERGED = "every sample reached the tolerance"
    MAX_STEPS = (
        "the tolerance was not reached within max_steps evaluations; increase max_steps or tol, "
        "use Anderson, damp the iteration, or bound the norm of the weights"
    )
    DIVERGED = (
        "the iteration became infinite, NaN or blew up; damp it (Picard(damping=0.5), Anderson(mixing=0.5)), "
        "bound the norm of the weights, or check the map for NaN"
    )


@dataclass(frozen=True)
class Solution:
    """The fixed points of a batch, and how well each is known.

    Attributes:
        value: The state with the lowest residual seen, per sample: the point z at which ``residual`` was
            measured (not its image f(z)). Samples that converged keep the value at which they first did.
        residual: (batch,) relative residual ‖f(z) − z‖ / (‖f(z)‖ + abs_tol/tol), at most ``tol`` exactly
            where ``converged``; infinity if no evaluation was finite. At least single precision.
        converged: (batch,) which samples reached the tolerance.
        steps: (batch,) evaluations of the map until the sample converged or diverged, or all of them.
        status: The worst over the samples: diverged, then out of steps, then converged.
        trace: (evaluations, batch) residuals after each evaluation if asked for; a stopped sample keeps its
            last.
    """

    value: State
    residual: Float[Tensor, " batch"]
    converged: Bool[Tensor, " batch"]
    steps: Int64[Tensor, " batch"]
    status: Status
    trace: Float[Tensor, "evaluations batch"] | None = None
