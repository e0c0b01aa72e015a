"""scikit-learn's tools around the estimators, and what belongs to equilibria."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import numpy
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, make_regression
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from geq.errors import ConvergenceError, ConvergenceWarning, InputError, OptionError
from geq.sklearn import GEQClassifier, GEQRegressor, OptEqClassifier

X, Y = load_iris(return_X_y=True)
CLASSIFIERS = [GEQClassifier, OptEqClassifier]


def short(kind: Any = GEQClassifier, **options: Any) -> Any:
    return kind(**{"max_iter": 10, "width": 16, "random_state": 0, **options})


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_iris_is_learned(kind: Any) -> None:
    model = kind(max_iter=30, learning_rate=0.02, random_state=0)
    assert cross_val_score(model, X, Y, cv=3).mean() > 0.93


def test_regression_is_learned() -> None:
    X, y = make_regression(120, 5, noise=1.0, random_state=0)
    model = GEQRegressor(max_iter=40, learning_rate=0.02, random_state=0).fit(X[:80], 1e3 + 1e-2 * y[:80])
    assert model.score(X[80:], 1e3 + 1e-2 * y[80:]) > 0.8


def test_several_targets() -> None:
    X, y = make_regression(60, 4, n_targets=3, random_state=0)
    model = short(GEQRegressor).fit(X, y)
    assert model.predict(X).shape == (60, 3)
    with pytest.raises(InputError, match="3 targets"):
        model.partial_fit(X, y[:, :2])


def test_grid_search_over_a_pipeline() -> None:
    pipeline = make_pipeline(StandardScaler(), short(max_iter=3))
    grid = {"geqclassifier__width": [4, 8], "geqclassifier__gamma": [0.1, 0.5]}
    search = GridSearchCV(pipeline, grid, cv=2).fit(X, Y)
    assert set(search.best_params_) == set(grid)
    assert 0 <= search.best_score_ <= 1


def test_probabilities_and_labels_of_any_type() -> None:
    names = numpy.array(["setosa", "versicolor", "virginica"], dtype=object)[Y]
    model = short().fit(X, names)
    probabilities = model.predict_proba(X)
    numpy.testing.assert_allclose(probabilities.sum(1), 1)
    assert (model.classes_[probabilities.argmax(1)] == model.predict(X)).all()
    assert set(model.predict(X)) <= set(names)


@pytest.mark.parametrize("kind", [*CLASSIFIERS, GEQRegressor])
def test_same_seed_same_model_and_global_random_numbers_untouched(kind: Any) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first = short(kind, batch_size=64, max_iter=4).fit(X, Y)
    assert torch.equal(torch.rand(3), expected)
    second = clone(first).fit(X, Y)
    other = clone(first).set_params(random_state=1).fit(X, Y)
    assert first.loss_curve_ == second.loss_curve_
    assert first.loss_curve_ != other.loss_curve_


def test_pickled_model_predicts_and_goes_on() -> None:
    model = short().fit(X, Y)
    again = pickle.loads(pickle.dumps(model))
    numpy.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    model.partial_fit(X, Y)
    again.partial_fit(X, Y)
    numpy.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    third = pickle.loads(pickle.dumps(again)).partial_fit(X, Y)
    numpy.testing.assert_array_equal(third.predict_proba(X), model.partial_fit(X, Y).predict_proba(X))


def test_partial_fit_learns_from_a_stream() -> None:
    model = short(batch_size=32, width=32)
    order = numpy.random.default_rng(0).permutation(len(X))
    for _ in range(10):
        for part in numpy.array_split(order, 3):
            model.partial_fit(X[part], Y[part], classes=[0, 1, 2])
    assert model.n_iter_ == len(model.loss_curve_) == 30
    assert model.score(X, Y) > 0.9
    numpy.testing.assert_allclose(model.scaler_.mean_, X.mean(0))


def test_partial_fit_needs_the_classes_once() -> None:
    with pytest.raises(OptionError, match="first call"):
        short().partial_fit(X, Y)
    model = short().partial_fit(X[:20], Y[:20], classes=[0, 1, 2])
    model.partial_fit(X, Y)
    with pytest.raises(OptionError, match="those of the first call"):
        model.partial_fit(X, Y, classes=[0, 1])
    with pytest.raises(InputError, match="among the classes"):
        model.partial_fit(X, Y + 1)


def test_partial_fit_after_fit_starts_from_it() -> None:
    model = short(max_iter=40).fit(X, Y)
    loss = model.loss_curve_[-1]
    model.set_params(learning_rate=1e-5).partial_fit(X, Y)
    assert model.loss_curve_[-1] == pytest.approx(loss, rel=0.1)
    assert model.n_iter_ == 41


def test_warm_start_goes_on() -> None:
    model = short(warm_start=True).fit(X, Y)
    first = model.loss_curve_
    model.fit(X, Y)
    assert model.loss_curve_[0] < first[0] / 2
    cold = short().fit(X, Y).fit(X, Y)
    assert cold.loss_curve_ == first
    with pytest.raises(InputError, match="among the classes"):
        model.fit(X, Y + 1)


def test_early_stopping_returns_to_the_best_weights() -> None:
    noise = numpy.random.default_rng(0).permutation(Y)  # labels without sense: validation soon gets worse
    model = short(
        early_stopping=True, validation_fraction=0.3, max_iter=60, n_iter_no_change=3, width=64
    ).fit(X, noise)
    losses = model.net_.history[:, "valid_loss"]
    assert model.n_iter_ < 60
    best = int(numpy.argmin(losses))
    assert len(losses) - 1 - best >= 3
    state = model.net_.get_params()["callbacks__early_stopping"].best_model_weights_
    for name, value in model.network_.state_dict().items():
        assert torch.equal(value, state["module"][name] if "module" in state else state[name])


def test_weights_count_rows_over_several_batches() -> None:
    """Weight 0 is absence, in every batch: the very same numbers."""
    weight = (numpy.arange(len(X)) % 3 > 0).astype(float)
    kept = weight > 0
    left_out = short(batch_size=40, max_iter=4).fit(X, Y, sample_weight=weight)
    absent = short(batch_size=40, max_iter=4).fit(X[kept], Y[kept])
    numpy.testing.assert_array_equal(left_out.predict_proba(X), absent.predict_proba(X))


def test_scale_of_inputs_and_of_weights_does_not_matter() -> None:
    plain = short().fit(X, Y)
    scaled = short().fit(1e4 * X - 3e5, Y, sample_weight=numpy.full(len(X), 7.0))
    numpy.testing.assert_allclose(plain.predict_proba(X), scaled.predict_proba(1e4 * X - 3e5), rtol=1e-5)


def test_verbose_prints_epochs(capsys: pytest.CaptureFixture[str]) -> None:
    short(max_iter=2, verbose=1).fit(X, Y)
    assert "train_loss" in capsys.readouterr().out
    short(max_iter=2).fit(X, Y)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_solution_and_certificate(kind: Any) -> None:
    model = short(kind, bound=0.8, solver_tol=1e-5)
    with pytest.raises(NotFittedError):
        model.well_posedness()
    model.fit(X, Y)
    with pytest.raises(NotFittedError, match="predict first"):
        _ = model.solution_
    model.predict(X)
    assert model.solution_.converged == 1
    assert model.solution_.residual_max <= 1e-5
    certificate = model.well_posedness()
    assert certificate.unique
    assert certificate.contraction
    assert certificate.feedback_norm is not None
    assert certificate.feedback_norm < 0.81


def test_an_equilibrium_that_is_not_found_is_never_silent() -> None:
    with pytest.warns(ConvergenceWarning, match="samples did not get there"):
        model = short(max_steps=2, solver_tol=1e-9, max_iter=1).fit(X, Y)
    with pytest.warns(ConvergenceWarning, match="150 of 150"):
        model.predict(X)
    with pytest.raises(ConvergenceError):
        model.set_params(on_failure="raise").fit(X, Y)
    model = short(max_steps=2, solver_tol=1e-9, max_iter=1, on_failure="ignore").fit(X, Y)
    model.predict(X)
    assert model.solution_.converged == 0


@pytest.mark.parametrize(
    "options, message",
    [
        ({"width": 0}, "width must be a whole number"),
        ({"max_iter": 1.5}, "max_iter must be a whole number"),
        ({"learning_rate": -1.0}, r"learning_rate must be a number in \(0, inf\)"),
        ({"weight_decay": -1.0}, r"weight_decay must be a number in \[0"),
        ({"validation_fraction": 1.0}, "validation_fraction"),
        ({"gamma": 0.0}, "gamma must be a number in"),
        ({"on_failure": "wran"}, "did you mean 'warn'"),
        ({"channel_axis": 2, "image_shape": (2, 2, 1)}, "channel_axis must be"),
        ({"image_shape": (2, 3)}, "the 6 entries"),
        ({"image_shape": (4,)}, "image_shape must be"),
    ],
)
def test_bad_options_are_named_in_fit(options: dict[str, Any], message: str) -> None:
    with pytest.raises((OptionError, InputError), match=message):
        short().set_params(**options).fit(X, Y)


def test_misspelt_option_gives_the_nearest() -> None:
    with pytest.raises(OptionError, match="did you mean 'width'"):
        GEQClassifier(widht=3)


def test_import_is_lazy_and_a_missing_package_names_the_extra() -> None:
    lazy = "import sys, geq; assert 'sklearn' not in sys.modules and 'skorch' not in sys.modules"
    missing = (
        "import sys; sys.modules['skorch'] = None\n"
        "try:\n    import geq.sklearn\n"
        "except ImportError as problem:\n    print(type(problem).__name__, problem)"
    )
    subprocess.run([sys.executable, "-c", lazy], check=True)
    found = subprocess.run([sys.executable, "-c", missing], check=True, capture_output=True, text=True)
    assert "MissingExtraError geq.sklearn needs skorch" in found.stdout
    assert "geq[sklearn]" in found.stdout


def test_digits_as_a_table_is_learned() -> None:
    X, y = load_digits(return_X_y=True)
    model = OptEqClassifier(max_iter=8, random_state=0).fit(X[:600], y[:600])
    assert model.score(X[600:900], y[600:900]) > 0.85
