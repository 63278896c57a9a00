"""Estimators with the interface of scikit-learn: data in, averaged predictions out. No mathematics of their own."""

from freegp.estimators.classifier import GPClassifier
from freegp.estimators.counts import GPCountRegressor
from freegp.estimators.regressor import GPRegressor

__all__ = ["GPClassifier", "GPCountRegressor", "GPRegressor"]
