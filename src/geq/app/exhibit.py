"""A trained network that answers questions about images, each of them once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Lock

from jaxtyping import UInt8
from torch import Tensor

from geq.analysis.explanation import Explainer, Explanation
from geq.analysis.place import branch_places
from geq.analysis.trace import Trace
from geq.app.distortion import Distortion
from geq.app.memory import Memory
from geq.app.picture import Picture, SamplePicture
from geq.data.dataset import Labelled
from geq.error import GeqError
from geq.training.headline import headline_of
from geq.training.ingredient import open_split
from geq.training.picture import spread_over_classes
from geq.training.run import RunFolder
from geq.training.thread import limited_threads

SHOWN = 12
"""Test images to choose from."""
KEPT = 64
"""Answers that are remembered."""


@dataclass(frozen=True)
class Answer:
    """What a network says of an image, and the image as it was given to the network."""

    image: UInt8[Tensor, "1 c h w"]
    explanation: Explanation


class Exhibit:
    """The network of a run on show.

    Hooks see where the network is looked into, so one thread at a time may ask it.
    """

    def __init__(self, name: str, folder: RunFolder) -> None:
        self.name, self.folder = name, folder
        self.explainer = Explainer(folder)
        self.options = folder.options()
        self.branches = tuple(place.label for place in branch_places(self.explainer.model))
        self.parts = tuple(place.part for place in branch_places(self.explainer.model))
        self.answers: Memory[Answer] = Memory(KEPT)
        self.traces: Memory[Trace] = Memory(KEPT)
        self.lock = Lock()

    @contextmanager
    def alone(self) -> Iterator[None]:
        with self.lock, limited_threads(self.options, self.explainer.model):
            yield

    def answer(self, picture: Picture, distortion: Distortion) -> Answer:
        def ask() -> Answer:
            image = distortion.apply(picture.fitted(self.explainer.data))
            return Answer(image, self.explainer.explain(image))

        with self.alone():
            return self.answers.get((picture.key, distortion), ask)

    def trace(self, picture: Picture, distortion: Distortion, branch: int) -> Trace:
        """How the equilibrium with this number is found."""

        def follow() -> Trace:
            image = distortion.apply(picture.fitted(self.explainer.data))
            return self.explainer.traced(image, branch)

        with self.alone():
            return self.traces.get((picture.key, distortion, branch), follow)

    def pictures(self, data_root: str | None) -> tuple[SamplePicture, ...]:
        """Test images of its dataset, of different classes."""
        test = open_split(replace(self.options, data_root=data_root), "test")
        numbers = spread_over_classes(test, SHOWN)
        images, labels = test.batch(numbers)
        known = isinstance(test, Labelled)
        return tuple(
            SamplePicture(
                test.name,
                int(number),
                images[row : row + 1],
                test.classes[int(labels[row])] if known else None,
            )
            for row, number in enumerate(numbers)
        )

    def summary(self) -> str:
        """One line about it."""
        model = self.explainer.model
        words = [
            self.options.model,
            f"trained on {self.explainer.data.name}",
            f"{model.parameter_count():,} parameters",
        ]
        try:
            final = self.folder.result()
        except GeqError:
            final = None
        reached = None if final is None else headline_of(final, "test")
        if reached is not None:
            words.append(f"{reached[0]} {reached[1]:.1f} %")
        return ", ".join(words)
