"""Several classes, one latent function each: robust-max and softmax."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, PRNGKeyArray

from freegp.fields import Value, as_float, parameter, unit_interval
from freegp.likelihoods.base import Likelihood, check_labels
from freegp.numerics.quadrature import positive_sqrt
from freegp.numerics.special import expected_log_sum_exp, probability_of_largest


class Multiclass(Likelihood):
    """Labels 0 to K-1; the mean of y is the vector of class probabilities."""

    num_classes: eqx.AbstractVar[int]

    @property
    def num_latents(self) -> int:
        """One a class."""
        return self.num_classes

    @property
    def ignores_common_shift(self) -> bool:  # noqa: D102
        return True

    def check_targets(self, y: np.ndarray) -> None:  # noqa: D102
        check_labels(type(self).__name__, y, self.num_classes, "number the classes from 0, or raise num_classes")

    def check_training_targets(self, y: np.ndarray) -> None:  # noqa: D102
        self.check_targets(y)
        if np.unique(y).size < 2:
            raise ValueError(f"y holds only the label {y[0]:g}; a classifier needs data of at least two classes")

    def _conditional_variance(self, f: Array) -> Array:
        p = self._conditional_mean(f)
        return p * (1.0 - p)

    def _sample(self, key: PRNGKeyArray, f: Array) -> Array:
        return jax.random.categorical(key, jnp.log(self._conditional_mean(f))).astype(jnp.float64)


def _check_num_classes(name: str, num_classes: int) -> int:
    if num_classes < 2:
        raise ValueError(f"{name} needs num_classes of 2 or more, but has {num_classes}")
    return int(num_classes)


def _pick(values: Array, y: Array) -> Array:
    """``values[..., y]`` for an array of labels."""
    return jnp.take_along_axis(values, y.astype(int)[..., None], axis=-1)[..., 0]


ALIKE, STEP_IF_ALIKE, MOST_CLASSES = 1.1, 0.5, 10
"""Where latents' deviations are within this factor, as they are under a shared kernel while sampling, steps of this length do up
to so many classes."""


class RobustMax(Multiclass):
    """The class of the largest latent with probability ``1 - epsilon``, any other with ``epsilon / (K - 1)`` (paper, sec. 4.4).

    Epsilon keeps its value unless ``likelihood.epsilon`` is given a prior. The probability that a latent is the largest is a
    one-dimensional quadrature with error below 1e-7 where the standard deviations of the latents lie within a factor of 3
    of each other (always, under one shared kernel, while sampling); 2e-4 at a factor of 5, 1e-2 at 10. Half the ``step``
    carries the same error to twice the factor. With ``single_precision`` it is done in 32-bit numbers while fitting and sampling,
    faster, with errors of about 1e-6.
    """

    num_classes: int = eqx.field(static=True)
    step: float = eqx.field(static=True)
    single_precision: bool = eqx.field(static=True)
    epsilon: Value = parameter(unit_interval, held=True)

    def __init__(self, num_classes: int, epsilon: ArrayLike = 1e-3, step: float = 0.3, *, single_precision: bool = False):
        self.num_classes = _check_num_classes("RobustMax", num_classes)
        self.epsilon = as_float(epsilon)
        self.step = step
        self.single_precision = bool(single_precision)

    def _mix(self, p: Array) -> Array:
        return p * (1.0 - self.epsilon) + (1.0 - p) * self.epsilon / (self.num_classes - 1)

    def _log_prob(self, f: Array, y: Array) -> Array:
        return jnp.log(self._mix(jnp.where(jnp.argmax(f, axis=-1) == y, 1.0, 0.0)))

    def _largest(self, mean: Array, variance: Array, label: Array) -> Array:
        """Probability that the labelled latent is the largest."""
        return probability_of_largest(mean, positive_sqrt(variance), label, self.step)

    def _expected_log_prob(self, mean: Array, variance: Array, y: Array) -> Array:
        deviation = positive_sqrt(variance)
        if self.single_precision:
            mean, deviation, y = (values.astype(jnp.float32) for values in (mean, deviation, y))
        ratio = jnp.max(jnp.max(deviation, axis=-1) / jnp.min(deviation, axis=-1), initial=1.0)
        steps = self.step, max(self.step, STEP_IF_ALIKE if self.num_classes <= MOST_CLASSES else 0.0)
        fine, coarse = (lambda *at, step=step: probability_of_largest(*at, step) for step in steps)
        p = jax.lax.cond(ratio < ALIKE, coarse, fine, mean, deviation, y).astype(jnp.float64)
        return p * jnp.log1p(-self.epsilon) + (1.0 - p) * jnp.log(self.epsilon / (self.num_classes - 1))

    def _predict_log_density(self, mean: Array, variance: Array, y: Array) -> Array:
        return jnp.log(self._mix(self._largest(mean, variance, y)))

    def _predict_y(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        labels = jnp.arange(self.num_classes, dtype=jnp.float64)
        every = jax.vmap(lambda k: self._largest(mean, variance, jnp.full(mean.shape[:-1], k)), out_axes=-1)(labels)
        p = self._mix(every / jnp.sum(every, axis=-1, keepdims=True))
        return p, p * (1.0 - p)

    def _conditional_mean(self, f: Array) -> Array:
        return self._mix(jax.nn.one_hot(jnp.argmax(f, axis=-1), self.num_classes, dtype=f.dtype))


class Softmax(Multiclass):
    """``p(y = k) = e^{f_k} / sum_j e^{f_j}``.

    Nothing is random in it: `expected_log_sum_exp` is a rule whose error is below 1e-6 for |mean| <= 5 and variance <= 10.
    """

    num_classes: int = eqx.field(static=True)

    def __init__(self, num_classes: int):
        self.num_classes = _check_num_classes("Softmax", num_classes)

    def _log_prob(self, f: Array, y: Array) -> Array:
        return _pick(jax.nn.log_softmax(f, axis=-1), y)

    def _expected_log_prob(self, mean: Array, variance: Array, y: Array) -> Array:
        return _pick(mean, y) - expected_log_sum_exp(mean, variance)

    def _predict_y(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        p = jax.grad(lambda m: jnp.sum(expected_log_sum_exp(m, variance)))(mean)  # d E[log sum] / d mean_k = E[softmax_k]
        return p, p * (1.0 - p)

    def _predict_log_density(self, mean: Array, variance: Array, y: Array) -> Array:
        return jnp.log(jnp.maximum(_pick(self._predict_y(mean, variance)[0], y), 1e-300))

    def _conditional_mean(self, f: Array) -> Array:
        return jax.nn.softmax(f, axis=-1)
