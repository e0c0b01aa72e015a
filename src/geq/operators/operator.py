"""Linear operators W and U with exact adjoints.

An :class:`Operator` owns a weight and a constraint on it. ``bind`` computes the effective weight once and
returns a :class:`LinearMap`, which a solve applies many times.
"""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from geq.certificates.enclosure import QUICK, Enclosure, convolution_enclosure, matrix_enclosure
from geq.constraints.spectral import Constraint, SpectralBound, Unconstrained
from geq.errors import CheckedOptions, InputError, OptionError, check_kind
from geq.frozen import Freezable

Size = tuple[int, int]
"""Height and width of maps."""

CHANNELS_LAST_SIDE = 6
"""Maps of at least this side are kept with their channels last in memory (on a CPU).

By ``geq bench --case layout``. A measurement at run time would be faster still on some processor, but results
would then depend on it in their last digits.
"""


def size_of(maps: Any) -> Size | None:
    """Height and width of a batch of maps; None for vectors."""
    return (maps.shape[2], maps.shape[3]) if isinstance(maps, Tensor) and maps.dim() == 4 else None


def channels_last(maps: Tensor) -> bool:
    """Return whether a batch of maps is contiguous in memory with its channels last, and only so."""
    if maps.dim() != 4 or maps.is_contiguous():
        return False
    return maps.is_contiguous(memory_format=torch.channels_last)


def working_dtype(dtype: torch.dtype) -> torch.dtype:
    """Fixed points are found in at least float32: half precision cannot resolve a useful tolerance."""
    return torch.promote_types(dtype, torch.float32)


@dataclass(frozen=True)
class LinearMap:
    """An operator with its effective weight at hand: ``map(z) = Az + b`` and ``map.adjoint(y) = Aᵀy``."""

    operator: Operator
    weight: Tensor
    bias: Tensor | None

    def __call__(self, z: Tensor) -> Tensor:
        return self.operator.apply_weight(self.weight, z, self.bias)

    def adjoint(self, y: Tensor) -> Tensor:
        return self.operator.apply_adjoint(self.weight, y)

    def weight_gradient(self, z: Tensor, y: Tensor) -> Tensor:
        """Gradient of ⟨y, Az⟩ in the weight."""
        return self.operator.weight_gradient(self.weight, z, y)


class Operator(Freezable, metaclass=CheckedOptions):
    """Base class of :class:`Dense` and :class:`Convolution`.

    ``constraint=None`` leaves the choice to the operator's role: a :class:`~geq.EnergyProblem` gives its
    feedback W the bound ‖W‖ ≤ 0.95, and U none.
    """

    raw_weight: nn.Parameter
    bias: nn.Parameter | None
    in_channels: int
    out_channels: int
    channel_axis: int

    def __init__(self, weight: Tensor, bias: bool, constraint: Constraint | None) -> None:
        super().__init__()
        fan_in = weight[0].numel()
        nn.init.normal_(weight, std=1.0 / math.sqrt(fan_in))
        self.raw_weight = nn.Parameter(weight)
        self.bias = nn.Parameter(weight.new_zeros(weight.shape[0])) if bias else None
        self.role_decides_constraint = constraint is None
        self.constraint: Constraint = Unconstrained()
        self.adopt_constraint(Unconstrained() if constraint is None else constraint)

    def adopt_constraint(self, constraint: Constraint) -> None:
        """Take a copy of ``constraint``: constraints have state, and two operators must not share it."""
        check_kind("constraint", constraint, Constraint, "geq.constraints.SpectralBound(0.95)")
        self.constraint = copy.deepcopy(constraint)
        self.constraint.adopt(self.raw_weight)

    @torch.no_grad()
    def restart(self, weight: Tensor) -> None:
        """Give a new operator other weights to start from; its constraint starts anew from these."""
        self.raw_weight.copy_(weight)
        self.constraint.adopt(self.raw_weight)

    def bound_as_feedback(self) -> None:
        if self.role_decides_constraint:
            self.adopt_constraint(SpectralBound())
            self.role_decides_constraint = False

    @abstractmethod
    def apply_weight(self, weight: Tensor, z: Tensor, bias: Tensor | None = None) -> Tensor: ...

    @abstractmethod
    def apply_adjoint(self, weight: Tensor, y: Tensor) -> Tensor: ...

    @abstractmethod
    def weight_gradient(self, weight: Tensor, z: Tensor, y: Tensor) -> Tensor:
        """Gradient of ⟨y, Az⟩ in the weight."""

    @abstractmethod
    def argument_shape(self, like: Tensor) -> tuple[int, ...]:
        """Shape of one argument, with a batch axis of 1, where ``like`` is any map on the same grid."""

    def arranged(self, maps: Tensor) -> Tensor:
        """``maps`` in the memory order in which this operator is fastest."""
        return maps

    @abstractmethod
    def check(self, x: Tensor, channels: int, what: str) -> None:
        """Refuse a tensor whose shape does not fit, naming what must hold."""

    def bind(self, like: Tensor) -> LinearMap:
        """Effective weight for arguments on the grid, and in precision and memory order of ``like``."""
        last = self.raw_weight.dim() == 4 and channels_last(like)
        shape = self.argument_shape(like)

        def effective() -> LinearMap:
            weight = self.raw_weight.to(like.dtype)
            if type(self.constraint) is not Unconstrained:
                weight = self.constraint(weight, self.apply_weight, self.apply_adjoint, shape)
            if last:  # a weight in another order than the maps would be reordered in every convolution
                weight = weight.contiguous(memory_format=torch.channels_last)
            return LinearMap(self, weight, None if self.bias is None else self.bias.to(like.dtype))

        return self.kept((like.dtype, shape, last), effective)

    def forward(self, x: Tensor) -> Tensor:
        self.check(x, self.in_channels, f"the argument of {type(self).__name__}")
        return self.bind(x)(x)

    def adjoint(self, y: Tensor) -> Tensor:
        self.check(y, self.out_channels, f"the argument of the adjoint of {type(self).__name__}")
        return self.bind(y).adjoint(y)

    @abstractmethod
    def like_maps(self, size: Size | None) -> Tensor:
        """Something on the grid and in the precision of the maps of a solve."""

    def effective_weight(self, size: Size | None = None) -> Tensor:
        """Return the weight that a solve on maps of a size uses: constrained, and in its precision."""
        return self.bind(self.like_maps(size)).weight

    @abstractmethod
    def norm_enclosure(self, size: Size | None = None, budget: float = QUICK) -> Enclosure:
        """Bounds of ‖A‖ from both sides, for the effective weight.

        Args:
            size: height and width of the maps, which the norm of a convolution depends on.
            budget: multiply-adds that the upper bound may take; see :mod:`geq.certificates.enclosure`.
        """


class Dense(Operator):
    """A matrix: ``z ↦ Az + b`` on the last axis.

    Args:
        in_features, out_features: sizes of the argument and of the value.
        bias: whether b exists.
        constraint: Constraint on the weight; None leaves it to the role (see :class:`Operator`).

    >>> a = Dense(3, 2)
    >>> z, y = torch.randn(5, 3), torch.randn(5, 2)
    >>> torch.allclose((a(z) * y).sum(), (z * a.adjoint(y)).sum(), atol=1e-5)
    True
    """

    channel_axis = -1

    def __init__(
        self, in_features: int, out_features: int, bias: bool = False, constraint: Constraint | None = None
    ) -> None:
        if in_features < 1 or out_features < 1:
            raise OptionError(f"a matrix needs positive sizes: got {in_features} → {out_features}")
        super().__init__(torch.empty(out_features, in_features), bias, constraint)
        self.in_channels, self.out_channels = in_features, out_features

    @property
    def weight(self) -> Float[Tensor, "out in"]:
        """The effective weight, which does not depend on a size here."""
        return self.effective_weight()

    def like_maps(self, size: Size | None) -> Tensor:
        return self.raw_weight.detach().to(working_dtype(self.raw_weight.dtype))

    def apply_weight(self, weight: Tensor, z: Tensor, bias: Tensor | None = None) -> Tensor:
        return F.linear(z, weight, bias)

    def apply_adjoint(self, weight: Tensor, y: Tensor) -> Tensor:
        return F.linear(y, weight.t())

    def weight_gradient(self, weight: Tensor, z: Tensor, y: Tensor) -> Tensor:
        return y.flatten(0, -2).t() @ z.flatten(0, -2)

    def argument_shape(self, like: Tensor) -> tuple[int, ...]:
        return (1, self.in_channels)

    def check(self, x: Tensor, channels: int, what: str) -> None:
        if x.dim() < 2 or x.shape[-1] != channels:
            raise InputError(f"{what} must be (batch, …, {channels}): got {tuple(x.shape)}")

    def norm_enclosure(self, size: Size | None = None, budget: float = QUICK) -> Enclosure:
        return matrix_enclosure(self.effective_weight())

    def extra_repr(self) -> str:
        return f"{self.in_channels}, {self.out_channels}, bias={self.bias is not None}"


class Convolution(Operator):
    """A convolution with stride 1 that keeps the map's size, and its exact adjoint.

    Args:
        in_channels, out_channels: channels of the argument and of the value.
        kernel_size: odd side of the kernel.
        padding: ``"zeros"`` or ``"circular"``.
        bias: whether a bias exists.
        constraint: Constraint on the weight; None leaves it to the role (see :class:`Operator`).

    >>> a = Convolution(3, 2, padding="circular")
    >>> z, y = torch.randn(5, 3, 6, 6), torch.randn(5, 2, 6, 6)
    >>> torch.allclose((a(z) * y).sum(), (z * a.adjoint(y)).sum(), atol=1e-4)
    True
    """

    PADDINGS = ("zeros", "circular")
    channel_axis = 1

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int = 3,
        padding: str = "zeros",
        bias: bool = False,
        constraint: Constraint | None = None,
    ) -> None:
        self.check_options(in_channels, out_channels, kernel_size, padding)
        super().__init__(torch.empty(out_channels, in_channels, kernel_size, kernel_size), bias, constraint)
        self.in_channels, self.out_channels, self.padding = in_channels, out_channels, padding
        self.margin = kernel_size // 2

    def check_options(self, in_channels: int, out_channels: int, kernel_size: int, padding: str) -> None:
        if in_channels < 1 or out_channels < 1:
            raise OptionError(f"a convolution needs positive channels: got {in_channels} → {out_channels}")
        if kernel_size < 1 or kernel_size % 2 == 0:
            raise OptionError(
                f"kernel_size must be odd, so that the map keeps its size: got {kernel_size}; use 1, 3, 5 …"
            )
        if padding not in self.PADDINGS:
            raise OptionError(f"padding must be one of {', '.join(self.PADDINGS)}: got {padding!r}")

    def like_maps(self, size: Size | None) -> Tensor:
        """Return an empty map of a size, in the precision of a solve."""
        if size is None:
            raise OptionError(
                "the norm of a convolution depends on the size of its maps: give it, for instance "
                "well_posedness((8, 8)) for maps of 8×8"
            )
        return self.raw_weight.new_empty(1, 1, *size, dtype=working_dtype(self.raw_weight.dtype))

    def arranged(self, maps: Tensor) -> Tensor:
        if maps.device.type != "cpu":
            return maps
        wide = min(maps.shape[-2:]) >= CHANNELS_LAST_SIDE
        return maps.contiguous(memory_format=torch.channels_last if wide else torch.contiguous_format)

    def pad(self, x: Tensor) -> Tensor:
        return F.pad(x, (self.margin,) * 4, mode="circular") if self.margin else x

    def apply_weight(self, weight: Tensor, z: Tensor, bias: Tensor | None = None) -> Tensor:
        if self.padding == "zeros":
            return F.conv2d(z, weight, bias, padding=self.margin)
        return F.conv2d(self.pad(z), weight, bias)

    def apply_adjoint(self, weight: Tensor, y: Tensor) -> Tensor:
        if self.padding == "zeros":
            return F.conv_transpose2d(y, weight, padding=self.margin)
        return F.conv2d(self.pad(y), weight.flip(2, 3).transpose(0, 1))

    def weight_gradient(self, weight: Tensor, z: Tensor, y: Tensor) -> Tensor:
        # As the backward of the convolution computes it, asked for the weight alone.
        zeros = self.padding == "zeros"
        argument, margin = (z, self.margin) if zeros else (self.pad(z), 0)
        ones, none, wanted = [1, 1], [0, 0], [False, True, False]
        return torch.ops.aten.convolution_backward(
            y, argument, weight, None, ones, [margin, margin], ones, False, none, 1, wanted
        )[1]

    def argument_shape(self, like: Tensor) -> tuple[int, ...]:
        return (1, self.in_channels, int(like.shape[-2]), int(like.shape[-1]))

    def check(self, x: Tensor, channels: int, what: str) -> None:
        if x.dim() != 4 or x.shape[1] != channels:
            raise InputError(f"{what} must be (batch, {channels}, height, width): got {tuple(x.shape)}")
        if min(x.shape[-2:]) < max(1, self.margin):
            raise InputError(
                f"a map must be at least {max(1, self.margin)} pixels wide for a kernel of "
                f"{2 * self.margin + 1}: got {tuple(x.shape[-2:])}"
            )

    def norm_enclosure(self, size: Size | None = None, budget: float = QUICK) -> Enclosure:
        """On small maps a tenth of a percent wide, and narrower for circular padding."""
        weight = self.full_kernel(self.effective_weight(size))
        assert size is not None
        return convolution_enclosure(weight, *size, self.padding, budget=budget)

    def full_kernel(self, weight: Tensor) -> Float[Tensor, "out in k k"]:
        """Return the kernel of the convolution that a weight stands for."""
        return weight

    def extra_repr(self) -> str:
        kernel = 2 * self.margin + 1
        return (
            f"{self.in_channels}, {self.out_channels}, kernel_size={kernel}, padding={self.padding!r}, "
            f"bias={self.bias is not None}"
        )
