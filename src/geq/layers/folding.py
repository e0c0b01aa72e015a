"""Convolutions and the norms behind them as one, for inference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from geq.constraints import Unconstrained
from geq.frozen import Freezable
from geq.operators import Convolution, Dense
from geq.operators.operator import channels_last

Step = Callable[[Tensor], Tensor]
FOLDED = (torch.float32, torch.float64)
"""Precisions in which a folded norm differs by no more than the rounding of a solve."""
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)


class NormFolding(Freezable, nn.Sequential):
    """``nn.Sequential`` in which, once frozen, a convolution or matrix takes over the batch norm behind it.

    Where a hook looks at one of the parts, they are computed one by one.
    """

    def forward(self, input: Tensor) -> Tensor:
        if not self.frozen or input.dtype not in FOLDED or any(map(hooked, self)):
            result: Tensor = super().forward(input)
            return result
        dtype, last = input.dtype, channels_last(input)
        steps = self.kept((dtype, last), lambda: folded_steps([*self], dtype, last))
        for step in steps:
            input = step(input)
        return input


def hooked(part: nn.Module) -> bool:
    return bool(part._forward_hooks or part._forward_pre_hooks or part._backward_hooks)


def folded_steps(parts: list[nn.Module], dtype: torch.dtype, last: bool) -> list[Step]:
    """Return the parts in their order, each with the norm behind it where it can take that over.

    Args:
        parts: Modules to call one after the other.
        dtype: Precision of the input.
        last: Whether the channels of the input come last in memory.
    """
    steps: list[Step] = []
    left = list(parts)
    while left:
        part = left.pop(0)
        if left and linear(part, dtype) and fixed(left[0]):
            steps.append(folded(part, left.pop(0), last))
        else:
            steps.append(part)
    return steps


def linear(part: Any, dtype: torch.dtype) -> bool:
    """Return whether a part is a linear map of known form, with weights of a precision."""
    if type(part) in (Convolution, Dense):
        return type(part.constraint) is Unconstrained and part.raw_weight.dtype == dtype
    if type(part) is nn.Conv2d:
        return part.padding_mode == "zeros" and part.weight.dtype == dtype
    return False


def fixed(norm: Any) -> bool:
    """Return whether a norm is a fixed affine map of each channel."""
    return type(norm) in NORMS and not norm.training and norm.running_mean is not None


def folded(part: Any, norm: Any, last: bool) -> Step:
    """Return x ↦ norm(part(x)) with one product."""
    weight = part.weight if type(part) is nn.Conv2d else part.raw_weight
    scale = (norm.running_var.to(weight.dtype) + norm.eps).rsqrt()
    if norm.weight is not None:
        scale = scale * norm.weight
    mean = norm.running_mean if part.bias is None else norm.running_mean - part.bias
    bias = -mean * scale if norm.bias is None else norm.bias - mean * scale
    weight = weight * scale.view(-1, *[1] * (weight.dim() - 1))
    if last and weight.dim() == 4:
        weight = weight.contiguous(memory_format=torch.channels_last)
    if type(part) is nn.Conv2d:
        convolution: nn.Conv2d = part
        stride, padding, dilation = convolution.stride, convolution.padding, convolution.dilation
        return lambda x: F.conv2d(x, weight, bias, stride, padding, dilation, convolution.groups)

    def step(x: Tensor) -> Tensor:
        part.check(x, part.in_channels, f"the argument of {type(part).__name__}")
        return part.apply_weight(weight, x, bias)

    return step
