"""Distances between the rows of two matrices."""

from functools import reduce

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, UInt64

FEW_COLUMNS = 3
"""Up to which their differences are cheaper than a product, and exact."""


def squared_distances(a: Float[Array, "N D"], b: Float[Array, "M D"]) -> Float[Array, "N M"]:
    """``|a_i - b_j|^2``, never negative.

    In few dimensions the differences themselves; in more, one product of augmented rows, ``[a, -|a|^2/2, 1] . [b, 1, -|b|^2/2]``,
    after moving the origin into the data so that nothing is lost to cancellation when they lie far from zero.
    """
    if a.shape[1] <= FEW_COLUMNS:
        return _by_differences(a, b)
    a, b = _near_zero(a, b)
    half_a, half_b = (-0.5 * jnp.sum(x * x, axis=1, keepdims=True) for x in (a, b))
    left = jnp.concatenate([a, half_a, jnp.ones_like(half_a)], axis=1)
    right = jnp.concatenate([b, jnp.ones_like(half_b), half_b], axis=1)
    return jnp.maximum(-2.0 * (left @ right.T), 0.0)


def _near_zero(a: Float[Array, "N D"], b: Float[Array, "M D"]) -> tuple[Float[Array, "N D"], Float[Array, "M D"]]:
    origin = jax.lax.stop_gradient(jnp.mean(b, axis=0))
    return a - origin, b - origin


@jax.custom_vjp
def _by_differences(a: Float[Array, "N D"], b: Float[Array, "M D"]) -> Float[Array, "N M"]:
    """The sum of squared differences, with products in its gradient: ``da_i = 2 sum_j c_ij (a_i - b_j)``."""
    return reduce(jnp.add, (jnp.square(one[:, None] - two) for one, two in zip(a.T, b.T, strict=True)))


def _by_differences_forward(a: Array, b: Array) -> tuple[Array, tuple[Array, Array]]:
    return _by_differences(a, b), (a, b)


def _by_differences_backward(residuals: tuple[Array, Array], cotangent: Array) -> tuple[Array, Array]:
    a, b = _near_zero(*residuals)
    return _pulls(cotangent, a, b), _pulls(cotangent.T, b, a)


def _pulls(cotangent: Array, a: Array, b: Array) -> Array:
    sums = cotangent @ jnp.concatenate([b, jnp.ones_like(b[:, :1])], axis=1)
    return 2.0 * (sums[:, -1:] * a - sums[:, :-1])


_by_differences.defvjp(_by_differences_forward, _by_differences_backward)


def safe_sqrt(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Square root whose gradient at zero is zero and not infinite."""
    positive = x > 0.0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, x, 1.0)), 0.0)


def rows_equal(a: Float[Array, "N D"], b: Float[Array, "M D"]) -> Bool[Array, "N M"]:
    """Which rows of a are the very rows of b, in O((N + M) D + N M).

    Rows are compared by a 64-bit fingerprint made in integer arithmetic, which is exact and does not depend on the order of
    summation; two different rows share one with probability 2^-64.
    """
    return _fingerprints(a)[:, None] == _fingerprints(b)[None, :]


def _fingerprints(rows: Float[Array, "N D"]) -> UInt64[Array, " N"]:
    bits = jax.lax.bitcast_convert_type(rows.astype(jnp.float64) + 0.0, jnp.uint64)  # + 0.0 makes -0.0 into 0.0
    mixed = (bits ^ (bits >> 31)) * jnp.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> 29)) * jnp.uint64(0x94D049BB133111EB)
    odd = 2 * jnp.arange(1, rows.shape[1] + 1, dtype=jnp.uint64) * jnp.uint64(0x9E3779B97F4A7C15) + 1
    return jnp.sum((mixed ^ (mixed >> 32)) * odd, axis=1, dtype=jnp.uint64)
