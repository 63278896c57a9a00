"""What a likelihood is: how one observation depends on the latent functions at its input."""

from abc import abstractmethod
from operator import attrgetter

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int, PRNGKeyArray

from freegp.fields import Declared, as_float, per_datum_fields
from freegp.numerics.quadrature import gaussian_expectation, log_gaussian_expectation


class Likelihood(Declared):
    """``p(y | f)`` for P latent functions, and what inference and prediction need of it.

    Targets have shape ``[N]`` and latents ``[N, P]``; where P = 1 latents of shape ``[N]`` are taken too. Means and variances
    of latents are those of independent Gaussians. A family fills in the underscored methods, which see latents of the
    targets' shape if P = 1 and with a last axis of P otherwise; ``_log_prob`` alone is enough for one latent function,
    and quadrature does the rest.
    """

    @property
    def num_latents(self) -> int:
        """P."""
        return 1

    @property
    def ignores_common_shift(self) -> bool:
        """Whether adding one number to all latents changes nothing."""
        return False

    def log_prob(self, f: ArrayLike, y: ArrayLike) -> Float[Array, " N"]:
        """``log p(y | f)``."""
        y = as_float(y)
        return self._log_prob(self._latents(f, y.shape), y)

    def expected_log_prob(self, mean: ArrayLike, variance: ArrayLike, y: ArrayLike) -> Float[Array, " N"]:
        """``E[log p(y | f)]`` for f ~ N(mean, variance): the datum's part of the bound."""
        y = as_float(y)
        return self._expected_log_prob(self._latents(mean, y.shape), self._latents(variance, y.shape), y)

    @eqx.filter_jit
    def predict_y(self, mean: ArrayLike, variance: ArrayLike) -> tuple[Array, Array]:
        """Mean and variance of y for f ~ N(mean, variance); for classes their probabilities ``[N, K]``, and p (1 - p)."""
        shape = jnp.shape(mean)[:1]
        return self._predict_y(self._latents(mean, shape), self._latents(variance, shape))

    @eqx.filter_jit
    def predict_log_density(self, mean: ArrayLike, variance: ArrayLike, y: ArrayLike) -> Float[Array, " N"]:
        """``log E[p(y | f)]`` for f ~ N(mean, variance)."""
        y = as_float(y)
        return self._predict_log_density(self._latents(mean, y.shape), self._latents(variance, y.shape), y)

    def sample(self, key: PRNGKeyArray, f: ArrayLike) -> Array:
        """A draw of y at each f, of shape ``[..., N, P]`` (or ``[..., N]`` where P = 1)."""
        f = as_float(f)
        return self._sample(key, f[..., 0] if self.num_latents == 1 and f.ndim > 1 and f.shape[-1] == 1 else f)

    def check_targets(self, y: np.ndarray) -> None:
        """Raise a ValueError that names the remedy if a target is outside the support."""

    def check_training_targets(self, y: np.ndarray) -> None:
        """The same for targets to learn from, which may have to show more (both classes, say)."""
        self.check_targets(y)

    def take(self, rows: Int[Array, " B"]) -> "Likelihood":
        """The likelihood of these rows of the data."""
        for name in per_datum_fields(self):
            self = eqx.tree_at(attrgetter(name), self, getattr(self, name)[rows])
        return self

    def for_prediction(self, num_rows: int, exposure: ArrayLike | None = None) -> "Likelihood":
        """The likelihood of new data: the same, but where each datum has an exposure of its own."""
        if exposure is not None:
            raise ValueError(f"{type(self).__name__} has no exposure; leave it out")
        return self

    @abstractmethod
    def _log_prob(self, f: Array, y: Array) -> Array: ...

    def _expected_log_prob(self, mean: Array, variance: Array, y: Array) -> Array:
        return gaussian_expectation(lambda f: self._log_prob(f, y[..., None]), mean, variance)

    def _predict_log_density(self, mean: Array, variance: Array, y: Array) -> Array:
        return log_gaussian_expectation(lambda f: self._log_prob(f, y[:, None]), mean, variance)

    def _predict_y(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        first = gaussian_expectation(self._conditional_mean, mean, variance)
        spread = gaussian_expectation(
            lambda f: self._conditional_variance(f) + jnp.square(self._conditional_mean(f) - first[..., None]),
            mean,
            variance,
        )
        return first, spread

    @abstractmethod
    def _conditional_mean(self, f: Array) -> Array: ...

    @abstractmethod
    def _conditional_variance(self, f: Array) -> Array: ...

    @abstractmethod
    def _sample(self, key: PRNGKeyArray, f: Array) -> Array: ...

    def _latents(self, f: ArrayLike, shape: tuple[int, ...]) -> Array:
        f = as_float(f)
        if f.shape == (*shape, self.num_latents):
            return f[..., 0] if self.num_latents == 1 else f
        if self.num_latents == 1 and f.shape == shape:
            return f
        raise ValueError(
            f"{type(self).__name__} has {self.num_latents} latent function(s) and targets of shape {shape}, so it needs "
            f"latents of shape {(*shape, self.num_latents)}, but they have shape {f.shape}"
        )


def first_bad(y: np.ndarray, bad: np.ndarray) -> str:
    """The first offending target, for an error message."""
    index = int(np.flatnonzero(bad)[0])
    return f"y[{index}] is {y[index]:g}"


def check_labels(name: str, y: np.ndarray, num_classes: int, remedy: str) -> None:
    """Labels must be the integers from 0 to num_classes - 1."""
    bad = (y != np.round(y)) | (y < 0) | (y >= num_classes)
    if bad.any():
        raise ValueError(f"{name} takes the labels 0 to {num_classes - 1}, but {first_bad(y, bad)}; {remedy}")
