"""Sums over large matrices against NumPy's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from freegp.numerics.sums import affine, column_sums, total

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("num_rows", [1, 7, 8, 9, 64, 65, 225])
def test_every_row_is_counted_once(num_rows):
    matrix = RNG.normal(size=(num_rows, 5))
    np.testing.assert_allclose(column_sums(jnp.asarray(matrix)), matrix.sum(axis=0), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(total(jnp.asarray(matrix)), matrix.sum(), rtol=1e-11, atol=1e-13)


def test_slopes_of_an_affine_map_are_those_of_automatic_differentiation():
    matrix, weights = (jnp.asarray(RNG.normal(size=(30, 11))) for _ in range(2))

    def by(function):
        return jax.grad(lambda *at: jnp.sum(weights * jnp.sin(function(*at))), argnums=(0, 1, 2))(matrix, 0.7, -0.2)

    for got, expected in zip(by(affine), by(lambda matrix, slope, offset: slope * matrix + offset), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-12)
