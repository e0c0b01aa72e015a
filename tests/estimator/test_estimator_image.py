"""Arrays of images, in every layout."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
import torch
from sklearn.datasets import load_digits

from geq.errors import InputError
from geq.sklearn import GEQClassifier, GEQRegressor, OptEqClassifier

DIGITS = load_digits()
IMAGES, LABELS = DIGITS.images[:200].astype("float32"), DIGITS.target[:200]


def short(kind: Any = GEQClassifier, **options: Any) -> Any:
    return kind(**{"max_iter": 2, "width": 8, "random_state": 0, **options})


# In training the power iteration makes one step per solve: where W moves as fast as here, its norm can pass
# the bound for a batch, which is said by a warning.
@pytest.mark.filterwarnings("default::geq.errors.ConvergenceWarning")
@pytest.mark.parametrize("kind", [GEQClassifier, OptEqClassifier])
def test_digits_are_learned(kind: Any) -> None:
    model = kind(max_iter=12, width=16, batch_size=64, random_state=0).fit(IMAGES, LABELS)
    test = slice(200, 400)
    assert model.score(DIGITS.images[test], DIGITS.target[test]) > 0.8
    assert model.solution_.converged == 1


def test_layouts_are_the_same_images() -> None:
    colour = numpy.stack([IMAGES, IMAGES**2, -IMAGES], axis=1)[:40]
    first = short().fit(colour, LABELS[:40])
    assert first.image_shape_ == (3, 8, 8)
    assert first.n_features_in_ == 192
    expected = first.predict_proba(colour)
    last = numpy.moveaxis(colour, 1, -1)
    numpy.testing.assert_array_equal(short().fit(last, LABELS[:40]).predict_proba(last), expected)
    flat = colour.reshape(40, -1)
    table = short(image_shape=(3, 8, 8)).fit(flat, LABELS[:40])
    numpy.testing.assert_array_equal(table.predict_proba(flat), expected)
    numpy.testing.assert_array_equal(table.predict_proba(colour), expected)
    flat = last.reshape(40, -1)
    table = short(image_shape=(8, 8, 3)).fit(flat, LABELS[:40])
    numpy.testing.assert_array_equal(table.predict_proba(flat), expected)


def test_grey_images_need_no_axis() -> None:
    grey = short().fit(IMAGES[:40], LABELS[:40]).predict_proba(IMAGES[:40])
    with_axis = short().fit(IMAGES[:40, None], LABELS[:40]).predict_proba(IMAGES[:40, None])
    numpy.testing.assert_array_equal(grey, with_axis)


def test_pixels_are_standardised_by_channel() -> None:
    colour = numpy.stack([IMAGES, 5 + 2 * IMAGES], axis=1)
    model = short(max_iter=1).fit(colour, LABELS)
    numpy.testing.assert_allclose(model.scaler_.mean_, colour.mean((0, 2, 3), dtype="float64"), rtol=1e-4)
    numpy.testing.assert_allclose(model.scaler_.scale_, colour.std((0, 2, 3), dtype="float64"), rtol=1e-4)


def test_ambiguous_channels_must_be_named() -> None:
    small = numpy.random.default_rng(0).random((12, 3, 6, 3))
    y = numpy.arange(12) % 2
    with pytest.raises(InputError, match="channel_axis=1 or channel_axis=-1"):
        short().fit(small, y)
    assert short(channel_axis=1).fit(small, y).image_shape_ == (3, 6, 3)
    assert short(channel_axis=-1).fit(small, y).image_shape_ == (3, 3, 6)
    many = numpy.random.default_rng(0).random((12, 6, 8, 8))
    assert short(channel_axis=1).fit(many, y).image_shape_ == (6, 8, 8)


def test_other_images_than_those_of_the_fit_are_refused() -> None:
    model = short(max_iter=1).fit(IMAGES, LABELS)
    with pytest.raises(InputError, match=r"fitted to \(1, 8, 8\): got \(1, 6, 8\)"):
        model.predict(IMAGES[:, :6])
    with pytest.raises(InputError, match="got tables"):
        model.predict(IMAGES.reshape(-1, 64))
    with pytest.raises(InputError, match="must be a table"):
        model.predict(IMAGES[:, None, None])


def test_images_are_computed_in_single_precision() -> None:
    """Those of scikit-learn come in double precision, in which convolutions take several times as long."""
    images = DIGITS.images[:100]
    assert images.dtype == "float64"
    model = short().fit(images, LABELS[:100])
    whole = short().fit(images.astype("uint8"), LABELS[:100])
    flat = short(image_shape=(8, 8)).fit(images.reshape(100, -1), LABELS[:100])
    for one in (model, whole, flat):
        assert {parameter.dtype for parameter in one.network_.parameters()} == {torch.float32}
    expected = short().fit(images.astype("float32"), LABELS[:100]).predict_proba(images)
    numpy.testing.assert_allclose(model.predict_proba(images), expected, atol=1e-3)
    table = short().fit(images.reshape(100, -1), LABELS[:100])
    assert {parameter.dtype for parameter in table.network_.parameters()} == {torch.float64}


@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (5, 7), (33, 20), (40, 9)])
def test_images_of_any_size(shape: tuple[int, int]) -> None:
    images = numpy.random.default_rng(0).random((9, *shape), dtype="float32")
    y = numpy.arange(9) % 2
    model = short(batch_size=4).fit(images, y)  # the last batch of an epoch is one image
    assert model.predict_proba(images).shape == (9, 2)


def test_regression_on_images() -> None:
    brightness = IMAGES.mean((1, 2))
    model = short(GEQRegressor, max_iter=30, width=8).fit(IMAGES, brightness)
    assert model.score(IMAGES, brightness) > 0.8


def test_missing_pixels_are_refused() -> None:
    broken = IMAGES.copy()
    broken[3, 2, 2] = numpy.nan
    with pytest.raises(ValueError, match="NaN"):
        short().fit(broken, LABELS)
