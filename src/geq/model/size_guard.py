"""A limit to what may be built: about as many parameters as a file has numbers for."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from geq.errors import CheckpointError

SHARED = 4
"""Maximum number of times that a parameter is registered before its network is complete: ties replace it."""


@contextmanager
def no_larger_than(stored: Mapping[str, Tensor], path: Path) -> Iterator[None]:
    """While inside, this thread cannot make modules with far more parameters than ``stored`` numbers.

    A configuration of a hundred bytes can name a million layers; building stops where the weights end.
    """
    left = SHARED * (sum(tensor.numel() for tensor in stored.values()) + len(stored))
    builder = threading.get_ident()

    def count(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        nonlocal left
        if parameter is not None and threading.get_ident() == builder:
            left -= parameter.numel() + 1
            if left < 0:
                raise CheckpointError(f"{path} has too few numbers for the network of its configuration")

    hook = register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        hook.remove()
