"""The network as a file of ``torch.export`` (.pt2): runs in torch without geq.

    program = torch.export.load("model.pt2").module()
    logits, residual, steps, converged = program(images)

The loop is the operator ``torch.ops.higher_order.while_loop``, the batch any number of images. Tolerance and
number of steps are buffers: ``program.tolerance.fill_(1e-5)``. Gradients do not pass through the loop.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from geq.errors import OptionError
from geq.export.check import MANY_STEPS, TIGHT, Agreement, Runner, compare
from geq.export.file_description import Description
from geq.export.iteration import BATCH
from geq.export.output_file import put, reason, without_noise
from geq.export.portable_network import PortableNetwork
from geq.model.network import Network

DESCRIPTION = "geq.json"
"""Name of the description among the extra files of a .pt2."""


def trace(module: nn.Module, arguments: tuple[Tensor, ...]) -> Any:
    """The exported program; the first argument is a batch of any size."""
    shapes = ({0: torch.export.Dim("batch")}, *[None] * (len(arguments) - 1))
    try:
        with torch.no_grad(), without_noise():
            return torch.export.export(module, arguments, dynamic_shapes=shapes, strict=False)
    except Exception as problem:  # the tracer has no common class of errors
        raise OptionError(
            "this network does something that torch.export cannot trace for any number of images: "
            f"{reason(problem)}"
        ) from problem


def example(shape: tuple[int, int, int]) -> Tensor:
    return torch.zeros(BATCH, *shape)


def to_torch(portable: PortableNetwork, description: Description) -> bytes:
    """The content of the file."""
    program = trace(portable, (example(description.shape),))
    buffer = io.BytesIO()
    text = json.dumps(description.properties(portable), ensure_ascii=False, indent=2)
    with without_noise():
        torch.export.save(program, buffer, extra_files={DESCRIPTION: text})
    return buffer.getvalue()


def runner(content: bytes) -> Runner:
    """The file at work."""
    with without_noise():
        own, tight = (torch.export.load(io.BytesIO(content)).module() for _ in range(2))
    tight.get_buffer("tolerance").fill_(TIGHT)
    tight.get_buffer("max_steps").fill_(MANY_STEPS)

    @torch.no_grad()
    def run(images: Tensor, tightened: bool) -> tuple[Tensor, ...]:
        return tuple((tight if tightened else own)(images))

    return run


def save_torch(network: Network, description: Description, images: Tensor, path: Path) -> Agreement:
    """Write ``network`` to ``path``, unless the file would not compute the same on ``images``."""
    portable = PortableNetwork(network, description.statistics, description.shape[1:])
    content = to_torch(portable, description)
    agreement = compare(network, description.statistics, runner(content), images)
    put(path, content)
    return agreement
