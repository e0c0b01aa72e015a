"""Effective weights in place of the stored ones: what norm rules compute in evaluation is a constant."""

from __future__ import annotations

import torch
from torch import nn

from geq.constraints import Unconstrained
from geq.operators import Operator
from geq.operators.operator import Size


@torch.no_grad()
def fold_norms(module: nn.Module, size: Size | None) -> None:
    """Give every operator in ``module`` its effective weight on maps of this size."""
    for part in module.modules():
        if isinstance(part, Operator):
            weight = part.effective_weight(size).detach().clone(memory_format=torch.contiguous_format)
            part.raw_weight = nn.Parameter(weight, requires_grad=False)
            part.constraint = Unconstrained()
