"""The hidden optimisation problem that defines a layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from geq.certificate import WellPosedness, uncertified
from geq.errors import CheckedOptions, InputError, OptionError
from geq.kernels.base import BoundKernel, BoundRadial, Kernel, derivative
from geq.kernels.patch_gaussian import PatchGaussianKernel
from geq.operators.enclosure import QUICK, Enclosure, convolution_enclosure
from geq.operators.operator import Convolution, LinearMap, Operator, Size, working_dtype
from geq.operators.patch_root import PatchRoot
from geq.penalties.base import NonNegative, Penalty, per_sample


@dataclass(frozen=True)
class Context:
    """All that a solve needs and that depends on the input or the weights only."""

    W: LinearMap
    similarity: BoundKernel

    @property
    def injection(self) -> Tensor:
        """v = Ux + b."""
        return self.similarity.v


def check_input(x: Tensor, expected: torch.dtype) -> None:
    """Refuse an input that is not in the precision of the weights, or not finite."""
    if x.dtype != expected:
        raise InputError(
            f"x must have the precision of the weights, {expected}: got {x.dtype}; convert with "
            f"layer.to({x.dtype}) or x.to({expected}), or run under torch.autocast"
        )
    if not all_finite(x):
        raise InputError(
            "x must be finite: got NaN or infinity; check the data and the layers before this one"
        )


def all_finite(values: Tensor) -> bool:
    """One pass to see that all is well; a sum that overflows is looked at more closely, as NaN is. Tensors of
    the meta device have no numbers to look at.
    """
    return values.is_meta or bool(torch.isfinite(values.sum())) or bool(torch.isfinite(values).all())


def injected(U: nn.Module, x: Tensor) -> Tensor:
    """v = Ux + b in the precision of the solve; refused where the precision of the weights cannot hold it.

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


class EnergyProblem(nn.Module, metaclass=CheckedOptions):
    """G(z; x) = 1ᵀf(z) + ½‖z‖² − S(z; x), whose stationary condition z = prox_f(∇S(z; x)) is the layer.

    Args:
        similarity: S; see :mod:`geq.kernels.base` for what u and v are.
        W: feedback operator, from the state to the features.
        U: input operator, from x to the features (kernels on features) or to the state (linear, polynomial,
            sigmoid); any module, such as a convolution with a norm behind it.
        penalty: f, by default the indicator of z ≥ 0, whose prox is ReLU.

    For a problem of one's own, override ``inject``, ``score`` and ``initial_state``: the rest is derived.

    >>> from geq.operators.operator import Dense
    >>> from geq.kernels.base import GaussianKernel
    >>> problem = EnergyProblem(Gaussian(gamma=0.5), W=Dense(8, 4), U=Dense(3, 4, bias=True))
    >>> c = problem.inject(torch.ones(2, 3))
    >>> problem.energy(problem.initial_state(c), c).shape
    torch.Size([2])
    """

    def __init__(self, similarity: Kernel, W: Operator, U: nn.Module, penalty: Penalty | None = None) -> None:
        super().__init__()
        self.similarity, self.W, self.U = similarity, W, U
        self.penalty = NonNegative() if penalty is None else penalty
        W.bound_as_feedback()
        if isinstance(U, Operator) and U.out_channels != self.injected_channels:
            raise OptionError(self.mismatch(U.out_channels))

    @property
    def injected_channels(self) -> int:
        return self.W.out_channels if self.similarity.acts_on == "features" else self.W.in_channels

    def mismatch(self, came: int) -> str:
        side = "output (the features Wz)" if self.similarity.acts_on == "features" else "input (the state z)"
        return (
            f"U must map to the {side} of W, because {type(self.similarity).__name__} compares x with that: "
            f"expected {self.injected_channels} channels, got {came}"
        )

    def inject(self, x: Float[Tensor, "batch *features"]) -> Context:
        """Everything that depends on x only, computed once per solve."""
        self.check(x)
        v = injected(self.U, x)
        counterpart = "features Wz" if self.similarity.acts_on == "features" else "state z"
        what = f"U(x), which {type(self.similarity).__name__} compares with the {counterpart},"
        self.W.check(v, self.injected_channels, what)
        v = self.W.arranged(v)
        return Context(self.W.bind(v), self.similarity.bind_as_defined(v))

    def check(self, x: Tensor) -> None:
        check_input(x, self.W.raw_weight.dtype)

    def score(self, z: Float[Tensor, "batch *state"], c: Any) -> Float[Tensor, " batch"]:
        """S(z; x), one number per sample."""
        if self.similarity.acts_on == "features":
            return c.similarity.value(c.W(z))
        return c.similarity.value(z) + 0.5 * per_sample(c.W(z).square())

    def attraction(self, z: Float[Tensor, "batch *state"], c: Any) -> Float[Tensor, "batch *state"]:
        """∇S(z; x): closed form, or by autograd where a subclass has its own ``score``."""
        if type(self).score is not EnergyProblem.score:
            return derivative(lambda state: self.score(state, c), z)
        if self.similarity.acts_on == "features":
            return c.W.adjoint(c.similarity.grad(c.W(z)))
        return c.similarity.grad(z) + c.W.adjoint(c.W(z))

    def energy(self, z: Float[Tensor, "batch *state"], c: Any) -> Float[Tensor, " batch"]:
        """G(z; x), one number per sample; infinite where the penalty forbids z."""
        return self.penalty.value(z) + 0.5 * per_sample(z.square()) - self.score(z, c)

    def gradient(self, z: Float[Tensor, "batch *state"], c: Any) -> Float[Tensor, "batch *state"]:
        """Gradient of the smooth part of the energy, z − ∇S."""
        return z - self.attraction(z, c)

    @torch.no_grad()
    def settled(self, z: Float[Tensor, "batch *state"], c: Any) -> None:
        """Called with the equilibrium of each training solve: a rule for γ may keep its statistics."""
        if isinstance(c, Context) and isinstance(c.similarity, BoundRadial):
            radial = c.similarity
            radial.similarity.gamma.settled(lambda: radial.distances(c.W(z)))

    def initial_state(self, c: Any) -> Tensor:
        """z = 0, in the memory order of the injection."""
        v = c.injection
        shape = list(v.shape)
        shape[self.W.channel_axis] = self.W.in_channels
        state = v.new_zeros(shape)
        channels_last = (
            v.dim() == 4 and v.is_contiguous(memory_format=torch.channels_last) and not v.is_contiguous()
        )
        return state.contiguous(memory_format=torch.channels_last) if channels_last else state

    def attention(self, z: Float[Tensor, "batch *state"], c: Any) -> Tensor:
        """β of every patch at z; only kernels on distances have it."""
        if not isinstance(c, Context) or not isinstance(c.similarity, BoundRadial):
            raise OptionError(
                f"attention exists for Gaussian kernels: got {type(self.similarity).__name__}; "
                "use Gaussian or PatchGaussianKernel"
            )
        return c.similarity.attention(c.W(z))

    @torch.no_grad()
    def feedback_enclosure(self, size: Size | None = None, budget: float = QUICK) -> Enclosure:
        """Bounds of the norm that the certificate rests on: ‖W‖, for patches ‖W_hᵀW‖ taken jointly.

        Args:
            size: height and width of the maps, which the norm of a convolution depends on.
            budget: multiply-adds that the proof may take; see :mod:`geq.operators.enclosure`.
        """
        W, similarity = self.W, self.similarity
        if not isinstance(similarity, PatchGaussianKernel) or not isinstance(W, Convolution):
            return W.norm_enclosure(size, budget)
        root = PatchRoot.of(similarity.projection, similarity.patch, similarity.channel_split)
        weight = W.full_kernel(W.effective_weight(size))
        assert size is not None
        return convolution_enclosure(weight, *size, W.padding, root, budget)

    def unproved(self) -> str:
        """The assumption of the certificate that cannot be checked, or ""."""
        return (
            uncertified(self, "well_posedness", ("inject", "score", "attraction", "gradient"))
            or uncertified(self.W, "norm_enclosure", ("bind", "apply_weight", "apply_adjoint"))
            or self.penalty.unproved()
        )

    @torch.no_grad()
    def well_posedness(self, size: Size | None = None) -> WellPosedness:
        """What the norm of the feedback proves about this problem.

        Args:
            size: height and width of the maps, which the norm of a convolution depends on.
        """
        reason = self.unproved()
        return (
            WellPosedness(reason=reason)
            if reason
            else self.verdict(self.feedback_enclosure(size).upper, size)
        )

    def verdict(self, norm: float, size: Size | None) -> WellPosedness:
        """What follows where the norm of the feedback is at most ``norm``."""
        reason = self.unproved()
        if reason:
            return WellPosedness(norm, size=size, reason=reason)
        bounds = self.similarity.certified_curvature(norm)
        if isinstance(bounds, str):
            return WellPosedness(norm, size=size, reason=bounds)
        return WellPosedness(norm, *bounds, size=size)
