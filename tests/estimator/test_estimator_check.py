"""scikit-learn's own checks of an estimator, every one of them."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

from geq.sklearn import GEQClassifier, GEQRegressor, OptEqClassifier

# Fewer epochs, at a higher learning rate: the checks fit some hundred times. OptEqClassifier differs from
# GEQClassifier in its layer only; its checks are nightly ones.
ESTIMATORS = [kind(max_iter=15, learning_rate=0.03) for kind in (GEQClassifier, GEQRegressor)]


@pytest.mark.slow  # together, not one by one
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(ESTIMATORS)
def test_check(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.nightly
@pytest.mark.parametrize("estimator", [GEQClassifier(), OptEqClassifier(), GEQRegressor()], ids=repr)
def test_checks_with_defaults(estimator: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of checks that a missing package skips
        results = check_estimator(estimator)
    assert {result["status"] for result in results} <= {"passed", "skipped"}
    assert sum(result["status"] == "passed" for result in results) > 50
