"""Counts what a step would ask of a GPU, without one: kernel launches, and waits for its results."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from geq.kernels import compiled_patch
from geq.solvers import compiled_anderson
from geq_papers.bench.timing import Work

READS = {Tensor.tolist, Tensor.cpu}
"""Functions that have the host wait for the numbers of a tensor, but which are no operation on a CPU."""
WAITING = ("_local_scalar_dense", "equal", "nonzero", "_linalg_svd", "_linalg_eigh")
"""Operations for which the host waits: reads of a number, and decompositions."""


class Launches(TorchDispatchMode):
    """Counts operations that compute something."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Counter[str] = Counter()
        self.paused = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = func.overloadpacket.__name__
        if not self.paused and not func.is_view and name not in ("detach", "alias"):
            self.found[name] += 1
        return func(*args, **(kwargs or {}))


class PretendedDevice(TorchFunctionMode):
    """Inside, every tensor counts as one of a device, but those made without a device or brought to the host.

    Attributes:
        launches: Operations on the device, by name.
        waits: Those for which the host waits, and other reads.
    """

    def __init__(self) -> None:
        super().__init__()
        self._reads: Counter[str] = Counter()
        self.operations = Launches()
        self._host: dict[int, Tensor] = {}  # held, so that nothing else gets the same id

    @property
    def launches(self) -> Counter[str]:
        return self.operations.found

    @property
    def waits(self) -> Counter[str]:
        waiting = {name: self.launches[name] for name in WAITING if self.launches[name]}
        return self._reads + Counter(waiting)

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        on_host = all(id(tensor) in self._host for tensor in given)
        if not given:
            on_host = "device" not in kwargs
        if not on_host and func in READS:
            self._reads[func.__name__] += 1
        self.operations.paused = on_host
        try:
            result = func(*args, **kwargs)
        finally:
            self.operations.paused = False
        moved = func is Tensor.to and any(isinstance(value, torch.device) for value in args[1:])
        if moved and on_host:
            self.operations.found["copy to the device"] += 1
            return result.clone()
        if on_host or func in READS:
            if func is Tensor.cpu and not on_host:
                result = result.clone()
            for tensor in tree_leaves(result):
                if isinstance(tensor, Tensor):
                    self._host[id(tensor)] = tensor
        return result


@contextlib.contextmanager
def without_compiled_code() -> Iterator[None]:
    """Inside, torch does what compiled code does on a CPU, as on a GPU."""
    with contextlib.ExitStack() as stack:
        for module in (compiled_patch, compiled_anderson):
            stack.enter_context(mock.patch.object(module, "load", return_value=None))
        yield


def counted(work: Work) -> PretendedDevice:
    """Return the launches and waits of ``work``, after a first run, which finds what later ones follow."""
    with without_compiled_code():
        work()
        device = PretendedDevice()
        with device, device.operations:
            work()
    return device
