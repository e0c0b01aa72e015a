"""Equilibrium models as scikit-learn estimators: ``from geq.sklearn import GEQClassifier``."""

from geq.errors import MissingExtraError

try:
    import sklearn
    import skorch
except ImportError as problem:
    package = "skorch" if problem.name == "skorch" else "scikit-learn"
    raise MissingExtraError.naming(package, "sklearn", "geq.sklearn") from problem

from geq.sklearn.classifier import GEQClassifier, OptEqClassifier
from geq.sklearn.regressor import GEQRegressor

__all__ = ["GEQClassifier", "GEQRegressor", "OptEqClassifier"]

del sklearn, skorch, MissingExtraError
