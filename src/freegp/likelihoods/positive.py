"""Positive amounts: exponential and gamma, with an exponential link."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from freegp.fields import Value, parameter
from freegp.fields import positive as positive_constraint
from freegp.likelihoods.base import Likelihood, first_bad
from freegp.numerics.special import log_gamma


class Gamma(Likelihood):
    """``y ~ Gamma(shape, rate = shape e^-f)``: mean ``e^f``, variance ``e^2f / shape``. Expectations in closed form."""

    shape: Value = parameter(positive_constraint, default=1.0)

    def check_targets(self, y: np.ndarray) -> None:  # noqa: D102
        bad = y <= 0
        if bad.any():
            raise ValueError(f"Gamma takes positive amounts, but {first_bad(y, bad)}; drop it, or use Gaussian or a count")

    def _log_density(self, log_mean: Array, inverse_mean: Array, y: Array) -> Array:
        """Linear in both functions of the mean, hence with a closed-form expectation."""
        shape = self.shape
        return shape * (jnp.log(shape) - log_mean - y * inverse_mean) - log_gamma(shape) + (shape - 1.0) * jnp.log(y)

    def _log_prob(self, f: Array, y: Array) -> Array:
        return self._log_density(f, jnp.exp(-f), y)

    def _expected_log_prob(self, mean: Array, variance: Array, y: Array) -> Array:
        return self._log_density(mean, jnp.exp(-mean + 0.5 * variance), y)

    def _predict_y(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        first = jnp.exp(mean + 0.5 * variance)
        return first, jnp.square(first) * (jnp.expm1(variance) + jnp.exp(variance) / self.shape)

    def _conditional_mean(self, f: Array) -> Array:
        return jnp.exp(f)

    def _conditional_variance(self, f: Array) -> Array:
        return jnp.exp(2.0 * f) / self.shape

    def _sample(self, key: PRNGKeyArray, f: Array) -> Array:
        return jnp.exp(f) * jax.random.gamma(key, self.shape, f.shape) / self.shape


class Exponential(Likelihood):
    """``y ~ Exponential(mean = e^f)``, a waiting time. Expectations in closed form."""

    def check_targets(self, y: np.ndarray) -> None:  # noqa: D102
        bad = y < 0
        if bad.any():
            raise ValueError(f"Exponential takes amounts of 0 or more, but {first_bad(y, bad)}; drop it, or use Gaussian")

    def _log_prob(self, f: Array, y: Array) -> Array:
        return -f - y * jnp.exp(-f)

    def _expected_log_prob(self, mean: Array, variance: Array, y: Array) -> Array:
        return -mean - y * jnp.exp(-mean + 0.5 * variance)

    def _predict_y(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        first = jnp.exp(mean + 0.5 * variance)
        return first, jnp.square(first) * (jnp.expm1(variance) + jnp.exp(variance))

    def _conditional_mean(self, f: Array) -> Array:
        return jnp.exp(f)

    def _conditional_variance(self, f: Array) -> Array:
        return jnp.exp(2.0 * f)

    def _sample(self, key: PRNGKeyArray, f: Array) -> Array:
        return jnp.exp(f) * jax.random.exponential(key, f.shape)
