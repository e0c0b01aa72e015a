"""What one evaluation of a network costs.

A multiply-add is one multiplication and one addition, as in the papers' tables; torch's counter counts both,
so its number is halved. Only matrix products and convolutions count; element-wise work is small beside them.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from geq.model.network import Network


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
    image = zero_image(model)
    training = model.training
    model.eval()
    try:
        if not model.equilibria():
            return count_multiply_adds(lambda: model(image))
        with torch.no_grad():
            inputs = model.inputs_of_equilibria(image)
            total = 0
            for name, equilibrium in model.equilibria().items():
                cell = equilibrium.cell
                context = cell.inject(inputs[name])
                state = cell.initial_state(context)
                total += count_multiply_adds(lambda: cell(state, context))  # noqa: B023 - called at once
            return total
    finally:
        model.train(training)
