"""The monotone operator equilibrium z = prox(Wz + Ux + b) (Winston and Kolter 2020) and two splittings that
find it.

    W = (1 − m)I − AᵀA + B − Bᵀ,     hence I − W = mI + AᵀA + Bᵀ − B ⪰ mI for all A and B,

so that there is exactly one equilibrium for any norm of W. A and B are circular 3×3 convolutions, A =
g·V/‖V‖ and B = h·V'/‖V'‖ in the Frobenius norm of the kernel, with learned g and h. Everything is applied in
the Fourier domain, where I − W and the resolvent (I + α(I − W))⁻¹ are exact.

The maps carry a border of one pixel on which the state is held at zero (a constraint of the prox, as in the
authors' code): a 3×3 kernel then wraps around zeros only, and the circular convolution acts as a zero-padded
one.

Both cells have a rule for the step α, from m and L = ‖I − W‖ (a certified bound, computed per solve):

* forward-backward  z ← prox(z − α((I − W)z − Ux − b)) contracts with factor √(1 − 2αm + α²L²) for α < 2m/L²;
  the smallest, √(1 − m²/L²), is at **α = m/L²**. For α = 1 it is the plain iteration prox(Wz + Ux + b).
* Peaceman–Rachford  z = prox(u),  u ← (2V − I)(2z − u) + 2αV(Ux + b)  with the resolvent V contracts for
  every α: ‖2V − I‖² ≤ 1 − 4αm/(1 + αL)². Where I − W is symmetric the factor is the largest |1 − αλ|/(1 + αλ)
  over its eigenvalues in [m, L], at best (√L − √m)/(√L + √m), at **α = 1/√(mL)**. That is the rule for all: a
  skew part favours 1/L, which on trained networks takes twice the evaluations all the same.

Where ours differs: the authors multiply AᵀA by g itself, which training may turn negative (and the guarantee
with it), fix α by hand, and run the splittings without acceleration; ours go through the package's solvers.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Complex, Float
from torch import Tensor, nn

from geq.cells import Cell
from geq.certificates.well_posedness import MonotoneWellPosedness, WellPosedness, uncertified
from geq.errors import InputError, OptionError
from geq.model.circular_convolution import apply_symbol, identity_like, norm_upper_bound, symbol
from geq.operators.operator import Size

BORDER = 1


@dataclass(frozen=True)
class Splitting:
    """Terms of a splitting that depend on I − W only.

    Args:
        linear: symbol of its linear operator.
        scale: factor of Ux + b in its constant part.
        resolvent: symbol that Ux + b passes before; None for the identity.
    """

    linear: Complex[Tensor, "frequency n n"]
    scale: float
    resolvent: Complex[Tensor, "frequency n n"] | None = None


@dataclass(frozen=True)
class AffineContext:
    """Terms that a splitting adds to a prox: a linear operator, as a symbol, and a constant map."""

    linear: Complex[Tensor, "frequency n n"]
    constant: Float[Tensor, "batch n height width"]


def same(one: Tensor, other: Tensor) -> bool:
    return one.dtype == other.dtype and one.device == other.device and torch.equal(one, other)


def prox(v: Float[Tensor, "batch n height width"]) -> Float[Tensor, "batch n height width"]:
    """Projection onto the maps that are non-negative inside and zero on the border."""
    inner = v[..., BORDER:-BORDER, BORDER:-BORDER].relu()
    return F.pad(inner, (BORDER,) * 4)


class MonotoneCell(Cell):
    """Weights and certificate; a subclass is a splitting.

    Args:
        in_channels, channels: of the input x and of the state z.
        monotonicity: m, above 0.
        step: α; None for the rule of the splitting.
        stride: of U.
    """

    def __init__(
        self,
        in_channels: int,
        channels: int,
        monotonicity: float = 1.0,
        step: float | None = None,
        stride: int = 1,
    ) -> None:
        super().__init__()
        if not monotonicity > 0:
            raise OptionError(
                f"the monotonicity m must be above 0, or uniqueness is lost: got {monotonicity}; 1 is usual"
            )
        if step is not None and not step > 0:
            raise OptionError(f"step must be above 0, or None for the rule: got {step}")
        self.monotonicity, self.step = monotonicity, step
        # Zeros around the image and the border around the state: without a stride two pixels on each side.
        self.injection = nn.Conv2d(in_channels, channels, 3, stride, padding=1 + stride * BORDER)
        self.symmetric = nn.Parameter(torch.empty(channels, channels, 3, 3))
        self.skew = nn.Parameter(torch.empty(channels, channels, 3, 3))
        self.symmetric_gain = nn.Parameter(torch.ones(()))
        self.skew_gain = nn.Parameter(torch.ones(()))
        for kernel in (self.symmetric, self.skew):
            nn.init.normal_(kernel, std=1 / (3 * channels))  # of unit norm, so that V/‖V‖ is about V
        self._kept: tuple[Any, tuple[Tensor, ...], Splitting] | None = None

    def monotone_operator(self, height: int, width: int) -> Complex[Tensor, "frequency n n"]:
        """The symbol of I − W = mI + AᵀA + Bᵀ − B, in single precision at least (Fourier transforms)."""
        precise = torch.promote_types(self.skew.dtype, torch.float32)
        a, b = (
            symbol(gain.to(precise) * kernel.to(precise) / kernel.to(precise).norm(), height, width)
            for gain, kernel in ((self.symmetric_gain, self.symmetric), (self.skew_gain, self.skew))
        )
        return self.monotonicity * identity_like(a) + a.mH @ a + b.mH - b

    def inject(self, x: Float[Tensor, "batch channel height width"]) -> AffineContext:
        if x.dim() != 4 or x.shape[1] != self.injection.in_channels:
            wanted = self.injection.in_channels
            raise InputError(f"x must be (batch, {wanted}, height, width): got {tuple(x.shape)}")
        drive = self.injection(x)
        drive = drive.to(torch.promote_types(drive.dtype, torch.float32))
        splitting = self.splitting(drive.shape[2], drive.shape[3])
        if splitting.resolvent is not None:
            drive = apply_symbol(splitting.resolvent, drive)
        return AffineContext(splitting.linear, splitting.scale * drive)

    def splitting(self, height: int, width: int) -> Splitting:
        """The splitting of I − W; in evaluation without gradients kept until the weights change."""
        if self.training or torch.is_grad_enabled():
            self._kept = None
            return self.split(self.monotone_operator(height, width))
        weights = (self.symmetric, self.skew, self.symmetric_gain, self.skew_gain)
        # By value, because an edit of weight.data leaves no other trace.
        key, kept = (height, width, self.step, self.monotonicity), self._kept
        if kept is None or kept[0] != key or not all(map(same, kept[1], weights)):
            found = self.split(self.monotone_operator(height, width))
            kept = self._kept = (key, tuple(weight.detach().clone() for weight in weights), found)
        return kept[2]

    def step_size(self, lipschitz: float) -> float:
        """α, for ‖I − W‖ ≤ ``lipschitz``."""
        return self.step or self.rule(lipschitz)

    @abstractmethod
    def rule(self, lipschitz: float) -> float:
        """α where none is given."""

    def contraction_rate(self, certificate: WellPosedness) -> float | None:
        assert isinstance(certificate, MonotoneWellPosedness)
        if not certificate.unique:
            return None
        lipschitz = certificate.lipschitz
        square = self.rate_squared(certificate.monotonicity, lipschitz, self.step_size(lipschitz))
        return math.sqrt(square) if square < 1 else None

    @abstractmethod
    def rate_squared(self, monotonicity: float, lipschitz: float, step: float) -> float:
        """Return the square of a Lipschitz constant of the map, for m, ‖I − W‖ ≤ ``lipschitz`` and α."""

    @abstractmethod
    def split(self, operator: Complex[Tensor, "frequency n n"]) -> Splitting:
        """The parts of the map that ``operator`` = I − W determines."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": None}

    def initial_state(self, c: AffineContext) -> Tensor:
        return torch.zeros_like(c.constant)

    def read(self, state: Float[Tensor, "batch n height width"]) -> Float[Tensor, "batch n h w"]:
        """z inside the border, from the state that the splitting iterates."""
        return prox(state)[..., BORDER:-BORDER, BORDER:-BORDER]

    @torch.no_grad()
    def well_posedness(self, size: Size | None = None) -> MonotoneWellPosedness:
        """m and bounds of ‖I − W‖ and ‖W‖.

        Args:
            size: height and width of the state with its border. Without one, the bounds hold for all sizes:
                a 3×3 convolution has ‖K̂(ω)‖ ≤ Σ_d‖K_d‖_F ≤ 3‖K‖_F.
        """
        m = self.monotonicity
        reason = uncertified(
            self, "well_posedness", ("inject", "forward", "at", "split", "monotone_operator")
        )
        if reason:
            return MonotoneWellPosedness(size=size, reason=reason)
        if size is None:
            feedback = 9 * float(self.symmetric_gain) ** 2 + 6 * abs(float(self.skew_gain))
            return MonotoneWellPosedness(abs(1 - m) + feedback, monotonicity=m, lipschitz=m + feedback)
        operator = self.monotone_operator(*size)
        norms = [float(norm_upper_bound(o)) for o in (identity_like(operator) - operator, operator)]
        return MonotoneWellPosedness(norms[0], size=size, monotonicity=m, lipschitz=norms[1])

    def extra_repr(self) -> str:
        return f"monotonicity={self.monotonicity:g}, step={self.step or 'rule'}"


class ForwardBackwardCell(MonotoneCell):
    """z ← prox((I − α(I − W))z + α(Ux + b)); the state is z."""

    def split(self, operator: Complex[Tensor, "frequency n n"]) -> Splitting:
        step = self.step_size(float(norm_upper_bound(operator)))
        return Splitting(identity_like(operator) - step * operator, step)

    def rule(self, lipschitz: float) -> float:
        return self.monotonicity / lipschitz**2

    def rate_squared(self, monotonicity: float, lipschitz: float, step: float) -> float:
        return 1 - 2 * step * monotonicity + (step * lipschitz) ** 2

    def forward(
        self, z: Float[Tensor, "batch n height width"], c: AffineContext
    ) -> Float[Tensor, "batch n height width"]:
        return prox(apply_symbol(c.linear, z) + c.constant)


class PeacemanRachfordCell(MonotoneCell):
    """u ← (2V − I)(2 prox(u) − u) + 2αV(Ux + b), V = (I + α(I − W))⁻¹; the state is u, and z = prox(u).

    At its fixed point V(2z − u + α(Ux + b)) = z, that is u = z − α((I − W)z − Ux − b), and z = prox(u) is the
    stationary condition of forward-backward. z depends on α not at all, u does.
    """

    def split(self, operator: Complex[Tensor, "frequency n n"]) -> Splitting:
        step = self.step_size(float(norm_upper_bound(operator)))
        identity = identity_like(operator)
        resolvent = torch.linalg.inv(identity + step * operator)
        return Splitting(2 * resolvent - identity, 2 * step, resolvent)

    def rule(self, lipschitz: float) -> float:
        return (self.monotonicity * lipschitz) ** -0.5

    def rate_squared(self, monotonicity: float, lipschitz: float, step: float) -> float:
        return 1 - 4 * step * monotonicity / (1 + step * lipschitz) ** 2

    def forward(
        self, u: Float[Tensor, "batch n height width"], c: AffineContext
    ) -> Float[Tensor, "batch n height width"]:
        return apply_symbol(c.linear, 2 * prox(u) - u) + c.constant
