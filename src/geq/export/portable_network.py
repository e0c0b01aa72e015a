"""A trained network in plain tensor operations, ready to be traced for any number of images.

The input is an image with values from 0 to 1; the normalisation of the training data is a part of the module.
The output is ``(logits, residual, steps, converged)``. ``residual`` and ``steps`` have one column per
equilibrium, in the order of :attr:`PortableNetwork.equilibria`; ``converged`` says of every image whether all
its residuals reached their tolerances. Nothing is raised at run time, so a user must check it. A network
without equilibria gives its logits alone.
"""

from __future__ import annotations

import copy

import torch
from jaxtyping import Float
from torch import Tensor

from geq.data.dataset import Statistics
from geq.errors import OptionError
from geq.export.iteration import BATCH
from geq.export.portable_model import PortableModel, refuse_coupled
from geq.model.network import Network


class PortableNetwork(PortableModel):
    """A copy of ``network`` for images of one size, with the normalisation inside; see the module's text.

    Args:
        network: Trained network; it is not changed.
        statistics: Mean and standard deviation of the normalisation.
        size: Height and width of the images.

    >>> from geq.model.model_registry import create_model
    >>> portable = PortableNetwork(create_model("geq_tiny"), Statistics((0.5,), (0.5,)), (8, 8))
    >>> logits, residual, steps, converged = portable(torch.rand(3, 1, 8, 8))
    >>> logits.shape, residual.shape, converged.tolist()
    (torch.Size([3, 10]), torch.Size([3, 2]), [True, True, True])
    """

    mean: Tensor
    std: Tensor

    def __init__(self, network: Network, statistics: Statistics, size: tuple[int, int]) -> None:
        refuse(network)
        dtype = torch.promote_types(next(network.parameters()).dtype, torch.float32)
        precise = copy.deepcopy(network).to(device="cpu", dtype=dtype)
        super().__init__(precise, (torch.zeros(BATCH, network.input_shape[0], *size, dtype=dtype),))
        self.labels_pixels = network.labels_pixels
        self.register_buffer("mean", torch.tensor(statistics.mean, dtype=dtype).view(-1, 1, 1))
        self.register_buffer("std", torch.tensor(statistics.std, dtype=dtype).view(-1, 1, 1))

    def forward(self, images: Float[Tensor, "batch channel height width"]) -> tuple[Tensor, ...]:
        return self.labelled(images, self.tolerance, self.max_steps)

    def labelled(
        self, images: Float[Tensor, "batch channel height width"], tolerance: Tensor, max_steps: Tensor
    ) -> tuple[Tensor, ...]:
        """Return what ``forward`` does, for another tolerance and another number of steps."""
        x = (images.to(self.mean.dtype) - self.mean) / self.std
        logits, measured = self.run((x,), tolerance, max_steps)
        return logits, *measured


def refuse(network: Network) -> None:
    """Refuse a network that no file can hold, with the reason."""
    if not isinstance(network, Network):
        raise OptionError(
            f"only networks of geq.create_model can be written by save_onnx and save_torch: got a "
            f"{type(network).__name__}; export geq.export.portable(model, x) by torch.onnx.export"
        )
    reason = network.exportable()
    if reason:
        raise OptionError(f"{reason}: it cannot be exported; use it from Python")
    for name, layer in network.equilibria().items():
        refuse_coupled(name, layer)
