"""Timing in turns and the ratios of paired timings, counting of bytes, and replaying of convolutions."""

from __future__ import annotations

import gc
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from geq.errors import InputError

Work = Callable[[], Any]


def clock() -> float:
    """CPU time with one thread, which other programs cannot lengthen much; else the time on the wall."""
    return time.process_time() if torch.get_num_threads() == 1 else time.perf_counter()


def in_turns(works: Mapping[str, Work], repeats: int, warm_up: int = 1) -> dict[str, list[float]]:
    """Seconds of each work, ``repeats`` times, in turns; every other round runs backwards."""
    for work in works.values():
        for _ in range(warm_up):
            work()
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(repeats):
        for name in list(works) if turn % 2 == 0 else list(works)[::-1]:
            start = clock()
            works[name]()
            seconds[name].append(clock() - start)
    return seconds


def peak_bytes(work: Work) -> int:
    """The most memory that torch held during ``work``, above what it held before.

    Taken from the allocations and releases in a trace of torch's profiler: exact, and the same on each run,
    unlike the size of a process. What a library takes from the system behind torch's back (scratch space of a
    convolution) is not in it, on either side of a comparison.
    """
    from torch.profiler import ProfilerActivity, profile

    gc.collect()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        kept = work()
    del kept
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(trace))
        events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
    changes = [(event["ts"], event["args"]["Bytes"]) for event in events if event.get("name") == "[memory]"]
    held = peak = 0
    for _, change in sorted(changes, key=lambda pair: pair[0]):
        held += change
        peak = max(peak, held)
    return peak


class Convolutions(TorchDispatchMode):
    """Inside ``with``, notes every convolution and its backward; ``replay`` then runs them and nothing else.

    That is the limit for any implementation that does the same convolutions. Arguments are replaced by
    tensors of the same shape and memory order, shared between calls.
    """

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []
        self._tensors: dict[Any, Tensor] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func.overloadpacket in (torch.ops.aten.convolution, torch.ops.aten.convolution_backward):
            self.calls.append((func, *tree_map_only(Tensor, self._stand_in, (args, kwargs))))
        return func(*args, **kwargs)

    def _stand_in(self, tensor: Tensor) -> Tensor:
        key = (tuple(tensor.shape), tensor.stride(), tensor.dtype)
        if key not in self._tensors:
            self._tensors[key] = torch.randn_like(tensor)
        return self._tensors[key]

    @torch.no_grad()
    def replay(self) -> None:
        for func, args, kwargs in self.calls:
            func(*args, **kwargs)


@dataclass(frozen=True)
class Ratio:
    """The median of paired ratios, and their quartiles as the spread."""

    median: float
    low: float
    high: float
    repeats: int


def ratio(numerator: Sequence[float], denominator: Sequence[float]) -> Ratio:
    """Ratio of two series that were measured in turns.

    The ratio is taken pair by pair, so that a machine that is slow for a while slows both of a pair; the
    median then forgets the pairs in which only one was disturbed.

    >>> ratio([2.0, 4.0, 60.0], [1.0, 2.0, 3.0])
    Ratio(median=2.0, low=2.0, high=20.0, repeats=3)
    """
    if len(numerator) != len(denominator) or not numerator:
        raise InputError(
            "a ratio needs two series of equal length, with at least one repeat: "
            f"got {len(numerator)} and {len(denominator)}"
        )
    if min(*numerator, *denominator) <= 0:
        raise InputError("timings must be above 0; measure more work per repeat")
    ratios = sorted(a / b for a, b in zip(numerator, denominator, strict=True))
    quarter = len(ratios) // 4
    return Ratio(statistics.median(ratios), ratios[quarter], ratios[-1 - quarter], len(ratios))


def constant(value: float) -> Ratio:
    """A number without spread, such as a count of bytes."""
    return Ratio(value, value, value, 1)
