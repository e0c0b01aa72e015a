"""What the closed-form cells know beyond their value: a smaller equation, and derivatives without a graph.

With a kernel on features the map is T = A∘B, B(z) = Wz and A(u) = prox(Wᵀm(u)), m = ∂S/∂u. The fixed points
of B∘A are those of T seen through W, and z = A(u) brings them back. Features have fewer channels than states,
so the solver's history, its inner products and its memory traffic shrink, and the convolutions stay the same.

The relative residual of u bounds that of z = A(u): with r = B(A(u)) − u, T(z) − z = A(u + r) − A(u), so
‖T(z) − z‖ ≤ ‖W‖‖r‖ (m and the prox are 1-Lipschitz), and ‖u + r‖ = ‖Wz‖ ≤ ‖W‖‖z‖. Together
‖T(z) − z‖/‖z‖ ≤ ‖W‖²·‖r‖/‖u + r‖. A norm rule that bounds ‖W‖ is therefore what allows the smaller equation;
for a bound above 1 its tolerance is tightened by the square.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from geq.cells.energy import Context, EnergyProblem
from geq.constraints.spectral import SpectralBound
from geq.kernels.base import BoundRadial, LinearKernel
from geq.penalties.base import Penalty


def has_closed_derivatives(problem: EnergyProblem, c: object) -> bool:
    """Whether the two classes below know this problem: its own score, and a kernel they have formulas for."""
    return (
        type(problem).score is EnergyProblem.score
        and type(problem).attraction is EnergyProblem.attraction
        and isinstance(c, Context)
        and c.W.bias is None  # the formulas are those of a linear W
        and (isinstance(c.similarity, BoundRadial) or type(problem.similarity) is LinearKernel)
    )


def attraction_at(c: Context, u: Tensor) -> Tensor:
    """∇S(z) of such a problem, which depends on z through u = Wz only."""
    if isinstance(c.similarity, BoundRadial):
        return c.W.adjoint(c.similarity.grad(u))
    return c.injection + c.W.adjoint(u)


class FeatureMap:
    """u ↦ W·A(u), the equation in the features, for ‖W‖ ≤ ``bound``."""

    def __init__(self, penalty: Penalty, c: Context, bound: float) -> None:
        self.c, self.penalty = c, penalty
        self.tolerance_factor = 1 / max(1.0, bound**2)
        self._last: tuple[Tensor, Tensor] | None = None
        self._image: tuple[Tensor, Tensor] | None = None

    @classmethod
    def of(cls, problem: EnergyProblem, c: object) -> FeatureMap | None:
        """None where the equation in the features is not known, larger, or does not bound the state's."""
        W = problem.W
        starts_at_zero = type(problem).initial_state is EnergyProblem.initial_state
        if not (has_closed_derivatives(problem, c) and starts_at_zero and isinstance(W.norm, SpectralBound)):
            return None
        assert isinstance(c, Context)
        return cls(problem.penalty, c, W.norm.bound) if W.out_channels <= W.in_channels else None

    def start(self, z: Tensor | None) -> Tensor:
        """The features of a state; without one, of z = 0."""
        if z is not None:
            return self.c.W(z)
        v = self.c.injection
        if isinstance(self.c.similarity, BoundRadial):
            return torch.zeros_like(v)
        shape = list(v.shape)
        shape[self.c.W.operator.channel_axis] = self.c.W.operator.out_channels
        return self.c.W.operator.arranged(v.new_zeros(shape))

    def state(self, u: Tensor) -> Tensor:
        """z = A(u); the last one is kept, because a solve ends by asking for it."""
        # The same memory is the same u: it is held here, so that nothing else can have taken its place.
        if self._last is not None and self._last[0].data_ptr() == u.data_ptr() and u.numel():
            return self._last[1]
        self._last = self._image = None  # before the next ones are made, so that both never exist at once
        z = self.penalty.prox_(attraction_at(self.c, u))
        self._last = (u, z)
        return z

    def __call__(self, u: Tensor) -> Tensor:
        z = self.state(u)
        image = self.c.W(z)
        self._image = (z, image)
        return image

    def known(self, z: Tensor) -> Tensor | None:
        """Wz, if the last evaluation found it on its way."""
        return self._image[1] if self._image is not None and self._image[0] is z else None


class ClosedLinearisation:
    """T at z*, with the Hessian of S and the gradients in every input in closed form.

    Nothing is evaluated before backward asks for it, and no graph is kept: of a solve only z* and u = Wz*
    stay in memory. The transposed Jacobian is WᵀMWD, with D = prox' and M = ∂m/∂u, so that adjoint systems
    are solved in the space of the features as well.
    """

    symmetric = True

    def __init__(self, problem: EnergyProblem, c: Context, z: Tensor, features: Tensor) -> None:
        self.c, self.features, self.penalty = c, features, problem.penalty
        self.kernel = c.similarity if isinstance(c.similarity, BoundRadial) else None
        self.inputs = (c.W.weight, *(self.kernel.inputs if self.kernel is not None else (c.injection,)))
        rule = c.W.operator.norm
        self.gram_norm = rule.bound**2 if isinstance(rule, SpectralBound) else math.inf
        self._z, self._version = z.detach(), z._version
        self._slope: Tensor | None = None

    @property
    def z(self) -> Tensor:
        """z*; where the layer's output, which has the same memory, was changed in place since, T(z*)."""
        if self._z._version == self._version:
            return self._z
        return self.penalty.prox_(attraction_at(self.c, self.features))

    @property
    def slope(self) -> Tensor:
        """D, the diagonal of prox', at ∇S(z*).

        For a projection it could be read off z*, one convolution cheaper; but a z* that is off by the
        tolerance then has entries on the wrong side of zero, and the gradient errs by the root of their
        fraction: 1 % instead of 0.1 % at a tolerance of 1e-3.
        """
        if self._slope is None:
            self._slope = self.penalty.slope_(attraction_at(self.c, self.features))
        return self._slope

    def restrict(self, u: Tensor) -> Tensor:
        """WDu."""
        return self.c.W(self.slope * u)

    def core(self, q: Tensor) -> Tensor:
        """M·q, M = ∂m/∂u at Wz*: symmetric, since m is a gradient; the identity for the linear kernel."""
        return q.clone() if self.kernel is None else self.kernel.product(self.features, q)

    def extend(self, p: Tensor) -> Tensor:
        """Wᵀp."""
        return self.c.W.adjoint(p)

    def gram(self, p: Tensor) -> Tensor:
        """WDWᵀp."""
        return self.c.W(self.c.W.adjoint(p).mul_(self.slope))

    def right_hand_side(self, g: Tensor, size: Tensor) -> tuple[Tensor, Tensor]:
        """WDg/size, and ‖Dg/size‖² of every sample."""
        masked = (self.slope * g).div_(size)
        return self.c.W(masked), torch.linalg.vector_norm(masked, dim=tuple(range(1, g.dim()))).square()

    def pull_back(self, u: Tensor, restricted: Tensor | None) -> tuple[Tensor, ...]:
        """∂T/∂inputᵀ·u for every input."""
        W = self.c.W
        w = u.mul_(self.slope)
        self._slope = None  # as large as a state; found again should there be a second backward
        y = W(w) if restricted is None else restricted
        if self.kernel is None:
            # ⟨w, v + WᵀWz⟩ = ⟨w, v⟩ + ⟨Ww, Wz⟩
            return W.weight_gradient(w, self.features).add_(W.weight_gradient(self.z, y)), w
        # ⟨w, Wᵀm(Wz)⟩ = ⟨Ww, m⟩, and m depends on Wz as it does on −v
        m, gradients = self.kernel.pull_back(self.features, y)
        return W.weight_gradient(w, m).sub_(W.weight_gradient(self.z, gradients[0])), *gradients
