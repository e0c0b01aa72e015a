"""Regularizers of the map at its equilibrium: the size of its Jacobian, and the states before the last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from geq.errors import CheckedOptions, GradientError, InputError, OptionError


@runtime_checkable
class Mapped(Protocol):
    """What is needed of a layer: an :class:`~geq.Equilibrium`, or anything that has this."""

    def image(self, x: Any, z: Any) -> Any:
        """Return T(z; x)."""


class JacobianPenalty(metaclass=CheckedOptions):
    """Unbiased estimate of ‖J‖²_F/n, J = ∂T/∂z at the state z of a layer (Bai, Koltun & Kolter 2021).

    With v of independent entries ±1, E‖Jᵀv‖² = ‖J‖²_F (Hutchinson), for one product with Jᵀ a sample; n is
    the number of entries of the state, over the batch. So the value is the mean square of a row of J, at
    least the mean square of its eigenvalues: a small one makes the solve contract and the gradient exact.

    A state with a graph is differentiated too: the gradient of the penalty is then exact, at no cost, since
    the layer's backward runs once for the sum of all losses. ``penalty(layer, x, z.detach())`` holds the
    state fixed, as the authors do.

    Args:
        samples: Vectors v to average over; 1 is usual.

    >>> torch.manual_seed(0)  # doctest: +ELLIPSIS
    <...>
    >>> from geq import Equilibrium
    >>> layer = Equilibrium(lambda z, x: 0.5 * z + x)
    >>> x = torch.ones(2, 3)
    >>> round(JacobianPenalty()(layer, x, layer(x)).item(), 4)
    0.25
    """

    def __init__(self, samples: int = 1) -> None:
        if samples < 1:
            raise OptionError(f"JacobianPenalty: samples must be at least 1: got {samples}")
        self.samples = samples

    def __call__(self, layer: Mapped, x: Any, z: Any) -> Tensor:
        """Return the estimate; without a graph where gradients are switched off, for logging.

        Args:
            layer: The equilibrium layer.
            x: Its input.
            z: Its output for x.
        """
        if torch.is_inference_mode_enabled():
            raise GradientError(
                "JacobianPenalty needs autograd, which torch.inference_mode() switches off for good: "
                "use torch.no_grad()"
            )
        recording = torch.is_grad_enabled()
        with torch.enable_grad():
            parts = tuple(
                part if part.requires_grad and recording else part.detach().requires_grad_()
                for part in _parts(z)
            )
            state: Any = parts if isinstance(z, tuple) else parts[0]
            images = _parts(
                layer.image(x, dict(zip(z, parts, strict=True)) if isinstance(z, dict) else state)
            )
            total = parts[0].new_zeros(())
            for _ in range(self.samples if any(one.requires_grad for one in images) else 0):
                signs = tuple(torch.empty_like(one).bernoulli_(0.5).mul_(2).sub_(1) for one in images)
                products = torch.autograd.grad(
                    images, parts, signs, create_graph=recording, retain_graph=True, materialize_grads=True
                )
                total = total + sum(product.square().sum() for product in products)
        size = sum(part.numel() for part in parts)
        value = total / max(1, size * self.samples)
        return value if recording else value.detach()

    def __repr__(self) -> str:
        return f"JacobianPenalty(samples={self.samples})"


def _parts(state: Any) -> tuple[Tensor, ...]:
    if isinstance(state, dict):
        return tuple(state.values())
    return state if isinstance(state, tuple) else (state,)


class FixedPointCorrection(metaclass=CheckedOptions):
    """Σᵢ decay^{m−i}·loss(z_i) over states z_1 … z_m of a trajectory, the last of them the equilibrium.

    Errors of early states count too, with rising weights, so that few evaluations go far (Bai et al. 2022).
    The weight of the equilibrium is 1.

    Args:
        decay: In (0, 1]; 0.8 is usual.

    >>> from geq import Equilibrium
    >>> layer = Equilibrium(lambda z, x: 0.5 * z + x)
    >>> states = layer.trajectory(torch.ones(2, 3), at=[1])
    >>> round(FixedPointCorrection(decay=0.5)(lambda z: z.mean(), states).item(), 3)
    2.5
    """

    def __init__(self, decay: float = 0.8) -> None:
        if not 0 < decay <= 1:
            raise OptionError(f"FixedPointCorrection: decay must lie in (0, 1]: got {decay}; 0.8 is usual")
        self.decay = decay

    def __call__(self, loss: Callable[[Any], Tensor], states: Sequence[Any]) -> Tensor:
        """Return the weighted sum.

        Args:
            loss: Loss of one state, such as ``lambda z: criterion(head(z), target)``.
            states: What ``layer.trajectory(x, at=[...])`` returns.
        """
        if not states:
            raise InputError("FixedPointCorrection needs at least one state: got none; the last is layer(x)")
        total = loss(states[-1])
        for distance, state in enumerate(reversed(states[:-1]), 1):
            total = total + self.decay**distance * loss(state)
        return total

    def __repr__(self) -> str:
        return f"FixedPointCorrection(decay={self.decay:g})"
