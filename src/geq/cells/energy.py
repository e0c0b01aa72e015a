"""Energy problems: cells that come from something minimised."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from geq.cells.base import Cell, CellEquation, Equation
from geq.cells.features import ClosedLinearisation, FeatureEquation
from geq.cells.linearisation import Linearisation, ProximalLinearisation
from geq.certificates.enclosure import QUICK, Enclosure, convolution_enclosure
from geq.certificates.patch_root import PatchRoot
from geq.certificates.well_posedness import WellPosedness, uncertified
from geq.errors import InputError, OptionError, check_kind
from geq.kernels.base import BoundKernel, Kernel, derivative
from geq.kernels.gaussian import BoundGaussian, PatchGaussianKernel
from geq.kernels.inner_product import LinearKernel
from geq.operators.operator import Convolution, Operator, Size, channels_last, working_dtype
from geq.penalties.base import NonNegative, Penalty, per_sample


def check_input(x: Tensor, expected: torch.dtype) -> None:
    """Refuse an input that is not in the precision of the weights, or not finite."""
    if x.dtype != expected:
        fix = f"x.to({expected})"
        if x.is_floating_point():
            fix = f"layer.to({x.dtype}) or {fix}, or run under torch.autocast"
        raise InputError(
            f"x must have the precision of the weights, {expected}: got {x.dtype}; convert with {fix}"
        )
    if not all_finite(x):
        raise InputError(
            "x must be finite: got NaN or infinity; check the data and the layers before this one"
        )


def all_finite(values: Tensor) -> bool:
    """Return whether all values are finite, by a sum first; an overflow is looked at more closely.

    Tensors of the meta device have no numbers to look at.
    """
    return values.is_meta or bool(torch.isfinite(values.sum())) or bool(torch.isfinite(values).all())


def injected(U: nn.Module, x: Tensor) -> Tensor:
    """Return v = Ux + b in the precision of the solve; refused where that of the weights cannot hold it.

    Where a constraint takes −∞ for any negative number, the solve would converge to the answer of another x.
    """
    v: Tensor = U(x)
    if not all_finite(v):
        raise InputError(
            f"Ux + b must be finite: got NaN or infinity from x of up to {float(x.abs().max()):.1e} in "
            f"{v.dtype}; scale the input down, check the weights, or use float32 or torch.autocast, which "
            "have room for more"
        )
    return v.to(working_dtype(v.dtype))


class EnergyProblem(Cell):
    """G(z; x) = 1ᵀf(z) + ½‖z‖² − S(z; x), whose stationary condition z = prox_f(∇S(z; x)) is the layer.

    Args:
        kernel: S; see :mod:`geq.kernels.base` for what u and v are.
        W: Feedback operator, from the state to the features.
        U: Input operator, from x to the features (kernels on features) or to the state (linear, polynomial,
            sigmoid); any module, such as a convolution followed by a norm.
        penalty: f, by default the indicator of z ≥ 0, whose prox is ReLU.

    For a custom problem, override ``inject``, ``score`` and ``initial_state``: the rest is derived.

    >>> from geq.kernels import GaussianKernel
    >>> from geq.operators import Dense
    >>> problem = EnergyProblem(GaussianKernel(gamma=0.5), W=Dense(8, 4), U=Dense(3, 4, bias=True))
    >>> c = problem.inject(torch.ones(2, 3))
    >>> problem.energy(problem.initial_state(c), c).shape
    torch.Size([2])
    """

    def __init__(self, kernel: Kernel, W: Operator, U: nn.Module, penalty: Penalty | None = None) -> None:
        super().__init__()
        penalty = NonNegative() if penalty is None else penalty
        check_kind("kernel", kernel, Kernel, "geq.kernels.GaussianKernel()")
        check_kind("W", W, Operator, "geq.operators.Dense(8, 4)")
        check_kind("U", U, nn.Module, "geq.operators.Dense(3, 4)")
        check_kind("penalty", penalty, Penalty, "geq.penalties.NonNegative()")
        self.kernel, self.W, self.U, self.penalty = kernel, W, U, penalty
        W.bound_as_feedback()
        if isinstance(U, Operator) and U.out_channels != self.injected_channels:
            raise OptionError(self.mismatch(U.out_channels))

    @property
    def injected_channels(self) -> int:
        return self.W.out_channels if self.kernel.acts_on == "features" else self.W.in_channels

    def mismatch(self, came: int) -> str:
        side = "output (the features Wz)" if self.kernel.acts_on == "features" else "input (the state z)"
        return (
            f"U must map to the {side} of W, because {type(self.kernel).__name__} compares x with that: "
            f"expected {self.injected_channels} channels, got {came}"
        )

    def inject(self, x: Float[Tensor, " batch *features"]) -> Any:
        self.check(x)
        v = injected(self.U, x)
        counterpart = "features Wz" if self.kernel.acts_on == "features" else "state z"
        what = f"U(x), which {type(self.kernel).__name__} compares with the {counterpart},"
        self.W.check(v, self.injected_channels, what)
        return self.bind(self.W.arranged(v))

    def bind(self, v: Tensor) -> BoundKernel:
        """Return the kernel and W for an injection v = Ux + b."""
        c = self.kernel.bind(v)
        c.W = self.W.bind(v)
        return c

    def mapped_modules(self) -> Iterable[nn.Module]:
        if self.replaces("score", "attraction", "forward"):
            return self.modules()
        return (module for part in (self.W, self.kernel, self.penalty) for module in part.modules())

    def check(self, x: Tensor) -> None:
        check_input(x, self.W.raw_weight.dtype)

    def replaces(self, *names: str) -> bool:
        """Return whether a subclass or this object defines one of these methods anew."""
        return any(
            name in vars(self) or getattr(type(self), name) is not getattr(EnergyProblem, name)
            for name in names
        )

    def score(self, z: Float[Tensor, " batch *state"], c: Any) -> Float[Tensor, " batch"]:
        """Return S(z; x), one number per sample."""
        if self.kernel.acts_on == "features":
            return c.value(c.W(z))
        return c.value(z) + 0.5 * per_sample(c.W(z).square())

    def attraction(self, z: Float[Tensor, " batch *state"], c: Any) -> Float[Tensor, " batch *state"]:
        """Return ∇S(z; x): in closed form, or by autograd where a subclass has its own ``score``."""
        if self.replaces("score"):
            return derivative(lambda state: self.score(state, c), z)
        if self.kernel.acts_on == "features":
            return c.W.adjoint(c.grad(c.W(z)))
        return c.grad(z) + c.W.adjoint(c.W(z))

    def forward(self, z: Float[Tensor, " batch *state"], c: Any) -> Float[Tensor, " batch *state"]:
        return self.penalty.prox(self.attraction(z, c))

    def energy(self, z: Float[Tensor, " batch *state"], c: Any) -> Float[Tensor, " batch"]:
        """Return G(z; x), one number per sample; infinite where the penalty forbids z."""
        return self.penalty.value(z) + 0.5 * per_sample(z.square()) - self.score(z, c)

    def gradient(self, z: Float[Tensor, " batch *state"], c: Any) -> Float[Tensor, " batch *state"]:
        """Return the gradient of the smooth part of the energy, z − ∇S."""
        return z - self.attraction(z, c)

    @torch.no_grad()
    def observe(self, z: Float[Tensor, " batch *state"], c: Any) -> None:
        if isinstance(c, BoundKernel):
            c.observe(lambda: c.W(z))

    def initial_state(self, c: Any) -> Tensor:
        """Return z = 0, in the memory order of the injection."""
        v = c.v
        shape = list(v.shape)
        shape[self.W.channel_axis] = self.W.in_channels
        state = v.new_zeros(shape)
        return state.contiguous(memory_format=torch.channels_last) if channels_last(v) else state

    def attention(self, z: Float[Tensor, " batch *state"], c: Any) -> Tensor:
        """Return β of every patch at z; only kernels on distances have it."""
        if not isinstance(c, BoundGaussian):
            raise OptionError(
                f"attention exists for Gaussian kernels: got {type(self.kernel).__name__}; "
                "use GaussianKernel or PatchGaussianKernel"
            )
        return c.attention(c.W(z))

    def equation(self, x: Any) -> EnergyEquation:
        return EnergyEquation(self, self.inject(x))

    @torch.no_grad()
    def feedback_enclosure(self, size: Size | None = None, budget: float = QUICK) -> Enclosure:
        """Return bounds of the norm that the certificate rests on: ‖W‖, for patches ‖W_hᵀW‖ taken jointly.

        Args:
            size: Height and width of the maps, which the norm of a convolution depends on.
            budget: Multiply-adds that the proof may take; see :mod:`geq.certificates.enclosure`.
        """
        W, kernel = self.W, self.kernel
        if not isinstance(kernel, PatchGaussianKernel) or not isinstance(W, Convolution):
            return W.norm_enclosure(size, budget)
        root = PatchRoot.of(kernel.projection, kernel.patch, kernel.channel_split)
        weight = W.full_kernel(W.effective_weight(size))
        assert size is not None
        return convolution_enclosure(weight, *size, W.padding, root, budget)

    def unproved(self) -> str:
        """Return the assumption of the certificate that cannot be checked, or ""."""
        mathematics = ("inject", "score", "attraction", "gradient", "forward", "equation")
        return (
            uncertified(self, "well_posedness", mathematics)
            or uncertified(self.W, "norm_enclosure", ("bind", "apply_weight", "apply_adjoint"))
            or self.penalty.unproved()
        )

    @torch.no_grad()
    def well_posedness(self, size: Size | None = None) -> WellPosedness:
        """Return what the norm of the feedback proves about this problem, on maps of a size."""
        reason = self.unproved()
        if reason:
            return WellPosedness(reason=reason)
        return self.verdict(self.feedback_enclosure(size).upper, size)

    def verdict(self, norm: float, size: Size | None) -> WellPosedness:
        """Return what follows where the norm of the feedback is at most ``norm``."""
        reason = self.unproved()
        if reason:
            return WellPosedness(norm, size=size, reason=reason)
        bounds = self.kernel.certified_curvature(norm)
        if isinstance(bounds, str):
            return WellPosedness(norm, size=size, reason=bounds)
        return WellPosedness(norm, *bounds, size=size)


class EnergyEquation(CellEquation):
    """z = prox(∇S(z)) for one input: it comes from an energy, so it knows more than its value."""

    cell: EnergyProblem

    def __init__(self, problem: EnergyProblem, context: Any) -> None:
        super().__init__(problem, context)
        self.penalty = problem.penalty
        self._features: FeatureEquation | None = None

    def attraction(self, z: Tensor) -> Tensor:
        """Return ∇S(z)."""
        return self.cell.attraction(z, self.context)

    def closed(self) -> bool:
        """Return whether the derivatives are known in closed form."""
        problem, c = self.cell, self.context
        return (
            not problem.replaces("score", "attraction", "forward")
            and isinstance(c, BoundKernel)
            and c.W.bias is None  # the formulas are those of a linear W
            and (isinstance(c, BoundGaussian) or type(problem.kernel) is LinearKernel)
        )

    def reduced(self) -> Equation:
        """Return the equation in the features Wz, where it is known, no larger, and bounds the state's."""
        W, bound = self.cell.W, self.cell.W.constraint.bound
        if self._features is None and (
            self.closed()
            and math.isfinite(bound)
            and W.out_channels <= W.in_channels
            and not self.cell.replaces("initial_state")
        ):
            self._features = FeatureEquation(self.penalty, self.context, bound, self.z0)
        return self if self._features is None else self._features

    def proximal(self, step: float) -> Equation:
        return ProximalEquation(self, step)

    def linearise(self, z: Tensor) -> Linearisation:
        if not self.closed():
            return ProximalLinearisation(self, z)
        c = self.context
        known = None if self._features is None else self._features.known(z)
        with torch.no_grad():
            features = c.W(z) if known is None else known
        return ClosedLinearisation(self.penalty, c, z, features, self.cell.W.constraint.bound)


class ProximalEquation(Equation):
    """z = F(z) with F(z) − z the generalised gradient mapping of a proximal step of size η.

    M(z) = prox_{ηf}(z − η(z − ∇S)) has the same fixed points as T, and (M(z) − z)/η measures how far z is
    from stationary independently of the step. For η = 1 F is T.

    Args:
        equation: The equation of the energy.
        step: η.
    """

    def __init__(self, equation: EnergyEquation, step: float) -> None:
        if not step > 0:
            raise OptionError(f"the step must be positive: got {step}")
        self.equation, self.step = equation, step
        # ‖T(z) − z‖ is at most max(1, η) times the residual that a step of η measures.
        self.tolerance_factor = 1 / max(1.0, step)

    def start(self) -> Any:
        return self.equation.start()

    def image(self, u: Tensor) -> Any:
        return self.equation(u)

    def __call__(self, u: Tensor) -> Tensor:
        moved = self.equation.penalty.prox(u + self.step * (self.equation.attraction(u) - u), self.step)
        return u + (moved - u) / self.step
