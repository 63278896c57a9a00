"""Counts: Poisson and negative binomial, with an exponential link and an exposure."""

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, PRNGKeyArray

from freegp.fields import Value, as_float, is_traced, parameter, per_datum, positive
from freegp.likelihoods.base import Likelihood, first_bad
from freegp.numerics.quadrature import log_gaussian_expectation
from freegp.numerics.special import expected_softplus, log_gamma


class Count(Likelihood):
    """A count whose mean is ``exposure * e^f``; the exposure (area, time, population) is one number or one for each datum.

    An exposure is a shift of f, so families speak of the log rate ``eta = f + log(exposure)``.
    """

    exposure: eqx.AbstractVar[Array]

    def __check_init__(self) -> None:
        if not is_traced(self.exposure) and not bool(jnp.all(jnp.isfinite(self.exposure) & (self.exposure > 0.0))):
            raise ValueError(f"{type(self).__name__}: exposure must be positive; drop the data that have none")

    def check_targets(self, y: np.ndarray) -> None:  # noqa: D102
        bad = (y < 0) | (y != np.round(y))
        if bad.any():
            name = type(self).__name__
            raise ValueError(f"{name} takes counts 0, 1, 2, ..., but {first_bad(y, bad)}; for amounts use Gamma")
        if self.exposure.ndim == 1 and self.exposure.shape != y.shape:
            raise ValueError(f"exposure has {self.exposure.shape[0]} entries for {y.shape[0]} targets; give one for each, or one")

    def for_prediction(self, num_rows: int, exposure: ArrayLike | None = None) -> "Count":  # noqa: D102
        if exposure is None:
            if self.exposure.ndim == 1:
                raise ValueError("each datum had an exposure of its own; pass exposure= with one for each new row, or one number")
            return self
        changed = eqx.tree_at(lambda likelihood: likelihood.exposure, self, as_float(exposure))
        changed.__check_init__()
        if changed.exposure.shape not in ((), (num_rows,)):
            raise ValueError(f"exposure has shape {changed.exposure.shape} for {num_rows} rows; give one for each, or one number")
        return changed

    @abstractmethod
    def _log_normalizer(self, y: Array) -> Array:
        """What of the log density does not depend on the rate: kept out of integrals, for log-gammas cost more than the rest."""

    @abstractmethod
    def _log_kernel(self, eta: Array, y: Array) -> Array:
        """The rest of it, at log rate eta."""

    @abstractmethod
    def _overdispersion(self) -> Array | float:
        """The a in ``variance = mean + a mean^2``."""

    def _log_prob(self, f: Array, y: Array) -> Array:
        return self._log_kernel(f + jnp.log(self.exposure), y) + self._log_normalizer(y)

    def _predict_log_density(self, mean: Array, variance: Array, y: Array) -> Array:
        eta = mean + jnp.log(self.exposure)
        return log_gaussian_expectation(lambda e: self._log_kernel(e, y[:, None]), eta, variance) + self._log_normalizer(y)

    def _conditional_mean(self, f: Array) -> Array:
        return self.exposure * jnp.exp(f)

    def _conditional_variance(self, f: Array) -> Array:
        mean = self._conditional_mean(f)
        return mean + self._overdispersion() * jnp.square(mean)

    def _predict_y(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        first = self.exposure * jnp.exp(mean + 0.5 * variance)
        return first, first + jnp.square(first) * (jnp.expm1(variance) + self._overdispersion() * jnp.exp(variance))


class Poisson(Count):
    """``y ~ Poisson(exposure * e^f)``. The expected log density is in closed form."""

    exposure: Value = per_datum(default=1.0)

    def _overdispersion(self) -> float:
        return 0.0

    def _log_normalizer(self, y: Array) -> Array:
        return -log_gamma(y + 1.0)

    def _log_kernel(self, eta: Array, y: Array) -> Array:
        return y * eta - jnp.exp(eta)

    def _expected_log_prob(self, mean: Array, variance: Array, y: Array) -> Array:
        eta = mean + jnp.log(self.exposure)
        return y * eta - jnp.exp(eta + 0.5 * variance) + self._log_normalizer(y)

    def _sample(self, key: PRNGKeyArray, f: Array) -> Array:
        return jax.random.poisson(key, self._conditional_mean(f)).astype(jnp.float64)


class NegativeBinomial(Count):
    """A count with mean ``m = exposure * e^f`` and variance ``m + dispersion m^2``: Poisson as dispersion goes to 0.

    The expected log density is a quadrature with error below ``1e-7 (y + 1 / dispersion)`` for variance <= 10.
    """

    dispersion: Value = parameter(positive, default=1.0)
    exposure: Value = per_datum(default=1.0)

    def _overdispersion(self) -> Array:
        return self.dispersion

    def _log_normalizer(self, y: Array) -> Array:
        size = 1.0 / self.dispersion
        return log_gamma(y + size) - log_gamma(size) - log_gamma(y + 1.0)

    def _log_kernel(self, eta: Array, y: Array) -> Array:
        logit = eta + jnp.log(self.dispersion)
        return y * logit - (y + 1.0 / self.dispersion) * jax.nn.softplus(logit)

    def _expected_log_prob(self, mean: Array, variance: Array, y: Array) -> Array:
        logit = mean + jnp.log(self.exposure) + jnp.log(self.dispersion)
        expected = expected_softplus(logit, variance)
        return self._log_normalizer(y) + y * logit - (y + 1.0 / self.dispersion) * expected

    def _sample(self, key: PRNGKeyArray, f: Array) -> Array:
        key_rate, key_count = jax.random.split(key)
        size = 1.0 / self.dispersion
        rate = self._conditional_mean(f) * jax.random.gamma(key_rate, size, f.shape) / size
        return jax.random.poisson(key_count, rate).astype(jnp.float64)
