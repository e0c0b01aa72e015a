"""A trained network that answers questions about images, each of them once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Lock

from jaxtyping import UInt8
from torch import Tensor

from geq.analysis.explanation import Explainer, Explanation
from geq.analysis.solver_trace import Trace
from geq.data.dataset import Labelled
from geq.errors import GeqError
from geq.training.device import limited_threads
from geq.training.headline_metric import headline_of
from geq.training.run_folder import RunFolder
from geq.training.run_picture import spread_over_classes
from geq.training.setup import open_split
from geq_demo.input_image import Distortion, Picture, SamplePicture
from geq_demo.recent_cache import RecentCache

SHOWN = 12
"""Test images to choose from."""
KEPT = 64
"""Answers that are remembered."""


@dataclass(frozen=True)
class Answer:
    """Answer of a network, and the image as it was given to the network."""

    image: UInt8[Tensor, "1 c h w"]
    explanation: Explanation


def content_of(image: UInt8[Tensor, "1 c h w"]) -> tuple[tuple[int, ...], bytes]:
    """Return the key of an answer: all that the network is given, and no name of it.

    Names and numbers of images are those of one dataset and one visitor; two folders of images have the same.

    >>> import torch
    >>> first, second = torch.zeros(1, 1, 2, 2).byte(), torch.ones(1, 1, 2, 2).byte()
    >>> content_of(first) == content_of(first.clone()), content_of(first) == content_of(second)
    (True, False)
    """
    return tuple(image.shape), hashlib.sha256(image.contiguous().numpy().tobytes()).digest()


class Exhibit:
    """The network of a run on show, with its answers: no other network shares them.

    Hooks see where the network is looked into, so one thread at a time may ask it.
    """

    def __init__(self, name: str, folder: RunFolder) -> None:
        self.name, self.folder = name, folder
        self.explainer = Explainer(folder)
        self.options = folder.options()
        self.branches = tuple(place.label for place in self.explainer.model.branch_feature_maps())
        self.parts = tuple(place.part for place in self.explainer.model.branch_feature_maps())
        self.answers: RecentCache[Answer] = RecentCache(KEPT)
        self.traces: RecentCache[Trace] = RecentCache(KEPT)
        self.lock = Lock()

    @contextmanager
    def alone(self) -> Iterator[None]:
        with self.lock, limited_threads(self.options, self.explainer.model):
            yield

    def answer(self, picture: Picture, distortion: Distortion) -> Answer:
        image = self.given(picture, distortion)
        with self.alone():
            return self.answers.get(content_of(image), lambda: Answer(image, self.explainer.explain(image)))

    def trace(self, picture: Picture, distortion: Distortion, branch: int) -> Trace:
        """Return the trace of the solve of the equilibrium with this number."""
        image = self.given(picture, distortion)
        with self.alone():
            return self.traces.get((content_of(image), branch), lambda: self.explainer.traced(image, branch))

    def given(self, picture: Picture, distortion: Distortion) -> UInt8[Tensor, "1 c h w"]:
        """The image as this network is given it."""
        return distortion.apply(picture.fitted(self.explainer.data))

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
