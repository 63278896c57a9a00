"""Two classes."""

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from freegp.likelihoods.base import Likelihood
from freegp.numerics.normal import log_ndtr, ndtr
from freegp.numerics.quadrature import gaussian_expectation, logistic_expectation
from freegp.numerics.special import expected_softplus


class Bernoulli(Likelihood):
    """``p(y = 1) = Phi(f)`` (probit) or ``1 / (1 + e^-f)`` (logit), with labels 0 and 1.

    Tails are kept: ``log Phi`` is computed as such and not as the logarithm of a number that has become 0. The expected log
    density is a quadrature with error below 1e-6 (probit) and 1e-7 (logit) for |mean| <= 5 and variance <= 10.
    """

    link: Literal["probit", "logit"] = eqx.field(static=True, default="probit")

    def __check_init__(self) -> None:
        if self.link not in ("probit", "logit"):
            raise ValueError(f'Bernoulli: link must be "probit" or "logit", but is {self.link!r}')

    def check_targets(self, y: np.ndarray) -> None:  # noqa: D102
        classes = np.unique(y)
        if classes.size > 2:
            raise ValueError(
                f"y holds {classes.size} classes, but Bernoulli takes 2; use Softmax(num_classes={classes.size}) or "
                f"RobustMax(num_classes={classes.size})"
            )
        if not np.isin(classes, (0.0, 1.0)).all():
            listed = " and ".join(f"{c:g}" for c in classes)
            raise ValueError(f"Bernoulli takes the labels 0 and 1, but y holds {listed}; pass y == {classes[-1]:g} instead")

    def check_training_targets(self, y: np.ndarray) -> None:  # noqa: D102
        self.check_targets(y)
        classes = np.unique(y)
        if classes.size < 2:
            raise ValueError(
                f"y holds only the label {classes[0]:g}; a classifier needs both, so give it data of the other class"
            )

    def _log_prob(self, f: Array, y: Array) -> Array:
        signed = jnp.where(y > 0.5, f, -f)
        return log_ndtr(signed) if self.link == "probit" else jax.nn.log_sigmoid(signed)

    def _expected_log_prob(self, mean: Array, variance: Array, y: Array) -> Array:
        signed = jnp.where(y > 0.5, mean, -mean)
        if self.link == "logit":
            return -expected_softplus(-signed, variance)
        return logistic_expectation(log_ndtr, signed, variance)

    def _success(self, mean: Array, variance: Array) -> Array:
        if self.link == "probit":
            return ndtr(mean / jnp.sqrt(1.0 + variance))
        return gaussian_expectation(jax.nn.sigmoid, mean, variance)

    def _predict_log_density(self, mean: Array, variance: Array, y: Array) -> Array:
        if self.link == "logit":
            return super()._predict_log_density(mean, variance, y)
        return self._log_prob(mean / jnp.sqrt(1.0 + variance), y)

    def _predict_y(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        p = self._success(mean, variance)
        return p, p * (1.0 - p)

    def _conditional_mean(self, f: Array) -> Array:
        return ndtr(f) if self.link == "probit" else jax.nn.sigmoid(f)

    def _conditional_variance(self, f: Array) -> Array:
        return self._conditional_mean(f) * self._conditional_mean(-f)

    def _sample(self, key: PRNGKeyArray, f: Array) -> Array:
        return jax.random.bernoulli(key, self._conditional_mean(f)).astype(jnp.float64)
