"""Cover patches of digits and watch β: does the Gaussian kernel notice, and does it help?

A GEQ weighs every patch of its input by β, near 1 where its state explains the patch and near 0 for outliers.
Its control with γ = 0 has β = 1 everywhere and is otherwise the same. Both are trained on clean digits and
then shown digits with a square of noise, or a white one, on them. Printed are β inside and outside of the
square, and the accuracy of both networks, image by image on the same squares.

    python examples/robust_patches.py --output robust_patches.png
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import torch
from torch import Tensor, nn

import geq
from geq.analysis.attention_map import attention_maps
from geq.data.dataset_registry import load_dataset
from geq.data.digits import DIGITS_STATISTICS
from geq.model import Network
from geq.training.optimizer import parameter_groups

BRANCH = "branches.0"
"""The equilibrium on the full 8×8 map, with 4×4 patches of 2×2 pixels."""


@dataclass(frozen=True)
class Row:
    """Results for squares of one kind and side: accuracies in %, mean β inside and outside of the square."""

    cover: str
    side: int
    accuracy: float
    control: float
    inside: float
    outside: float


def digits(split: str) -> tuple[Tensor, Tensor]:
    """Images with values from 0 to 1, and their labels."""
    dataset = load_dataset("digits", split, validation=0)
    images, labels = dataset.batch(torch.arange(len(dataset)))
    return images / 255, labels


def normalised(images: Tensor) -> Tensor:
    return (images - DIGITS_STATISTICS.mean[0]) / DIGITS_STATISTICS.std[0]


def trained(name: str, epochs: int, images: Tensor, labels: Tensor) -> Network:
    """A network by name, trained by SGD with a cosine schedule; the same seed gives both the same batches."""
    torch.manual_seed(0)
    model = geq.create_model(name, num_classes=10)
    optimizer = torch.optim.SGD(parameter_groups(model, 1e-4), lr=0.2, momentum=0.9, nesterov=True)
    batches = len(images) // 64
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * batches)
    order = torch.Generator().manual_seed(0)
    for _ in range(epochs):
        for chosen in torch.randperm(len(images), generator=order)[: 64 * batches].view(batches, 64):
            loss = nn.functional.cross_entropy(model(normalised(images[chosen])), labels[chosen])
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            schedule.step()
    return model.eval()


def covered(images: Tensor, cover: str, side: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Images with a square on the grid of patches, and which of the 4×4 patches it covers."""
    random = torch.Generator().manual_seed(seed)
    result, where = images.clone(), torch.zeros(len(images), 4, 4, dtype=torch.bool)
    patches = side // 2
    for number in range(len(images)):
        row, column = torch.randint(5 - patches, (2,), generator=random).tolist()
        place = (slice(2 * row, 2 * row + side), slice(2 * column, 2 * column + side))
        noise = torch.rand(side, side, generator=random)
        result[number, 0][place] = noise if cover == "noise" else 1.0
        where[number, row : row + patches, column : column + patches] = True
    return result, where


@torch.no_grad()
def accuracy(model: Network, images: Tensor, labels: Tensor) -> float:
    return 100 * float((model(normalised(images)).argmax(1) == labels).float().mean())


@torch.no_grad()
def weights(model: Network, images: Tensor) -> Tensor:
    """β of the 4×4 patches, mean over the channel groups."""
    found = attention_maps(
        model.equilibria()[BRANCH], model.inputs_of_equilibria(normalised(images))[BRANCH]
    ).mean
    assert found is not None
    return found


def draw(model: Network, control: Network, images: Tensor, labels: Tensor, path: str) -> None:
    from matplotlib.figure import Figure

    number, side = 6, 4
    changed, where = covered(images[:number], "white", side)
    beta = weights(model, changed)
    figure = Figure(figsize=(1.6 * number, 5.4), layout="constrained")
    axes = figure.subplots(3, number)
    with torch.no_grad():
        said = [one(normalised(changed)).argmax(1) for one in (model, control)]
    for i in range(number):
        axes[0, i].imshow(images[i, 0].numpy(), cmap="gray", vmin=0, vmax=1)
        axes[0, i].set_title(f"a {int(labels[i])}", fontsize=10)
        axes[1, i].imshow(changed[i, 0].numpy(), cmap="gray", vmin=0, vmax=1)
        axes[1, i].set_title(f"GEQ {int(said[0][i])}, γ = 0: {int(said[1][i])}", fontsize=10)
        shown = axes[2, i].imshow(beta[i].numpy(), cmap="viridis", vmin=0, vmax=1)
        rows, columns = where[i].nonzero(as_tuple=True)
        box = (int(columns.min()) - 0.5, int(rows.min()) - 0.5)
        axes[2, i].add_patch(_frame(box, side // 2))
    for axis, label in zip(axes[:, 0], ("clean", "covered", "β"), strict=True):
        axis.set_ylabel(label)
    for axis in axes.flat:
        axis.set(xticks=[], yticks=[])
    figure.colorbar(shown, ax=axes[2, :].tolist(), label="β", shrink=0.8)
    figure.savefig(path, dpi=120)


def _frame(corner: tuple[float, float], side: int) -> object:
    from matplotlib.patches import Rectangle

    return Rectangle(corner, side, side, fill=False, edgecolor="red", linewidth=2)


def main(arguments: list[str] | None = None) -> list[Row]:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--images", type=int, default=None, help="training images; default all 1,437")
    parser.add_argument("--output", default=None, help="PNG to draw")
    asked = parser.parse_args(arguments)
    torch.set_num_threads(1)  # such small tensors are not faster with more

    images, labels = digits("train")
    if asked.images is not None:
        images, labels = images[: asked.images], labels[: asked.images]
    shown, truth = digits("test")
    model = trained("geq_tiny", asked.epochs, images, labels)
    control = trained("geq_tiny_control", asked.epochs, images, labels)

    rows = [
        Row(
            "none",
            0,
            accuracy(model, shown, truth),
            accuracy(control, shown, truth),
            float("nan"),
            float(weights(model, shown).mean()),
        )
    ]
    for cover in ("noise", "white"):
        for side in (2, 4):
            changed, where = covered(shown, cover, side)
            beta = weights(model, changed)
            scores = accuracy(model, changed, truth), accuracy(control, changed, truth)
            rows.append(Row(cover, side, *scores, float(beta[where].mean()), float(beta[~where].mean())))
    print(f"{'square':>10} {'GEQ':>8} {'γ = 0':>8} {'β inside':>10} {'β outside':>10}")
    for row in rows:
        name = f"{row.cover} {row.side}×{row.side}" if row.side else "none"
        inside = f"{row.inside:.3f}" if row.side else "–"
        print(f"{name:>10} {row.accuracy:>6.1f} % {row.control:>6.1f} % {inside:>10} {row.outside:>10.3f}")
    print("one seed and 360 test images: differences of two points or less say nothing")
    if asked.output:
        draw(model, control, shown, truth, asked.output)
        print(f"drawn in {asked.output}")
    return rows


if __name__ == "__main__":
    main()
