"""Actions of the page's controls, without the page: from choices to HTML."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from geq.errors import GeqError
from geq_demo.answer_panel import answer_part
from geq_demo.attention_panel import focus_part
from geq_demo.input_image import Distortion, FilePicture, Picture, SamplePicture
from geq_demo.markup import EMPTY, Markup, element
from geq_demo.network_choice import Collection
from geq_demo.recent_cache import RecentCache
from geq_demo.served_network import Exhibit
from geq_demo.solve_panel import Kind, settling_part, steps_of

THUMBNAIL = 96
"""Least side of a picture in the gallery, in pixels."""


@dataclass(frozen=True)
class Look:
    """Settings of the view of a solve.

    Args:
        branch: which equilibrium.
        kind: the solver's way, or that of plain repetition.
        step: of the way; None is the last one.
    """

    branch: int = 0
    kind: Kind = "solver"
    step: int | None = None


@dataclass(frozen=True)
class SolveView:
    """One step of one solve.

    Args:
        settling: the step as HTML.
        branch: which equilibrium it is of.
        step, steps: which step it is, of how many.
    """

    settling: Markup
    branch: int
    step: int
    steps: int


@dataclass(frozen=True)
class Panel:
    """A network on the page, as HTML.

    Args:
        answer, focus: what it says, and why.
        branches: names of its equilibria.
        solve: how one of them is found; None where there is none to show.
    """

    answer: Markup
    focus: Markup = EMPTY
    branches: tuple[str, ...] = ()
    solve: SolveView | None = None


@dataclass(frozen=True)
class Gallery:
    """Test images to choose from, or why there are none."""

    pictures: tuple[SamplePicture, ...]
    missing: str = ""

    def thumbnails(self) -> list[tuple[UInt8[np.ndarray, "h w 3"], str]]:
        """Enlarged by whole factors, so that their pixels stay squares."""
        found = []
        for one in self.pictures:
            pixels = one.rgb()
            factor = -(-THUMBNAIL // min(pixels.shape[:2]))
            found.append((pixels.repeat(factor, 0).repeat(factor, 1), one.truth or ""))
        return found


class Session:
    """Answers for the page; one for all visitors, since nothing of theirs is kept here."""

    def __init__(self, collection: Collection) -> None:
        self.collection = collection
        self._galleries: RecentCache[Gallery] = RecentCache(size=8)

    def gallery(self, name: str) -> Gallery:
        return self._galleries.get(name, lambda: self._open_gallery(name))

    def _open_gallery(self, name: str) -> Gallery:
        try:
            return Gallery(self.collection.exhibit(name).pictures(self.collection.data_root))
        except GeqError as problem:
            return Gallery((), f"No test images to choose from, upload one instead: {problem}")

    def start(self, name: str) -> Picture | None:
        """The image that is shown first."""
        pictures = self.gallery(name).pictures
        return pictures[0] if pictures else None

    def kept(self, name: str, picture: Picture | None) -> Picture | None:
        """The picture after a change of the network: a sample gives way to one of the network's own data."""
        if isinstance(picture, FilePicture):
            return picture
        own = self.gallery(name).pictures
        if isinstance(picture, SamplePicture) and any(picture.is_same(one) for one in own):
            return picture
        return self.start(name)

    def upload(self, path: Path, name: str) -> FilePicture:
        """Open an uploaded file; refuse it with a reason if no network could take it."""
        picture = FilePicture(path, path.name)
        picture.fitted(self.collection.exhibit(name).explainer.data)
        return picture

    def panel(self, name: str, picture: Picture | None, distortion: Distortion, look: Look) -> Panel:
        """Everything about one network; a network that cannot answer says why in its own place."""
        try:
            exhibit = self.collection.exhibit(name)
        except GeqError as problem:
            return Panel(complaint(str(problem)))
        if picture is None:
            return Panel(complaint("Choose or upload an image."))
        try:
            return self._panel(exhibit, picture, distortion, look)
        except GeqError as problem:
            return Panel(complaint(str(problem)))

    def _panel(self, exhibit: Exhibit, picture: Picture, distortion: Distortion, look: Look) -> Panel:
        answer = exhibit.answer(picture, distortion)
        return Panel(
            answer_part(answer, exhibit, picture),
            focus_part(answer),
            exhibit.branches,
            self._solve(exhibit, picture, distortion, look) if exhibit.branches else None,
        )

    def solve(
        self, name: str, picture: Picture | None, distortion: Distortion, look: Look
    ) -> SolveView | None:
        """The middle part of a panel alone: what follows the slider."""
        try:
            exhibit = self.collection.exhibit(name)
            return (
                None
                if picture is None or not exhibit.branches
                else self._solve(exhibit, picture, distortion, look)
            )
        except GeqError:  # the panel says why in the place of the answer
            return None

    def _solve(self, exhibit: Exhibit, picture: Picture, distortion: Distortion, look: Look) -> SolveView:
        branch = max(0, min(look.branch, len(exhibit.branches) - 1))
        trace = exhibit.trace(picture, distortion, branch)
        steps = steps_of(trace, look.kind)
        step = steps if look.step is None else max(1, min(look.step, steps))
        return SolveView(settling_part(trace, exhibit.parts[branch], look.kind, step), branch, step, steps)


def complaint(words: str) -> Markup:
    """Return an error message as HTML."""
    return element("p", words, {"class": "geq complaint", "role": "alert"})
