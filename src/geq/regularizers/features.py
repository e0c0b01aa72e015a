"""Feature regularisers R of Deep OptEq (table 2): what the equilibrium should be like, besides fitting x.

They are used in two ways. (*) The problem is changed: z = T(T_R(z), x), where ``operator`` T_R is the prox
of γR where that is known and the gradient step I − γ∇R elsewhere (theorem 4). (†) The problem stays, and
among its solutions the one with the least R is chosen: :class:`~geq.gradients.SequentialAveraging`.

**What is a feature.** The paper writes a batch of states as Z ∈ R^{m×B}, a row per feature and a column per
sample. Here a state is ``(B, m)`` or a map ``(B, C, h, w)``; a feature of a map is a channel, and its value
for one sample is the whole h×w map of that channel. So row i is always ``z[:, i]``, flattened where the
regulariser needs one vector.
"""

from __future__ import annotations

from abc import abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor, nn

from geq.errors import CheckedOptions, InputError, OptionError
from geq.penalties.base import L1, ElasticNet, Penalty


class FeatureRegulariser(nn.Module, metaclass=CheckedOptions):
    """Base class. Subclasses give ``value``, and ``gradient`` or ``operator`` where these have a short form.

    One of one's own needs only ``value``; it must be differentiable, twice for training through it.
    """

    couples_samples: bool = False
    """Whether R compares the samples of a batch: a sample's equilibrium then depends on its batch-mates, and
    a batch needs at least two."""

    @property
    def smoothness(self) -> float | None:
        """L_z, a Lipschitz constant of ∇R; None where there is none or none is known."""
        return None

    @abstractmethod
    def value(self, z: Float[Tensor, " batch *state"]) -> Float[Tensor, ""]:
        """R(Z), over all samples; a sum where these are independent."""

    def gradient(self, z: Float[Tensor, " batch *state"]) -> Float[Tensor, " batch *state"]:
        """∇R(Z), with its graph wherever z has one."""
        connected = torch.is_grad_enabled() and z.requires_grad
        with torch.enable_grad():
            at = z if connected else z.detach().requires_grad_()
            (gradient,) = torch.autograd.grad(self.value(at), at, create_graph=connected)
        return gradient

    def operator(self, z: Float[Tensor, " batch *state"], step: float) -> Float[Tensor, " batch *state"]:
        """T_R for γ = ``step``: the prox of γR where it is known, otherwise z − γ∇R(z)."""
        return z - step * self.gradient(z)

    def check_batch(self, z: Tensor) -> None:
        """Refuse a batch that this regulariser cannot compare."""
        if z.dim() < 2:
            raise InputError(f"a state must have a batch and features: got shape {tuple(z.shape)}")
        if self.couples_samples and z.shape[0] < 2:
            raise InputError(
                f"{type(self).__name__} compares the samples of a batch, so it needs at least 2: got "
                f"{z.shape[0]}; use a larger batch (another batch size, if it is the last of the data), or a "
                "regulariser of single samples (FeatureDecay, FeatureSparsity, Incay)"
            )


class SeparableRegulariser(FeatureRegulariser):
    """R = Σ f(z) with a penalty f of the hidden problem, whose prox is T_R.

    Args:
        penalty: f; its weights are factors of R.

    >>> SeparableRegulariser(L1(2.0)).operator(torch.tensor([[-3.0, 0.5]]), step=0.5)
    tensor([[-2.,  0.]])
    """

    def __init__(self, penalty: Penalty) -> None:
        super().__init__()
        self.penalty = penalty

    def value(self, z: Float[Tensor, " batch *state"]) -> Float[Tensor, ""]:
        return self.penalty.value(z).sum()

    def operator(self, z: Float[Tensor, " batch *state"], step: float) -> Float[Tensor, " batch *state"]:
        return self.penalty.prox(z, step)


class FeatureDecay(SeparableRegulariser):
    """R = ½‖z‖²: features are scaled down; T_R(z) = z/(1 + γ). L_z = 1.

    >>> FeatureDecay().operator(torch.tensor([[1.0, -2.0]]), step=1.0)
    tensor([[ 0.5000, -1.0000]])
    """

    def __init__(self) -> None:
        super().__init__(ElasticNet(l1=0.0, l2=1.0))

    @property
    def smoothness(self) -> float | None:
        return 1.0

    def gradient(self, z: Float[Tensor, " batch *state"]) -> Float[Tensor, " batch *state"]:
        return z


class FeatureSparsity(SeparableRegulariser):
    """R = ‖z‖₁: few features are active; T_R is the soft threshold at γ.

    Its ``gradient`` is the subgradient sign(z), which is not Lipschitz: sequential averaging needs a step
    size for it, and theorem 5 does not cover it.

    >>> FeatureSparsity().operator(torch.tensor([[-3.0, 0.5]]), step=1.0)
    tensor([[-2.,  0.]])
    """

    def __init__(self) -> None:
        super().__init__(L1(1.0))

    def gradient(self, z: Float[Tensor, " batch *state"]) -> Float[Tensor, " batch *state"]:
        return z.sign()


class Incay(FeatureRegulariser):
    """R = 2/(‖z‖² + 2ε), summed over samples: features are scaled *up*; not convex. L_z = 1/ε².

    ∇R = −4z/(‖z‖² + 2ε)², so the gradient step is (1 + 4γ/(‖z‖² + 2ε)²)z: an expansion. (Table 2 prints a
    minus, which would shrink.) The Hessian is largest at z = 0, where it is −I/ε².

    Args:
        epsilon: ε > 0. The paper does not state it; 1 makes L_z = 1, as for :class:`FeatureDecay`.

    >>> Incay().operator(torch.tensor([[1.0, 1.0]]), step=4.0)
    tensor([[2., 2.]])
    """

    def __init__(self, epsilon: float = 1.0) -> None:
        super().__init__()
        if not epsilon > 0:
            raise OptionError(f"Incay: epsilon must be above 0: got {epsilon}")
        self.epsilon = float(epsilon)

    @property
    def smoothness(self) -> float | None:
        return 1 / self.epsilon**2

    def value(self, z: Float[Tensor, " batch *state"]) -> Float[Tensor, ""]:
        return (2 / (z.flatten(1).square().sum(1) + 2 * self.epsilon)).sum()

    def gradient(self, z: Float[Tensor, " batch *state"]) -> Float[Tensor, " batch *state"]:
        size = z.flatten(1).square().sum(1).view(-1, *[1] * (z.dim() - 1))
        return -4 * z / (size + 2 * self.epsilon) ** 2

    def extra_repr(self) -> str:
        return f"epsilon={self.epsilon:g}"


class Decorrelation(FeatureRegulariser):
    """R = ½‖DZZᵀD − I‖²_F = ½Σ_{i≠j} cos²(z_i, z_j), D = diag(1/‖z_i‖), over pairs of features (eq. 13).

    With y_i = z_i/‖z_i‖ and G the off-diagonal part of YYᵀ, ∇_i R = 2(I − y_i y_iᵀ)(GY)_i/‖z_i‖. (Table 2
    prints I + y_i y_iᵀ without the 2; but the gradient of a function of directions is orthogonal to z_i.)

    A feature that is zero in the whole batch has no direction: it counts as uncorrelated with all others, and
    ‖z_i‖ is read as (‖z_i‖² + ε)^½.

    Args:
        epsilon: ε > 0, below which a feature's squared norm counts as zero.

    >>> Decorrelation().value(torch.tensor([[1.0, 2.0], [1.0, 2.0]]))
    tensor(1.0000)
    """

    couples_samples = True

    def __init__(self, epsilon: float = 1e-6) -> None:
        super().__init__()
        if not epsilon > 0:
            raise OptionError(f"Decorrelation: epsilon must be above 0: got {epsilon}")
        self.epsilon = float(epsilon)

    def _directions(self, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Y, the norms, and the off-diagonal cosines."""
        self.check_batch(z)
        rows = z.transpose(0, 1).flatten(1)
        norms = (rows.square().sum(1, keepdim=True) + self.epsilon).sqrt()
        directions = rows / norms
        cosines = directions @ directions.T
        return directions, norms, cosines - cosines.diagonal().diag()

    def value(self, z: Float[Tensor, " batch *state"]) -> Float[Tensor, ""]:
        return self._directions(z)[2].square().sum() / 2

    def gradient(self, z: Float[Tensor, " batch *state"]) -> Float[Tensor, " batch *state"]:
        directions, norms, cosines = self._directions(z)
        pulled = 2 * cosines @ directions
        tangent = pulled - directions * (directions * pulled).sum(1, keepdim=True)
        return (tangent / norms).view(z.shape[1], z.shape[0], *z.shape[2:]).transpose(0, 1)

    def extra_repr(self) -> str:
        return f"epsilon={self.epsilon:g}"
