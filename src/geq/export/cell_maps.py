"""The maps of the cells in plain tensor operations, with everything that does not depend on the state bound.

A :class:`PlainMap` says what a cell computes once (``context``), where a solve starts, and ``forward``, the
map that is iterated. They use the cell's own operators and penalties, whose effective weights must be
folded (:func:`fold_norms`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from geq.cells import Cell, DeepCell, EnergyProblem, UnitLayer
from geq.cells.base import State
from geq.constraints import Unconstrained
from geq.equilibrium import Equilibrium
from geq.errors import OptionError
from geq.kernels import (
    GaussianKernel,
    InnerProductKernel,
    Kernel,
    LinearKernel,
    PatchGaussianKernel,
    from_patches,
    to_patches,
)
from geq.operators import Convolution
from geq.operators.operator import Operator, Size
from geq.penalties.base import per_sample


@torch.no_grad()
def fold_norms(module: nn.Module, size: Size | None) -> None:
    """Give every operator in ``module`` its effective weight on maps of this size."""
    for part in module.modules():
        if isinstance(part, Operator):
            weight = part.effective_weight(size).detach().clone(memory_format=torch.contiguous_format)
            part.raw_weight = nn.Parameter(weight, requires_grad=False)
            part.constraint = Unconstrained()


Context = tuple[Tensor, ...]


class PlainMap(nn.Module, ABC):
    """Base class: z ↦ T(z; context), all tensors."""

    @abstractmethod
    def context(self, x: Tensor) -> Context:
        """Return the part of the map that depends on the input only."""

    @abstractmethod
    def start(self, x: Tensor, context: Context) -> State: ...

    @abstractmethod
    def forward(self, z: State, context: Context) -> State: ...

    def state(self, z: State, context: Context) -> State:
        """The state of the cell, from what was iterated."""
        return z


class Feedback(nn.Module):
    """W and Wᵀ with a folded weight.

    The adjoint of a convolution is one with its kernel turned round, at which runtimes are faster than at the
    transposed convolution; the kernel is turned once, here.
    """

    turned: Tensor | None

    def __init__(self, operator: Operator) -> None:
        super().__init__()
        self.operator = operator
        convolution = type(operator) is Convolution
        turned = operator.raw_weight.detach().flip(2, 3).transpose(0, 1).contiguous() if convolution else None
        self.register_buffer("turned", turned)

    def forward(self, z: Tensor) -> Tensor:
        return self.operator.apply_weight(self.operator.raw_weight, z, self.operator.bias)

    def adjoint(self, y: Tensor) -> Tensor:
        if self.turned is None:
            return self.operator.apply_adjoint(self.operator.raw_weight, y)
        return self.operator.apply_weight(self.turned, y)

    def zeros(self, like: Tensor, channels: int) -> Tensor:
        """A map of zeros with so many channels, on the grid of ``like``."""
        shape = list(like.shape)
        shape[self.operator.channel_axis] = channels
        return like.new_zeros(shape)


class Attraction(nn.Module, ABC):
    """grad S(u, v), ∂S/∂u, of one kind of similarity; γ is found once per solve."""

    def scale(self, v: Tensor) -> Context:
        """Return what else is constant during a solve: numbers, and tensors with the batch first."""
        return ()

    @abstractmethod
    def forward(self, u: Tensor, v: Tensor, *scale: Tensor) -> Tensor: ...


class InnerProductAttraction(Attraction):
    """The slope in ⟨v, z⟩, times v."""

    def __init__(self, similarity: InnerProductKernel) -> None:
        super().__init__()
        self.similarity = similarity

    def forward(self, u: Tensor, v: Tensor, *scale: Tensor) -> Tensor:
        if isinstance(self.similarity, LinearKernel):
            return v
        slope = self.similarity.slope(per_sample(u * v), math.prod(u.shape[1:]))
        return slope.view(-1, *[1] * (u.dim() - 1)) * v


class GaussianAttraction(Attraction):
    """βd with d = v − u, β = e^{−γ‖d‖²}."""

    def __init__(self, similarity: GaussianKernel) -> None:
        super().__init__()
        self.gamma = similarity.gamma

    def scale(self, v: Tensor) -> Context:
        expected = torch.full((), float(math.prod(v.shape[1:])), dtype=v.dtype, device=v.device)
        q = per_sample(v.square()).unsqueeze(1)
        return (per_patch(self.gamma(q, expected, False), q),)

    def forward(self, u: Tensor, v: Tensor, *scale: Tensor) -> Tensor:
        d = v - u
        weight = torch.exp(-scale[0] * per_sample(d.square()).unsqueeze(1))
        return weight.view(-1, *[1] * (d.dim() - 1)) * d


class PatchAttraction(Attraction):
    """unpatch(βᵢ dᵢ G) with G = W_hW_hᵀ, folded, and βᵢ = e^{−γ dᵢGdᵢᵀ}."""

    gram: Tensor

    def __init__(self, similarity: PatchGaussianKernel, dtype: torch.dtype) -> None:
        super().__init__()
        self.gamma = similarity.gamma
        self.sizes = similarity.patch, similarity.channel_split
        projection = similarity.projection.detach().to(dtype)
        self.register_buffer("gram", projection @ projection.t())

    def cut(self, d: Tensor) -> tuple[Tensor, Tensor]:
        patches = to_patches(d, *self.sizes)
        projected = patches @ self.gram
        return projected, (patches * projected).sum(-1, keepdim=True)

    def scale(self, v: Tensor) -> Context:
        square = self.cut(v)[1]
        q = square.flatten(1)
        gamma = per_patch(self.gamma(q, self.gram.diagonal().sum(), False), q)
        return (gamma.reshape(square.shape) if gamma.dim() else gamma,)

    def forward(self, u: Tensor, v: Tensor, *scale: Tensor) -> Tensor:
        projected, square = self.cut(v - u)
        return from_patches(torch.exp(-scale[0] * square) * projected, *self.sizes)


class GivenAttraction(Attraction):
    """The gradient that a custom kernel gives by its own ``grad``."""

    def __init__(self, similarity: Kernel) -> None:
        super().__init__()
        self.similarity = similarity

    def forward(self, u: Tensor, v: Tensor, *scale: Tensor) -> Tensor:
        return self.similarity.grad(u, v)


def per_patch(gamma: Tensor, q: Tensor) -> Tensor:
    """γ as one number, or for every distance of q."""
    return gamma.expand(q.shape) if gamma.dim() else gamma


def attraction_of(similarity: Kernel, dtype: torch.dtype) -> Attraction:
    match similarity:
        case PatchGaussianKernel():
            return PatchAttraction(similarity, dtype)
        case GaussianKernel():
            return GaussianAttraction(similarity)
        case InnerProductKernel():
            return InnerProductAttraction(similarity)
    if type(similarity).grad is not Kernel.grad and type(similarity).bind is Kernel.bind:
        return GivenAttraction(similarity)
    raise OptionError(
        f"the kernel {type(similarity).__name__} cannot be exported: its gradient is derived by autograd, "
        "which a file cannot hold; give the kernel a method `grad(u, v)` with tensor operations"
    )


class StateMap(PlainMap):
    """z ↦ prox(∇S(z)) of a hidden problem."""

    def __init__(self, problem: EnergyProblem) -> None:
        super().__init__()
        self.penalty, self.U, self.W = problem.penalty, problem.U, Feedback(problem.W)
        self.acts_on = problem.kernel.acts_on
        self.attraction = attraction_of(problem.kernel, problem.W.raw_weight.dtype)

    def context(self, x: Tensor) -> Context:
        v = self.U(x)
        return v, *self.attraction.scale(v)

    def start(self, x: Tensor, context: Context) -> State:
        return self.W.zeros(context[0], self.W.operator.in_channels)

    def forward(self, z: State, context: Context) -> State:
        assert isinstance(z, Tensor)
        u = self.W(z)
        if self.acts_on == "features":
            return self.penalty.prox(self.W.adjoint(self.attraction(u, *context)))
        return self.penalty.prox(self.attraction(z, *context) + self.W.adjoint(u))


class FeatureSpaceMap(StateMap):
    """u ↦ W·A(u), A(u) = prox(Wᵀm(u)): the smaller equation, as in :mod:`geq.cells.features`."""

    def start(self, x: Tensor, context: Context) -> State:
        return self.W.zeros(context[0], self.W.operator.out_channels)

    def state(self, z: State, context: Context) -> State:
        assert isinstance(z, Tensor)
        if self.acts_on == "features":
            return self.penalty.prox(self.W.adjoint(self.attraction(z, *context)))
        return self.penalty.prox(context[0] + self.W.adjoint(z))

    def forward(self, z: State, context: Context) -> State:
        state = self.state(z, context)
        assert isinstance(state, Tensor)
        return self.W(state)


class UnitMap(nn.Module):
    """z ↦ αWᵀσ(Wz + v) + (1 − α)z."""

    def __init__(self, layer: UnitLayer) -> None:
        super().__init__()
        self.W, self.U, self.penalty = Feedback(layer.W), layer.U, layer.penalty
        self.alpha = float(layer.alpha)

    def forward(self, z: Tensor, v: Tensor) -> Tensor:
        return z + self.alpha * (self.W.adjoint(self.penalty.prox(self.W(z) + v)) - z)


class DeepMap(PlainMap):
    """z ↦ f_L ∘ … ∘ f_1(T_R(z), x)."""

    def __init__(self, cell: DeepCell) -> None:
        super().__init__()
        self.layers = nn.ModuleList(UnitMap(layer) for layer in cell.units)
        self.regulariser, self.regulariser_step = cell.regulariser, cell.regulariser_step

    @property
    def units(self) -> list[UnitMap]:
        return [layer for layer in self.layers if isinstance(layer, UnitMap)]

    def context(self, x: Tensor) -> Context:
        return tuple(layer.U(x) for layer in self.units)

    def start(self, x: Tensor, context: Context) -> State:
        W = self.units[0].W
        zeros = W.zeros(context[0], W.operator.in_channels)
        return x if x.shape[1:] == zeros.shape[1:] else zeros

    def forward(self, z: State, context: Context) -> State:
        assert isinstance(z, Tensor)
        if self.regulariser is not None:
            z = self.regulariser.operator(z, self.regulariser_step)
        for layer, v in zip(self.units, context, strict=True):
            z = layer(z, v)
        return z


class CellMap(PlainMap):
    """Any other cell: its function of the input is recomputed in every step."""

    def __init__(self, cell: Cell) -> None:
        super().__init__()
        self.cell = cell

    def context(self, x: Tensor) -> Context:
        return (x,)

    def start(self, x: Tensor, context: Context) -> State:
        return self.cell.initial_state(self.cell.inject(x))

    def forward(self, z: State, context: Context) -> State:
        return self.cell(z, self.cell.inject(context[0]))


def plain_map(layer: Equilibrium, in_features: bool) -> PlainMap:
    """Return the map of a layer with folded weights, in its features or in its state."""
    cell = layer.cell
    if isinstance(cell, DeepCell):
        return DeepMap(cell)
    if not isinstance(cell, EnergyProblem):
        return CellMap(cell)
    if type(cell) is not EnergyProblem:
        raise OptionError(
            f"the energy of {type(cell).__name__} is differentiated by autograd, which a file cannot "
            "hold: write the map as a Cell of its own"
        )
    return FeatureSpaceMap(cell) if in_features else StateMap(cell)
