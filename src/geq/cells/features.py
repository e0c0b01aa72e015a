"""Equations in the features u = Wz, and derivatives of a problem in closed form.

With a kernel on features the map is T = A∘B, B(z) = Wz and A(u) = prox(Wᵀm(u)), m = ∂S/∂u. The fixed points
of B∘A are those of T seen through W, and z = A(u) brings them back. Features have fewer channels than states,
so the solver's history, its inner products and its memory traffic shrink, and the convolutions stay the same.

The relative residual of u bounds that of z = A(u): with r = B(A(u)) − u, T(z) − z = A(u + r) − A(u), so
‖T(z) − z‖ ≤ ‖W‖‖r‖ (m and the prox are 1-Lipschitz), and ‖u + r‖ = ‖Wz‖ ≤ ‖W‖‖z‖. Together
‖T(z) − z‖/‖z‖ ≤ ‖W‖²·‖r‖/‖u + r‖. A bound on ‖W‖ is therefore what allows the smaller equation; above 1 it
tightens the tolerance by its square.

The linear kernel, S = ⟨v, z⟩ + ½‖Wz‖², fits the same pattern with A(u) = prox(v + Wᵀu).
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from geq.cells.base import Equation, State
from geq.cells.linearisation import Linearisation
from geq.kernels.base import BoundKernel
from geq.kernels.gaussian import BoundGaussian
from geq.penalties.base import Penalty


def attraction_at(c: BoundKernel, u: Tensor) -> Tensor:
    """Return ∇S(z), which depends on z through u = Wz only."""
    if isinstance(c, BoundGaussian):
        return c.W.adjoint(c.grad(u))
    return c.v + c.W.adjoint(u)


class FeatureEquation(Equation):
    """u = W·A(u).

    Args:
        penalty: The penalty, whose prox is applied in A.
        c: The kernel and W for one input.
        bound: A bound on ‖W‖.
        z0: Where a solve starts, as a state; None for z = 0.
    """

    def __init__(self, penalty: Penalty, c: BoundKernel, bound: float, z0: State | None) -> None:
        self.c, self.penalty = c, penalty
        self.tolerance_factor = 1 / max(1.0, bound**2)
        self.given = z0
        self.starts_at_zero = z0 is None
        self._last: tuple[Tensor, Tensor] | None = None
        self._image: tuple[Tensor, Tensor] | None = None

    def start(self) -> Tensor:
        if self.given is not None:
            assert isinstance(self.given, Tensor)
            return self.c.W(self.given)
        v = self.c.v
        if isinstance(self.c, BoundGaussian):
            return torch.zeros_like(v)
        operator = self.c.W.operator
        shape = list(v.shape)
        shape[operator.channel_axis] = operator.out_channels
        return operator.arranged(v.new_zeros(shape))

    def state(self, u: Any) -> Tensor:
        # The last one is kept, because a solve ends by asking for it. The same memory is the same u: it is
        # held here, so that nothing else can have taken its place.
        if self._last is not None and self._last[0].data_ptr() == u.data_ptr() and u.numel():
            return self._last[1]
        self._last = self._image = None  # before the next ones are made, so that both never exist at once
        z = self.penalty.prox_(attraction_at(self.c, u))
        self._last = (u, z)
        return z

    def image(self, u: Any) -> Tensor:
        return self.state(u)

    def __call__(self, u: Any) -> Tensor:
        z = self.state(u)
        image = self.c.W(z)
        self._image = (z, image)
        return image

    def known(self, z: Tensor) -> Tensor | None:
        """Return Wz, if the last evaluation found it on its way."""
        return self._image[1] if self._image is not None and self._image[0] is z else None


class ClosedLinearisation(Linearisation):
    """T at z*, with the Hessian of S and the gradients in every input in closed form.

    Nothing is evaluated before backward asks for it, and no graph is kept: of a solve only z* and u = Wz*
    stay in memory. The transposed Jacobian is WᵀMWD, with D = prox' and M = ∂m/∂u, so that adjoint systems
    are solved in the space of the features as well.

    Args:
        penalty: The penalty.
        c: The kernel and W for one input.
        z: z*.
        features: Wz*.
        bound: A bound on ‖W‖; infinite where none is known.
    """

    symmetric = True

    def __init__(self, penalty: Penalty, c: BoundKernel, z: Tensor, features: Tensor, bound: float) -> None:
        self.c, self.features, self.penalty = c, features, penalty
        self.kernel = c if isinstance(c, BoundGaussian) else None
        self.inputs = (c.W.weight, *(self.kernel.inputs if self.kernel is not None else (c.v,)))
        self.gram_norm = bound**2 if math.isfinite(bound) else math.inf
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
        """Return WDu."""
        return self.c.W(self.slope * u)

    def core(self, q: Tensor) -> Tensor:
        """Return M·q, M = ∂m/∂u at Wz*: symmetric, as m is a gradient; the identity for a linear kernel."""
        return q.clone() if self.kernel is None else self.kernel.product(self.features, q)

    def extend(self, p: Tensor) -> Tensor:
        """Return Wᵀp."""
        return self.c.W.adjoint(p)

    def gram(self, p: Tensor) -> Tensor:
        """Return WDWᵀp."""
        return self.c.W(self.c.W.adjoint(p).mul_(self.slope))

    def right_hand_side(self, g: Tensor, size: Tensor) -> tuple[Tensor, Tensor]:
        """Return WDg/size, and ‖Dg/size‖² of every sample."""
        masked = (self.slope * g).div_(size)
        return self.c.W(masked), torch.linalg.vector_norm(masked, dim=tuple(range(1, g.dim()))).square()

    def pull_back(self, u: Tensor, restricted: Tensor | None) -> tuple[Tensor, ...]:
        W = self.c.W
        w = u.mul_(self.slope)
        self._slope = None  # as large as a state; found again should there be a second backward
        y = W(w) if restricted is None else restricted
        if self.kernel is None:
            # ⟨w, v + WᵀWz⟩ = ⟨w, v⟩ + ⟨Ww, Wz⟩
            return W.weight_gradient(w, self.features).add_(W.weight_gradient(self.z, y)), w
        # ⟨w, Wᵀm(Wz)⟩ = ⟨Ww, m⟩, and m depends on Wz as it does on −v
        m, gradients = self.kernel.pull_back(self.features, y)
        in_weight = W.weight_gradient(w, m)
        del m, w, u  # the next line holds the most memory of a training step
        return in_weight.sub_(W.weight_gradient(self.z, gradients[0])), *gradients
