"""Proportions strictly between 0 and 1."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from freegp.fields import Value, parameter, positive
from freegp.likelihoods.base import Likelihood, first_bad
from freegp.numerics.quadrature import gaussian_expectation, gaussian_rule
from freegp.numerics.special import log_gamma


class Beta(Likelihood):
    """``y ~ Beta(c m, c (1 - m))`` with mean ``m = 1 / (1 + e^-f)`` and concentration c.

    The expected log density is a quadrature with error below 1e-6 for concentrations up to 1000, |mean| <= 5, variance <= 10.
    """

    concentration: Value = parameter(positive, default=1.0)

    def check_targets(self, y: np.ndarray) -> None:  # noqa: D102
        bad = (y <= 0) | (y >= 1)
        if bad.any():
            raise ValueError(
                f"Beta takes proportions strictly between 0 and 1, but {first_bad(y, bad)}; move it inside, or drop it"
            )

    def _log_gamma_share(self, f: Array) -> Array:
        """``log Gamma(c m)`` without ever forming an m that has become 0."""
        log_share = jnp.log(self.concentration) + jax.nn.log_sigmoid(f)
        return log_gamma(1.0 + jnp.exp(log_share)) - log_share

    def _log_prob(self, f: Array, y: Array) -> Array:
        m, rest = jax.nn.sigmoid(f), jax.nn.sigmoid(-f)
        log_normalizer = log_gamma(self.concentration) - self._log_gamma_share(f) - self._log_gamma_share(-f)
        return log_normalizer + (self.concentration * m - 1.0) * jnp.log(y) + (self.concentration * rest - 1.0) * jnp.log1p(-y)

    def _expected_log_prob(self, mean: Array, variance: Array, y: Array) -> Array:
        rule = gaussian_rule(step=0.25, half_width=8.0)
        return gaussian_expectation(lambda f: self._log_prob(f, y[..., None]), mean, variance, rule)

    def _conditional_mean(self, f: Array) -> Array:
        return jax.nn.sigmoid(f)

    def _conditional_variance(self, f: Array) -> Array:
        return jax.nn.sigmoid(f) * jax.nn.sigmoid(-f) / (1.0 + self.concentration)

    def _sample(self, key: PRNGKeyArray, f: Array) -> Array:
        a, b = self.concentration * jax.nn.sigmoid(f), self.concentration * jax.nn.sigmoid(-f)
        return jax.random.beta(key, a, b, f.shape)
