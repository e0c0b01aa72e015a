"""Equilibrium classifiers beside an RBF-SVM, an MLP and gradient boosting, on scikit-learn's own datasets
and one that it generates.

    python examples/sklearn_comparison.py            # about ten minutes on one core
    python examples/sklearn_comparison.py --datasets iris wine --json

Five-fold cross-validation, the same folds for every model, inputs standardised. Every model has its defaults,
on all datasets alike; nothing is tuned. (Those of GEQ and OptEq were chosen on generated data, none of it
here. The MLP may take more epochs than its default, until its own stopping rule ends it.)
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from typing import Any

import torch
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_iris,
    load_wine,
    make_classification,
)
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold, StratifiedKFold, cross_validate
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from geq.sklearn import GEQClassifier, GEQRegressor, OptEqClassifier


def generated(return_X_y: bool) -> Any:
    """A table of 5,000 rows and 40 columns, 20 of them informative; four clusters in each of two classes."""
    return make_classification(
        5000, 40, n_informative=20, n_clusters_per_class=4, flip_y=0.05, random_state=0
    )


DATASETS = {
    "iris": load_iris,
    "wine": load_wine,
    "breast_cancer": load_breast_cancer,
    "digits": load_digits,
    "diabetes": load_diabetes,
    "generated": generated,
}
REGRESSION = {"diabetes"}


def models(dataset: str, epochs: int | None) -> dict[str, Any]:
    """The models for a dataset, by name."""
    own = {"random_state": 0} if epochs is None else {"random_state": 0, "max_iter": epochs}
    if dataset not in REGRESSION:
        return {
            "GEQ": GEQClassifier(**own),
            "OptEq": OptEqClassifier(**own),
            "RBF-SVM": SVC(),
            "MLP": MLPClassifier(max_iter=epochs or 1000, random_state=0),
            "gradient boosting": HistGradientBoostingClassifier(max_iter=epochs or 100, random_state=0),
        }

    def standardised(model: Any) -> Any:
        """With standardised targets, as GEQ has them: the SVM's and the MLP's defaults are meant for them."""
        return TransformedTargetRegressor(model, transformer=StandardScaler())

    return {
        "GEQ": GEQRegressor(**own),
        "RBF-SVM": standardised(SVR()),
        "MLP": standardised(MLPRegressor(max_iter=epochs or 1000, random_state=0)),
        "gradient boosting": HistGradientBoostingRegressor(max_iter=epochs or 100, random_state=0),
    }


def compare(dataset: str, folds: int, epochs: int | None) -> list[dict[str, Any]]:
    """One record per model: mean and standard deviation of the score over the folds, seconds per fit."""
    X, y = DATASETS[dataset](return_X_y=True)
    split = KFold if dataset in REGRESSION else StratifiedKFold
    rows = list(split(folds, shuffle=True, random_state=0).split(X, y))
    records = []
    for name, model in models(dataset, epochs).items():
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # of the MLP
            scores = cross_validate(make_pipeline(StandardScaler(), clone(model)), X, y, cv=rows)[
                "test_score"
            ]
        records.append(
            {
                "dataset": dataset,
                "model": name,
                "metric": "R2" if dataset in REGRESSION else "accuracy",
                "mean": float(scores.mean()),
                "sd": float(scores.std(ddof=1)),
                "seconds": (time.process_time() - start) / folds,
            }
        )
    return records


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", nargs="+", choices=list(DATASETS), default=list(DATASETS))
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument(
        "--epochs", type=int, help="most iterations of every model that iterates, for a quick look"
    )
    parser.add_argument("--json", action="store_true", help="one JSON record per line")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if not options.json:
        print("| dataset | model | score | mean ± sd | CPU seconds per fold |")
        print("|---|---|---|---|---|")
    for dataset in options.datasets:
        for record in compare(dataset, options.folds, options.epochs):
            if options.json:
                print(json.dumps(record), flush=True)
            else:
                print(
                    "| {dataset} | {model} | {metric} | {mean:.3f} ± {sd:.3f} | {seconds:.2f} |".format(
                        **record
                    ),
                    flush=True,
                )


if __name__ == "__main__":
    main()
