"""Freezing: what depends on the weights alone is computed once, for inference."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterator
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from geq.errors import FrozenError, check_kind

Value = TypeVar("Value")
AnyModule = TypeVar("AnyModule", bound=nn.Module)

MOST_KEPT = 16
"""Values that a module keeps at once: an effective weight for each size of the maps and each precision."""


def mark(tensor: Tensor) -> tuple[int, int]:
    """Return numbers that differ after a change of a tensor that autograd can see, or of its memory."""
    return tensor.data_ptr(), -1 if tensor.is_inference() else tensor._version


class Kept:
    """Values that a module computed from its weights, and the weights as they were then.

    Args:
        module: Whose parameters, buffers and submodules must not change.
    """

    def __init__(self, module: nn.Module) -> None:
        self.values: dict[Hashable, Any] = {}
        self.parts: list[tuple[dict[str, Any], str, nn.Module]] = []
        self.tensors: list[tuple[dict[str, Any], str, Tensor, tuple[int, int]]] = []
        for part in module.modules():
            self.parts += [(part._modules, n, m) for n, m in part._modules.items() if m is not None]
            for store in (part._parameters, part._buffers):
                self.tensors += [(store, n, t, mark(t)) for n, t in store.items() if t is not None]

    def changed(self) -> str | None:
        """Return the name of what was changed or replaced since; None if nothing was."""
        for store, name, tensor, before in self.tensors:
            if store.get(name) is not tensor or mark(tensor) != before:
                return name
        for store, name, module in self.parts:
            if store.get(name) is not module:
                return name
        return None

    def learned(self) -> bool:
        return any(tensor.requires_grad for _, _, tensor, _ in self.tensors)


class Freezable(nn.Module):
    """A module that can keep what it computes from its weights alone; see :func:`freeze`."""

    _kept: Kept | None = None

    def kept(self, key: Hashable, compute: Callable[[], Value]) -> Value:
        """Return ``compute()``, found once where this module is frozen.

        While gradients of the weights are recorded it is computed each time, with its graph.

        Args:
            key: What it depends on besides the weights.
            compute: Computes it.
        """
        kept = self._kept
        if kept is None:
            return compute()
        changed = kept.changed()
        if changed is not None:
            raise FrozenError(
                f"the weights of a frozen module must not change: {changed} of {type(self).__name__} did; "
                "call train() before changing weights, and geq.freeze(model) again afterwards"
            )
        if torch.is_grad_enabled() and kept.learned():
            return compute()
        if key not in kept.values:
            if len(kept.values) >= MOST_KEPT:
                del kept.values[next(iter(kept.values))]
            # Not in inference mode: what is kept must serve a later pass that records gradients of its input.
            with torch.inference_mode(False), torch.no_grad():
                kept.values[key] = compute()
        value: Value = kept.values[key]
        return value

    @property
    def frozen(self) -> bool:
        return self._kept is not None

    def train(self, mode: bool = True) -> Any:
        if mode:
            self._kept = None
        return super().train(mode)

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        """Stay frozen when moved or converted, which changes no weight; compute anew."""
        result = super()._apply(fn, recurse)
        if self._kept is not None:
            self._kept = Kept(self)
        return result

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": None}  # a copy has weights of its own, and is not frozen


def freeze(model: AnyModule) -> AnyModule:
    """Put a model into evaluation mode and compute what depends on its weights only once; return it.

    Kept are the effective weights of W and U (with their norms), the Gram matrices of patch kernels, γ where
    it does not depend on the input, and the norms behind convolutions, folded into these. Each is computed at
    its first use. Results are the same up to rounding.

    A forward pass after a change of the weights raises :class:`~geq.errors.FrozenError`: after an
    optimiser's step, ``load_state_dict``, an assignment, or any other change in place that autograd can see
    (an edit through ``.data`` or NumPy leaves no trace and is not noticed). ``model.train()`` undoes it, and
    so does a copy; moving the model to another device or precision does not.
    Parameters still receive gradients: where they are recorded, nothing kept is used.

    Args:
        model: Any module, with layers of geq anywhere inside.

    >>> from geq.layers import GEQ2d
    >>> layer = freeze(GEQ2d(3, 16))
    >>> with torch.no_grad():
    ...     layer(torch.ones(1, 3, 8, 8)).shape
    torch.Size([1, 16, 8, 8])
    """
    check_kind("model", model, nn.Module, "geq.create_model('geq_tiny')")
    model.eval()
    for module in model.modules():
        if isinstance(module, Freezable):
            module._kept = Kept(module)
    return model


@contextlib.contextmanager
def frozen(model: nn.Module) -> Iterator[None]:
    """Freeze a model inside; then return to training, or to evaluation with what was frozen before."""
    training = model.training
    before = {module: module._kept for module in model.modules() if isinstance(module, Freezable)}
    freeze(model)
    try:
        yield
    finally:
        model.train(training)
        for module, kept in before.items():
            module._kept = kept
