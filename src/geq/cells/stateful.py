"""Modules with a state inside of a cell: the same map in every evaluation of a solve.

Dropout draws a mask per evaluation and batch norm moves its running statistics, so that the map of a solve
would be another one each time, and have no fixed point. Here every evaluation of one equation, those in
backward included, draws the same random numbers; running statistics are updated once, at the solution.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase
from torch.nn.utils import parametrize


def modules_of(function: Any) -> list[nn.Module]:
    """Return the modules that a function reaches: its own, in a closure, a partial, or by a global name."""
    if isinstance(function, nn.Module):
        return list(function.modules())
    reached: list[Any] = []
    if isinstance(function, functools.partial):
        reached += [function.func, *function.args, *function.keywords.values()]
    elif inspect.ismethod(function):
        reached += [function.__self__, function.__func__]
    elif inspect.isfunction(function):
        reached += [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
        for cell in function.__closure__ or ():
            with contextlib.suppress(ValueError):  # a name that is not bound yet
                reached.append(cell.cell_contents)
        reached += [function.__globals__.get(name) for name in function.__code__.co_names]
    found: dict[int, nn.Module] = {}
    for one in reached:
        nested = isinstance(one, (nn.Module, functools.partial)) or inspect.isroutine(one)
        if nested and not isinstance(one, ModuleType) and one is not function:
            inner = one.modules() if isinstance(one, nn.Module) else closure_modules(one)
            found.update((id(module), module) for module in inner)
    return list(found.values())


def closure_modules(function: Any) -> list[nn.Module]:
    """Return the modules in the closure of an inner function; global names are followed one level only."""
    cells = getattr(function, "__closure__", None) or ()
    inner = [cell.cell_contents for cell in cells if isinstance(cell.cell_contents, nn.Module)]
    return [module for one in inner for module in one.modules()]


def norms(modules: list[nn.Module]) -> list[_NormBase]:
    """Return the norms that look at the batch, or whose running statistics an evaluation moves."""
    return [m for m in modules if isinstance(m, _NormBase) and (m.training or couples(m))]


def couples(norm: _NormBase) -> bool:
    """Return whether a norm takes the statistics of the whole batch."""
    return isinstance(norm, _BatchNorm) and (norm.training or norm.running_mean is None)


@contextlib.contextmanager
def not_tracked(norms: list[_NormBase]) -> Iterator[None]:
    """Inside, running statistics stay as they are; those of the batch are used all the same."""
    before = [norm.track_running_stats for norm in norms]
    for norm in norms:
        norm.track_running_stats = False
    try:
        yield
    finally:
        for norm, value in zip(norms, before, strict=True):
            norm.track_running_stats = value


def used(norms: list[Any], evaluate: Callable[[], Any]) -> list[Any]:
    """Return those of some modules that an evaluation calls."""
    called: dict[int, nn.Module] = {}
    handles = [
        norm.register_forward_pre_hook(lambda module, _: called.__setitem__(id(module), module))
        for norm in norms
    ]
    try:
        evaluate()
    finally:
        for handle in handles:
            handle.remove()
    return [norm for norm in norms if id(norm) in called]


class SameRandomNumbers:
    """Lets every evaluation of a map draw the random numbers of the first.

    After the first, whatever draws from the generators, as if there had been only one evaluation. A map that
    draws nothing costs two looks at the state of the generators.
    """

    def __init__(self) -> None:
        self.before: dict[torch.device, Tensor] | None = None
        self.draws = False

    def evaluate(self, device: torch.device, function: Callable[[], Any]) -> Any:
        if self.before is None:
            self.before = generator_states(device)
            image = function()
            after = generator_states(device)
            self.draws = any(not torch.equal(state, after[at]) for at, state in self.before.items())
            return image
        if not self.draws:
            return function()
        kept = generator_states(device)
        restore(self.before)
        try:
            return function()
        finally:
            restore(kept)


def generator_states(device: torch.device) -> dict[torch.device, Tensor]:
    """Return the state of the generator of the CPU, and of a device that has its own."""
    states = {torch.device("cpu"): torch.get_rng_state()}
    if device.type == "cuda":
        states[device] = torch.cuda.get_rng_state(device)
    elif device.type not in ("cpu", "meta"):
        states[device] = torch.get_device_module(device).get_rng_state()
    return states


def restore(states: dict[torch.device, Tensor]) -> None:
    for device, state in states.items():
        if device.type == "cpu":
            torch.set_rng_state(state)
        elif device.type == "cuda":
            torch.cuda.set_rng_state(state, device)
        else:
            torch.get_device_module(device).set_rng_state(state)


class ComputedOnce:
    """The parametrized weights of some modules (weight norm, spectral norm), computed here, with their graph.

    Computed at their first use in a solve, which records no graph, their parameters would get no gradient.
    """

    def __init__(self, modules: list[nn.Module]) -> None:
        self.weights: dict[tuple[int, str], Tensor] = {}
        for module in modules:
            if parametrize.is_parametrized(module):
                for name in module.parametrizations:  # type: ignore[union-attr]
                    self.weights[id(module), name] = getattr(module, name)

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Inside, the modules take these weights."""
        if not self.weights:
            yield
            return
        with parametrize.cached():
            # torch has no way in but this one; a test holds that it is there.
            parametrize._cache.update(self.weights)
            yield
