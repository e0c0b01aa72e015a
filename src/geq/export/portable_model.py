"""A model in plain tensor operations: its weights folded, each equilibrium one traceable loop."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from geq.cells import FeatureEquation
from geq.cells.base import State, parts_of
from geq.constraints import Unconstrained
from geq.equilibrium import Equilibrium, ignore_failures
from geq.errors import InputError, OptionError
from geq.export.cell_maps import PlainMap, fold_norms, plain_map
from geq.export.iteration import BATCH, SolvedState, TracedMap, find_fixed_point, residual_norms, steps_of
from geq.export.output_file import reason, without_noise
from geq.gradients import SequentialAveraging, Unrolled
from geq.operators import Operator
from geq.operators.operator import size_of
from geq.solvers import rules
from geq.solvers.fixed_point import Packing


@dataclass
class PortableSolve:
    """State shared by the layers of one forward pass: how far to solve, and how far they came."""

    tolerance: Tensor | None = None
    max_steps: Tensor | None = None
    found: list[tuple[Tensor, Tensor, Tensor]] = field(default_factory=list)

    def begin(self, tolerance: Tensor, max_steps: Tensor) -> None:
        self.tolerance, self.max_steps, self.found = tolerance, max_steps, []

    def end(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return residual, steps and convergence; nothing of the pass is kept."""
        residual, steps, reached = (torch.stack(parts, 1) for parts in zip(*self.found, strict=True))
        self.tolerance, self.max_steps, self.found = None, None, []
        return residual, steps, reached.all(1)


class PortableEquilibrium(nn.Module):
    """One equilibrium: the map of its cell in plain operations, and its loop.

    Args:
        layer: Layer with folded weights.
        in_features: Whether it is solved in its features.
        strictness: Factor of its tolerance to that of the model.
        solve: Shared by all layers of the model.
        example: An input with at least two samples; the tracer takes one for a constant.
    """

    def __init__(
        self, layer: Equilibrium, in_features: bool, strictness: float, solve: PortableSolve, example: Tensor
    ) -> None:
        super().__init__()
        self.map: PlainMap = plain_map(layer, in_features)
        self.unrolled = layer.gradient if isinstance(layer.gradient, Unrolled) else None
        self.solver = steps_of(layer.solver)
        self.strictness, self.solve = strictness, solve
        if self.unrolled is None:
            context = self.map.context(example)
            try:
                with without_noise():
                    self.traced = TracedMap(self.map, self.map.start(example, context), context)
            except Exception as problem:  # the tracer has no common class of errors
                raise OptionError(
                    f"the map of a {type(layer.cell).__name__} does something that torch.export cannot trace "
                    f"for any number of samples: {reason(problem)}"
                ) from problem

    def forward(self, x: Tensor) -> State:
        assert self.solve.tolerance is not None
        assert self.solve.max_steps is not None
        tolerance = self.solve.tolerance * self.strictness
        context = self.map.context(x)
        start = self.map.start(x, context)
        parts = parts_of(start)
        shapes = tuple(tuple(int(side) for side in part.shape[1:]) for part in parts)
        packing = Packing(shapes, (False,) * len(parts), isinstance(start, tuple))
        if self.unrolled is not None:
            found = self.unroll(packing, start, context, tolerance)
        else:
            found = self.find(packing, packing.pack(start), context, tolerance, self.solve.max_steps)
        self.solve.found.append((found.residual, found.steps, found.residual <= tolerance))
        return self.map.state(packing.unpack(found.value), context)

    def find(
        self,
        packing: Packing,
        start: Tensor,
        context: tuple[Tensor, ...],
        tolerance: Tensor,
        max_steps: Tensor,
    ) -> SolvedState:
        """Run the loop. All tensors of its body are handed in: a traced loop cannot reach outside."""
        weights = self.traced.weights()

        def fn(z: Tensor, *inputs: Tensor) -> Tensor:
            given, rest = inputs[: len(weights)], inputs[len(weights) :]
            return packing.pack(self.traced.evaluate(given, packing.unpack(z), rest))

        inputs = (*weights, *context)
        return find_fixed_point(fn, inputs, start, self.solver, tolerance, max_steps)

    def unroll(
        self, packing: Packing, start: State, context: tuple[Tensor, ...], tolerance: Tensor
    ) -> SolvedState:
        """Run the iterations of a layer that is differentiated through them."""
        assert self.unrolled is not None
        z = start
        for count in range(1, self.unrolled.steps + 1):
            z = self.unrolled.advance(lambda state: self.map(state, context), z, count)
        rows, image = packing.pack(z), packing.pack(self.map(z, context))
        absolute, size = residual_norms(image - rows, image)
        residual = rules.relative_residual(absolute, size, rules.residual_floor(absolute, tolerance))
        residual = torch.where(residual.isnan(), torch.inf, residual)
        steps = torch.full_like(residual, self.unrolled.steps, dtype=torch.int64)
        return SolvedState(rows, residual, steps)


class PortableModel(nn.Module):
    """A copy of ``model`` for inputs of one size and any number of samples; see :func:`portable`.

    Args:
        model: Any module with equilibria; it is not changed.
        inputs: Example of its arguments.
        report: Whether ``forward`` returns ``(output, residual, steps, converged)`` instead of the output.
    """

    tolerance: Tensor
    max_steps: Tensor

    def __init__(self, model: nn.Module, inputs: tuple[Any, ...], report: bool = False) -> None:
        super().__init__()
        copied = copy.deepcopy(model).eval().requires_grad_(False)
        self.report, self.solve = report, PortableSolve()
        with torch.no_grad(), ignore_failures(copied):
            calls = recorded(copied, inputs)
            layers = {name: layer for name, layer in equilibria_of(copied).items() if name in calls}
            for name, layer in layers.items():
                refuse_coupled(name, layer)
                refuse_tuples(name, calls[name])
            factors = {name: feature_factor(layer, calls[name][0]) for name, layer in layers.items()}
            fold(copied, calls)
        self.equilibria = tuple(name for name in calls if name in layers for _ in calls[name])
        """Names of the equilibria in the order of their solves: the columns of ``residual`` and ``steps``."""
        first = next(iter(layers.values()), None)
        dtype = torch.float32 if first is None else working_precision(layers, calls)
        tolerance = max((layer.tol for layer in layers.values()), default=1.0)
        steps = max((layer.max_steps for layer in layers.values()), default=1)
        device = next((parameter.device for parameter in copied.parameters()), None)
        self.register_buffer("tolerance", torch.tensor(tolerance, dtype=dtype, device=device))
        self.register_buffer("max_steps", torch.tensor(steps, dtype=torch.int64, device=device))
        for name, layer in layers.items():
            factor = factors[name]
            strictness = (1.0 if factor is None else factor) * layer.tol / tolerance
            example = at_least_two(calls[name][0])
            made = PortableEquilibrium(layer, factor is not None, strictness, self.solve, example)
            copied = replaced(copied, layer, made)
        self.model = copied
        self.eval()

    def forward(self, x: Any, *more: Any) -> Any:
        output, measured = self.run((x, *more), self.tolerance, self.max_steps)
        return (output, *measured) if self.report else output

    def run(
        self, inputs: tuple[Any, ...], tolerance: Tensor, max_steps: Tensor
    ) -> tuple[Any, tuple[Tensor, ...]]:
        """Return the model's output, and residual, steps and convergence where it has equilibria."""
        if not self.equilibria:
            return self.model(*inputs), ()
        self.solve.begin(tolerance, max_steps)
        output = self.model(*inputs)
        return output, self.solve.end()


def portable(model: nn.Module, x: Any, *more: Any, report: bool = False) -> PortableModel:
    """Return a copy of any model with geq's layers that ``torch.export`` and ``torch.onnx.export`` can trace.

    It has the model's inputs and outputs. Weights are folded to what they are in evaluation, and each
    equilibrium becomes one loop that stops by its tolerance, sample by sample; no gradient passes through it.
    A batch may have any size, everything else has the size of the example.

    Args:
        model: The model, of which a copy is made in evaluation mode.
        x: Example of its argument.
        more: Examples of further arguments.
        report: Return ``(output, residual, steps, converged)`` instead of the output: a file cannot raise or
            warn, so this is how its user sees an equilibrium that was not found.

    >>> import geq
    >>> model = nn.Sequential(nn.Linear(3, 6), geq.GEQLinear(6, 4), nn.Linear(4, 2)).eval()
    >>> x = torch.randn(5, 3)
    >>> torch.allclose(portable(model, x)(x), model(x), atol=1e-5)
    True
    """
    return PortableModel(model, (x, *more), report)


def equilibria_of(model: nn.Module) -> dict[str, Equilibrium]:
    return {name: module for name, module in model.named_modules() if isinstance(module, Equilibrium)}


def replaced(model: nn.Module, old: nn.Module, new: nn.Module) -> nn.Module:
    """Return the model with a new module in every place of an old one."""
    if model is old:
        return new
    for parent in list(model.modules()):
        for attribute, child in parent.named_children():
            if child is old:
                setattr(parent, attribute, new)
    return model


Calls = dict[str, list[Any]]
"""Name of a module -> its inputs in one forward pass."""


def recorded(model: nn.Module, inputs: tuple[Any, ...]) -> Calls:
    """Run the model once and return the inputs of its equilibria, and of its operators outside of them."""
    calls: Calls = {}
    layers = equilibria_of(model)
    inside = {part for layer in layers.values() for part in layer.modules()}
    watched: dict[str, nn.Module] = dict(layers)
    for name, module in model.named_modules():
        if isinstance(module, Operator) and module not in inside:
            watched[name] = module
    with watching(watched, calls):
        model(*inputs)
    return calls


@contextmanager
def watching(watched: dict[str, nn.Module], calls: Calls) -> Iterator[None]:
    def remember(name: str) -> Any:
        def hook(module: nn.Module, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
            values = (*arguments, *options.values())
            if len(values) > 1 and values[1] is not None:
                raise OptionError(
                    f"{name} is given a start z0, which no file can hold: leave it out, the equilibrium is "
                    "the same"
                )
            calls.setdefault(name, []).append(values[0])

        return hook

    handles = [m.register_forward_pre_hook(remember(name), with_kwargs=True) for name, m in watched.items()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def fold(model: nn.Module, calls: Calls) -> None:
    """Give all operators their effective weights, for the sizes of the maps that they were given."""
    for name, given in calls.items():
        module = model.get_submodule(name)
        sizes = {module.map_size(x) if isinstance(module, Equilibrium) else size_of(x) for x in given}
        if len(sizes) > 1 and any(type(part.constraint) is not Unconstrained for part in operators(module)):
            raise OptionError(
                f"{name} is used for maps of several sizes, {sorted(sizes, key=str)}, and its norm depends "
                "on them: export the parts of the model one by one, or give each size a layer"
            )
        fold_norms(module, sizes.pop())


def operators(module: nn.Module) -> list[Operator]:
    return [part for part in module.modules() if isinstance(part, Operator)]


def working_precision(layers: dict[str, Equilibrium], calls: Calls) -> torch.dtype:
    """Return the precision of the states, which must be one that a fixed point can be found in."""
    kinds = {x.dtype for name in layers for x in calls[name]}
    if len(kinds) > 1 or not kinds <= {torch.float32, torch.float64}:
        found = ", ".join(sorted(map(str, kinds)))
        raise OptionError(
            f"equilibria must be exported in one precision, float32 or float64: got {found}; convert a copy "
            "of the model with model.float()"
        )
    return kinds.pop()


def at_least_two(x: Tensor) -> Tensor:
    """Return x with at least :data:`BATCH` samples."""
    return x if len(x) >= BATCH else x[:1].expand(BATCH, *x.shape[1:]).contiguous()


def feature_factor(layer: Equilibrium, x: Tensor) -> float | None:
    """Return the factor on the tolerance of a layer that is solved in its features; None for others."""
    prepared = layer.solver.prepare(layer.cell.equation(x))
    in_features = layer.gradient.iterations is None and isinstance(prepared, FeatureEquation)
    return prepared.tolerance_factor if in_features else None


def refuse_coupled(name: str, layer: Equilibrium) -> None:
    """Refuse a layer in which a sample depends on its batch."""
    gradient = layer.gradient
    coupled = isinstance(gradient, SequentialAveraging) and getattr(
        gradient.regulariser, "couples_samples", False
    )
    if layer.cell.couples_samples or coupled:
        raise OptionError(
            f"{name} compares the samples of a batch, so that a prediction depends on the other images: "
            "it cannot be exported; train without its regulariser, or with decay, sparsity or incay"
        )


def refuse_tuples(name: str, given: list[Any]) -> None:
    """Refuse inputs other than one tensor."""
    for x in given:
        if not isinstance(x, Tensor):
            raise InputError(
                f"only equilibria of one tensor can be exported: {name or 'the model'} is given a "
                f"{type(x).__name__}; join its tensors by torch.cat, and split them in the cell"
            )
