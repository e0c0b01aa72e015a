"""Deep OptEq: the composition of several unit layers, each a proximal operator with a skip.

A unit layer is f(z, x) = αWᵀσ(Wz + Ux + b) + (1 − α)z (eq. 6). With a σ that is a prox and ‖W‖ ≤ 1 the first
part is itself the prox of a convex φ (theorem 1), and f that of the Moreau envelope αM_φ^{1−α} (table 1). The
model is the fixed point of z = f_L ∘ … ∘ f_1 (eq. 5).

The norm of every W_l is bounded by its constraint, 0.95 unless told otherwise. The paper bounds none and
starts from small weights.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from geq.cells.base import Cell
from geq.cells.energy import check_input, injected
from geq.certificates.well_posedness import WellPosedness, uncertified
from geq.errors import CheckedOptions, OptionError
from geq.operators.operator import LinearMap, Operator, Size
from geq.penalties.base import NonNegative, Penalty
from geq.regularizers.features import FeatureRegulariser, SeparableRegulariser

ALPHA_FLOOR = 1e-3
"""A learned α stays above this: at 0 its layer would be the identity and never come back."""


@dataclass(frozen=True)
class BoundLayer:
    """f for one input: W with its effective weight, v = Ux + b, and α."""

    W: LinearMap
    v: Tensor
    penalty: Penalty
    alpha: Tensor | float

    def features(self, z: Tensor) -> Tensor:
        """h = σ(Wz + v)."""
        return self.penalty.prox(self.W(z) + self.v)

    def prox(self, z: Tensor) -> Tensor:
        """Wᵀσ(Wz + v) = prox_φ(z), the layer without its skip."""
        return self.W.adjoint(self.features(z))

    def mix(self, z: Tensor, features: Tensor) -> Tensor:
        """αWᵀh + (1 − α)z."""
        return torch.lerp(z, self.W.adjoint(features), self.alpha)

    def __call__(self, z: Tensor) -> Tensor:
        return self.mix(z, self.features(z))


class UnitLayer(nn.Module, metaclass=CheckedOptions):
    """f(z, x) = αWᵀσ(Wz + Ux + b) + (1 − α)z.

    Args:
        W: from the state to the features; its norm rule bounds it by 0.95 unless it has one.
        U: from x to the features, with the bias b; any module.
        penalty: whose prox is σ; default ReLU's. :func:`~geq.penalties.penalty_of` finds an activation's.
        alpha: α in (0, 1].
        learn_alpha: α = ε + (1 − ε)·sigmoid(ρ), ε = 0.001, with ρ learned from ``alpha`` on.
    """

    def __init__(
        self,
        W: Operator,
        U: nn.Module,
        penalty: Penalty | None = None,
        alpha: float | int = 0.8,
        learn_alpha: bool = False,
    ) -> None:
        super().__init__()
        if not 0 < alpha <= 1:
            raise OptionError(f"α must lie in (0, 1]: got {alpha}; the usual one is 0.8")
        if learn_alpha and not ALPHA_FLOOR < alpha < 1:
            raise OptionError(
                f"a learned α must start between {ALPHA_FLOOR:g} and 1, neither included: got {alpha}; start "
                "at 0.8, or fix it with learn_alpha=False"
            )
        if isinstance(U, Operator) and U.out_channels != W.out_channels:
            raise OptionError(
                f"U must map to the output of W, {W.out_channels} channels: got {U.out_channels}"
            )
        self.W, self.U = W, U
        self.penalty = NonNegative() if penalty is None else penalty
        W.bound_as_feedback()
        self.fixed_alpha = None if learn_alpha else float(alpha)
        if learn_alpha:
            inner = (alpha - ALPHA_FLOOR) / (1 - ALPHA_FLOOR)
            self.raw_alpha = nn.Parameter(torch.tensor(math.log(inner / (1 - inner))))

    @property
    def alpha(self) -> Tensor | float:
        """α; a tensor with its graph where it is learned."""
        if self.fixed_alpha is not None:
            return self.fixed_alpha
        return ALPHA_FLOOR + (1 - ALPHA_FLOOR) * self.raw_alpha.sigmoid()

    def inject(self, x: Tensor) -> BoundLayer:
        v = injected(self.U, x)
        self.W.check(v, self.W.out_channels, "U(x), which is added to the features Wz,")
        v = self.W.arranged(v)
        alpha = self.alpha
        return BoundLayer(
            self.W.bind(v), v, self.penalty, alpha.to(v.dtype) if isinstance(alpha, Tensor) else alpha
        )

    def unproved(self) -> str:
        """Return the assumption of the certificate that cannot be checked, or ""."""
        return (
            uncertified(self, "lipschitz", ("inject", "alpha"))
            or uncertified(self.W, "norm_enclosure", ("bind", "apply_weight", "apply_adjoint"))
            or self.penalty.unproved()
        )

    @torch.no_grad()
    def lipschitz(self, norm: float) -> float:
        """α‖W‖² + 1 − α for ‖W‖ ≤ ``norm``, as σ is 1-Lipschitz."""
        alpha = float(self.alpha)
        return alpha * norm**2 + 1 - alpha

    def extra_repr(self) -> str:
        return "learned α" if self.fixed_alpha is None else f"α={self.fixed_alpha:g}"


@dataclass(frozen=True)
class DeepContext:
    """The layers for one input, and where a solve starts."""

    layers: tuple[BoundLayer, ...]
    start: Tensor


class DeepCell(Cell):
    """z ↦ f_L ∘ … ∘ f_1(T_R(z), x), with T_R the operator of a feature regulariser, or the identity.

    A solve starts at z⁰ = x where x has the shape of the state, as in algorithm 1, and at 0 elsewhere.

    Args:
        layers: f_1, …, f_L, on states of one size.
        regulariser: R of strategy (*), which adds γR to the hidden objective (theorem 4).
        regulariser_step: γ.

    >>> from geq.operators import Dense
    >>> cell = DeepCell([UnitLayer(W=Dense(4, n), U=Dense(3, n, bias=True)) for n in (2, 5)])
    >>> c = cell.inject(torch.ones(2, 3))
    >>> cell(cell.initial_state(c), c).shape
    torch.Size([2, 4])
    """

    def __init__(
        self,
        layers: Sequence[UnitLayer],
        regulariser: FeatureRegulariser | None = None,
        regulariser_step: float = 0.1,
    ) -> None:
        super().__init__()
        sizes = [layer.W.in_channels for layer in layers]
        if not sizes:
            raise OptionError("a deep cell needs at least one layer: got none")
        if len(set(sizes)) > 1:
            raise OptionError(f"all layers must act on states of one size: got {sizes}")
        if not regulariser_step > 0:
            raise OptionError(f"regulariser_step must be above 0: got {regulariser_step}")
        self.layers = nn.ModuleList(layers)
        self.regulariser, self.regulariser_step = regulariser, float(regulariser_step)

    @property
    def units(self) -> list[UnitLayer]:
        return [layer for layer in self.layers if isinstance(layer, UnitLayer)]

    @property
    def couples_samples(self) -> bool:  # type: ignore[override]
        return self.regulariser is not None and self.regulariser.couples_samples

    def check(self, x: Tensor) -> None:
        check_input(x, self.units[0].W.raw_weight.dtype)

    def inject(self, x: Float[Tensor, " batch *features"]) -> DeepContext:
        self.check(x)
        layers = tuple(layer.inject(x) for layer in self.units)
        W, v = self.units[0].W, layers[0].v
        shape = list(v.shape)
        shape[W.channel_axis] = W.in_channels
        start = x.to(v.dtype) if list(x.shape) == shape else v.new_zeros(shape)
        return DeepContext(layers, W.arranged(start))

    def initial_state(self, c: DeepContext) -> Tensor:
        return c.start

    def regularised(self, z: Float[Tensor, " batch *state"]) -> Float[Tensor, " batch *state"]:
        """T_R(z)."""
        return z if self.regulariser is None else self.regulariser.operator(z, self.regulariser_step)

    def forward(self, z: Float[Tensor, " batch *state"], c: DeepContext) -> Float[Tensor, " batch *state"]:
        z = self.regularised(z)
        for layer in c.layers:
            z = layer(z)
        return z

    def unproved(self) -> str:
        """Return the assumption of the certificate that cannot be checked, or ""."""
        regulariser = self.regulariser
        if regulariser is not None and not isinstance(regulariser, SeparableRegulariser):
            return f"the operator of {type(regulariser).__name__} is not known to be 1-Lipschitz"
        return (
            uncertified(self, "well_posedness", ("inject", "regularised", "forward", "at"))
            or ("" if regulariser is None else uncertified(regulariser, "lipschitz", ("operator",)))
            or ("" if regulariser is None else regulariser.penalty.unproved())
            or next(filter(None, (unit.unproved() for unit in self.units)), "")
        )

    @torch.no_grad()
    def well_posedness(self, size: Size | None = None) -> WellPosedness:
        """Return the product of the layers' Lipschitz constants: below 1 there is one equilibrium, and plain
        iteration finds it. With a regulariser nothing is proved unless its operator is a prox.
        """
        norms = [layer.W.norm_enclosure(size).upper for layer in self.units]
        reason = self.unproved()
        if reason:
            return WellPosedness(max(norms), size=size, reason=reason)
        rate = math.prod(layer.lipschitz(norm) for layer, norm in zip(self.units, norms, strict=True))
        return WellPosedness(max(norms), -rate, rate, size=size)
