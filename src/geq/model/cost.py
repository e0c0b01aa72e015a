"""Cost of one evaluation of a network.

A multiply-add is one multiplication and one addition, as in the papers' tables; torch's counter counts both,
so its number is halved. Only matrix products and convolutions count; element-wise work is small beside them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from geq.constraints import SpectralBound
from geq.equilibrium import Equilibrium
from geq.model.network import Network, WithoutDrawing


def count_multiply_adds(run: Callable[[], object]) -> int:
    """Multiply-adds of everything that ``run()`` does.

    >>> count_multiply_adds(lambda: torch.zeros(2, 3) @ torch.zeros(3, 5))
    30
    """
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops() // 2


def zero_image(model: Network) -> Tensor:
    """A batch of one black image, of the model's size, on its device and in its precision."""
    parameter = next(model.parameters())
    return torch.zeros(1, *model.input_shape, dtype=parameter.dtype, device=parameter.device)


def multiply_adds(model: Network) -> int:
    """For one image: one evaluation of every equilibrium's map, or of the network if it has none."""
    if model.equilibria():
        try:
            return _of_equilibria(model, "meta")
        except (RuntimeError, NotImplementedError):  # a map that asks for a number needs real ones
            return _of_equilibria(model, "cpu")
    image = zero_image(model)
    training = model.training
    try:
        return count_multiply_adds(lambda: model.eval()(image))
    finally:
        model.train(training)


def _of_equilibria(model: Network, device: str) -> int:
    """Counted on a twin whose equilibria are evaluated once instead of solved.

    On the meta device it has no memory for its numbers, so that a large model costs no time. Norms are left
    out: they do not count, and without kernels of their own there they would take most of the time.
    """
    drawing = WithoutDrawing() if device == "meta" else nullcontext()
    with torch.device(device), torch.random.fork_rng(devices=[]), drawing:
        outline = type(model)(model.config).eval()
    counts: list[int] = []

    def evaluate_once(equilibrium: Equilibrium) -> Callable[..., Any]:
        def forward(x: Any) -> Any:
            equation = equilibrium.cell.equation(x)
            state = equation.start()
            counts.append(count_multiply_adds(lambda: equation(state)))
            return state

        return forward

    for module in outline.modules():
        if isinstance(module, Equilibrium):
            module.forward = evaluate_once(module)  # type: ignore[method-assign]
        elif isinstance(module, (nn.BatchNorm2d, SpectralBound)):
            module.forward = lambda x, *_: x  # type: ignore[method-assign]
    with torch.no_grad():
        outline(zero_image(outline))
    return sum(counts)
