"""Number of CPU threads of a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from geq.model.network import Network
from geq.training.option import DeviceOptions

SMALL = 100_000
"""Parameters below which one thread is used: the tensors of such a network are too small to divide, and
threads that wait for a core that another program has cost up to twenty times what they save."""


@contextmanager
def limited_threads(options: DeviceOptions, model: Network) -> Iterator[None]:
    """torch uses the threads of the options inside, and as many as before afterwards."""
    before = torch.get_num_threads()
    chosen = options.threads or (1 if model.parameter_count() < SMALL else before)
    torch.set_num_threads(chosen)
    try:
        yield
    finally:
        torch.set_num_threads(before)
