"""Observations on the real line: Gaussian and Student-t noise."""

import jax
import jax.numpy as jnp
from jax.scipy.stats import norm
from jaxtyping import Array, PRNGKeyArray

from freegp.fields import Value, parameter, positive
from freegp.likelihoods.base import Likelihood
from freegp.numerics.quadrature import log_gaussian_expectation
from freegp.numerics.special import expected_log1p_square, log_gamma


class Gaussian(Likelihood):
    """``y = f + N(0, variance)``. Everything is in closed form."""

    variance: Value = parameter(positive, default=1.0)

    def _log_prob(self, f: Array, y: Array) -> Array:
        return -0.5 * (jnp.log(2.0 * jnp.pi * self.variance) + jnp.square(y - f) / self.variance)

    def _expected_log_prob(self, mean: Array, variance: Array, y: Array) -> Array:
        return self._log_prob(mean, y) - 0.5 * variance / self.variance

    def _predict_log_density(self, mean: Array, variance: Array, y: Array) -> Array:
        total = self.variance + variance
        return -0.5 * (jnp.log(2.0 * jnp.pi * total) + jnp.square(y - mean) / total)

    def _predict_y(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        return mean, variance + self.variance

    def _conditional_mean(self, f: Array) -> Array:
        return f

    def _conditional_variance(self, f: Array) -> Array:
        return jnp.broadcast_to(self.variance, f.shape)

    def _sample(self, key: PRNGKeyArray, f: Array) -> Array:
        return f + jnp.sqrt(self.variance) * jax.random.normal(key, f.shape)


class StudentT(Likelihood):
    """``y = f + scale * t(df)``: noise with heavy tails, for data with outliers.

    The expected log density uses an exact integral representation (`expected_log1p_square`); its error is below 1e-6 for
    ``df * scale^2`` down to 1e-7. The variance of y is infinite for df <= 2, and is given as such.
    """

    scale: Value = parameter(positive, default=1.0)
    df: Value = parameter(positive, default=4.0)

    def _log_normalizer(self) -> Array:
        half = 0.5 * self.df
        return log_gamma(half + 0.5) - log_gamma(half) - 0.5 * jnp.log(jnp.pi * self.df) - jnp.log(self.scale)

    def _log_prob(self, f: Array, y: Array) -> Array:
        residual = (y - f) / self.scale
        return self._log_normalizer() - 0.5 * (self.df + 1.0) * jnp.log1p(jnp.square(residual) / self.df)

    def _expected_log_prob(self, mean: Array, variance: Array, y: Array) -> Array:
        unit = self.scale * jnp.sqrt(self.df)
        expected = expected_log1p_square((y - mean) / unit, variance / jnp.square(unit))
        return self._log_normalizer() - 0.5 * (self.df + 1.0) * expected

    def _predict_log_density(self, mean: Array, variance: Array, y: Array) -> Array:
        """Over the precision e^s of which Student's t is a mixture: in f the narrow peak at y is easily missed."""
        half = 0.5 * self.df
        residual = (y - mean)[:, None]

        def log_mixture(s: Array) -> Array:
            log_density = half * jnp.log(half) - log_gamma(half) + half * (s - jnp.exp(s))
            spread = variance[:, None] + jnp.square(self.scale) * jnp.exp(-s)
            return log_density - 0.5 * (jnp.log(2.0 * jnp.pi * spread) + jnp.square(residual) / spread)

        wide = jnp.full(y.shape, 16.0)  # stands in for the Gaussian that the rule divides by
        return log_gaussian_expectation(lambda s: log_mixture(s) - norm.logpdf(s, 0.0, 4.0), 0.0 * wide, wide)

    def _predict_y(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        return mean, variance + self._conditional_variance(mean)

    def _conditional_mean(self, f: Array) -> Array:
        return f

    def _conditional_variance(self, f: Array) -> Array:
        safe = jnp.where(self.df > 2.0, self.df, 3.0)
        spread = jnp.where(self.df > 2.0, jnp.square(self.scale) * safe / (safe - 2.0), jnp.inf)
        return jnp.broadcast_to(spread, f.shape)

    def _sample(self, key: PRNGKeyArray, f: Array) -> Array:
        return f + self.scale * jax.random.t(key, self.df, f.shape)
