"""Outlines: networks on the meta device, which have shapes and no numbers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode


class WithoutDrawing(TorchFunctionMode):
    """Draws no numbers for tensors without memory: for these torch would import its compiler, two seconds."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is Tensor.normal_ or getattr(func, "__module__", None) == torch.nn.init.__name__:
            return args[0] if args else (kwargs or {})["tensor"]
        return func(*args, **(kwargs or {}))
