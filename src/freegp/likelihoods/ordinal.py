"""Ordered classes."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, PRNGKeyArray

from freegp.fields import Value, as_float, ordered, parameter
from freegp.likelihoods.base import Likelihood, check_labels
from freegp.numerics.special import log_ndtr_difference


class Ordinal(Likelihood):
    """Labels 0 to K-1 in order: y is the interval of the K-1 cutpoints in which ``f + N(0, 1)`` falls.

    Give the number of classes, or the cutpoints themselves. The mean and variance of y are those of the label as a number;
    `probabilities` has one for each class. The expected log density is a quadrature with error below 1e-6 for |mean| <= 5,
    variance <= 10.
    """

    cutpoints: Value = parameter(ordered)

    def __init__(self, num_classes: int | None = None, cutpoints: ArrayLike | None = None):
        if cutpoints is None:
            if num_classes is None or num_classes < 2:
                raise ValueError("Ordinal needs num_classes of 2 or more, or the cutpoints between classes")
            cutpoints = jnp.arange(num_classes - 1) - 0.5 * (num_classes - 2)
        self.cutpoints = as_float(cutpoints)
        if num_classes is not None and self.num_classes != num_classes:
            raise ValueError(f"Ordinal with {num_classes} classes has {num_classes - 1} cutpoints, not {self.cutpoints.shape[0]}")

    @property
    def num_classes(self) -> int:
        """K."""
        return self.cutpoints.shape[0] + 1

    def check_targets(self, y: np.ndarray) -> None:  # noqa: D102
        check_labels("Ordinal", y, self.num_classes, "number the classes in order from 0, or raise num_classes")

    def _edges(self) -> Array:
        return jnp.concatenate([jnp.array([-jnp.inf]), self.cutpoints, jnp.array([jnp.inf])])

    def _log_prob(self, f: Array, y: Array) -> Array:
        edges, label = self._edges(), y.astype(int)
        return log_ndtr_difference(edges[label] - f, edges[label + 1] - f)

    def probabilities(self, f: Array) -> Array:
        """``p(y = k | f)``, with a last axis of K."""
        return jnp.exp(self._log_prob(f[..., None], jnp.arange(self.num_classes)))

    def _conditional_mean(self, f: Array) -> Array:
        return self.probabilities(f) @ jnp.arange(float(self.num_classes))

    def _conditional_variance(self, f: Array) -> Array:
        return self.probabilities(f) @ jnp.square(jnp.arange(float(self.num_classes))) - jnp.square(self._conditional_mean(f))

    def _sample(self, key: PRNGKeyArray, f: Array) -> Array:
        noisy = f + jax.random.normal(key, f.shape)
        return jnp.searchsorted(self.cutpoints, noisy).astype(jnp.float64)
