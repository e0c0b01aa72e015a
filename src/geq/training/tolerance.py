"""Evaluation that measures non-convergence instead of ending with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from geq.equilibrium import Equilibrium


@contextmanager
def measured_failures(model: nn.Module) -> Iterator[None]:
    """Inside, an equilibrium that misses its tolerance gives its best iterate, and its statistics tell.

    By default it raises in evaluation; a run of hours must not end because of one sample, and the share of
    such samples is in the log.
    """
    layers = [module for module in model.modules() if isinstance(module, Equilibrium)]
    before = [layer.on_failure for layer in layers]
    for layer in layers:
        layer.on_failure = "ignore"
    try:
        yield
    finally:
        for layer, value in zip(layers, before, strict=True):
            layer.on_failure = value
