"""Counts from inputs."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils import Tags

from freegp.estimators.base import GaussianProcess, check_choice
from freegp.kernels import Kernel
from freegp.likelihoods import NegativeBinomial, Poisson
from freegp.priors import Prior


class GPCountRegressor(RegressorMixin, GaussianProcess):
    """Gaussian process regression of counts: their mean is ``exposure * e^f``, relative to the average rate of the data.

    Parameters
    ----------
    likelihood
        "poisson", or "negative_binomial" for counts that vary more than that.
    kernel, priors, inducing, standardize, method, sampler, num_samples, num_warmup, num_chains, random_state, progress
        See `freegp.estimators.base.GaussianProcess`: by default an RBF kernel with a lengthscale for each column (up to 20) on
        standardised inputs, lengthscales log-normal with median sqrt(D) and scale 1, variance log-normal with median 1 and
        scale 1.5, all rows as inducing points up to 100, and four chains of 1000 draws. ``standardize`` also measures rates in
        units of the average, so that f is about 0. The dispersion of the negative binomial (variance = mean + dispersion mean^2)
        is log-normal with median 1 and scale 1.5.

    Attributes
    ----------
    rate_
        The average count for one unit of exposure in the training data (1 without ``standardize``).
    approximation_, posterior_, diagnostics_, model_, n_features_in_
        What was fitted: the Gaussian approximation, the draws and whether to trust them (None with ``method="gaussian"``).

    >>> import numpy as np
    >>> from freegp.estimators import GPCountRegressor
    >>> X = np.arange(12.0)[:, None]
    >>> regressor = GPCountRegressor(method="gaussian").fit(X, [3, 2, 4, 3, 9, 8, 9, 7, 8, 3, 2, 4])
    >>> (regressor.predict([[1.0], [6.0]]) > 5.0).tolist()
    [False, True]
    """

    def __init__(
        self,
        likelihood: str = "poisson",
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
        self.likelihood = likelihood

    def fit(self, X: Any, y: Any, exposure: ArrayLike | None = None) -> "GPCountRegressor":
        """Learn from rows of X and a count for each; exposure (area, time, population) is one number or one for each row.

        None is one unit each.
        """
        check_choice("likelihood", self.likelihood, ("poisson", "negative_binomial"))
        X, y = self._training_data(X, y, numeric=True)
        y = self._counts(y)
        self._had_exposure = exposure is not None
        exposure = as_exposure(exposure, len(y))
        total = np.sum(np.broadcast_to(exposure, y.shape))
        self.rate_ = float(max(np.sum(y), 1.0) / total) if self.standardize else 1.0
        family = Poisson if self.likelihood == "poisson" else NegativeBinomial
        self._fit_model(X, y, family(exposure=exposure * self.rate_), {})
        return self

    def predict(
        self, X: Any, exposure: ArrayLike | None = None, return_std: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Mean count of each row, averaged over draws, and its standard deviation if asked for.

        It is for one unit of exposure if none is given.
        """
        X = self._new_inputs(X)
        mean, variance = self._fitted.predict_y(X, exposure=as_exposure(exposure, len(X)) * self.rate_)
        return (np.asarray(mean), np.sqrt(np.asarray(variance))) if return_std else np.asarray(mean)

    def predict_quantiles(
        self, X: Any, probabilities: Sequence[float] = (0.05, 0.5, 0.95), exposure: ArrayLike | None = None
    ) -> np.ndarray:
        """Quantiles ``[Q, N]`` of new counts under the mixture over draws, from 10 000 or more draws of each."""
        X = self._new_inputs(X)
        scaled = as_exposure(exposure, len(X)) * self.rate_
        return np.asarray(self._fitted.quantiles_y(X, probabilities, exposure=scaled))

    def score(self, X: Any, y: Any, exposure: ArrayLike | None = None) -> float:
        """The share of the variance of the counts that the predicted means explain (R^2).

        Where the fit had exposures these counts have some too. In cross-validation scikit-learn passes them on if it is told to:
        ``set_fit_request(exposure=True).set_score_request(exposure=True)``, with metadata routing turned on.
        """
        if exposure is None and self._had_exposure:
            raise ValueError(
                "the fit had exposures, so these counts must have some too: pass exposure= to score; in cross-validation, "
                "set_fit_request(exposure=True).set_score_request(exposure=True)"
            )
        return float(r2_score(y, self.predict(X, exposure)))

    def _counts(self, y: np.ndarray) -> np.ndarray:
        """Targets that are counts."""
        y = y.astype(np.float64)
        Poisson().check_targets(y)
        return y

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags


def as_exposure(exposure: ArrayLike | None, num_rows: int) -> np.ndarray:
    """An exposure for all rows or one for each, positive; None is 1."""
    values = np.asarray(1.0 if exposure is None else exposure, dtype=np.float64)
    if values.shape not in ((), (num_rows,)):
        raise ValueError(f"exposure has shape {values.shape} for {num_rows} rows; give one for each, or one number")
    if not (np.isfinite(values) & (values > 0.0)).all():
        raise ValueError("exposure must be positive and finite; drop the rows that have none")
    return values
