"""Adversarial attacks: the worst image within ε of each pixel, as far as gradients find it.

The loss is the cross-entropy of the network in evaluation mode. Its gradient in the image goes through each
equilibrium by the implicit function theorem, for any gradient in training; an unrolled layer is
differentiated as it is, through its iterations. Images are numbers from 0 to 1 and stay there; ε is given in
steps of an 8-bit pixel, but the changed images are not rounded to such steps.

* FGSM: one step of length ε along the sign of the gradient.
* PGD: ``steps`` steps of 2.5ε/steps along the sign, each followed by the projection onto the ball and the
  range. It starts at FGSM's image, further restarts at random points of the ball. The image of the largest
  loss on the way counts, so PGD is never weaker than FGSM; a sample counts as robust only if no image on the
  way is classified wrongly.

Both may leave an image as it is, so what is wrong from the start stays wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor
from torch.nn import functional

from geq.analysis.analysed_network import Subject
from geq.analysis.ood_datasets import limited
from geq.analysis.part_runner import weights_key
from geq.analysis.partial_results import Pieces
from geq.analysis.result import Result, TextTable
from geq.data.dataset import Statistics
from geq.data.loader import seeded
from geq.equilibrium import Equilibrium, ignore_failures
from geq.errors import InputError
from geq.gradients import Implicit
from geq.model.network import Network
from geq.training.device import limited_threads
from geq.training.train_options import stored

Images = Float[Tensor, "n c h w"]
Labels = Int64[Tensor, "n"]
BATCH = 50
ADJOINT = Implicit(tol=1e-4, on_failure="ignore")
"""Finer than in training: an attack follows signs, also those of small entries."""


@dataclass(frozen=True)
class View:
    """Outputs of a network for images: loss, correctness and gradient of each.

    Args:
        loss: cross-entropy of each.
        right: whether each is classified rightly.
        gradient: of the loss in the image, where it was asked for.
        missed: samples that an equilibrium, or its adjoint, did not solve to its tolerance.
    """

    loss: Float[Tensor, " n"]
    right: Bool[Tensor, " n"]
    gradient: Images | None
    missed: Bool[Tensor, " n"]


class Victim:
    """A network as a function of images with values from 0 to 1.

    Args:
        model: the network; in evaluation mode.
        statistics: of its normalisation.
    """

    def __init__(self, model: Network, statistics: Statistics) -> None:
        self.model = model.eval()
        like = next(model.parameters())
        self.mean = torch.tensor(statistics.mean).to(like).view(-1, 1, 1)
        self.std = torch.tensor(statistics.std).to(like).view(-1, 1, 1)

    def look(self, images: Images, labels: Labels, differentiate: bool = True) -> View:
        with torch.set_grad_enabled(differentiate):
            x = images.detach().requires_grad_(differentiate)
            logits = self.model((x - self.mean) / self.std)
            loss = functional.cross_entropy(logits, labels, reduction="none")
            # Samples do not depend on each other, so one pass gives the gradient of each.
            gradient = torch.autograd.grad(loss.sum(), x)[0] if differentiate else None
        missed = torch.zeros(len(labels), dtype=torch.bool, device=labels.device)
        for layer in self.model.equilibria().values():
            for solution in (layer.last_solution, layer.last_adjoint if differentiate else None):
                if solution is not None and len(solution.converged) == len(labels):
                    missed |= ~solution.converged
        return View(loss.detach(), logits.detach().argmax(1) == labels, gradient, missed)


@contextmanager
def attacked(model: Network) -> Iterator[None]:
    """Inside, equilibria are differentiated exactly, what does not converge is measured, weights rest."""
    layers = [layer for layer in model.equilibria().values() if layer.gradient.iterations is None]
    gradients = [layer.gradient for layer in layers]
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    try:
        for layer in layers:
            layer.gradient = ADJOINT
        for parameter in learned:
            parameter.requires_grad_(False)
        with ignore_failures(model):
            yield
    finally:
        for parameter in learned:
            parameter.requires_grad_(True)
        restore(layers, gradients)


def restore(layers: list[Equilibrium], gradients: list[Any]) -> None:
    for layer, gradient in zip(layers, gradients, strict=True):
        layer.gradient = gradient


def projected(images: Images, centre: Images, radius: float) -> Images:
    """The nearest images within ``radius`` of each pixel of ``centre`` and from 0 to 1."""
    return torch.minimum(torch.maximum(images, centre - radius), centre + radius).clamp(0, 1)


@dataclass(frozen=True)
class Attack:
    """The outcome for each image.

    Args:
        images: those of the largest loss.
        loss: there.
        robust: whether no image on the way was classified wrongly.
        missed: samples that somewhere on the way did not converge.
    """

    images: Images
    loss: Float[Tensor, " n"]
    robust: Bool[Tensor, " n"]
    missed: Bool[Tensor, " n"]

    @classmethod
    def at(cls, images: Images, view: View) -> Attack:
        return cls(images, view.loss, view.right, view.missed)

    def also(self, images: Images, view: View) -> Attack:
        """With one more image for each."""
        worse = view.loss > self.loss
        return Attack(
            torch.where(worse.view(-1, 1, 1, 1), images, self.images),
            torch.where(worse, view.loss, self.loss),
            self.robust & view.right,
            self.missed | view.missed,
        )


def fgsm(victim: Victim, images: Images, labels: Labels, radius: float, clean: View) -> Attack:
    """One step from ``images``, where ``clean`` was seen."""
    assert clean.gradient is not None
    moved = projected(images + radius * clean.gradient.sign(), images, radius)
    return Attack.at(moved, victim.look(moved, labels, differentiate=False))


def pgd(
    victim: Victim,
    images: Images,
    labels: Labels,
    radius: float,
    start: Attack,
    *,
    steps: int,
    restarts: int = 1,
    seed: int = 0,
) -> Attack:
    """``steps`` steps from the images of ``start``, and from random ones for further restarts."""
    best, length = start, 2.5 * radius / steps
    random = seeded(seed)
    for restart in range(restarts):
        at = start.images
        if restart:
            offset = 2 * torch.rand(images.shape, generator=random, dtype=images.dtype) - 1
            at = projected(images + radius * offset.to(images.device), images, radius)
        for _ in range(steps):
            view = victim.look(at, labels)
            best = best.also(at, view)
            assert view.gradient is not None
            at = projected(at + length * view.gradient.sign(), images, radius)
        best = best.also(at, victim.look(at, labels, differentiate=False))
    return best


def attack(
    victim: Victim, images: Images, labels: Labels, radius: float, steps: int, restarts: int, seed: int
) -> dict[str, Attack]:
    """No change, FGSM and PGD on the same images."""
    view = victim.look(images, labels)
    one = fgsm(victim, images, labels, radius, view)
    many = pgd(victim, images, labels, radius, one, steps=steps, restarts=restarts, seed=seed)
    # The image itself lies in the ball: what is wrong without a change is not robust.
    return {"clean": Attack.at(images, view), "fgsm": one.also(images, view), "pgd": many.also(images, view)}


def analyse(subject: Subject) -> Result:
    settings, options = subject.settings, subject.options
    most = settings.attack_images if settings.limit is None else min(settings.limit, settings.attack_images)
    test = limited(subject.labelled("test"), most)
    if len(test.classes) > subject.model.num_classes:
        raise InputError(
            f"the network has {subject.model.num_classes} classes; {test.name} has {len(test.classes)}: "
            "choose the data that it was trained on"
        )
    key = {
        "weights": weights_key(subject.folder),
        "data": options.data,
        "data_override": stored(options.data_override),
        "images": len(test),
        "steps": settings.attack_steps,
        "restarts": settings.attack_restarts,
        "seed": settings.seed,
    }
    pieces = Pieces(subject.folder, "attack", key, subject.again)
    victim = Victim(subject.model, subject.folder.data().statistics)
    batches = range(0, len(test), BATCH)
    with limited_threads(options, subject.model), attacked(subject.model):
        for number, epsilon in enumerate(settings.epsilons):
            if f"{epsilon:g}" in pieces.values:
                continue
            rows: dict[str, list[Attack]] = {"clean": [], "fgsm": [], "pgd": []}
            for count, first in enumerate(batches):
                numbers = torch.arange(first, min(first + BATCH, len(test)))
                raw, labels = test.batch(numbers)
                images = raw.to(victim.mean) / 255
                labels = labels.to(images.device)
                found = attack(
                    victim,
                    images,
                    labels,
                    epsilon / 255,
                    settings.attack_steps,
                    settings.attack_restarts,
                    settings.seed + first,
                )
                for name, outcome in found.items():
                    rows[name].append(outcome)
                done = number * len(batches) + count + 1
                subject.progress("attacks", done, len(settings.epsilons) * len(batches))
            pieces.put(f"{epsilon:g}", {name: summary(outcomes) for name, outcomes in rows.items()})
    chosen = {f"{epsilon:g}": pieces.values[f"{epsilon:g}"] for epsilon in settings.epsilons}
    values = {
        "images": len(test),
        "steps": settings.attack_steps,
        "restarts": settings.attack_restarts,
        "epsilons": chosen,
    }
    return Result(values, (table(values),), notes(values))


def summary(outcomes: list[Attack]) -> dict[str, float]:
    def mean(parts: list[Tensor]) -> float:
        return float(torch.cat(parts).double().mean())

    return {
        "accuracy": 100 * mean([one.robust for one in outcomes]),
        "loss": mean([one.loss for one in outcomes]),
        "unconverged": mean([one.missed for one in outcomes]),
    }


def table(values: dict[str, Any]) -> TextTable:
    first = next(iter(values["epsilons"].values()))["clean"]
    rows = [("0", f"{first['accuracy']:.2f} %", f"{first['loss']:.4f}", "", "", "")]
    for epsilon, found in values["epsilons"].items():
        one, many = found["fgsm"], found["pgd"]
        rows.append(
            (
                f"{epsilon}/255",
                f"{one['accuracy']:.2f} %",
                f"{one['loss']:.4f}",
                f"{many['accuracy']:.2f} %",
                f"{many['loss']:.4f}",
                f"{100 * many['unconverged']:.1f} %",
            )
        )
    title = (
        f"Accuracy under attack (l∞) on {values['images']} images; PGD with {values['steps']} steps, "
        f"{values['restarts']} start(s)"
    )
    return TextTable(title, ("ε", "FGSM", "loss", "PGD", "loss", "not converged on the way"), tuple(rows))


def notes(values: dict[str, Any]) -> list[str]:
    masked = [
        epsilon
        for epsilon, found in values["epsilons"].items()
        if max(found["fgsm"]["unconverged"], found["pgd"]["unconverged"]) > 0.05
    ]
    if not masked:
        return []
    return [
        f"For ε = {', '.join(masked)} more than 5 % of the images met an equilibrium or adjoint that was not "
        "solved: gradients there can mislead the attack, and the accuracy may be too high."
    ]
