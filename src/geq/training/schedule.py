"""The learning rate as a pure function of the step, so that a resumed run needs nothing but its position."""

from __future__ import annotations

import math

from geq.training.option import ScheduleOptions


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
