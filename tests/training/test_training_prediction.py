"""``geq.load``: pictures as people have them, in one line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import geq
from geq.data.dataset_registry import load_dataset
from geq.data.image_reader import read_image
from geq.errors import DataError, InputError, OptionError
from geq.training.prediction import BATCH, Predictor, fitted
from geq.training.setup import DataDescription
from saved_runs import saved_run

COLOUR = DataDescription("photos", ("a", "b"), geq.load("geq-cifar10").data.statistics, (3, 6, 6))


@pytest.fixture(scope="module")
def digits() -> Predictor:
    return geq.load("geq-digits")


@pytest.fixture(scope="module")
def pixels() -> torch.Tensor:
    images: torch.Tensor = load_dataset("digits", "test").batch(torch.arange(12))[0]
    return images


def test_one_line(digits: Predictor, pixels: torch.Tensor, tmp_path: Path) -> None:
    path = tmp_path / "photo.png"
    Image.fromarray(pixels[0, 0].numpy()).save(path)
    found = geq.load("geq-digits").predict(path)
    assert found.path == path
    assert list(found.probabilities) == list(digits.classes)
    assert sum(found.probabilities.values()) == pytest.approx(1)
    assert found.confidence == max(found.probabilities.values()) == found.probabilities[found.label]
    assert found.top(2)[0] == (found.label, found.confidence)
    assert found.top(2)[1][1] <= found.confidence
    assert str(found) == f"{found.label} ({100 * found.confidence:.1f} %)"
    assert found.converged


def test_it_says_what_the_network_says(digits: Predictor, pixels: torch.Tensor) -> None:
    """By hand: the network, its normalisation and a softmax."""
    data = digits.data
    x = (pixels / 255 - data.statistics.mean[0]) / data.statistics.std[0]
    with torch.no_grad():
        expected = geq.model.Network.from_pretrained("geq-digits")(x).softmax(1)
    found = torch.tensor([list(p.probabilities.values()) for p in digits.predict(pixels)])
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)


def test_every_kind_of_image_is_the_same_image(
    digits: Predictor, pixels: torch.Tensor, tmp_path: Path
) -> None:
    image = pixels[3]
    grey = image[0].numpy()
    path = tmp_path / "3.png"
    Image.fromarray(grey).save(path)
    kinds = [
        path,
        str(path),
        Image.fromarray(grey),
        grey,
        grey[..., None],
        np.repeat(grey[..., None], 3, axis=2),
        grey / 255,
        (grey / 255).astype(np.float16),
        image,
        image[0],
        image.expand(3, -1, -1),
        image / 255,
        image.double() / 255,
    ]
    for kind in kinds:
        assert torch.equal(digits.read(kind), image[None]), type(kind)
    together = digits.predict(kinds)
    assert len(together) == len(kinds)
    assert {p.label for p in together} == {digits.predict(path).label}
    for several in (pixels, pixels.permute(0, 2, 3, 1).numpy(), list(pixels), iter(pixels)):
        assert [p.label for p in digits.predict(several)] == [digits.predict(i).label for i in pixels]
    assert digits.predict([]) == []


def test_what_is_larger_is_cut_and_resized_as_files_are(tmp_path: Path) -> None:
    colour = np.random.default_rng(0).integers(0, 256, (20, 31, 3), dtype=np.uint8)
    path = tmp_path / "photo.png"
    Image.fromarray(colour).save(path)
    expected = torch.from_numpy(read_image(path, 6).copy()).permute(2, 0, 1)[None]
    for image in (path, Image.fromarray(colour), colour, torch.from_numpy(colour).permute(2, 0, 1)):
        assert torch.equal(fitted(image, COLOUR), expected)


def test_a_picture_is_turned_as_its_camera_says(tmp_path: Path) -> None:
    picture = Image.fromarray(np.arange(36 * 3, dtype=np.uint8).reshape(6, 6, 3))
    exif = picture.getexif()
    exif[0x0112] = 3  # upside down
    picture.save(tmp_path / "photo.png", exif=exif)
    assert torch.equal(
        fitted(Image.open(tmp_path / "photo.png"), COLOUR), fitted(picture.rotate(180), COLOUR)
    )


def test_more_images_than_one_batch(digits: Predictor, pixels: torch.Tensor) -> None:
    many = pixels.repeat(BATCH // 6, 1, 1, 1)
    assert len(many) > BATCH
    found = digits.predict(many)
    assert len(found) == len(many)
    assert found[: len(pixels)] == found[-len(pixels) :]


@pytest.mark.parametrize(
    ("image", "words"),
    [
        (np.zeros((3, 8, 8), np.uint8), r"\(height, width, 3\): got \(3, 8, 8\)"),
        (torch.zeros(8, 8, 3), r"\(3, height, width\): got \(8, 8, 3\)"),
        (torch.zeros(1, 0, 8), r"got \(1, 0, 8\)"),
        (np.zeros(8), r"got \(8,\)"),
        (torch.full((1, 8, 8), 1.5), "values from 0 to 1, which are normalised inside"),
        (torch.full((1, 8, 8), -0.5), "from -0.5 to -0.5"),
        (torch.full((1, 8, 8), float("nan")), "from nan to nan"),
        (np.zeros((8, 8), np.int64), r"bytes \(uint8\)"),
        (7, "a file, a Pillow image, an array or a tensor: got int"),
        (None, "got NoneType"),
    ],
)
def test_what_is_no_image_is_refused(digits: Predictor, image: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        digits.predict([image])


def test_files_that_cannot_be_read(digits: Predictor, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"there is no file nosuch\.png$"):
        digits.predict("nosuch.png")
    with pytest.raises(DataError, match=f"an image file is needed: {tmp_path} is a folder"):
        digits.predict(tmp_path)


def test_what_can_be_loaded(tmp_path: Path) -> None:
    saved_run(tmp_path, "first", model="geq_tiny", data="digits")
    for name in (tmp_path / "first", "first"):
        found = geq.load(name, tmp_path)
        assert repr(found) == "Predictor(geq_tiny trained on digits: 10 classes, images of 1×8×8)"
    with pytest.raises(OptionError, match="did you mean 'geq-digits'"):
        geq.load("geq-digit")
