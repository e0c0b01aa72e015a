"""A trained network in plain tensor operations, ready to be traced for any number of images.

The input is an image with values from 0 to 1; the normalisation of the training data is a part of the module.
The output is ``(logits, residual, steps, converged)``. ``residual`` and ``steps`` have one column per
equilibrium, in the order of :attr:`PortableNetwork.equilibria`; ``converged`` says of every image whether all
its residuals reached their tolerances. Nothing is raised at run time, so a user must check it. A network
without equilibria gives its logits alone.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor, nn

from geq.cells import FeatureEquation
from geq.cells.base import State, parts_of
from geq.data.dataset import Statistics
from geq.equilibrium import Equilibrium, ignore_failures
from geq.errors import OptionError
from geq.export.fold import fold_norms
from geq.export.iteration import Measured, find_fixed_point, residual_norms, steps_of
from geq.export.mapping import PlainMap, plain_map
from geq.export.trace import BATCH, TracedMap
from geq.gradients import SequentialAveraging, Unrolled
from geq.model.network import Network
from geq.solvers import rules
from geq.solvers.fixed_point import Packing


@dataclass
class Solve:
    """State shared by the layers of one forward pass: tolerances and results of their solves."""

    tolerance: Tensor | None = None
    max_steps: Tensor | None = None
    found: list[tuple[Tensor, Tensor, Tensor]] = field(default_factory=list)

    def begin(self, tolerance: Tensor, max_steps: Tensor) -> None:
        self.tolerance, self.max_steps, self.found = tolerance, max_steps, []

    def end(self) -> tuple[Tensor, Tensor, Tensor]:
        """Residual, steps and convergence; nothing of the pass is kept."""
        residual, steps, reached = (torch.stack(parts, 1) for parts in zip(*self.found, strict=True))
        self.tolerance, self.max_steps, self.found = None, None, []
        return residual, steps, reached.all(1)


class PortableEquilibrium(nn.Module):
    """One equilibrium: the map of its cell in plain operations, and its loop.

    Args:
        layer: with folded weights.
        in_features: whether it is solved in its features.
        strictness: the factor of its tolerance to that of the network.
        solve: shared by all layers of the network.
        example: an input.
    """

    def __init__(
        self, layer: Equilibrium, in_features: bool, strictness: float, solve: Solve, example: Tensor
    ) -> None:
        super().__init__()
        self.map: PlainMap = plain_map(layer, in_features)
        self.unrolled = layer.gradient if isinstance(layer.gradient, Unrolled) else None
        self.solver = steps_of(layer.solver)
        self.strictness, self.solve = strictness, solve
        if self.unrolled is None:
            context = self.map.context(example)
            self.traced = TracedMap(self.map, self.map.start(example, context), context)

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
    ) -> Measured:
        """The loop. All tensors of the body are handed in: a traced loop cannot reach outside."""
        weights = self.traced.weights()

        def fn(z: Tensor, *inputs: Tensor) -> Tensor:
            given, rest = inputs[: len(weights)], inputs[len(weights) :]
            return packing.pack(self.traced.evaluate(given, packing.unpack(z), rest))

        inputs = (*weights, *context)
        return find_fixed_point(fn, inputs, start, self.solver, tolerance, max_steps)

    def unroll(
        self, packing: Packing, start: State, context: tuple[Tensor, ...], tolerance: Tensor
    ) -> Measured:
        """A layer that is its iterations: as many of them as it has, and the residual of their end."""
        assert self.unrolled is not None
        z = start
        for count in range(1, self.unrolled.steps + 1):
            z = self.unrolled.advance(lambda state: self.map(state, context), z, count)
        rows, image = packing.pack(z), packing.pack(self.map(z, context))
        absolute, size = residual_norms(image - rows, image)
        residual = rules.relative_residual(absolute, size, rules.residual_floor(absolute, tolerance))
        residual = torch.where(residual.isnan(), torch.inf, residual)
        steps = torch.full_like(residual, self.unrolled.steps, dtype=torch.int64)
        return Measured(rows, residual, steps)


class PortableNetwork(nn.Module):
    """A copy of ``network`` for images of one size, with the normalisation inside; see the module's text.

    Args:
        network: trained; it is not changed.
        statistics: of the normalisation.
        size: height and width of the images.

    >>> from geq.model.registry import create_model
    >>> portable = PortableNetwork(create_model("geq_tiny"), Statistics((0.5,), (0.5,)), (8, 8))
    >>> logits, residual, steps, converged = portable(torch.rand(3, 1, 8, 8))
    >>> logits.shape, residual.shape, converged.tolist()
    (torch.Size([3, 10]), torch.Size([3, 2]), [True, True, True])
    """

    mean: Tensor
    std: Tensor
    tolerance: Tensor
    max_steps: Tensor

    def __init__(self, network: Network, statistics: Statistics, size: tuple[int, int]) -> None:
        super().__init__()
        refuse(network)
        dtype = torch.promote_types(next(network.parameters()).dtype, torch.float32)
        copied = copy.deepcopy(network).to(device="cpu", dtype=dtype).eval().requires_grad_(False)
        channels = network.input_shape[0]
        layers = copied.equilibria()
        self.equilibria = tuple(layers)
        self.solve = Solve()
        self.register_buffer("mean", torch.tensor(statistics.mean, dtype=dtype).view(-1, 1, 1))
        self.register_buffer("std", torch.tensor(statistics.std, dtype=dtype).view(-1, 1, 1))
        tolerance = max((layer.tol for layer in layers.values()), default=1.0)
        steps = max((layer.max_steps for layer in layers.values()), default=1)
        self.register_buffer("tolerance", torch.tensor(tolerance, dtype=dtype))
        self.register_buffer("max_steps", torch.tensor(steps, dtype=torch.int64))
        with torch.no_grad(), ignore_failures(copied):
            images = torch.zeros(BATCH, channels, *size, dtype=dtype)
            inputs = copied.inputs_of_equilibria(images) if layers else {}
            factors = {name: feature_factor(layer, inputs[name]) for name, layer in layers.items()}
            for name, layer in layers.items():
                fold_norms(layer, layer.map_size(inputs[name]))
        for name, layer in layers.items():
            factor = factors[name]
            strictness = (1.0 if factor is None else factor) * layer.tol / tolerance
            parent, _, attribute = name.rpartition(".")
            portable = PortableEquilibrium(layer, factor is not None, strictness, self.solve, inputs[name])
            setattr(copied.get_submodule(parent), attribute, portable)
        self.network = copied
        self.eval()

    def forward(self, images: Float[Tensor, "batch channel height width"]) -> tuple[Tensor, ...]:
        return self.run(images, self.tolerance, self.max_steps)

    def run(
        self, images: Float[Tensor, "batch channel height width"], tolerance: Tensor, max_steps: Tensor
    ) -> tuple[Tensor, ...]:
        """As ``forward``, for another tolerance and another number of steps."""
        x = (images.to(self.mean.dtype) - self.mean) / self.std
        if not self.equilibria:
            return (self.network(x),)
        self.solve.begin(tolerance, max_steps)
        logits = self.network(x)
        return logits, *self.solve.end()


def feature_factor(layer: Equilibrium, x: Tensor) -> float | None:
    """Return the factor on the tolerance of a layer that is solved in its features; None for others."""
    prepared = layer.solver.prepare(layer.cell.equation(x))
    in_features = layer.gradient.iterations is None and isinstance(prepared, FeatureEquation)
    return prepared.tolerance_factor if in_features else None


def refuse(network: Network) -> None:
    """Refuse a network that no file can hold, with the reason."""
    reason = network.exportable()
    if reason:
        raise OptionError(f"{reason}: it cannot be exported; use it from Python")
    for name, layer in network.equilibria().items():
        gradient = layer.gradient
        coupled = isinstance(gradient, SequentialAveraging) and getattr(
            gradient.regulariser, "couples_samples", False
        )
        if layer.cell.couples_samples or coupled:
            raise OptionError(
                f"{name} compares the samples of a batch, so that a prediction depends on the other images: "
                "it cannot be exported; train without its regulariser, or with decay, sparsity or incay"
            )
