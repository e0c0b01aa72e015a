"""Rules for γ, the inverse squared width of the Gaussian kernels.

A rule sees q, the squared distances of the patches at z = 0 (``(batch, patches)``), once per solve, and
answers γ as a scalar, as one number per sample, ``(batch, 1)``, or per patch, ``(1, patches)``. γ is then
constant during the solve, so that the layer stays the stationary map of one energy. Read as robust
statistics: β = e^{−γq} is the weight of a patch, 1/γ the scale beyond which it counts as an outlier.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from geq.errors import CheckedOptions, InputError, OptionError, check_kind

_PAUSED: ContextVar[bool] = ContextVar("statistics_paused", default=False)


@contextmanager
def statistics_paused() -> Iterator[None]:
    """Inside, layers in training mode only read their statistics: for looking at a layer."""
    token = _PAUSED.set(True)
    try:
        yield
    finally:
        _PAUSED.reset(token)


def statistics_wanted() -> bool:
    """Return whether a training pass updates statistics: not if checkpointing repeats it in backward."""
    return not _PAUSED.get() and torch._C._current_graph_task_id() == -1


class GammaRule(nn.Module, metaclass=CheckedOptions):
    """Base class of the rules."""

    @property
    def constant(self) -> bool:
        """True if γ is the same for every input in evaluation, given the weights and the shape of q."""
        return type(self) in CONSTANT

    def observe_equilibrium(self, q: Callable[[], Tensor]) -> None:
        """Update statistics after a training solve; ``q`` computes the distances at the equilibrium."""

    @abstractmethod
    def forward(self, q: Float[Tensor, "batch patches"], expected: Tensor, observe: bool) -> Tensor:
        """γ for this batch.

        Args:
            q: squared distances at z = 0.
            expected: what q would be on average for inputs of unit variance; stands in for statistics not yet
                seen.
            observe: whether running statistics follow this batch (a training solve) or are only read.
        """

    def of_batch(self, q: Float[Tensor, "batch patches"], expected: Tensor, observe: bool) -> Tensor:
        """γ as a solve uses it: checked, and in the precision and on the device of q."""
        gamma = self(q, expected, observe)
        batch, patches = q.shape
        if not isinstance(gamma, Tensor) or not (
            gamma.dim() == 0
            or (gamma.dim() == 2 and gamma.shape[0] in (1, batch) and gamma.shape[1] in (1, patches))
        ):
            came = tuple(gamma.shape) if isinstance(gamma, Tensor) else type(gamma).__name__
            raise InputError(
                f"{type(self).__name__} must return γ as a tensor: a number, ({batch}, 1) or "
                f"(1, {patches}): got {came}"
            )
        if type(self).__module__ != __name__ and not bool((gamma >= 0).all()):
            raise InputError(
                f"{type(self).__name__} must return γ ≥ 0: got {float(gamma.min()):g}; "
                "return softplus of what may be negative"
            )
        return gamma.to(q)


class FixedGamma(GammaRule):
    """γ = value (KerDEQ uses 0.5). 0 is the control: see :class:`ZeroGamma`."""

    def __init__(self, value: float) -> None:
        super().__init__()
        if not (math.isfinite(value) and value >= 0):
            raise OptionError(f"gamma must be finite and not negative: got {value}; KerDEQ uses 0.5")
        self.value = float(value)

    def forward(self, q: Float[Tensor, "batch patches"], expected: Tensor, observe: bool) -> Tensor:
        return q.new_tensor(self.value)

    def extra_repr(self) -> str:
        return f"{self.value}"


class ZeroGamma(FixedGamma):
    """γ = 0, the control of every comparison: all weights β are 1, and the similarity is −½‖v − u‖²."""

    def __init__(self) -> None:
        super().__init__(0.0)

    def extra_repr(self) -> str:
        return ""


class RunningScale(GammaRule):
    """A rule with a running mean of a statistic of q; a buffer, used in training and evaluation."""

    scale: Tensor
    batches_seen: Tensor

    def __init__(self, momentum: float) -> None:
        super().__init__()
        if not 0 <= momentum < 1:
            raise OptionError(f"momentum must be in [0, 1): got {momentum}; the usual one is 0.95")
        self.momentum = float(momentum)
        self.register_buffer("scale", torch.zeros(()))
        self.register_buffer("batches_seen", torch.zeros((), dtype=torch.int64))

    @torch.no_grad()
    def update(self, value: Tensor) -> None:
        value = value.detach().to(self.scale.dtype)
        kept = torch.where(self.batches_seen > 0, self.momentum, 0.0).to(self.scale.dtype)
        # A batch beyond the range of the numbers would stay in the mean for good.
        counts = torch.isfinite(value)
        self.scale = torch.where(counts, kept * self.scale + (1 - kept) * value, self.scale)
        self.batches_seen = self.batches_seen + counts

    def current(self, expected: Tensor) -> Tensor:
        tiny = torch.finfo(expected.dtype).tiny
        return torch.where(self.batches_seen > 0, self.scale.to(expected.dtype), expected).clamp_min(tiny)


class LearnedGamma(RunningScale):
    """γ = softplus(θ)/m with θ learned and m the running mean of q (the default).

    Relative to m, γ keeps its meaning while the features change scale; learned, it does not chase them as γ =
    0.2/M with a detached M does. θ starts at softplus⁻¹(initial). Weight decay on θ would pull γ to a value
    of no meaning: leave it out.

    Args:
        initial: γm at the start.
        momentum: of the running mean.
        parts: numbers to learn. The patches, in the order (channel group, row, column), are divided into so
            many equal stretches with a γ each: 1 is one for all, the number of channel groups one for each
            group, the number of patches one for each place.
    """

    def __init__(self, initial: float = 0.2, momentum: float = 0.95, parts: int = 1) -> None:
        super().__init__(momentum)
        if parts < 1:
            raise OptionError(f"parts must be at least 1: got {parts}")
        if not (math.isfinite(initial) and initial > 0):
            raise OptionError(
                f"the initial γ·m must be finite and positive: got {initial}; for none at all use ZeroGamma()"
            )
        inverse_softplus = initial + math.log(-math.expm1(-initial))
        self.parts = parts
        self.theta = nn.Parameter(torch.full(() if parts == 1 else (parts,), inverse_softplus))

    def forward(self, q: Float[Tensor, "batch patches"], expected: Tensor, observe: bool) -> Tensor:
        if observe and q.numel():
            self.update(q.mean())
        gamma = F.softplus(self.theta.to(q.dtype)) / self.current(expected)
        if self.parts == 1:
            return gamma
        if q.shape[1] % self.parts:
            raise OptionError(
                f"the parts of LearnedGamma must divide the number of patches: got {self.parts} for "
                f"{q.shape[1]}; the number of channel groups always does"
            )
        return gamma.repeat_interleave(q.shape[1] // self.parts).unsqueeze(0)

    def extra_repr(self) -> str:
        return "" if self.parts == 1 else f"parts={self.parts}"


class MedianGamma(RunningScale):
    """γ = target/m, m the running mean of the median of q *at the equilibrium*: how robust statistics sets
    the scale of the Welsch loss, which is what the Gaussian kernel is. A typical patch keeps β = e^{−target}.

    The statistic is no part of the gradient.
    """

    def __init__(self, target: float = 0.1, momentum: float = 0.95) -> None:
        super().__init__(momentum)
        if not (math.isfinite(target) and target > 0):
            raise OptionError(f"target must be finite and positive: got {target}; the usual one is 0.1")
        self.target = float(target)

    @property
    def constant(self) -> bool:
        """True if γ is the same for every input in evaluation, given the weights and the shape of q."""
        return type(self) in CONSTANT

    def observe_equilibrium(self, q: Callable[[], Tensor]) -> None:
        distances = q()
        if distances.numel():
            self.update(distances.median())

    def forward(self, q: Float[Tensor, "batch patches"], expected: Tensor, observe: bool) -> Tensor:
        return self.target / self.current(expected)

    def extra_repr(self) -> str:
        return f"target={self.target}"


class PaperGamma(RunningScale):
    """γ = target/M, M the smallest q among the patches, so that the largest weight is e^{−target} (GEQ,
    section 4.2).

    The paper does not say over what the minimum runs, nor whether the gradient passes through M. Here:

    Args:
        target: γM; the paper's 0.2 makes β_max ≈ 0.82.
        per: ``"sample"`` (default; a prediction does not depend on its batch-mates) or ``"batch"``, where
            evaluation uses a running average.
        through: whether the gradient passes through M. Without it γ undoes what the gradient does to q, and
            long training collapses; default True.
        momentum: of the running average, per batch only.

    M is taken at z = 0 (see the module's text), where the paper's text has the state in it.
    """

    def __init__(
        self, target: float = 0.2, per: str = "sample", through: bool = True, momentum: float = 0.95
    ) -> None:
        super().__init__(momentum)
        if not target > 0:
            raise OptionError(f"target must be positive: got {target}; the paper uses 0.2")
        if per not in ("sample", "batch"):
            raise OptionError(f"per must be 'sample' or 'batch': got {per!r}")
        self.target, self.per, self.through = float(target), per, through

    def forward(self, q: Float[Tensor, "batch patches"], expected: Tensor, observe: bool) -> Tensor:
        q = q if self.through else q.detach()
        tiny = torch.finfo(q.dtype).eps  # an exact hit, q = 0, must not make γ infinite
        smallest = q.amin(1, keepdim=True).clamp_min(tiny)
        if self.per == "sample":
            return self.target / smallest
        if observe and q.numel():
            self.update(smallest.min())
            return self.target / smallest.min()
        return self.target / self.current(expected)

    def extra_repr(self) -> str:
        return f"target={self.target}, per={self.per!r}, through={self.through}"


CONSTANT = (FixedGamma, ZeroGamma, LearnedGamma, MedianGamma)
"""Rules, and not their subclasses, whose γ in evaluation depends on what was learned alone."""


def as_gamma_rule(gamma: float | int | GammaRule | None) -> GammaRule:
    """Return a rule for γ: a number is a fixed γ, None the default rule."""
    if gamma is None:
        return LearnedGamma()
    if isinstance(gamma, (int, float)):
        return FixedGamma(float(gamma))
    check_kind("gamma", gamma, GammaRule, "geq.bandwidth.LearnedGamma(), or a number")
    return gamma
