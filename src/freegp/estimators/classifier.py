"""Classes from inputs."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import logsumexp
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from freegp.estimators.base import GaussianProcess, check_choice
from freegp.kernels import Kernel
from freegp.likelihoods import Bernoulli, Likelihood, RobustMax, Softmax
from freegp.priors import Prior


class GPClassifier(ClassifierMixin, GaussianProcess):
    """Gaussian process classification of two or more classes, with probabilities that know what they do not know.

    Parameters
    ----------
    link
        Of two classes: "probit" or "logit".
    likelihood
        Of more than two: "softmax" or "robustmax" (the paper's).
    kernel, priors, inducing, standardize, method, sampler, num_samples, num_warmup, num_chains, random_state, progress
        See `freegp.estimators.base.GaussianProcess`: by default an RBF kernel with a lengthscale for each column (up to 20) on
        standardised inputs, lengthscales log-normal with median sqrt(D) and scale 1, variance log-normal with median 1 and
        scale 1.5, all rows as inducing points up to 100, and four chains of 1000 draws.

    Attributes
    ----------
    classes_
        The labels, sorted.
    approximation_, posterior_, diagnostics_, model_, n_features_in_
        What was fitted: the Gaussian approximation, the draws and whether to trust them (None with ``method="gaussian"``).

    >>> import numpy as np
    >>> from freegp.estimators import GPClassifier
    >>> X = np.linspace(-2.0, 2.0, 20)[:, None]
    >>> classifier = GPClassifier(method="gaussian").fit(X, np.where(X[:, 0] > 0.0, "high", "low"))
    >>> classifier.predict([[-1.5], [1.5]]).tolist()
    ['low', 'high']
    """

    def __init__(
        self,
        link: str = "probit",
        likelihood: str = "softmax",
        kernel: Kernel | Sequence[Kernel] | None = None,
        priors: dict[str, Prior] | None = None,
        inducing: Any = None,
        standardize: bool = True,
        method: str = "sample",
        sampler: Any = "sites",
        num_samples: int = 1000,
        num_warmup: int = 300,
        num_chains: int = 4,
        random_state: Any = 0,
        progress: bool = False,
    ):
        super().__init__(
            kernel, priors, inducing, standardize, method, sampler, num_samples, num_warmup, num_chains, random_state, progress
        )
        self.link = link
        self.likelihood = likelihood

    def fit(self, X: Any, y: Any) -> "GPClassifier":
        """Learn from rows of X and their labels, which may be numbers or words."""
        check_choice("link", self.link, ("probit", "logit"))
        check_choice("likelihood", self.likelihood, ("softmax", "robustmax"))
        X, y = self._training_data(X, y, numeric=False)
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y holds one class only, {self.classes_[0]}; a classifier needs data of at least two")
        self._fit_model(X, labels.astype(np.float64), self._likelihood(len(self.classes_)), {})
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability of each class ``[N, K]``, averaged over draws; columns as in ``classes_``."""
        mean = np.clip(np.asarray(self._fitted.predict_y(self._new_inputs(X))[0]), 0.0, 1.0)
        if mean.ndim == 1:
            return np.stack([1.0 - mean, mean], axis=1)
        return mean / mean.sum(axis=1, keepdims=True)

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of the probabilities, accurate far into the tails."""
        X = self._new_inputs(X)
        labels = range(len(self.classes_))
        columns = [np.asarray(self._fitted.predict_log_density(X, np.full(len(X), float(k)))) for k in labels]
        logs = np.stack(columns, axis=1)
        return logs - logsumexp(logs, axis=1, keepdims=True)

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each row."""
        probabilities = self.predict_proba(X)
        return self.classes_[np.argmax(probabilities, axis=1)]

    def _likelihood(self, num_classes: int) -> Likelihood:
        if num_classes == 2:
            return Bernoulli(link=self.link)  # type: ignore[arg-type]
        return Softmax(num_classes) if self.likelihood == "softmax" else RobustMax(num_classes)
