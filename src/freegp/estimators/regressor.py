"""Numbers on the real line from inputs."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.preprocessing import StandardScaler

from freegp import priors as fg_priors
from freegp.estimators.base import GaussianProcess, check_choice
from freegp.kernels import Kernel
from freegp.likelihoods import Gaussian, StudentT
from freegp.priors import Prior


class GPRegressor(RegressorMixin, GaussianProcess):
    """Gaussian process regression, with Gaussian noise or noise with heavy tails.

    Parameters
    ----------
    noise
        "gaussian", or "student" for data with outliers: Student's t with 4 degrees of freedom, or as many as the data say if
        ``priors`` has one for "likelihood.df". (At 2 or fewer the variance, and ``return_std``, is infinite.)
    kernel, priors, inducing, standardize, method, sampler, num_samples, num_warmup, num_chains, random_state, progress
        See `freegp.estimators.base.GaussianProcess`: by default an RBF kernel with a lengthscale for each column (up to 20) on
        standardised inputs, lengthscales log-normal with median sqrt(D) and scale 1, variance log-normal with median 1 and
        scale 1.5, all rows as inducing points up to 100, and four chains of 1000 draws. ``standardize`` applies to y too, and
        answers are in y's own units. On standardised y the variance of Gaussian noise is log-normal with median 0.1 and scale
        2, the scale of Student's t with median 0.3 and scale 1.

    Attributes
    ----------
    approximation_, posterior_, diagnostics_, model_, n_features_in_
        What was fitted, to standardised data: the Gaussian approximation, the draws and whether to trust them (None with
        ``method="gaussian"``).

    >>> import numpy as np
    >>> from freegp.estimators import GPRegressor
    >>> X = np.linspace(0.0, 6.0, 30)[:, None]
    >>> regressor = GPRegressor(method="gaussian").fit(X, 10.0 + np.sin(X[:, 0]))
    >>> regressor.predict([[1.5]]).round(1).tolist()
    [11.0]
    """

    def __init__(
        self,
        noise: str = "gaussian",
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
        self.noise = noise

    def fit(self, X: Any, y: Any) -> "GPRegressor":
        """Learn from rows of X and a number for each."""
        check_choice("noise", self.noise, ("gaussian", "student"))
        X, y = self._training_data(X, y, numeric=True)
        self._target_scaler = StandardScaler(with_mean=self.standardize, with_std=self.standardize)
        y = self._target_scaler.fit_transform(y.astype(np.float64)[:, None])[:, 0]
        if self.noise == "gaussian":
            beliefs = {"likelihood.variance": fg_priors.LogNormal(math.log(0.1), 2.0)}
            self._fit_model(X, y, Gaussian(variance=0.1), beliefs)
        else:
            beliefs = {"likelihood.scale": fg_priors.LogNormal(math.log(0.3), 1.0)}
            self._fit_model(X, y, StudentT(scale=0.3, df=4.0), beliefs, fixed=["likelihood.df"])
        return self

    def predict(self, X: Any, return_std: bool = False) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Mean of new observations and, if asked, their standard deviation (noise included), averaged over draws."""
        mean, variance = (np.asarray(part) for part in self._fitted.predict_y(self._new_inputs(X)))
        mean = self._in_own_units(mean)
        if not return_std:
            return mean
        scale = self._target_scaler.scale_
        return mean, np.sqrt(variance) * (1.0 if scale is None else scale[0])

    def predict_quantiles(self, X: Any, probabilities: Sequence[float] = (0.05, 0.5, 0.95)) -> np.ndarray:
        """Quantiles ``[Q, N]`` of new observations under the mixture over draws, to about 2 % of their standard deviation."""
        X = self._new_inputs(X)
        return self._in_own_units(np.asarray(self._fitted.quantiles_y(X, probabilities)))

    def _in_own_units(self, values: np.ndarray) -> np.ndarray:
        return self._target_scaler.inverse_transform(values.reshape(-1, 1)).reshape(values.shape)
