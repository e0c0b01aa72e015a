"""Replace a residual block by an equilibrium, train both on handwritten digits, and compare.

Three networks with the same stem and head, and nearly the same number of parameters: a residual block, GEQ2d
in its place, and GEQ2d with γ = 0, which has everything but the Gaussian. One run of each says little; the
spread over seeds is printed beside the mean.

    python examples/replace_block.py --output replace_block.png
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import mean, stdev

import torch
from torch import Tensor, nn

import geq
from geq.data.dataset_registry import load_dataset
from geq.data.digits import DIGITS_STATISTICS
from geq.training.optimizer import parameter_groups

CHANNELS = 16


class Residual(nn.Module):
    """The block as it was: two convolutions with a shortcut."""

    def __init__(self, inner: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(CHANNELS, inner, 3, padding=1, bias=False),
            nn.BatchNorm2d(inner),
            nn.ReLU(),
            nn.Conv2d(inner, CHANNELS, 3, padding=1, bias=False),
            nn.BatchNorm2d(CHANNELS),
        )

    def forward(self, x: Tensor) -> Tensor:
        return (x + self.body(x)).relu()


def equilibrium(gamma: geq.bandwidth.GammaRule | None = None) -> nn.Module:
    """The equilibrium in its place, followed by the norm that it needs."""
    layer = geq.GEQ2d(CHANNELS, CHANNELS, mid_channels=CHANNELS, hidden=16, gamma=gamma)
    return nn.Sequential(layer, nn.BatchNorm2d(CHANNELS), nn.ReLU())


BLOCKS: dict[str, Callable[[], nn.Module]] = {
    "residual": lambda: Residual(CHANNELS),
    "GEQ2d": equilibrium,
    "GEQ2d, γ = 0": lambda: equilibrium(geq.bandwidth.ZeroGamma()),
}


def network(block: nn.Module) -> nn.Sequential:
    return nn.Sequential(
        *(nn.Conv2d(1, CHANNELS, 3, padding=1, bias=False), nn.BatchNorm2d(CHANNELS), nn.ReLU()),
        block,
        *(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4 * CHANNELS, 10)),
    )


def digits(split: str) -> tuple[Tensor, Tensor]:
    """Normalised images and their labels."""
    dataset = load_dataset("digits", split, validation=0)
    images, labels = dataset.batch(torch.arange(len(dataset)))
    return (images / 255 - DIGITS_STATISTICS.mean[0]) / DIGITS_STATISTICS.std[0], labels


@dataclass
class Trained:
    """Results of one block over seeds: accuracy after each epoch, CPU seconds, solver steps."""

    accuracy: list[list[float]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    steps: float | None = None
    parameters: int = 0


def train(
    model: nn.Module, epochs: int, data: tuple[Tensor, Tensor], test: tuple[Tensor, Tensor]
) -> list[float]:
    """SGD with a cosine schedule; the accuracy in % after each epoch."""
    images, labels = data
    optimizer = torch.optim.SGD(parameter_groups(model, 1e-4), lr=0.1, momentum=0.9, nesterov=True)
    batches = len(images) // 64
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * batches)
    accuracy = []
    for _ in range(epochs):
        model.train()
        for chosen in torch.randperm(len(images))[: 64 * batches].view(batches, 64):
            loss = nn.functional.cross_entropy(model(images[chosen]), labels[chosen])
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            schedule.step()
        model.eval()
        with torch.no_grad():
            accuracy.append(100 * float((model(test[0]).argmax(1) == test[1]).float().mean()))
    return accuracy


def draw(found: dict[str, Trained], path: str) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.5, 3.6), layout="constrained")
    axis = figure.subplots()
    for name, colour in zip(found, ("tab:gray", "tab:blue", "tab:orange"), strict=True):
        for number, run in enumerate(found[name].accuracy):
            label = name if number == 0 else None
            axis.plot(range(1, len(run) + 1), run, color=colour, label=label, alpha=0.8)
    axis.set(xlabel="epoch", ylabel="test accuracy in %", title="One block exchanged, each line a seed")
    axis.legend(frameon=False)
    figure.savefig(path, dpi=120)


def main(arguments: list[str] | None = None) -> dict[str, Trained]:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--images", type=int, default=None, help="training images; default all 1,437")
    parser.add_argument("--output", default=None, help="PNG to draw")
    asked = parser.parse_args(arguments)
    torch.set_num_threads(1)  # such small tensors are not faster with more

    data, test = digits("train"), digits("test")
    if asked.images is not None:
        data = data[0][: asked.images], data[1][: asked.images]
    found = {name: Trained() for name in BLOCKS}
    for name, block in BLOCKS.items():
        for seed in range(asked.seeds):
            torch.manual_seed(seed)
            model = network(block())
            began = time.process_time()
            found[name].accuracy.append(train(model, asked.epochs, data, test))
            found[name].seconds.append(time.process_time() - began)
            found[name].parameters = sum(parameter.numel() for parameter in model.parameters())
            for module in model.modules():
                if isinstance(module, geq.Equilibrium) and module.last_solution is not None:
                    found[name].steps = float(module.last_solution.steps.float().mean())

    print(f"{'block':14} {'parameters':>10} {'test accuracy':>16} {'CPU seconds':>12} {'solver steps':>13}")
    for name, one in found.items():
        last = [run[-1] for run in one.accuracy]
        spread = f" ± {stdev(last):.1f}" if len(last) > 1 else ""
        steps = "–" if one.steps is None else f"{one.steps:.1f}"
        score = f"{mean(last):.1f} %{spread}"
        print(f"{name:14} {one.parameters:>10,} {score:>16} {mean(one.seconds):>12.1f} {steps:>13}")
    if asked.output:
        draw(found, asked.output)
        print(f"drawn in {asked.output}")
    return found


if __name__ == "__main__":
    main()
