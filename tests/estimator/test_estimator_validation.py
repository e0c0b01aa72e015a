"""No estimator answers NaN: extreme values are refused in words, or answered with finite numbers."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy
import pytest
import torch
from sklearn.datasets import load_digits, load_iris

from geq.errors import GeqError, InputError
from geq.sklearn import GEQClassifier, GEQRegressor, OptEqClassifier
from geq.sklearn.validation import largest_value

# Two epochs on 60 images need not converge; only values are asked for here.
pytestmark = pytest.mark.filterwarnings("ignore::geq.errors.ConvergenceWarning")

KINDS = [GEQClassifier, OptEqClassifier, GEQRegressor]
LARGE = [1e10, 1e13, 1e15, 1e18, 1e19, 1e20, 1e25, 1e30, 1e35, 9.97e36, 1e38, 3e38]
LARGER = [1e100, 1e147, 1e149, 1e151, 1e155, 1e200, 1e300, 1.7e308]
SMALL = [0.0, 1e-30, 1e-38, 1e-40, 1.4e-45, 1e-310, 5e-324]


@cache
def fitted(kind: Any, data: str, dtype: str, **options: Any) -> tuple[Any, numpy.ndarray, numpy.ndarray]:
    if data == "table":
        x, y = load_iris(return_X_y=True)
    else:
        x, y = load_digits().images[:60], load_digits().target[:60]
    x = x.astype(dtype)
    return kind(max_iter=2, width=8, random_state=0, **options).fit(x, y), x, y


def answers(model: Any, x: numpy.ndarray, y: numpy.ndarray) -> list[numpy.ndarray]:
    """Return the outputs of the estimator for ``x`` by each of its methods; empty where it refuses."""
    found = []
    for name in ("predict", "predict_proba", "score"):
        if not hasattr(model, name):
            continue
        refusal = None
        try:
            with numpy.errstate(over="ignore"):  # scikit-learn squares the error of a regressor
                found.append(getattr(model, name)(x, y) if name == "score" else getattr(model, name)(x))
        except InputError as problem:
            refusal = str(problem)
        assert refusal is None or "row 1" in refusal
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("data", ["table", "images"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_extreme_values_are_refused_or_answered_with_finite_numbers(kind: Any, data: str, dtype: str) -> None:
    model, x, y = fitted(kind, data, dtype)
    single = dtype == "float32" or data == "images"  # images are computed in single precision
    largest = largest_value(torch.float32 if single else torch.float64)
    for value in [*LARGE, *(LARGER if dtype == "float64" else [])]:
        for sign in (1, -1):
            for everywhere in (False, True):
                rows = x[:3].copy()
                rows[1].reshape(-1)[slice(None) if everywhere else 3] = sign * value
                found = answers(model, rows, y[:3])
                if value < largest / 1e3:
                    assert found, f"{value} is not too large"
                if value > largest * 1e3:
                    assert not found, f"{value} must be refused"
                assert not any(numpy.isnan(one).any() for one in found)
                assert all(numpy.isfinite(one).all() for one in found[:-1])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("data", ["table", "images"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_tiny_values_are_answered_as_zero_is(kind: Any, data: str, dtype: str) -> None:
    model, x, _ = fitted(kind, data, dtype)
    expected = model.predict(numpy.zeros_like(x[:2]))
    for value in SMALL:
        numpy.testing.assert_allclose(model.predict(numpy.full_like(x[:2], value)), expected, rtol=1e-5)


def test_refusal_names_the_value_and_keeps_the_last_report() -> None:
    model, x, _ = fitted(OptEqClassifier, "table", "float32")
    model.predict(x)
    before = model.solution_
    row = x[100:101].copy()
    row[0, 2] = 9.97e36  # netCDF's fill value
    with pytest.raises(
        InputError, match=r"within 1\.8e\+13 standard deviations.*row 0 has .*e\+36 in column 2"
    ):
        model.predict_proba(row)
    assert model.solution_ == before


def test_values_that_pass_are_answered_as_in_double_precision() -> None:
    """The limit leaves enough room for the norms: single precision agrees where it answers."""
    for kind in KINDS[:2]:
        model, x, _ = fitted(kind, "images", "float32")
        rows = x[:4].copy()
        rows[:, 2, 2] = [1e3, 1e6, 1e9, 1e12]
        found = model.predict_proba(rows)
        network = model.network_
        with torch.no_grad():
            exact = network.double()(model._standardised(model._read(rows, reset=False)).double()).softmax(1)
        network.float()
        numpy.testing.assert_allclose(found, exact, atol=1e-2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [1e30, 3e38, 1e155, 1e200, 1.7e308])
@pytest.mark.parametrize("way", ["fit", "partial_fit"])
def test_training_on_extreme_values_is_refused_or_gives_finite_answers(
    kind: Any, value: float, way: str
) -> None:
    x, y = load_iris(return_X_y=True)
    x[3, 1] = value
    model = kind(max_iter=2, width=8, random_state=0)
    options = {"classes": [0, 1, 2]} if way == "partial_fit" and kind is not GEQRegressor else {}
    if value > 1e150:
        with pytest.raises(InputError, match="X must have a variance that float64 can hold"):
            getattr(model, way)(x, y, **options)
        return
    getattr(model, way)(x, y, **options)
    assert numpy.isfinite(model.predict(x)).all()


def test_refused_batch_leaves_the_estimator_as_it_was() -> None:
    x, y = load_iris(return_X_y=True)
    model = GEQRegressor(max_iter=2, width=8, random_state=0).partial_fit(x, y)
    expected = model.predict(x)
    for batch in ((1e200 * x, y), (x, 1e200 * y)):
        with pytest.raises(InputError, match="must have a variance"):
            model.partial_fit(*batch)
    numpy.testing.assert_array_equal(model.predict(x), expected)


@pytest.mark.parametrize("value", [1e30, 1e155, 1.7e308])
def test_extreme_targets_are_refused_or_come_back_finite(value: float) -> None:
    x, y = load_iris(return_X_y=True)
    y = y.astype(float)
    y[5] = value
    model = GEQRegressor(max_iter=2, width=8, random_state=0)
    if value > 1e150:
        with pytest.raises(InputError, match="y must have a variance that float64 can hold"):
            model.fit(x, y)
        return
    model.fit(x, y)
    assert numpy.isfinite(model.predict(x)).all()
    far = x[:1] * 1e100
    assert numpy.isfinite(model.predict(far)).all()


def test_prediction_beyond_the_largest_number_is_refused() -> None:
    x, y = load_iris(return_X_y=True)
    x = x.astype("float32")
    model = GEQRegressor(max_iter=5, width=8, random_state=0).fit(x, 1e30 * y)
    with pytest.raises(InputError, match="outputs must be finite: got NaN or infinity for row 0, 1 of 1"):
        model.predict(1e12 * x[100:101])


def test_training_that_diverges_is_refused() -> None:
    x, y = load_iris(return_X_y=True)
    with pytest.raises(GeqError, match=r"training must keep the weights finite.*lower learning_rate"):
        GEQRegressor(max_iter=1, width=8, random_state=0, learning_rate=1e200).fit(x.astype("float32"), y)
