"""Quantiles of new observations, against closed forms and against summing probabilities."""

import jax
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm, poisson

import freegp as fg
from freegp.observations import draw_around

RNG = np.random.default_rng(0)
X = np.linspace(0, 6, 30)[:, None]
Z = np.linspace(0, 6, 6)[:, None]
XS = np.array([[0.5], [2.0], [9.0]])
LEVELS = (0.05, 0.3, 0.95)


def fitted(likelihood, y, held=("kernel",)):
    model = fg.SparseGP(fg.kernels.RBF(1.0, 1.5), likelihood, inducing=Z, fixed=held)
    return fg.fit_gaussian(model, X, y, train_inducing=False, progress=False)


@pytest.fixture(scope="module")
def gaussian():
    return fitted(fg.likelihoods.Gaussian(0.2), np.sin(X[:, 0]), held=("kernel", "likelihood"))


@pytest.fixture(scope="module")
def counts():
    return fitted(fg.likelihoods.Poisson(np.full(30, 2.0)), RNG.poisson(2.0 * np.exp(np.sin(X[:, 0]))).astype(float))


def draws_of(fit, num_draws=40):
    """A posterior of draws from q(v), for what it predicts."""
    factor = np.linalg.cholesky(np.asarray(fit.covariance[0]))
    whitened = np.asarray(fit.mean) + np.einsum("ab,sb->sa", factor, RNG.normal(size=(num_draws, 6)))[..., None]
    shape = (2, num_draws // 2)
    free = np.zeros((*shape, 0))
    return fg.Posterior(fit.model, X, np.zeros(30), free, whitened.reshape(*shape, 6, 1), (), 1.0, 1.0)


def test_quantiles_of_f(gaussian):
    mean, variance = (np.asarray(part) for part in gaussian.predict_f(XS))
    expected = mean + np.sqrt(variance) * norm.ppf(LEVELS)[:, None, None]
    np.testing.assert_allclose(gaussian.quantiles_f(XS, LEVELS), expected, rtol=1e-9)


def test_gaussian_noise_in_closed_form(gaussian):
    mean, variance = (np.asarray(part) for part in gaussian.predict_f(XS))
    spread = np.sqrt(variance[:, 0] + 0.2)
    found = np.asarray(gaussian.quantiles_y(XS, LEVELS))
    assert found.shape == (3, 3)
    np.testing.assert_allclose((found - mean[:, 0]) / spread, np.broadcast_to(norm.ppf(LEVELS)[:, None], (3, 3)), atol=0.06)


def test_mixture_over_draws_in_closed_form(gaussian):
    posterior = draws_of(gaussian)
    moments = [
        fg.GaussianFit(**(vars(gaussian) | {"mean": v, "covariance": np.zeros((1, 6, 6))}))
        for v in posterior.whitened.reshape(40, 6, 1)
    ]
    means, variances = (np.stack(part)[..., 0] for part in zip(*(np.asarray(one.predict_f(XS)) for one in moments), strict=True))
    found = np.asarray(posterior.quantiles_y(XS, LEVELS))
    for column in range(3):
        spread = np.sqrt(variances[:, column] + 0.2)
        for row, level in enumerate(LEVELS):
            exact = brentq(lambda q, level=level, c=column, s=spread: np.mean(norm.cdf((q - means[:, c]) / s)) - level, -9, 9)
            assert found[row, column] == pytest.approx(exact, abs=0.06 * spread.mean())


@pytest.mark.parametrize("make", [lambda fit: fit, draws_of])
def test_counts_are_the_smallest_that_are_not_too_small(counts, make):
    """P(y <= q) is at least the level and P(y <= q - 1) is not, up to the noise of 10 000 simulated counts."""
    result = make(counts)
    exposure = np.array([1.0, 2.0, 0.5])
    found = np.asarray(result.quantiles_y(XS, LEVELS, exposure=exposure))
    np.testing.assert_array_equal(found, np.round(found))
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()
    mean, variance = (np.asarray(part)[:, 0] for part in counts.predict_f(XS))
    noise = 0.02 if make is not draws_of else 0.08  # few draws stand for the Gaussian
    for column in range(3):
        rate = exposure[column] * np.exp(mean[column] + np.sqrt(variance[column]) * nodes)
        for row, level in enumerate(LEVELS):
            assert weights @ poisson.cdf(found[row, column], rate) > level - noise
            assert weights @ poisson.cdf(found[row, column] - 1.0, rate) < level + noise


def test_a_row_does_not_depend_on_the_others(counts):
    exposure = np.array([1.0, 2.0, 0.5])
    alone = np.asarray(counts.quantiles_y(XS[1:2], LEVELS, exposure=2.0))
    np.testing.assert_array_equal(np.asarray(counts.quantiles_y(XS, LEVELS, exposure=exposure))[:, 1:2], alone)


def test_many_rows_come_in_blocks(counts, monkeypatch):
    exposure = np.array([1.0, 2.0, 0.5])
    whole = np.asarray(counts.quantiles_y(XS, LEVELS, exposure=exposure))
    monkeypatch.setattr("freegp.observations.ROWS_AT_ONCE", 2)
    np.testing.assert_array_equal(np.asarray(counts.quantiles_y(XS, LEVELS, exposure=exposure)), whole)


def test_bad_levels_and_classes(gaussian, counts):
    with pytest.raises(ValueError, match="between 0 and 1"):
        gaussian.quantiles_y(XS, (0.0, 0.5))
    with pytest.raises(ValueError, match="exposure="):
        counts.quantiles_y(XS)
    classes = fg.SparseGP(fg.kernels.RBF(), fg.likelihoods.Softmax(3), inducing=Z, fixed=["kernel"])
    fit = fg.fit_gaussian(classes, X, np.arange(30) % 3.0, fg.NaturalGradient(max_steps=1), train_inducing=False, progress=False)
    with pytest.raises(ValueError, match="no order and so no quantiles"):
        fit.quantiles_y(XS)


def test_draws_have_the_right_spread():
    drawn = draw_around(fg.likelihoods.Gaussian(0.5), np.array([[1.0]]), np.array([[2.0]]), jax.random.key(0), 20_000)
    assert np.asarray(drawn).var() == pytest.approx(2.5, rel=0.04)
