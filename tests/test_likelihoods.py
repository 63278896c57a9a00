import itertools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference import gaussian_integral
from scipy import stats
from scipy.special import log_ndtr, ndtr

from freegp import likelihoods
from freegp.likelihoods import Likelihood

COUNTS = np.arange(4000.0)
REAL = np.sinh(np.linspace(-14.0, 14.0, 40001))
POSITIVE = np.exp(np.linspace(-40.0, 8.0, 40001))
UNIT = 1.0 / (1.0 + np.exp(-np.linspace(-33.0, 33.0, 40001)))


def own_logit(f, y):
    return -jax.nn.softplus(-(2 * y - 1) * f)


def own_laplace(f, y):
    return -jnp.abs(y - f) / 0.5


# One latent function: the likelihood, targets to try, its support, and the reference log density from SciPy.
SCALAR = {
    "Gaussian": (likelihoods.Gaussian(0.3), [0.0, 2.0], REAL, lambda f, y: stats.norm.logpdf(y, f, math.sqrt(0.3))),
    "StudentT": (likelihoods.StudentT(0.1, 5.0), [0.0, 1.3], REAL, lambda f, y: stats.t.logpdf(y, 5.0, f, 0.1)),
    "Bernoulli": (likelihoods.Bernoulli(), [0.0, 1.0], np.array([0.0, 1.0]), lambda f, y: log_ndtr((2 * y - 1) * f)),
    "Bernoulli logit": (
        likelihoods.Bernoulli("logit"),
        [0.0, 1.0],
        np.array([0.0, 1.0]),
        lambda f, y: -np.logaddexp(0.0, -(2 * y - 1) * f),
    ),
    "Poisson": (likelihoods.Poisson(0.5), [0.0, 7.0], COUNTS, lambda f, y: stats.poisson.logpmf(y, 0.5 * np.exp(f))),
    "NegativeBinomial": (
        likelihoods.NegativeBinomial(0.5, 2.0),
        [0.0, 20.0],
        COUNTS,
        lambda f, y: stats.nbinom.logpmf(y, 2.0, 2.0 / (2.0 + 2.0 * np.exp(f))),
    ),
    "Exponential": (likelihoods.Exponential(), [0.1, 3.0], POSITIVE, lambda f, y: stats.expon.logpdf(y, scale=np.exp(f))),
    "Gamma": (likelihoods.Gamma(2.5), [0.1, 3.0], POSITIVE, lambda f, y: stats.gamma.logpdf(y, 2.5, scale=np.exp(f) / 2.5)),
    "Beta": (
        likelihoods.Beta(5.0),
        [0.1, 0.9],
        UNIT,
        lambda f, y: stats.beta.logpdf(y, 5.0 / (1 + np.exp(-f)), 5.0 / (1 + np.exp(f))),
    ),
    "Ordinal": (
        likelihoods.Ordinal(cutpoints=[-1.0, 0.2, 0.9]),
        [0.0, 1.0, 2.0, 3.0],
        np.arange(4.0),
        lambda f, y: np.log(
            ndtr(np.array([-1.0, 0.2, 0.9, np.inf])[y.astype(int)] - f)
            - ndtr(np.array([-np.inf, -1.0, 0.2, 0.9])[y.astype(int)] - f)
        ),
    ),
    "Custom": (likelihoods.Custom(own_logit, support=[0, 1]), [0.0, 1.0], np.array([0.0, 1.0]), lambda f, y: own_logit(f, y)),
}
MULTI = {"RobustMax": likelihoods.RobustMax(3, 1e-3), "Softmax": likelihoods.Softmax(3)}


def masses(support, f, log_density):
    """Probabilities of (or around) each point of the support."""
    density = np.exp(log_density(np.full(support.shape, f), support))
    if support is REAL or support is POSITIVE or support is UNIT:
        return density * np.gradient(support)
    return density


def test_every_likelihood_is_in_a_table():
    concrete = {
        name
        for name in likelihoods.__all__
        if issubclass(kind := getattr(likelihoods, name), Likelihood) and not kind.__abstractmethods__
    }
    assert concrete == {name.split()[0] for name in SCALAR} | set(MULTI)


@pytest.mark.parametrize("name", SCALAR)
class TestOneLatent:
    def test_log_density_is_scipys(self, name):
        likelihood, targets, _, reference = SCALAR[name]
        for f, y in itertools.product([-2.5, 0.0, 1.7], targets):
            expected = reference(np.array([f]), np.array([y]))
            np.testing.assert_allclose(likelihood.log_prob(np.array([f]), np.array([y])), expected, rtol=1e-9)

    def test_expectation_is_within_a_micronat(self, name):
        likelihood, targets, _, _ = SCALAR[name]
        log_prob, expected = eqx.filter_jit(likelihood.log_prob), eqx.filter_jit(likelihood.expected_log_prob)
        for mean, variance, y in itertools.product([-5.0, -1.3, 0.0, 5.0], [0.01, 1.0, 10.0], targets):
            exact = gaussian_integral(lambda f, y=y: log_prob(f, jnp.full(f.shape, y)), mean, variance)
            got = expected(np.array([mean]), np.array([variance]), np.array([y]))
            np.testing.assert_allclose(got, exact, atol=1e-6, rtol=1e-12, err_msg=str((mean, variance, y)))

    def test_zero_variance_is_the_log_density(self, name):
        likelihood, targets, _, _ = SCALAR[name]
        f, y = np.linspace(-2, 2, len(targets)), np.array(targets)
        np.testing.assert_allclose(likelihood.expected_log_prob(f, 0 * f, y), likelihood.log_prob(f, y), atol=1e-9)
        np.testing.assert_allclose(likelihood.predict_log_density(f, 0 * f, y), likelihood.log_prob(f, y), atol=1e-6)

    def test_gradients_in_mean_and_variance(self, name):
        likelihood, targets, _, _ = SCALAR[name]
        grid = np.array(list(itertools.product([-1.0, 0.4], [0.2, 2.0], targets)))
        value = eqx.filter_jit(lambda m, v: likelihood.expected_log_prob(m, v, grid[:, 2]))
        for argument in (0, 1):
            slope = jax.grad(lambda *at: jnp.sum(value(*at)), argument)(*grid.T[:2])
            step = 1e-5 * np.eye(2)[argument]
            high, low = (value(grid[:, 0] + s[0], grid[:, 1] + s[1]) for s in (step, -step))
            np.testing.assert_allclose(slope, (high - low) / 2e-5, rtol=1e-5, atol=1e-6)

    def test_moments_of_y(self, name):
        likelihood, _, support, reference = SCALAR[name]
        mean, variance = 0.4, 0.3
        nodes, weights = np.polynomial.hermite_e.hermegauss(40)
        weights = weights / weights.sum()
        p = sum(w * masses(support, mean + math.sqrt(variance) * z, reference) for z, w in zip(nodes, weights, strict=True))
        assert abs(p.sum() - 1) < 1e-5
        first, second = support @ p, support**2 @ p
        got_mean, got_variance = likelihood.predict_y(np.array([mean]), np.array([variance]))
        np.testing.assert_allclose(got_mean, first, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(got_variance, second - first**2, rtol=1e-3)

    def test_predictive_density(self, name):
        likelihood, targets, _, _ = SCALAR[name]
        log_prob, predict = eqx.filter_jit(likelihood.log_prob), eqx.filter_jit(likelihood.predict_log_density)
        for mean, variance, y in itertools.product([-2.0, 0.5], [0.01, 1.0, 10.0], targets):
            exact = gaussian_integral(lambda f, y=y: np.exp(log_prob(f, jnp.full(f.shape, y))), mean, variance)
            got = predict(np.array([mean]), np.array([variance]), np.array([y]))
            np.testing.assert_allclose(got, math.log(exact), atol=1e-6)

    def test_samples_have_the_conditional_moments(self, name):
        likelihood, _, _, _ = SCALAR[name]
        draws = np.asarray(likelihood.sample(jax.random.key(0), jnp.full((40_000,), 0.7)))
        mean, variance = likelihood.predict_y(np.array([0.7]), np.array([1e-20]))
        error = draws.std() / math.sqrt(draws.size)
        assert abs(draws.mean() - mean[0]) < 4.5 * error
        squares = (draws - float(mean[0])) ** 2
        assert abs(squares.mean() - variance[0]) < 4.5 * squares.std() / math.sqrt(draws.size) + 1e-3 * variance[0]


def test_probit_keeps_its_tails():
    f = np.array([-50.0, -30.0, -10.0, 10.0])
    np.testing.assert_allclose(likelihoods.Bernoulli().log_prob(f, np.ones(4)), log_ndtr(f), rtol=1e-12)
    slope = jax.vmap(jax.grad(lambda m: likelihoods.Bernoulli().log_prob(m[None], jnp.ones(1))[0]))(f[:3])
    np.testing.assert_allclose(slope, np.exp(stats.norm.logpdf(f[:3]) - log_ndtr(f[:3])), rtol=1e-9)
    far = likelihoods.Ordinal(3).log_prob(np.array([-40.0, 40.0]), np.array([2.0, 0.0]))
    np.testing.assert_allclose(far, [log_ndtr(-40.5), log_ndtr(-40.5)], rtol=1e-12)


def test_predictive_density_of_a_large_count():
    """The likelihood of 10 000 events is 300 times narrower than the Gaussian it is averaged under."""
    likelihood = likelihoods.Poisson()
    grid = np.linspace(8.5, 10.0, 200_001)
    log_terms = stats.poisson.logpmf(10_000, np.exp(grid)) + stats.norm.logpdf(grid, 0.0, 3.0)
    exact = np.log(np.sum(np.exp(log_terms - log_terms.max())) * (grid[1] - grid[0])) + log_terms.max()
    got = likelihood.predict_log_density(np.zeros(1), np.full(1, 9.0), np.full(1, 10_000.0))
    np.testing.assert_allclose(got, exact, atol=1e-6)


def test_predictive_density_of_an_outlier():
    likelihood = likelihoods.StudentT(0.01, 3.0)
    exact = gaussian_integral(lambda f: stats.t.pdf(8.0, 3.0, f, 0.01), 0.0, 4.0, pieces=100_000)
    got = likelihood.predict_log_density(np.zeros(1), np.full(1, 4.0), np.full(1, 8.0))
    np.testing.assert_allclose(got, math.log(exact), atol=1e-6)


def test_student_t_with_little_scale_beside_a_wide_latent():
    likelihood = likelihoods.StudentT(1e-3, 2.0)
    exact = gaussian_integral(lambda f: stats.t.logpdf(0.5, 2.0, f, 1e-3), 0.0, 10.0, pieces=400_000)
    got = likelihood.expected_log_prob(np.zeros(1), np.full(1, 10.0), np.full(1, 0.5))
    np.testing.assert_allclose(got, exact, atol=1e-5)


@pytest.mark.parametrize("support", ["positive", *(pytest.param(s, marks=pytest.mark.slow) for s in ("real", "unit"))])
def test_own_density_on_a_continuous_support(support):
    functions = {
        "real": (own_laplace, lambda f: (f, 0.5)),
        "positive": (lambda f, y: -f - y * jnp.exp(-f), lambda f: (np.exp(f), np.exp(2 * f))),
        "unit": (lambda f, y: jnp.exp(f) * jnp.log(y), lambda f: ((a := np.exp(f) + 1) / (a + 1), a / ((a + 1) ** 2 * (a + 2)))),
    }
    function, moments = functions[support]
    likelihood = likelihoods.Custom(function, support=support)
    mean, variance = likelihood.predict_y(np.array([1.3]), np.array([1e-20]))
    np.testing.assert_allclose([mean[0], variance[0]], moments(1.3), rtol=1e-3)
    draws = np.asarray(likelihood.sample(jax.random.key(1), jnp.full((2000,), 1.3)))
    assert abs(draws.mean() - mean[0]) < 4.5 * draws.std() / math.sqrt(draws.size)


def test_own_density_is_found_far_from_zero():
    likelihood = likelihoods.Custom(lambda f, y: -0.5 * ((y - 1000 * f) / 1e-3) ** 2)
    mean, variance = likelihood.predict_y(np.array([7.0]), np.array([1e-24]))
    np.testing.assert_allclose([mean[0], variance[0]], [7000.0, 1e-6], rtol=1e-3)


class TestManyClasses:
    """Against dense three-dimensional integration over independent Gaussians."""

    MEANS = ((0.0, 0.0, 0.0), (5.0, 0.0, -5.0), (-1.0, 2.0, 0.5))
    VARIANCES = ((1.0, 1.0, 1.0), (10.0, 10.0, 10.0), (4.0, 1.0, 0.5))

    @staticmethod
    def integrate(function, mean, variance, num=81):
        z = np.linspace(-8, 8, num)
        w = np.exp(-0.5 * z**2)
        w = w / w.sum()
        axes = [m + math.sqrt(v) * z for m, v in zip(mean, variance, strict=True)]
        f = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
        return np.einsum("ijk...,i,j,k->...", function(f), w, w, w)

    @pytest.mark.parametrize(("mean", "variance"), list(itertools.product(MEANS, VARIANCES)))
    def test_softmax(self, mean, variance):
        likelihood = MULTI["Softmax"]
        exact = self.integrate(lambda f: np.asarray(jax.nn.log_softmax(f, axis=-1)), mean, variance)
        probabilities = self.integrate(lambda f: np.asarray(jax.nn.softmax(f, axis=-1)), mean, variance)
        rows = np.tile(mean, (3, 1)), np.tile(variance, (3, 1)), np.arange(3.0)
        np.testing.assert_allclose(likelihood.expected_log_prob(*rows), exact, atol=1e-6)
        np.testing.assert_allclose(likelihood.predict_y(*rows[:2])[0][0], probabilities, atol=1e-6)
        np.testing.assert_allclose(likelihood.predict_log_density(*rows), np.log(probabilities), atol=1e-4)

    @pytest.mark.parametrize(("mean", "variance"), list(itertools.product(MEANS, VARIANCES)))
    def test_robust_max(self, mean, variance):
        likelihood = MULTI["RobustMax"]
        s = np.sqrt(variance)
        largest = [
            gaussian_integral(
                lambda f, k=k: np.prod([ndtr((f - mean[j]) / s[j]) for j in range(3) if j != k], axis=0), mean[k], variance[k]
            )
            for k in range(3)
        ]
        p = np.array(largest)
        rows = np.tile(mean, (3, 1)), np.tile(variance, (3, 1)), np.arange(3.0)
        expected = p * math.log(0.999) + (1 - p) * math.log(0.001 / 2)
        np.testing.assert_allclose(likelihood.expected_log_prob(*rows), expected, atol=1e-6)
        mixed = 0.999 * p + 0.0005 * (1 - p)
        np.testing.assert_allclose(likelihood.predict_log_density(*rows), np.log(mixed), atol=1e-6)
        np.testing.assert_allclose(likelihood.predict_y(*rows[:2])[0][0], mixed, atol=1e-6)

    @pytest.mark.parametrize(("num_classes", "factor"), [(10, 1.0), (10, 1.09), (10, 2.0), (30, 1.09)])
    def test_robust_max_of_many(self, num_classes, factor):
        """Long steps where the deviations are alike, short ones elsewhere; against very short ones and JAX's own derivatives."""
        rng = np.random.default_rng(0)
        shape = (300, num_classes)
        mean, variance = (
            rng.normal(size=shape) * rng.choice([0.5, 2.5, 5.0], (300, 1)),
            np.exp(rng.uniform(0.0, 2.0 * math.log(factor), shape)),
        )
        y, weights = rng.integers(0, num_classes, 300).astype(float), rng.normal(size=300)

        t = np.arange(-8.0, 8.0, 0.03)
        weight = 0.03 * np.exp(-0.5 * t**2) / math.sqrt(2.0 * math.pi)
        is_label = np.arange(num_classes) == y[:, None]

        def plain(mean, variance):
            s = jnp.sqrt(variance)
            f = mean[is_label][:, None] + s[is_label][:, None] * t
            below = jax.scipy.stats.norm.cdf(f[:, None], mean[..., None], s[..., None])
            p = jnp.prod(jnp.where(is_label[..., None], 1.0, below), axis=1) @ weight
            return p * math.log(0.999) + (1.0 - p) * math.log(0.001 / (num_classes - 1.0))

        values = [
            jax.value_and_grad(lambda m, v, each=each: weights @ each(m, v), argnums=(0, 1))(mean, variance)
            for each in (lambda m, v: likelihoods.RobustMax(num_classes).expected_log_prob(m, v, y), plain)
        ]
        for got, expected in zip(*map(jax.tree.leaves, values), strict=True):
            np.testing.assert_allclose(got, expected, atol=2e-5)
        each = likelihoods.RobustMax(num_classes).expected_log_prob(mean, variance, y)
        np.testing.assert_allclose(each, plain(mean, variance), atol=2e-6)

    @pytest.mark.parametrize("name", MULTI)
    def test_common_shift_changes_nothing(self, name):
        mean, variance, y = np.array([[0.3, -1.0, 2.0]]), np.full((1, 3), 0.7), np.array([1.0])
        one, other = (MULTI[name].expected_log_prob(mean + c, variance, y) for c in (0.0, 3.0))
        np.testing.assert_allclose(one, other, atol=1e-6)

    @pytest.mark.parametrize("name", MULTI)
    def test_no_spread_is_the_log_density(self, name):
        f, y = np.array([[0.3, -1.0, 2.0], [0.3, -1.0, 2.0]]), np.array([2.0, 0.0])
        np.testing.assert_allclose(MULTI[name].expected_log_prob(f, 0 * f, y), MULTI[name].log_prob(f, y), atol=1e-6)

    @pytest.mark.parametrize("name", MULTI)
    def test_samples(self, name):
        f = np.tile([0.5, 0.1, -0.3], (40_000, 1))
        draws = np.asarray(MULTI[name].sample(jax.random.key(0), f)).astype(int)
        p = np.exp(MULTI[name].log_prob(f[:3], np.arange(3.0)))
        error = np.sqrt(p * (1 - p) / len(draws))
        assert (np.abs(np.bincount(draws, minlength=3) / len(draws) - p) < 4.5 * error).all()


def test_exposure_for_each_datum():
    exposure = np.array([0.5, 2.0, 8.0])
    f, v, y = np.array([0.1, -0.4, 1.0]), np.array([0.2, 0.15, 0.1]), np.array([1.0, 0.0, 9.0])
    for make in (likelihoods.Poisson, lambda exposure: likelihoods.NegativeBinomial(0.5, exposure)):
        together = make(exposure=exposure)
        for method in ("expected_log_prob", "predict_log_density"):
            each = [
                getattr(make(exposure=e), method)(f[i : i + 1], v[i : i + 1], y[i : i + 1])[0] for i, e in enumerate(exposure)
            ]
            np.testing.assert_allclose(getattr(together, method)(f, v, y), each, rtol=1e-12)
        assert together.sample(jax.random.key(0), np.tile(f, (5, 1))).shape == (5, 3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: likelihoods.Bernoulli("cloglog"), "probit"),
        (lambda: likelihoods.Poisson(exposure=0.0), "exposure must be positive"),
        (lambda: likelihoods.Gaussian(-1.0), "variance must be positive"),
        (lambda: likelihoods.RobustMax(1), "2 or more"),
        (lambda: likelihoods.RobustMax(3, epsilon=1.5), "between 0 and 1"),
        (lambda: likelihoods.Ordinal(), "num_classes"),
        (lambda: likelihoods.Ordinal(cutpoints=[1.0, 0.0]), "increasing"),
        (lambda: likelihoods.Custom(own_logit, support="complex"), "support"),
        (lambda: likelihoods.Custom(lambda f, y: jnp.sum(f * y)), "one number a datum"),
        (lambda: likelihoods.Softmax(3).log_prob(np.zeros((2, 2)), np.zeros(2)), r"shape \(2, 3\)"),
        (lambda: likelihoods.Bernoulli().check_targets(np.array([0.0, 1.0, 2.0])), "3 classes, but Bernoulli takes 2"),
        (lambda: likelihoods.Bernoulli().check_targets(np.array([-1.0, 1.0])), "y == 1"),
        (lambda: likelihoods.Bernoulli().check_training_targets(np.zeros(3)), "only the label 0"),
        (lambda: likelihoods.Softmax(3).check_targets(np.array([0.0, 3.0])), r"y\[1\] is 3"),
        (lambda: likelihoods.Softmax(3).check_training_targets(np.zeros(3)), "only the label 0"),
        (lambda: likelihoods.Ordinal(3).check_targets(np.array([0.5])), "0 to 2"),
        (lambda: likelihoods.Poisson().check_targets(np.array([1.0, 0.5])), r"y\[1\] is 0.5"),
        (lambda: likelihoods.NegativeBinomial().check_targets(np.array([-1.0])), "counts"),
        (lambda: likelihoods.Poisson(np.ones(3)).check_targets(np.ones(4)), "3 entries for 4"),
        (lambda: likelihoods.Poisson(np.ones(3)).for_prediction(5), "exposure="),
        (lambda: likelihoods.Gaussian().for_prediction(5, 1.0), "no exposure"),
        (lambda: likelihoods.Gamma().check_targets(np.array([0.0])), "positive"),
        (lambda: likelihoods.Exponential().check_targets(np.array([-0.1])), "0 or more"),
        (lambda: likelihoods.Beta().check_targets(np.array([1.0])), "between 0 and 1"),
        (lambda: likelihoods.Custom(own_logit, support=[0, 1]).check_targets(np.array([2.0])), "outside the support"),
    ],
)
def test_bad_input_is_one_sentence(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("log_prob", "remedy"),
    [(lambda f, y: -np.abs(y - f), "jax.numpy"), (lambda f, y: f * y if (f > 0).all() else -f, "jax.numpy.where")],
)
def test_functions_that_jax_cannot_follow_are_refused_in_words(log_prob, remedy):
    with pytest.raises(TypeError, match=remedy):
        likelihoods.Custom(log_prob)


def test_robust_max_in_single_precision_is_the_same_to_six_digits():
    rng = np.random.default_rng(5)
    mean, y = 3.0 * rng.normal(size=(200, 4)), rng.integers(0, 4, 200).astype(float)
    variance = np.concatenate([np.full((100, 4), 1.3), rng.uniform(0.2, 3.0, (100, 4))])

    def both(single_precision):
        likelihood = likelihoods.RobustMax(4, single_precision=single_precision)
        return jax.value_and_grad(lambda m, v: jnp.sum(likelihood.expected_log_prob(m, v, y)), argnums=(0, 1))

    at = jnp.asarray(mean), jnp.asarray(variance)
    for got, expected in zip(jax.tree.leaves(both(True)(*at)), jax.tree.leaves(both(False)(*at)), strict=True):
        assert got.dtype == jnp.float64
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=2e-5)
    assert "f64[4,11,200]" not in str(jax.make_jaxpr(both(True))(*at))
    assert "f64[4,11,200]" in str(jax.make_jaxpr(both(False))(*at))
