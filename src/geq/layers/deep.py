"""Deep OptEq as a layer: several unit layers, composed and solved for one state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from torch import Tensor

from geq.cells import DeepCell, UnitLayer
from geq.constraints import Constraint
from geq.equilibrium import Equilibrium
from geq.errors import OptionError
from geq.gradients import Gradient, Implicit
from geq.layers.energy import injection
from geq.operators import Convolution, Dense, SeparableConvolution
from geq.penalties import Penalty, penalty_of
from geq.regularizers import FeatureRegulariser
from geq.solvers import Solver

Number = TypeVar("Number", int, float)


def check_sizes(inputs: int, features: Sequence[int], state: int) -> None:
    if not features or min(inputs, *features, state) < 1:
        raise OptionError(
            "a deep layer needs positive sizes, and one of features for every unit layer: got "
            f"in {inputs}, features {tuple(features)}, state {state}"
        )


def one_per_layer(name: str, given: Number | Sequence[Number], layers: int) -> Sequence[Number]:
    """``given`` for each of the layers; a single number is that of all."""
    if not isinstance(given, Sequence):
        return (given,) * layers
    if len(given) != layers:
        raise OptionError(f"{name} must be one number, or one per layer ({layers}): got {tuple(given)}")
    return given


def unit_layers(
    operators: Iterable[tuple[Convolution, Convolution] | tuple[Dense, Dense]],
    alphas: Sequence[float | int],
    learn_alpha: bool,
    activation: Penalty | Callable[[Tensor], Tensor] | None,
    normalise_input: bool,
) -> list[UnitLayer]:
    """Return the unit layers of pairs W and U."""
    penalty = penalty_of(activation)
    return [
        UnitLayer(W, injection(U, normalise_input), penalty, alpha, learn_alpha)
        for (W, U), alpha in zip(operators, alphas, strict=True)
    ]


class DeepOptEq2d(Equilibrium):
    """Deep OptEq on ``(batch, channels, height, width)``: z = f_L ∘ … ∘ f_1(z, x) with f_l(z, x) =
    αW_lᵀσ(W_l z + U_l x + b_l) + (1 − α)z (OptEq eq. 5–6). The map keeps its size.

    Args:
        in_channels: of the input x.
        channels: of the features W_l z, one number per unit layer.
        state_channels: of the state z; default ``in_channels``, for which a solve starts at z = x.
        kernel_size: odd side of all kernels, or one per layer.
        alpha: α in (0, 1], or one per layer.
        learn_alpha: learn one α per layer, from ``alpha`` on.
        activation: σ: a penalty, a module such as ``nn.Tanh()``, or a function that is monotone and
            1-Lipschitz; default ReLU.
        separable: depthwise-separable instead of full convolutions, for U as well.
        padding: ``"zeros"`` or ``"circular"``, of W.
        constraint: constraint on every W; default ‖W‖ ≤ 0.95.
        normalise_input: batch norm (without learned parameters) on every U_l x instead of a bias.
        regulariser, regulariser_step: R and γ of strategy (*): z = T(T_R(z), x).
        solver, gradient, tol, max_steps, on_failure: as of :class:`~geq.Equilibrium`.

    >>> import torch
    >>> layer = DeepOptEq2d(8, channels=(4, 8, 16))
    >>> layer(torch.randn(2, 8, 6, 6)).shape
    torch.Size([2, 8, 6, 6])
    """

    def __init__(
        self,
        in_channels: int,
        channels: Sequence[int],
        state_channels: int | None = None,
        kernel_size: int | Sequence[int] = 3,
        alpha: float | int | Sequence[float] = 0.8,
        learn_alpha: bool = False,
        activation: Penalty | Callable[[Tensor], Tensor] | None = None,
        separable: bool = False,
        padding: str = "zeros",
        constraint: Constraint | None = None,
        normalise_input: bool = False,
        regulariser: FeatureRegulariser | None = None,
        regulariser_step: float = 0.1,
        solver: Solver[Any] | None = None,
        gradient: Gradient | None = None,
        tol: float = 1e-3,
        max_steps: int = 50,
        on_failure: str | None = None,
    ) -> None:
        state_channels = in_channels if state_channels is None else state_channels
        check_sizes(in_channels, channels, state_channels)
        kernels = one_per_layer("kernel_size", kernel_size, len(channels))
        alphas = one_per_layer("alpha", alpha, len(channels))
        kind, bias = SeparableConvolution if separable else Convolution, not normalise_input
        operators = (
            (kind(state_channels, n, k, padding, constraint=constraint), kind(in_channels, n, k, bias=bias))
            for n, k in zip(channels, kernels, strict=True)
        )
        layers = unit_layers(operators, alphas, learn_alpha, activation, normalise_input)
        cell = DeepCell(layers, regulariser, regulariser_step)
        super().__init__(cell, solver, gradient or Implicit(tol=1e-3), tol, max_steps, on_failure)


class DeepOptEqLinear(Equilibrium):
    """Deep OptEq on vectors: as :class:`DeepOptEq2d`, with matrices for convolutions.

    Args:
        in_features: of the input x.
        features: of W_l z, one number per unit layer.
        state_features: of the state z; default ``in_features``, for which a solve starts at z = x.
        alpha, learn_alpha, activation, constraint: as of :class:`DeepOptEq2d`.
        normalise_input: as of :class:`DeepOptEq2d`; needs batches of more than one.
        regulariser, regulariser_step: as of :class:`DeepOptEq2d`.
        solver, gradient, tol, max_steps, on_failure: as of :class:`~geq.Equilibrium`.

    >>> import torch
    >>> DeepOptEqLinear(10, features=(8, 16))(torch.randn(2, 10)).shape
    torch.Size([2, 10])
    """

    def __init__(
        self,
        in_features: int,
        features: Sequence[int],
        state_features: int | None = None,
        alpha: float | int | Sequence[float] = 0.8,
        learn_alpha: bool = False,
        activation: Penalty | Callable[[Tensor], Tensor] | None = None,
        constraint: Constraint | None = None,
        normalise_input: bool = False,
        regulariser: FeatureRegulariser | None = None,
        regulariser_step: float = 0.1,
        solver: Solver[Any] | None = None,
        gradient: Gradient | None = None,
        tol: float = 1e-3,
        max_steps: int = 50,
        on_failure: str | None = None,
    ) -> None:
        state_features = in_features if state_features is None else state_features
        check_sizes(in_features, features, state_features)
        alphas = one_per_layer("alpha", alpha, len(features))
        operators = (
            (Dense(state_features, n, constraint=constraint), Dense(in_features, n, bias=not normalise_input))
            for n in features
        )
        layers = unit_layers(operators, alphas, learn_alpha, activation, normalise_input)
        cell = DeepCell(layers, regulariser, regulariser_step)
        super().__init__(cell, solver, gradient or Implicit(tol=1e-3), tol, max_steps, on_failure)
