"""Every answer of the page equals a freshly computed one, after any questions of any visitors."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from geq.training.run_folder import RunFolder
from geq_demo.input_image import CLEAR, Distortion, FilePicture, Picture
from geq_demo.network_choice import Collection
from geq_demo.served_network import content_of
from geq_demo.session import Look, Panel, Session
from saved_runs import saved_run

PHOTOS = ("left", "right")
"""Networks of two folders of images, which have the same name, the same classes and the same numbers."""


def draw_folder(root: Path, seed: int) -> Path:
    chance = np.random.default_rng(seed)
    for split in ("train", "val"):
        for kind in ("cat", "dog"):
            (root / split / kind).mkdir(parents=True)
            for number in range(4):
                pixels = chance.integers(0, 256, (8, 8, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(root / split / kind / f"{number}.png")
    return root


@pytest.fixture(scope="module")
def folders(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunFolder]:
    home = tmp_path_factory.mktemp("photos")
    found = {name: RunFolder.find(name, runs) for name in ("patches", "layers")}
    for seed, name in enumerate(PHOTOS):
        where = {"folder": draw_folder(home / name, seed), "image_size": 8}
        found[name] = saved_run(
            home, f"run-{name}", seed, model="geq_tiny", data="imagefolder", data_override=where, validation=0
        )
    return found


@dataclass(frozen=True)
class Question:
    """Questions of one visitor."""

    name: str
    picture: Picture
    distortion: Distortion
    look: Look

    def asked(self, session: Session) -> Panel:
        return session.panel(self.name, self.picture, self.distortion, self.look)

    def afresh(self, folders: dict[str, RunFolder]) -> Panel:
        """Return the answer of a fresh page."""
        return self.asked(Session(Collection({self.name: folders[self.name]})))


def questions(folders: dict[str, RunFolder], home: Path, number: int) -> list[Question]:
    """Interleaved: each network about pictures of its own data, of others' data, and of files."""
    session = Session(Collection(folders))
    chance = random.Random(0)
    pictures: list[Picture] = [picture for name in folders for picture in session.gallery(name).pictures[:2]]
    for seed in range(2):  # two visitors who give their files the same name
        (home / str(seed)).mkdir()
        pixels = np.random.default_rng(seed).integers(0, 256, (20, 30, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(home / str(seed) / "photo.png")
        pictures.append(FilePicture(home / str(seed) / "photo.png", "photo.png"))
    return [
        Question(
            chance.choice(list(folders)),
            chance.choice(pictures),
            chance.choice([CLEAR, CLEAR, Distortion(noise=40), Distortion(corruption="fog", severity=2)]),
            chance.choice([Look(), Look(1), Look(1, "plain", 2)]),
        )
        for _ in range(number)
    ]


def test_comparison_does_not_fill_the_other_network_with_foreign_answers(
    folders: dict[str, RunFolder],
) -> None:
    """The case that was found: both datasets have an image of this number."""
    session = Session(Collection(folders))
    mine, other = (session.gallery(name).pictures[0] for name in PHOTOS)
    assert mine.title == other.title
    assert not torch.equal(mine.pixels, other.pixels)
    for name in PHOTOS:  # a comparison: both networks see the first one's picture
        session.panel(name, mine, CLEAR, Look())
    asked = Question("right", other, CLEAR, Look())
    assert asked.asked(session) == asked.afresh(folders)


@pytest.mark.slow
@pytest.mark.parametrize(("visitors", "number"), [(1, 16), (4, 40)])
def test_every_answer_equals_a_fresh_one(
    folders: dict[str, RunFolder], tmp_path: Path, visitors: int, number: int
) -> None:
    asked = questions(folders, tmp_path, number)
    session = Session(Collection(folders))
    with ThreadPoolExecutor(visitors) as pool:
        found = list(pool.map(lambda one: one.asked(session), asked))
    assert len({answer.answer for answer in found}) > number / 2  # or a mistake would not be seen
    fresh: dict[Any, Panel] = {}
    for one, answer in zip(asked, found, strict=True):
        key = (one.name, id(one.picture), one.distortion, one.look)
        if key not in fresh:
            fresh[key] = one.afresh(folders)
        assert answer == fresh[key]


def test_file_that_changes_in_its_place_is_another_picture(
    folders: dict[str, RunFolder], tmp_path: Path
) -> None:
    session = Session(Collection(folders))
    asked = Question("patches", FilePicture(tmp_path / "a.png", "a.png"), CLEAR, Look())
    answers = []
    for seed in range(2):
        pixels = np.random.default_rng(seed).integers(0, 256, (8, 8), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "a.png")
        answers.append(asked.asked(session))
        assert answers[-1] == asked.afresh(folders)
    assert answers[0] != answers[1]


def test_change_of_the_network_keeps_a_picture_of_its_own_data_only(folders: dict[str, RunFolder]) -> None:
    session = Session(Collection(folders))
    picture = session.gallery("left").pictures[1]
    assert session.kept("left", picture) is picture
    assert session.kept("right", picture) is session.gallery("right").pictures[0]


def test_key_of_an_answer_tells_shapes_and_contents_apart() -> None:
    images = [
        torch.zeros(1, 1, 2, 8),
        torch.zeros(1, 1, 4, 4),
        torch.zeros(1, 4, 2, 2),
        torch.ones(1, 1, 4, 4),
    ]
    assert len({content_of(image.byte()) for image in images}) == 4
    turned = torch.arange(16).view(1, 1, 4, 4).byte()
    assert content_of(turned.transpose(2, 3)) == content_of(turned.transpose(2, 3).contiguous())
