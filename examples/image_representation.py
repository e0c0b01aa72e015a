"""An implicit neural representation: an image as the equilibrium of a sine layer, one fixed point a pixel.

    Z = sin(W·Z + U·x + b),  ‖W‖ ≤ 0.9,    colour = V·Z,    x a position in Fourier features

Sixteen pictures of CIFAR-10 in a square of 128 pixels; half of the pixels are seen in training, the others
measure the interpolation. Beside it, an explicit network of two sine layers and the same parameters.

    python examples/image_representation.py           # 1 to 2 minutes on one core; needs CIFAR-10

PSNR of the unseen pixels after 200 steps on 2048 pixels each, and what the solver did:

    explicit    18.19 dB, 2 s
    implicit    18.90 dB, 9 s; evaluations 9.2, backward products 8.6, spectral radius 0.71
    reversible  18.95 dB, 7 s; evaluations 12.0, backward products 12.0, spectral radius 0.68
"""

from __future__ import annotations

import argparse
import pickle
import time
from collections import namedtuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import geq
from geq.data.dataset_options import data_root

Gradient = geq.gradients.Gradient | None
Result = namedtuple("Result", "psnr parameters seconds evaluations products radius")


def picture() -> Tensor:
    """Return sixteen test images as a square, in [0, 1]."""
    with (data_root() / "cifar-10-batches-py" / "test_batch").open("rb") as file:
        held = pickle.load(file, encoding="bytes")
    tiles = torch.from_numpy(np.asarray(held[b"data"])[:16]).view(4, 4, 3, 32, 32).float() / 255
    return tiles.permute(0, 3, 1, 4, 2).reshape(128, 128, 3)


class Sine(geq.Cell):
    def __init__(self, features: int, width: int) -> None:
        super().__init__()
        self.entry = nn.Linear(features, width)
        mixing = nn.Linear(width, width, bias=False)
        self.mixing = nn.utils.parametrizations.spectral_norm(mixing, n_power_iterations=3)

    def inject(self, x: Tensor) -> Tensor:
        return self.entry(x)

    def forward(self, z: Tensor, c: Tensor) -> Tensor:
        return torch.sin(0.9 * self.mixing(z) + c)


class Representation(nn.Module):
    def __init__(self, width: int, gradient: Gradient) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        self.register_buffer("frequencies", 12 * torch.randn(2, 32, generator=generator))
        if gradient is None:
            self.state = nn.Sequential(
                nn.Linear(64, width), Sines(), nn.Linear(width, width, bias=False), Sines()
            )
        else:
            self.state = geq.Equilibrium(Sine(64, width), gradient=gradient, tol=1e-3, on_failure="ignore")
        self.colour = nn.Linear(width, 3)

    def features(self, at: Tensor) -> Tensor:
        phase = at @ self.frequencies
        return torch.cat((phase.sin(), phase.cos()), 1)

    def forward(self, at: Tensor) -> Tensor:
        return torch.sigmoid(self.colour(self.state(self.features(at))))


class Sines(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.sin(x)


def train(gradient: Gradient, steps: int, width: int) -> Result:
    torch.manual_seed(0)
    image = picture().view(-1, 3)
    line = torch.linspace(-1, 1, 128)
    positions = torch.cartesian_prod(line, line)
    order = torch.randperm(len(image), generator=torch.Generator().manual_seed(2))
    seen, unseen = order[: len(order) // 2], order[len(order) // 2 :]
    model, started, counts = Representation(width, gradient), time.process_time(), []
    optimiser = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(steps):
        index = seen[torch.randint(len(seen), (2048,))]
        optimiser.zero_grad()
        F.mse_loss(model(positions[index]), image[index]).backward()
        optimiser.step()
        if gradient is not None:
            ends = model.state.last_solution, model.state.last_adjoint
            counts.append([0.0 if end is None else float(end.steps.float().mean()) for end in ends])
    seconds, size = time.process_time() - started, sum(p.numel() for p in model.parameters())
    with torch.no_grad():
        error = float(F.mse_loss(model.eval()(positions[unseen]), image[unseen]))
        if gradient is None:
            return Result(-10 * np.log10(error), size, seconds, 2.0, 0.0, 0.0)
        radius = float(model.state.spectral_radius(model.features(positions[unseen[:64]]), tol=1e-2).max())
    return Result(-10 * np.log10(error), size, seconds, *np.mean(counts, 0), radius)


IMPLICIT = geq.gradients.Implicit(tol=1e-3, on_failure="ignore")
GRADIENTS = {"explicit": None, "implicit": IMPLICIT, "reversible": geq.gradients.Reversible(6, 0.8)}


def main(arguments: list[str] | None = None) -> dict[str, Result]:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--width", type=int, default=64)
    options = parser.parse_args(arguments)
    found = {}
    for name, gradient in GRADIENTS.items():
        run = found[name] = train(gradient, options.steps, options.width)
        print(
            f"{name:11} {run.psnr:.2f} dB, {run.parameters} parameters, {run.seconds:.0f} s; evaluations "
            f"{run.evaluations:.1f}, backward products {run.products:.1f}, spectral radius {run.radius:.2f}",
            flush=True,
        )
    return found


if __name__ == "__main__":
    main()
