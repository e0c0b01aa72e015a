"""A map as a graph of tensor operations whose weights are arguments: what the body of a traced loop must be.

The body of a ``while_loop`` can neither reach tensors outside nor call modules. So a map is traced by itself
first, for any batch, and its graph is then run operation by operation.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.export.graph_signature import InputKind

from geq.cells.base import State, parts_of
from geq.export.mapping import Context, PlainMap

BATCH = 2
"""Images of the batch that is traced; anything but 1, which the tracer takes for a constant."""


class TracedMap(nn.Module):
    """``forward`` is that of ``plain``; :meth:`evaluate` takes the weights as arguments.

    Args:
        plain: the map.
        z, context: an example.
    """

    def __init__(self, plain: PlainMap, z: State, context: Context) -> None:
        super().__init__()
        self.plain = plain
        batch = torch.export.Dim("batch")
        by_sample = [{0: batch} if part.dim() else None for part in context]
        of_state: Any = tuple({0: batch} for _ in parts_of(z))
        shapes = (of_state if isinstance(z, tuple) else of_state[0], tuple(by_sample))
        with torch.no_grad():
            program = torch.export.export(plain, (z, context), dynamic_shapes=shapes, strict=False)
        self.graph = program.graph_module
        self.names: list[str] = []
        for spec in program.graph_signature.input_specs:
            if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER):
                assert spec.target is not None
                self.names.append(f"plain.{spec.target}")
            elif spec.kind is InputKind.CONSTANT_TENSOR:
                assert spec.target is not None
                name = f"constant_{len(self.names)}"
                self.register_buffer(name, program.constants[spec.target])
                self.names.append(name)

    def weights(self) -> tuple[Tensor, ...]:
        """Return the first argument of :meth:`evaluate`."""
        found: dict[str, Tensor] = {**dict(self.named_parameters()), **dict(self.named_buffers())}
        return tuple(found[name] for name in self.names)

    def evaluate(self, weights: tuple[Tensor, ...], z: State, context: Context) -> State:
        result = torch.fx.Interpreter(self.graph).run(*weights, *parts_of(z), *context)
        return tuple(result) if isinstance(z, tuple) else result[0]
