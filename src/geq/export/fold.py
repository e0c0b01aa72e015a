"""Effective weights in place of the stored ones: what norm rules compute in evaluation is a constant."""

from __future__ import annotations

import torch
from torch import nn

from geq.problem import Conv2d, NoNorm, Operator


@torch.no_grad()
def fold_norms(module: nn.Module) -> None:
    """Give every operator in ``module`` its effective weight, at the size of the last map that it saw."""
    for part in module.modules():
        if isinstance(part, Operator):
            raw = part.raw_weight
            like = raw.new_empty(1, 1, *part.grid) if isinstance(part, Conv2d) else raw
            weight = part.bind(like).weight.detach().clone(memory_format=torch.contiguous_format)
            part.raw_weight = nn.Parameter(weight, requires_grad=False)
            part.norm = NoNorm()
