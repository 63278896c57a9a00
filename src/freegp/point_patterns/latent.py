"""What is known of the log intensity, by draws or by a Gaussian approximation: the same questions, asked of either."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Float, PRNGKeyArray
from scipy.special import ndtri

from freegp.approximation import GaussianFit
from freegp.approximation.words import loss_in_words, with_nats_lost
from freegp.model import SparseGP
from freegp.numerics.stacks import whitening
from freegp.parameters import free_parameters
from freegp.posterior import Posterior
from freegp.target.projection import conditional, covariances


class Latent(Protocol):
    """A log intensity f in units of a mean rate, so that the intensity is ``rate * e^f``."""

    def mean(self, points: Float[np.ndarray, "N D"], rate: float) -> Float[np.ndarray, " N"]:
        """Mean intensity."""

    def bands(self, points: Float[np.ndarray, "N D"], rate: float, levels: Sequence[float]) -> Float[np.ndarray, "Q N"]:
        """Quantiles of the intensity."""

    def draws(self, points: Float[np.ndarray, "N D"], num_draws: int, seed: int) -> Float[np.ndarray, "S N"]:
        """Joint draws of f."""

    def log_density(
        self, points: Float[np.ndarray, "N D"], counts: Float[np.ndarray, " N"], exposure: Float[np.ndarray, " N"]
    ) -> Float[np.ndarray, " N"]:
        """Log predictive probability of each cell's count."""

    def summary(self) -> pd.DataFrame:
        """The parameters, one a row."""

    def verdict(self) -> str:
        """One sentence on whether to trust it."""


@dataclass(frozen=True)
class Sampled:
    """By draws of the free-form posterior."""

    posterior: Posterior

    def mean(self, points: np.ndarray, rate: float) -> np.ndarray:
        """Mean over draws of the conditional mean, which is in closed form."""
        return np.asarray(self.posterior.predict_y(points, exposure=rate)[0])

    def bands(self, points: np.ndarray, rate: float, levels: Sequence[float]) -> np.ndarray:
        """Quantiles of the mixture over draws."""
        return rate * np.exp(np.asarray(self.posterior.quantiles_f(points, levels))[..., 0])

    def draws(self, points: np.ndarray, num_draws: int, seed: int) -> np.ndarray:
        """Each from a draw of the posterior taken at random."""
        return np.asarray(self.posterior.sample_f(points, num_draws, seed=seed))[..., 0]

    def log_density(self, points: np.ndarray, counts: np.ndarray, exposure: np.ndarray) -> np.ndarray:
        """Log of the draw-averaged probability."""
        return np.asarray(self.posterior.predict_log_density(points, counts, exposure=exposure))

    def summary(self) -> pd.DataFrame:
        """Mean, sd, mcse, r_hat, ess_bulk and ess_tail."""
        return self.posterior.summary()

    def verdict(self) -> str:
        """What the diagnostics say."""
        return self.posterior.diagnostics.verdict


@dataclass(frozen=True)
class Approximated:
    """By a Gaussian approximation, with point estimates of the parameters."""

    fit: GaussianFit

    def mean(self, points: np.ndarray, rate: float) -> np.ndarray:
        """Of a log-normal."""
        return np.asarray(self.fit.predict_y(points, exposure=rate)[0])

    def bands(self, points: np.ndarray, rate: float, levels: Sequence[float]) -> np.ndarray:
        """Of a log-normal."""
        mean, variance = (np.asarray(moment)[:, 0] for moment in self.fit.predict_f(points))
        return rate * np.exp(mean + np.sqrt(variance) * ndtri(np.asarray(levels, dtype=float))[:, None])

    def draws(self, points: np.ndarray, num_draws: int, seed: int) -> np.ndarray:
        """From the approximation's joint Gaussian."""
        q = self.fit.model, self.fit.mean[:, 0], self.fit.covariance[0]
        return np.asarray(_gaussian_draws(*q, jnp.asarray(points), num_draws, jax.random.key(seed)))

    def log_density(self, points: np.ndarray, counts: np.ndarray, exposure: np.ndarray) -> np.ndarray:
        """Log of the probability averaged over the Gaussian."""
        return np.asarray(self.fit.predict_log_density(points, counts, exposure=exposure))

    def summary(self) -> pd.DataFrame:
        """The point estimates."""
        values = self.fit.model.parameter_values()
        names = [parameter.path for parameter in free_parameters(self.fit.model)]
        table = pd.DataFrame({"estimate": [values[name] for name in names]}, index=names)
        return with_nats_lost(table, self.fit.sparsity)

    def verdict(self) -> str:
        """How the fit ended."""
        lost = f"; {loss_in_words(self.fit.sparsity)}" if self.fit.sparsity is not None else ""
        return f"Gaussian approximation, parameters at their point estimates: {self.fit.message}{lost}"


@eqx.filter_jit
def _gaussian_draws(
    model: SparseGP, mean: Array, covariance: Array, points: Array, num_draws: int, key: PRNGKeyArray
) -> Float[Array, "S N"]:
    """Draws of f ~ N(A^T m, Kff - A^T A + A^T S A)."""
    A, unexplained = conditional(model, model.kernels[0], whitening(covariances(model))[0], points)
    factor = jnp.linalg.cholesky(unexplained + A.T @ covariance @ A)
    return mean @ A + jax.random.normal(key, (num_draws, points.shape[0])) @ factor.T
