import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import test_util
from jax.scipy.linalg import solve_triangular
from jax.scipy.special import log_ndtr, ndtr
from scipy import integrate, special, stats

from freegp.numerics import normal
from freegp.numerics.distances import rows_equal, squared_distances
from freegp.numerics.linalg import (
    forms,
    from_standard,
    gram,
    inverse_and_log_determinant,
    inverse_and_weights,
    inverse_cholesky,
    inverse_forms,
    raise_diagonal,
)
from freegp.numerics.quadrature import gaussian_expectation, gaussian_rule, logistic_expectation
from freegp.numerics.special import expected_log_sum_exp, log_gamma, probability_of_largest


@pytest.fixture
def matrix():
    root = np.random.default_rng(0).normal(size=(6, 6))
    return jnp.asarray(root @ root.T + np.eye(6))


def test_inverse_cholesky_against_automatic_differentiation(matrix):
    weights = np.random.default_rng(1).normal(size=(6, 6))

    def plain(K):
        return jnp.sum(weights * solve_triangular(jnp.linalg.cholesky(0.5 * (K + K.T)), jnp.eye(6), lower=True))

    value, slope = jax.value_and_grad(plain)(matrix)
    got, got_slope = jax.value_and_grad(lambda K: jnp.sum(weights * inverse_cholesky(K)))(matrix)
    np.testing.assert_allclose(got, value, rtol=1e-12)
    np.testing.assert_allclose(got_slope, slope, rtol=1e-10, atol=1e-12)


def test_a_raised_diagonal_has_the_slopes_of_automatic_differentiation(matrix):
    weights = np.random.default_rng(1).normal(size=(6, 6))

    def by(function):
        return jax.value_and_grad(lambda *at: jnp.sum(weights * jnp.sin(function(*at))), argnums=(0, 1))(matrix, 0.7)

    plain = by(lambda K, amount: K + amount * jnp.eye(6))
    for got, expected in zip(jax.tree.leaves(by(raise_diagonal)), jax.tree.leaves(plain), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-12)


def test_log_gamma_from_the_smallest_numbers_to_the_largest():
    x = np.concatenate([np.logspace(-300, 300, 61), np.logspace(-2, 2, 200), np.arange(1.0, 20.0), [8.0 - 1e-12, 8.0 + 1e-12]])
    exact = special.gammaln(x)
    assert np.max(np.abs(log_gamma(jnp.asarray(x)) - exact) / np.maximum(np.abs(exact), 10.0)) < 2e-15
    slope = special.digamma(x)
    assert np.max(np.abs(jax.vmap(jax.grad(log_gamma))(jnp.asarray(x)) - slope) / np.maximum(np.abs(slope), 1.0)) < 1e-14


def test_inverse_and_log_determinant_against_automatic_differentiation(matrix):
    weights = np.random.default_rng(1).normal(size=(6, 6))

    def combined(inverse, log_determinant):
        return jnp.sum(weights * inverse) + 1.7 * log_determinant

    def plain(K):
        K = 0.5 * (K + K.T)
        return combined(jnp.linalg.inv(K), jnp.linalg.slogdet(K)[1])

    value, slope = jax.value_and_grad(plain)(matrix)
    got, got_slope = jax.value_and_grad(lambda K: combined(*inverse_and_log_determinant(K)))(matrix)
    np.testing.assert_allclose(got, value, rtol=1e-12)
    np.testing.assert_allclose(got_slope, slope, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("large", [2, 200])
def test_from_standard_against_automatic_differentiation(matrix, large, monkeypatch):
    monkeypatch.setattr("freegp.numerics.linalg.LARGE", large)
    monkeypatch.setattr("freegp.numerics.linalg.ROWS_OF_TRIANGLE", 4)
    linear, z, weights = np.random.default_rng(1).normal(size=(3, 6))

    def plain(H, h, z):
        L = jnp.linalg.cholesky(0.5 * (H + H.T))
        u = jnp.linalg.solve(L.T, jnp.linalg.solve(L, h) + z)
        return weights @ u - 0.3 * jnp.linalg.slogdet(H)[1]

    def ours(H, h, z):
        u, log_determinant = from_standard(H, h, z)
        return weights @ u - 0.3 * log_determinant

    at = (matrix, jnp.asarray(linear), jnp.asarray(z))
    expected = jax.value_and_grad(plain, argnums=(0, 1, 2))(*at)
    got = jax.value_and_grad(ours, argnums=(0, 1, 2))(*at)
    symmetric = jax.tree.map(lambda a: 0.5 * (a + a.T) if a.ndim == 2 else a, (expected, got))
    for one, two in zip(*(jax.tree.leaves(part) for part in symmetric), strict=True):
        np.testing.assert_allclose(two, one, rtol=1e-9, atol=1e-12)


def agree(ours, plain, *at):
    """Values and gradients in every argument."""
    every = tuple(range(len(at)))
    got, expected = (jax.tree.leaves(jax.value_and_grad(function, every)(*at)) for function in (ours, plain))
    for one, two in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("num_latents", "many_rows"), [(0, 200), (1, 200), (3, 200), (2, 2)])
def test_forms_against_automatic_differentiation(matrix, num_latents, many_rows, monkeypatch):
    monkeypatch.setattr("freegp.numerics.linalg.MANY_ROWS", many_rows)
    rng = np.random.default_rng(1)
    columns, weights = jnp.asarray(rng.normal(size=(6, 9))), jnp.asarray(rng.normal(size=(6, num_latents)))
    a, b = rng.normal(size=(num_latents, 9)), rng.normal(size=9)

    def ours(W, B, K):
        linear, quadratic = forms(W, B, K)
        return jnp.sum(a * linear) + b @ quadratic

    agree(ours, lambda W, B, K: jnp.sum(a * (W.T @ K)) + b @ jnp.einsum("mn,mk,kn->n", K, B, K), weights, matrix, columns)


@pytest.mark.parametrize(("num_latents", "large"), [(0, 200), (1, 200), (3, 2)])
def test_forms_of_an_inverse_against_automatic_differentiation(matrix, num_latents, large, monkeypatch):
    """Weights ``R^-T v`` and forms of the inverse, as functions of the matrix, of v and of the columns."""
    monkeypatch.setattr("freegp.numerics.linalg.LARGE", large)
    monkeypatch.setattr("freegp.numerics.linalg.MANY_ROWS", large)
    monkeypatch.setattr("freegp.numerics.linalg.LARGE_SQUARE", large)
    monkeypatch.setattr("freegp.numerics.linalg.ROWS_OF_TRIANGLE", 4)
    rng = np.random.default_rng(3)
    columns, whitened = jnp.asarray(rng.normal(size=(6, 9))), jnp.asarray(rng.normal(size=(6, num_latents)))
    a, b = rng.normal(size=(num_latents, 9)), rng.normal(size=9)

    def ours(B, V, K):
        inverse, weights = inverse_and_weights(B, V)
        linear, quadratic = inverse_forms(weights, B, inverse, K)
        return jnp.sum(a * linear) + b @ quadratic

    def plain(B, V, K):
        A = jax.scipy.linalg.solve_triangular(jnp.linalg.cholesky(B), K, lower=True)
        return jnp.sum(a * (V.T @ A)) + b @ jnp.sum(A**2, axis=0)

    agree(ours, plain, matrix, whitened, columns)


@pytest.mark.parametrize("large", [2, 3, 200])
def test_inverse_factor_of_quarters(matrix, large, monkeypatch):
    monkeypatch.setattr("freegp.numerics.linalg.LARGE", large)
    np.testing.assert_allclose(inverse_cholesky(matrix) @ np.linalg.cholesky(matrix), np.eye(6), atol=1e-12)
    assert np.isnan(inverse_cholesky(-matrix)).any()


def test_gram_against_automatic_differentiation():
    rng = np.random.default_rng(2)
    X, a = jnp.asarray(rng.normal(size=(5, 5))), rng.normal(size=(5, 5))
    agree(lambda X: jnp.sum(a * gram(X)), lambda X: jnp.sum(a * (X.T @ X)), X)


@pytest.mark.parametrize("deviation", [0.01, 0.5, 0.51, 1.0, 1.01, 10**0.5])
def test_expected_log_sum_of_two_is_an_expected_softplus(deviation):
    """Of two classes it is ``E[f_0] + E[softplus(f_1 - f_0)]``, one integral; each rule is met at its widest."""
    gaps = np.array([-10.0, -3.0, 0.0, 1.0, 6.0])
    mean = jnp.asarray(np.stack([np.full(5, -1.0), gaps - 1.0], axis=-1))
    spread = np.sqrt(2.0) * deviation

    def expected(gap):
        density = lambda x: np.exp(-0.5 * x * x) / np.sqrt(2.0 * np.pi)  # noqa: E731
        return integrate.quad(lambda x: density(x) * np.logaddexp(0.0, gap + spread * x), -12.0, 12.0, epsabs=1e-11, limit=200)[0]

    got = expected_log_sum_exp(mean, jnp.full((5, 2), deviation**2))
    np.testing.assert_allclose(got, [expected(gap) - 1.0 for gap in gaps], atol=1e-6)


@pytest.mark.parametrize("largest", [0.2, 0.9, 4.0])
def test_slopes_of_the_expected_log_sum_are_its_differences(largest):
    rng = np.random.default_rng(0)
    mean, variance = jnp.asarray(rng.normal(size=(5, 3)) * 2), jnp.asarray(rng.uniform(0.01, largest, (5, 3)))
    test_util.check_grads(lambda m, v: jnp.sum(expected_log_sum_exp(m, v) ** 2), (mean, variance), order=1, modes=["rev"])

    def slope(m):
        return jax.grad(lambda m: jnp.sum(expected_log_sum_exp(m, variance)))(m)

    _, along = jax.jvp(slope, (mean,), (jnp.ones_like(mean),))
    np.testing.assert_allclose(along, 0.0, atol=1e-6)  # a common shift changes no probability
    np.testing.assert_allclose(slope(mean).sum(axis=-1), 1.0, atol=1e-6)


@pytest.mark.parametrize("num_columns", [1, 2, 3, 4])
def test_slopes_of_squared_distances_are_those_of_the_definition(num_columns):
    rng = np.random.default_rng(3)
    a, b = (jnp.asarray(1000.0 + rng.normal(size=(rows, num_columns))) for rows in (6, 4))
    weights = jnp.asarray(rng.normal(size=(6, 4)))

    def by(distances):
        return jax.grad(lambda a, b: jnp.sum(weights * jnp.sqrt(1.0 + distances(a, b))), argnums=(0, 1))(a, b)

    expected = by(lambda a, b: jnp.sum((a[:, None] - b) ** 2, axis=-1))
    for got, wanted in zip(by(squared_distances), expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-11)


def test_squared_distances_match_the_definition():
    rng = np.random.default_rng(0)
    for dims in (1, 2, 5):
        a, b = rng.normal(size=(4, dims)) + 100.0, rng.normal(size=(3, dims)) + 100.0
        np.testing.assert_allclose(squared_distances(a, b), np.sum((a[:, None] - b) ** 2, axis=-1), atol=1e-11)


def test_rows_equal_sees_every_bit():
    rng = np.random.default_rng(0)
    a = rng.normal(size=(50, 3))
    b = np.concatenate([a[::7], np.nextafter(a[:5], np.inf), a[:5, ::-1]])
    np.testing.assert_array_equal(rows_equal(a, b), (a[:, None] == b).all(axis=-1))
    assert bool(rows_equal(jnp.array([[0.0]]), jnp.array([[-0.0]]))[0, 0])


@pytest.mark.parametrize("spread", ["small", "medium", "one wide", "wide", "NaN"])
def test_expectations_by_few_nodes_are_those_by_many(spread):
    """Of log Phi, on each branch, with its slopes."""
    rng = np.random.default_rng(0)
    deviation = {"small": 0.5, "medium": 1.0, "one wide": 0.9, "wide": 3.0, "NaN": np.nan}[spread] * rng.uniform(0.2, 1.0, 40)
    deviation[7] = 3.0 if spread == "one wide" else deviation[7]
    mean, variance = jnp.asarray(rng.normal(size=40) * 3), jnp.asarray(deviation**2)
    weights = rng.normal(size=40)
    both = [
        jax.value_and_grad(lambda m, v, e=expectation: weights @ e(log_ndtr, m, v), argnums=(0, 1))(mean, variance)
        for expectation in (logistic_expectation, gaussian_expectation)
    ]
    for got, expected in zip(*map(jax.tree.leaves, both), strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-6)
    assert logistic_expectation(log_ndtr, mean.reshape(8, 5), variance.reshape(8, 5)).shape == (8, 5)


@pytest.mark.parametrize("num_classes", [2, 3, 10])
def test_probability_of_the_largest_and_its_slopes(num_classes):
    """Against the plain form, differentiated automatically; among the data are some far from the label."""
    rng = np.random.default_rng(0)
    mean, deviation = rng.normal(size=(20, num_classes)) * 4, rng.uniform(0.5, 1.5, (20, num_classes))
    label, weights = rng.integers(0, num_classes, 20), rng.normal(size=20)
    nodes, rule = gaussian_rule(0.1, 9.0)

    def plain(mean, deviation):
        f = mean[np.arange(20), label][:, None] + deviation[np.arange(20), label][:, None] * nodes
        below = ndtr((f[..., None] - mean[:, None]) / deviation[:, None])
        return jnp.prod(jnp.where(np.arange(num_classes) == label[:, None, None], 1.0, below), axis=-1) @ rule

    at = jnp.asarray(mean), jnp.asarray(deviation)
    values = [probability_of_largest(*at, jnp.asarray(label, dtype=float), 0.3), plain(*at)]
    np.testing.assert_allclose(*values, atol=1e-7)
    assert values[1].min() < 1e-8
    slopes = [
        jax.grad(lambda m, s, p=p: weights @ p(m, s), argnums=(0, 1))
        for p in (lambda m, s: probability_of_largest(m, s, jnp.asarray(label, dtype=float), 0.3), plain)
    ]
    for got, expected in zip(slopes[0](*at), slopes[1](*at), strict=True):
        np.testing.assert_allclose(got, expected, atol=3e-7)
    direction = jnp.asarray(rng.normal(size=mean.shape))
    curvatures = [jax.jvp(lambda m, s=slope: s(m, at[1])[0], at[:1], (direction,))[1] for slope in slopes]
    np.testing.assert_allclose(*curvatures, atol=3e-6)


class TestNormal:
    """Against SciPy, over all numbers there are."""

    x = np.concatenate([np.linspace(-38.0, 38.0, 3801), -np.logspace(1.0, 140.0, 50), np.logspace(1.0, 140.0, 5)])

    def test_distribution_function(self):
        np.testing.assert_allclose(normal.ndtr(self.x), special.ndtr(self.x), rtol=1e-12, atol=1e-300)
        np.testing.assert_array_equal(normal.ndtr(jnp.array([-jnp.inf, jnp.inf])), [0.0, 1.0])

    def test_logarithm(self):
        np.testing.assert_allclose(normal.log_ndtr(self.x), special.log_ndtr(self.x), rtol=1e-12, atol=1e-300)
        np.testing.assert_array_equal(normal.log_ndtr(jnp.array([-jnp.inf, jnp.inf])), [-np.inf, 0.0])

    def test_slopes(self):
        x = self.x[np.abs(self.x) < 30.0]
        hazard = np.exp(stats.norm.logpdf(x) - special.log_ndtr(x))
        slope = jax.grad(normal.log_ndtr)
        np.testing.assert_allclose(jax.vmap(slope)(x), hazard, rtol=1e-12)
        np.testing.assert_allclose(jax.vmap(jax.grad(slope))(x), -hazard * (x + hazard), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(jax.vmap(jax.grad(normal.ndtr))(x), stats.norm.pdf(x), rtol=1e-12)
        assert np.isfinite(jax.vmap(slope)(self.x)).all()
