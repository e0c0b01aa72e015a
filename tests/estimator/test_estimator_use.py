"""What users of scikit-learn try first, besides fit and predict."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

from geq.errors import InputError, OptionError
from geq.sklearn import GEQClassifier

RANDOM = numpy.random.default_rng(0)
X = RANDOM.normal(size=(80, 4))


def short(**options: Any) -> GEQClassifier:
    return GEQClassifier(**{"max_iter": 8, "width": 8, "random_state": 0, **options})


@pytest.mark.parametrize("classes", [2, 3])
def test_decision_function_decides_as_predict_does(classes: int) -> None:
    labels = numpy.array(["cat", "dog", "eel"])[numpy.digitize(X[:, 0], [0.0, 0.7][: classes - 1])]
    model = short().fit(X, labels)
    decision = model.decision_function(X)
    places = (decision > 0).astype(int) if classes == 2 else decision.argmax(1)
    assert decision.shape == ((80,) if classes == 2 else (80, 3))
    assert (model.classes_[places] == model.predict(X)).all()
    probability = model.predict_proba(X)
    logits = numpy.log(probability)
    found = logits[:, 1] - logits[:, 0] if classes == 2 else logits - logits.mean(1, keepdims=True)
    centred = decision if classes == 2 else decision - decision.mean(1, keepdims=True)
    numpy.testing.assert_allclose(centred, found, rtol=1e-6, atol=1e-8)


def test_one_class_is_refused() -> None:
    with pytest.raises(InputError, match="at least two classes: got 1 class"):
        short().fit(X, numpy.zeros(80, dtype=int))
    with pytest.raises(InputError, match="at least two classes: got 1 class"):
        short().partial_fit(X, numpy.zeros(80, dtype=int), classes=[0])


@pytest.mark.parametrize("gamma", ["scale", 0.0, -1.0, float("nan")])
def test_gamma_is_a_number(gamma: Any) -> None:
    with pytest.raises(OptionError, match=r"gamma must be a number in \(0, inf\)"):
        short(gamma=gamma).fit(X, X[:, 0] > 0)


def test_no_colours_where_nobody_sees_them(capsys: pytest.CaptureFixture[str]) -> None:
    short(max_iter=2, verbose=1).fit(X, X[:, 0] > 0)
    printed = capsys.readouterr().out
    assert "train_loss" in printed
    assert "\x1b" not in printed
