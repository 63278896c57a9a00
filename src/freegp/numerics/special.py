"""Expectations of special functions under a Gaussian, and the normal distribution's tails."""

import math
from functools import partial, reduce
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from freegp.numerics.normal import log_ndtr, ndtr_and_bell
from freegp.numerics.quadrature import gauss_hermite_rule, gaussian_rule, logistic_expectation, positive_sqrt


def expected_softplus(mean: Float[Array, "*shape"], variance: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """``E[log(1 + e^f)]`` for f ~ N(mean, variance); error below 1e-7 for variance up to 10."""
    return logistic_expectation(jax.nn.softplus, mean, variance)


_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_FAR = 8.0
"""From where on Stirling's series is as exact as double precision."""


def log_gamma(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """``log Gamma(x)`` for x > 0, with an absolute error of a few units in the last place of the larger of it and 10.

    Stirling's series, after ``Gamma(x) = Gamma(x + 8) / (x (x + 1) ... (x + 7))`` where x is small: less work than
    JAX's own, which takes negative x too.
    """
    is_near = x < _FAR
    near = jnp.where(is_near, x, 1.0)
    far = jnp.where(is_near, near + _FAR, x)
    rising = reduce(jnp.multiply, (near + k for k in range(int(_FAR))))
    inverse = 1.0 / far
    series = jnp.zeros(())
    for coefficient in reversed(_STIRLING):
        series = coefficient + jnp.square(inverse) * series
    stirling = (far - 0.5) * jnp.log(far) - far + 0.5 * math.log(2.0 * math.pi) + inverse * series
    return stirling - jnp.where(is_near, jnp.log(rising), 0.0)


def expected_log1p_square(mean: Float[Array, "*shape"], variance: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """``E[log(1 + r^2)]`` for r ~ N(mean, variance).

    Quadrature in r fails when the variance is large beside the 1, so the logarithm is written as
    ``log(1 + r^2) = ∫ (1 - e^{-t r^2}) e^{-t} / t dt``, whose expectation is closed under the integral; with t = e^s the
    integrand is analytic in |Im s| < pi/2 whatever the scale of r. Error below 1e-7 for variances and squared means
    up to 1e8.
    """
    s = np.arange(-38.0, 3.8, 0.5)
    t = np.exp(s)
    weight = 0.5 * np.exp(-t)
    spread = 1.0 + 2.0 * t * variance[..., None]
    log_factor = -0.5 * jnp.log(spread) - t * jnp.square(mean)[..., None] / spread
    return -jnp.expm1(log_factor) @ weight


def log_ndtr_difference(lower: Float[Array, "*shape"], upper: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """``log(Phi(upper) - Phi(lower))`` for lower < upper, infinities allowed, exact in both tails."""
    flip = lower > 0.0
    low, high = jnp.where(flip, -upper, lower), jnp.where(flip, -lower, upper)
    log_high = log_ndtr(high)
    absent = jnp.isneginf(low)
    gap = log_ndtr(jnp.where(absent, 0.0, low)) - log_high
    gap = jnp.where(absent, -1.0, jnp.minimum(gap, -1e-300))
    return jnp.where(absent, log_high, log_high + jnp.log(-jnp.expm1(gap)))


class _LogSumExpRule(NamedTuple):
    """Nodes and weights of the Gaussian expectations, and the values of s, that serve up to a standard deviation."""

    largest_deviation: float
    nodes: np.ndarray
    weights: np.ndarray
    s: np.ndarray


_S_STEP = 0.6
_MOST_BLOCKS, _SMALLEST_BLOCK = 16, 32
_LOG_SUM_EXP_RULES = (
    _LogSumExpRule(0.5, *gauss_hermite_rule(7), np.arange(-15.0, 6.9, _S_STEP)),
    _LogSumExpRule(1.0, *gauss_hermite_rule(11), np.arange(-15.0, 6.9, _S_STEP)),
    _LogSumExpRule(np.inf, *gaussian_rule(0.4, 6.4), np.arange(-19.0, 17.0, _S_STEP)),
)


@jax.custom_vjp
def expected_log_sum_exp(mean: Float[Array, "*N K"], variance: Float[Array, "*N K"]) -> Float[Array, "*N"]:
    """``E[log sum_k e^{f_k}]`` of independent ``f_k ~ N(mean_k, variance_k)``, with error below 1e-6 up to variance 10.

    It is ``c + ∫ (exp(-e^s) - prod_k E[exp(-e^{s + f_k - c})]) ds`` for any c, put in the bulk: a trapezoid in s whose
    factors are one-dimensional Gaussian expectations. The gradient comes from the same exponentials, in the same pass.
    Small variances, the rule while sampling, need an eighth of the nodes.
    """
    return _log_sum_exp_and_slopes(mean, variance)[0]


@jax.jit
def _log_sum_exp_and_slopes(mean: Array, variance: Array) -> tuple[Array, Array, Array]:
    """In blocks of like variance, so that a few wide ones do not cost the others their short rule."""
    K = mean.shape[-1]
    means, deviations = mean.reshape(-1, K), positive_sqrt(variance).reshape(-1, K)
    order = jnp.argsort(jnp.max(deviations, axis=-1, initial=0.0))
    num_blocks = max(1, min(_MOST_BLOCKS, order.size // _SMALLEST_BLOCK))
    filled = jnp.pad(order, (-order.size % num_blocks, 0), mode="edge").reshape(num_blocks, -1)
    parts = jax.lax.map(lambda rows: _shortest_rule(means[rows], deviations[rows]), filled)
    value, of_mean, of_variance = (
        jnp.zeros((order.size, *part.shape[2:])).at[filled.ravel()].set(part.reshape(-1, *part.shape[2:])) for part in parts
    )
    return value.reshape(mean.shape[:-1]), of_mean.reshape(mean.shape), of_variance.reshape(mean.shape)


def _shortest_rule(mean: Float[Array, "B K"], deviation: Float[Array, "B K"]) -> tuple[Array, Array, Array]:
    reaches = jnp.asarray([rule.largest_deviation for rule in _LOG_SUM_EXP_RULES[:-1]])
    shortest = jnp.searchsorted(reaches, jnp.max(deviation, initial=0.0))
    return jax.lax.switch(shortest, [partial(_apply_rule, rule) for rule in _LOG_SUM_EXP_RULES], mean, deviation)


def _apply_rule(rule: _LogSumExpRule, mean: Array, deviation: Array) -> tuple[Array, Array, Array]:
    moments = jnp.asarray(np.stack([rule.weights, rule.weights * rule.nodes], axis=1))
    is_own = jnp.eye(mean.shape[-1], dtype=bool)
    centre = jax.nn.logsumexp(mean, axis=-1)
    exp_f = jnp.exp((mean - centre[..., None])[..., None] + deviation[..., None] * rule.nodes)  # [..., K, nodes]

    def add(total: tuple[Array, Array, Array], t: Array) -> tuple[tuple[Array, Array, Array], None]:
        survival = jnp.exp(-t * exp_f)
        factors = survival @ moments[:, 0]
        slopes = -t * ((survival * exp_f) @ moments)
        others = jnp.prod(jnp.where(is_own, 1.0, factors[..., None, :]), axis=-1)
        parts = (jnp.exp(-t) - jnp.prod(factors, axis=-1), -others * slopes[..., 0], -others * slopes[..., 1])
        return jax.tree.map(jnp.add, total, parts), None

    start = (jnp.zeros(centre.shape), jnp.zeros(mean.shape), jnp.zeros(mean.shape))
    (integral, of_mean, of_deviation), _ = jax.lax.scan(add, start, jnp.exp(rule.s))
    return centre + _S_STEP * integral, _S_STEP * of_mean, 0.5 * _S_STEP * of_deviation / deviation


def _log_sum_exp_forward(mean: Array, variance: Array) -> tuple[Array, tuple[Array, Array]]:
    value, of_mean, of_variance = _log_sum_exp_and_slopes(mean, variance)
    return value, (of_mean, of_variance)


def _log_sum_exp_backward(slopes: tuple[Array, Array], cotangent: Array) -> tuple[Array, Array]:
    of_mean, of_variance = slopes
    return cotangent[..., None] * of_mean, cotangent[..., None] * of_variance


expected_log_sum_exp.defvjp(_log_sum_exp_forward, _log_sum_exp_backward)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def probability_of_largest(
    mean: Float[Array, "*N K"], deviation: Float[Array, "*N K"], label: Float[Array, "*N"], step: float
) -> Float[Array, "*N"]:
    """Probability that the labelled one of independent ``f_k ~ N(mean_k, deviation_k^2)`` is the largest.

    ``∫ N(f; label's) prod_k Phi((f - mean_k) / deviation_k) df`` over the others: a trapezoid in steps of so many standard
    deviations of the label's. The gradient is made of the same distribution functions, in the same pass.
    """
    return _largest_forward(mean, deviation, label, step)[0]


LARGEST_REACH = 6.0
"""Standard deviations to each side."""
_SMALLEST = 1e-15
"""Probabilities below it count as it, so that one can be taken out of a product by division, twice, in single precision too."""


_NODES_AT_ONCE = 13
"""Of the trapezoid's, at most: more would not stay in a core's cache, for a block of data and ten classes."""


def _rule(step: float, like: Array) -> tuple[Float[Array, "parts nodes"], Float[Array, "parts nodes"]]:
    """Nodes and weights in equal parts, filled up with nodes that have no weight."""
    num_parts = -(-(2 * round(LARGEST_REACH / step) + 1) // _NODES_AT_ONCE)
    parts = (np.pad(x, (0, -x.size % num_parts)).reshape(num_parts, -1) for x in gaussian_rule(step, LARGEST_REACH))
    nodes, weights = (jnp.asarray(part, like.dtype) for part in parts)
    return nodes, weights


def _largest_forward(mean: Array, deviation: Array, label: Array, step: float) -> tuple[Array, tuple[Array, Array, Array]]:
    """Data come last, so that sums over classes and nodes are sums of vectors.

    Where the label's latent is ``t`` deviations above its mean, another is below it with probability ``Phi(a + b t)``. What moves
    a and b moves the product of these by the bell there, and so all slopes are made of two sums over the nodes.
    """
    mean, deviation = jnp.moveaxis(mean, -1, 0), jnp.moveaxis(deviation, -1, 0)
    is_label = jnp.moveaxis(jnp.arange(mean.shape[0]) == label[..., None], -1, 0)
    own_mean, own_deviation = (jnp.sum(jnp.where(is_label, values, 0.0), axis=0) for values in (mean, deviation))
    scale = 1.0 / deviation
    a, b = (own_mean - mean) * scale, own_deviation * scale

    def add(totals: tuple[Array, Array, Array], part: tuple[Array, Array]) -> tuple[tuple[Array, Array, Array], None]:
        t, weights = (values.reshape(-1, *[1] * label.ndim) for values in part)
        probability, bell = ndtr_and_bell(a[:, None] + b[:, None] * t)
        below = jnp.where(is_label[:, None], 1.0, jnp.maximum(probability, _SMALLEST))
        weighted = jnp.prod(below, axis=0) * weights
        slope = jnp.where(is_label[:, None], 0.0, weighted / below * bell)
        sums = jnp.sum(weighted, axis=0), jnp.sum(slope, axis=1), jnp.sum(slope * t, axis=1)
        return jax.tree.map(jnp.add, totals, sums), None

    start = (jnp.zeros_like(own_mean), jnp.zeros_like(mean), jnp.zeros_like(mean))
    (value, of_a, of_b), _ = jax.lax.scan(add, start, _rule(step, mean))
    of_a, of_b = (slopes * scale / math.sqrt(2.0 * math.pi) for slopes in (of_a, of_b))
    of_mean = jnp.where(is_label, jnp.sum(of_a, axis=0), -of_a)
    of_deviation = jnp.where(is_label, jnp.sum(of_b, axis=0), -a * of_a - b * of_b)
    return value, (jnp.moveaxis(of_mean, 0, -1), jnp.moveaxis(of_deviation, 0, -1), label)


def _largest_backward(step: float, residuals: tuple[Array, Array, Array], cotangent: Array) -> tuple[Array, Array, Array]:
    of_mean, of_deviation, label = residuals
    return cotangent[..., None] * of_mean, cotangent[..., None] * of_deviation, jnp.zeros_like(label)


probability_of_largest.defvjp(_largest_forward, _largest_backward)
