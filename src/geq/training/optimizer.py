"""The optimiser, the parameters that weight decay may touch, and the learning rate of each step.

Decay belongs on weights whose size means something by itself. It does not on

* norm parameters, biases and every other parameter of one axis or none: they scale or shift;
* θ of the γ rules: decay would pull γ to softplus(0)/m, a value of no meaning;
* W_h of the patch kernel (``raw_projection``) and the feedback operators W, W_l: all are bounded by a rule
  already, and decay below the bound starves the feedback until the equilibrium hardly depends on its state.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from geq.bandwidth import GammaRule
from geq.cells import EnergyProblem, UnitLayer
from geq.kernels import PatchGaussianKernel
from geq.training.train_options import OptimizerOptions, ScheduleOptions

NORMS = (nn.modules.batchnorm._NormBase, nn.GroupNorm, nn.LayerNorm, nn.LocalResponseNorm)


def exempt_parameters(model: nn.Module) -> set[str]:
    """The dotted names of the parameters without weight decay.

    >>> sorted(exempt_parameters(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))))
    ['0.bias', '1.bias', '1.weight']
    """
    exempt = {name for name, parameter in model.named_parameters() if parameter.ndim <= 1}
    for path, module in model.named_modules():
        prefix = f"{path}." if path else ""
        if isinstance(module, (*NORMS, GammaRule)):
            exempt |= {prefix + name for name, _ in module.named_parameters()}
        if isinstance(module, PatchGaussianKernel):
            exempt.add(f"{prefix}raw_projection")
        if isinstance(module, (EnergyProblem, UnitLayer)):
            exempt |= {f"{prefix}W.{name}" for name, _ in module.W.named_parameters()}
    return exempt


def parameter_groups(model: nn.Module, weight_decay: float, decay_all: bool = False) -> list[dict[str, Any]]:
    """Groups for a torch optimiser: with and without weight decay. Frozen parameters are in neither."""
    exempt = set() if decay_all else exempt_parameters(model)
    trained = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
    return [
        {"params": [p for name, p in trained if name not in exempt], "weight_decay": weight_decay},
        {"params": [p for name, p in trained if name in exempt], "weight_decay": 0.0},
    ]


def build_optimizer(options: OptimizerOptions, model: torch.nn.Module) -> torch.optim.Optimizer:
    groups = parameter_groups(model, options.weight_decay, options.decay_all)
    if options.optimizer == "adamw":
        return torch.optim.AdamW(groups, lr=options.learning_rate)
    return torch.optim.SGD(
        groups, lr=options.learning_rate, momentum=options.momentum, nesterov=options.nesterov
    )


def learning_rate_factor(options: ScheduleOptions, step: int, steps_per_epoch: int) -> float:
    """Return the factor of the largest learning rate in optimiser step ``step`` (from 0).

    The warm-up rises linearly and reaches 1 with its last step. After it, with t ∈ [0, 1] the share of the
    remaining steps: cosine (1 + cos πt)/2, poly (1 − t)^power, step a factor at each milestone (a share of
    the whole run).

    >>> options = ScheduleOptions(epochs=2, warmup_epochs=1.0)
    >>> [round(learning_rate_factor(options, step, 4), 2) for step in range(8)]
    [0.25, 0.5, 0.75, 1.0, 1.0, 0.85, 0.5, 0.15]
    """
    total = options.epochs * steps_per_epoch
    warmup = min(round(options.warmup_epochs * steps_per_epoch), total)
    if step < warmup:
        return (step + 1) / warmup
    share = (step - warmup) / max(1, total - warmup)
    if options.schedule == "cosine":
        return 0.5 * (1 + math.cos(math.pi * min(share, 1.0)))
    if options.schedule == "poly":
        return (1 - min(share, 1.0)) ** options.power
    if options.schedule == "step":
        return options.step_factor ** sum(step / total >= milestone for milestone in options.milestones)
    return 1.0
