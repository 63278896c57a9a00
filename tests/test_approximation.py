import dataclasses
import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference import kernel_matrix, log_marginal, numerical_gradient, rbf, titsias_bound

import freegp as fg
from freegp.approximation.fit import Problem
from freegp.approximation.gaussian import Gaussian, bound, prior_sites, site_bound, site_update, sites_at, sites_from_gaussian
from freegp.approximation.natural import NaturalGradient

RNG = np.random.default_rng(0)
X = np.sort(RNG.uniform(0, 6, (60, 1)), axis=0)
TRUTH = np.sin(1.5 * X[:, 0])
REAL = TRUTH + 0.3 * RNG.normal(size=60)
COUNTS = RNG.poisson(np.exp(TRUTH)).astype(float)
LABELS = (TRUTH + 0.5 * RNG.normal(size=60) > 0).astype(float)
CLASSES = np.digitize(TRUTH + 0.2 * RNG.normal(size=60), [-0.4, 0.4]).astype(float)
OUTLIERS = REAL + np.where(RNG.uniform(size=60) < 0.1, 4.0, 0.0)
Z = np.linspace(0, 6, 8)[:, None]


def model(likelihood, inducing=Z, **kwargs):
    return fg.SparseGP(fg.kernels.RBF(1.2, 0.8), likelihood, inducing=inducing, **kwargs)


PROBLEMS = {
    "Gaussian": (model(fg.likelihoods.Gaussian(0.1)), REAL),
    "Poisson": (model(fg.likelihoods.Poisson()), COUNTS),
    "Bernoulli": (model(fg.likelihoods.Bernoulli()), LABELS),
    "StudentT": (model(fg.likelihoods.StudentT(0.3, 3.0), fixed=["likelihood.df"]), OUTLIERS),
    "Softmax": (model(fg.likelihoods.Softmax(3)), CLASSES),
    "each": (
        fg.SparseGP([fg.kernels.RBF(1.2, s) for s in (0.5, 0.8, 1.2)], fg.likelihoods.RobustMax(3, 0.05), inducing=Z),
        CLASSES,
    ),
}


SLOWER = ("StudentT", "each", "Poisson", "Bernoulli", "Softmax")


class TestExactRegression:
    """A Gaussian likelihood has its evidence in closed form."""

    def test_at_the_data_the_bound_is_the_evidence(self):
        exact_model = model(fg.likelihoods.Gaussian(0.1), inducing=X, jitter=1e-9, fixed=["kernel", "likelihood"])
        fit = fg.fit_gaussian(exact_model, X, REAL, train_inducing=False)
        evidence = log_marginal(kernel_matrix(rbf(1.2, 0.8), X, X), 0.1, REAL)
        np.testing.assert_allclose(fit.elbo, evidence, atol=5e-5)
        assert fit.status == "converged"

    def test_elsewhere_it_is_titsias_collapsed_bound(self):
        sparse = model(fg.likelihoods.Gaussian(0.1), fixed=["kernel", "likelihood"])
        fit = fg.fit_gaussian(sparse, X, REAL, train_inducing=False)
        np.testing.assert_allclose(fit.elbo, titsias_bound(rbf(1.2, 0.8), Z, X, 0.1, REAL, 1e-6), atol=1e-6)

    def test_predictions_are_those_of_exact_regression(self):
        exact_model = model(fg.likelihoods.Gaussian(0.1), inducing=X, jitter=1e-9, fixed=["kernel", "likelihood"])
        fit = fg.fit_gaussian(exact_model, X, REAL, train_inducing=False)
        Xs = np.array([[0.3], [2.2], [7.0]])
        K, Ks = kernel_matrix(rbf(1.2, 0.8), X, X) + 0.1 * np.eye(60), kernel_matrix(rbf(1.2, 0.8), X, Xs)
        mean, variance = fit.predict_f(Xs)
        np.testing.assert_allclose(mean[:, 0], Ks.T @ np.linalg.solve(K, REAL), atol=1e-5)
        np.testing.assert_allclose(variance[:, 0], 1.2 - np.sum(Ks * np.linalg.solve(K, Ks), axis=0), atol=1e-5)
        mean_y, variance_y = fit.predict_y(Xs)
        np.testing.assert_allclose(variance_y, variance[:, 0] + 0.1, rtol=1e-10)
        density = fit.predict_log_density(Xs, np.array([0.1, 0.2, 0.3]))
        expected = -0.5 * (np.log(2 * np.pi * variance_y) + (np.array([0.1, 0.2, 0.3]) - mean_y) ** 2 / variance_y)
        np.testing.assert_allclose(density, expected, rtol=1e-9)


@pytest.mark.parametrize("name", ["Gaussian", *(pytest.param(n, marks=pytest.mark.slow) for n in SLOWER)])
def test_both_ways_end_at_the_same_bound(name):
    """Natural gradients on sites and L-BFGS on mean and factor share nothing but the objective."""
    given, y = PROBLEMS[name]
    methods = (NaturalGradient(tolerance=1e-6), fg.LBFGS(tolerance=1e-6))
    sites, direct = (fg.fit_gaussian(given, X, y, method, train_inducing=False) for method in methods)
    assert sites.status == direct.status == "converged"
    np.testing.assert_allclose(sites.trace[-1], direct.trace[-1], atol=1e-4)
    np.testing.assert_allclose(sites.elbo, direct.elbo, atol=0.02)
    np.testing.assert_allclose(sites.predict_f(X)[0], direct.predict_f(X)[0], atol=0.03)


@pytest.mark.slow
def test_moving_the_inducing_inputs_helps_and_both_ways_agree():
    given, y = PROBLEMS["Poisson"]
    crowded = given.with_inducing_inputs(jnp.linspace(0, 1.5, 6)[:, None])
    still = fg.fit_gaussian(crowded, X, y, train_inducing=False)
    sites, direct = (fg.fit_gaussian(crowded, X, y, method) for method in ("sites", "lbfgs"))
    np.testing.assert_array_equal(still.model.inducing_inputs, crowded.inducing_inputs)
    assert sites.elbo > still.elbo + 1.0
    np.testing.assert_allclose(sites.elbo, direct.elbo, atol=0.1)


MINIBATCHES = [
    fg.NaturalGradient(batch_size=30, num_steps=1500),
    pytest.param(fg.AdaDelta(batch_size=30, num_steps=3000), marks=pytest.mark.slow),
]


@pytest.mark.parametrize("method", MINIBATCHES)
def test_minibatches_come_near_the_full_batch(method):
    given, y = PROBLEMS["Poisson"]
    full = fg.fit_gaussian(given, X, y, train_inducing=False)
    fit = fg.fit_gaussian(given, X, y, method, train_inducing=False)
    assert full.elbo - fit.elbo < 0.3
    assert fit.status in ("converged", "ran out")


def test_minibatches_where_the_likelihood_is_not_log_concave():
    """Robust-max's curvature at the prior is negative, and would widen q(v) without end."""
    inputs = np.random.default_rng(0).uniform(0.0, 5.0, (1000, 1))
    y = np.floor(inputs[:, 0])
    given = fg.SparseGP(fg.kernels.RBF(1.0, 0.8), fg.likelihoods.RobustMax(5), inducing=fg.Grid(10))
    fit = fg.fit_gaussian(given, inputs, y, fg.NaturalGradient(batch_size=50, num_steps=300), train_inducing=False)
    assert np.mean(np.argmax(fit.predict_y(inputs)[0], axis=1) == y) > 0.9


def test_frozen_phase_leaves_parameters_alone():
    given, y = PROBLEMS["Bernoulli"]
    fit = fg.fit_gaussian(given, X, y, fg.AdaDelta(batch_size=30, num_steps=50, frozen_steps=50))
    np.testing.assert_allclose(fit.model.inducing_inputs, Z)
    assert fit.model.parameter_values() == pytest.approx({"kernel.variance": 1.2, "kernel.lengthscales": 0.8})


class TestStart:
    """A fit that goes on from another."""

    @pytest.mark.parametrize("method", ["sites", "lbfgs"])
    def test_what_was_found_is_kept(self, method):
        given, y = PROBLEMS["StudentT"]
        whole = fg.fit_gaussian(given, X, y, train_inducing=False)
        again = fg.fit_gaussian(given, X, y, method, train_inducing=False, start=whole)
        assert again.elbo > whole.elbo - 1e-3
        assert again.trace[0] > whole.elbo - 10.0, "it begins where the other ended"
        assert len(again.trace) < len(fg.fit_gaussian(given, X, y, method, train_inducing=False).trace)

    def test_minibatches_in_stages(self):
        given, y = PROBLEMS["Bernoulli"]
        first = fg.fit_gaussian(given, X, y, fg.AdaDelta(batch_size=30, num_steps=100, frozen_steps=50))
        second = fg.fit_gaussian(given, X, y, fg.AdaDelta(batch_size=30, num_steps=1, frozen_steps=0), start=first)
        assert abs(second.elbo - first.elbo) < 1.0
        np.testing.assert_allclose(second.model.inducing_inputs, first.model.inducing_inputs, atol=0.02)
        np.testing.assert_allclose(second.mean, first.mean, atol=0.1)

    @pytest.mark.parametrize("method", [NaturalGradient(max_steps=0), fg.LBFGS(frozen_steps=0, max_steps=0)])
    def test_with_more_inducing_inputs(self, method):
        given, y = PROBLEMS["StudentT"]
        first = fg.fit_gaussian(given, X, y, train_inducing=False)
        Z = np.asarray(first.model.inducing_inputs)
        larger = given.with_inducing(np.concatenate([Z, [[0.123], [2.5]]]))
        second = fg.fit_gaussian(larger, X, y, method, train_inducing=False, start=first)
        assert second.mean.shape == (len(Z) + 2, 1)
        assert second.elbo > first.elbo - 1e-2

    @pytest.mark.parametrize("inducing", [Z[:2], np.concatenate([Z + 0.1, [[9.0]]])])
    def test_with_other_inducing_inputs(self, inducing):
        given, y = PROBLEMS["Poisson"]
        fit = fg.fit_gaussian(given, X, y, NaturalGradient(max_steps=1), train_inducing=False)
        with pytest.raises(ValueError, match=r"give start\.model\.inducing_inputs followed by those to add"):
            fg.fit_gaussian(given.with_inducing(inducing), X, y, start=fit)

    def test_of_another_model(self):
        given, y = PROBLEMS["Poisson"]
        fit = fg.fit_gaussian(given, X, y, NaturalGradient(max_steps=1), train_inducing=False)
        with pytest.raises(ValueError, match="start is a fit of another model"):
            fg.fit_gaussian(given._replace(fixed=["kernel"]), X, y, start=fit)


def test_single_precision_that_is_too_little_is_said():
    """A variance 1e9 times the nugget: the means of many points close together are lost in 32-bit numbers."""
    Z = np.linspace(0, 6, 40)[:, None]

    def fitted(variance):
        kernel = fg.kernels.RBF(variance, 2.0) + fg.kernels.White(1e-3)
        given = fg.SparseGP(
            kernel, fg.likelihoods.Gaussian(0.1), inducing=Z, fixed=["kernel"], jitter=1e-12, single_precision=True
        )
        return fg.fit_gaussian(given, X, REAL, train_inducing=False, progress=False)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        enough = fitted(1.0)
    with pytest.warns(UserWarning, match="single precision is too little here.*leave single_precision out"):
        too_little = fitted(1e6)
    for fit in (enough, too_little):
        X64, y64 = jnp.asarray(X), jnp.asarray(REAL)
        double = bound(fit.model.in_double_precision(), X64, y64, fit.sites.gaussian())
        np.testing.assert_allclose(fit.elbo, double, rtol=1e-9)


def test_sites_of_more_points_leave_the_process_as_it_was():
    """q(f) is the same: mean and variance at new inputs, in coordinates of another Kuu, with points in between."""
    given, y = PROBLEMS["Bernoulli"]
    fit = fg.fit_gaussian(given, X, y, NaturalGradient(max_steps=2), train_inducing=False)
    larger = fit.model.with_inducing(np.concatenate([fit.model.inducing_inputs, [[0.31], [1.7], [9.0]]]))
    q = sites_at(larger, fit.sites.with_more(3)).gaussian()
    more = dataclasses.replace(fit, model=larger, mean=q.mean, covariance=q.covariance)
    for one, two in zip(more.predict_f(X + 0.05), fit.predict_f(X + 0.05), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-6, atol=1e-8)


class TestBound:
    def test_gradient_of_the_site_bound(self):
        given, y = PROBLEMS["Poisson"]
        problem = Problem(given.prepared(X), jnp.asarray(X), jnp.asarray(y), True)
        sites = site_update(problem.model, problem.X, problem.y, prior_sites(problem.model))[1]
        value = eqx.filter_jit(lambda p: site_bound(problem.at(p), problem.X, problem.y, sites) + problem.log_prior(p))
        start = problem.start() + 0.05
        np.testing.assert_allclose(jax.grad(value)(start), numerical_gradient(value, start), atol=1e-5)

    def test_sites_follow_u_when_the_kernel_changes(self):
        """Lambda and h are of u: moving the coordinates there and back is no move."""
        given, y = PROBLEMS["StudentT"]
        prepared = given.prepared(X)
        sites = site_update(prepared, jnp.asarray(X), jnp.asarray(y), prior_sites(prepared))[1]
        other = eqx.tree_at(lambda m: m.kernel.lengthscales, prepared, jnp.asarray(1.1))
        back = sites_at(prepared, sites_at(other, sites))
        np.testing.assert_allclose(back.precision, sites.precision, atol=1e-7)
        np.testing.assert_allclose(back.linear, sites.linear, atol=1e-7)

    def test_divergence_from_the_prior_is_the_textbook_one(self):
        factor = np.tril(RNG.normal(size=(3, 8, 8))) + 2.0 * np.eye(8)
        covariance, mean = factor @ np.swapaxes(factor, -1, -2), RNG.normal(size=(8, 3))
        q = Gaussian(mean, covariance, np.linalg.slogdet(covariance)[1])
        expected = sum(0.5 * (np.trace(S) + m @ m - 8 - np.linalg.slogdet(S)[1]) for S, m in zip(covariance, mean.T, strict=True))
        np.testing.assert_allclose(q.divergence_from_prior(), expected, rtol=1e-12)
        prepared = PROBLEMS["Softmax"][0].prepared(X)
        np.testing.assert_allclose(prior_sites(prepared).gaussian().divergence_from_prior(), 0.0, atol=1e-12)

    def test_sites_of_a_gaussian_are_that_gaussian(self):
        given, y = PROBLEMS["Softmax"]
        fit = fg.fit_gaussian(given, X, y, NaturalGradient(max_steps=1), train_inducing=False)
        q = sites_from_gaussian(fit.model, fit.mean, fit.covariance).gaussian()
        np.testing.assert_allclose(q.mean, fit.mean, atol=1e-8)
        np.testing.assert_allclose(q.covariance, fit.covariance, atol=1e-8)

    def test_the_bound_is_below_the_evidence_and_touches_it_at_the_posterior(self):
        given, y = PROBLEMS["Gaussian"]
        fit = fg.fit_gaussian(given._replace(fixed=["kernel", "likelihood"]), X, y, train_inducing=False)
        evidence = titsias_bound(rbf(1.2, 0.8), Z, X, 0.1, REAL, 1e-6)
        q = sites_from_gaussian(fit.model, fit.mean + 0.1, 1.1 * fit.covariance).gaussian()
        worse = float(bound(fit.model, jnp.asarray(X), jnp.asarray(y), q))
        assert worse < evidence - 1e-3
        np.testing.assert_allclose(fit.elbo, evidence, atol=1e-6)


class TestStatus:
    def test_ran_out(self):
        given, y = PROBLEMS["Poisson"]
        assert fg.fit_gaussian(given, X, y, NaturalGradient(max_steps=1)).status == "ran out"
        assert fg.fit_gaussian(given, X, y, fg.LBFGS(frozen_steps=2, max_steps=2)).status == "ran out"

    @pytest.mark.parametrize("method", ["sites", "lbfgs"])
    def test_diverged(self, method):
        """A function that is NaN everywhere cannot be fitted, and the fit says so."""
        broken = fg.likelihoods.Custom(lambda f, y: jnp.nan * f)
        fit = fg.fit_gaussian(model(broken), X, REAL, method, train_inducing=False)
        assert fit.status == "diverged"
        assert "not a number" in fit.message

    def test_interruption_keeps_what_there_is(self, monkeypatch):
        given, y = PROBLEMS["Poisson"]

        def interrupt(*_):
            raise KeyboardInterrupt

        monkeypatch.setattr("freegp.approximation.natural.position_slope", interrupt)
        with pytest.warns(UserWarning, match="interrupted"):
            fit = fg.fit_gaussian(given, X, y)
        assert fit.status == "ran out"
        assert "interrupted" in fit.message
        assert np.isfinite(fit.elbo)

    @pytest.mark.slow
    def test_trace_never_falls(self):
        given, y = PROBLEMS["StudentT"]
        trace = fg.fit_gaussian(given, X, y).trace
        assert (np.diff(trace) > -1e-6).all()

    def test_reads_as_a_sentence(self):
        given, y = PROBLEMS["Poisson"]
        assert "converged in" in str(fg.fit_gaussian(given, X, y, train_inducing=False))


@pytest.mark.slow
def test_the_same_seed_gives_the_same_fit():
    given = fg.SparseGP(fg.kernels.RBF(), fg.likelihoods.Poisson(), inducing=6)
    one, two = (fg.fit_gaussian(given, X, COUNTS, fg.AdaDelta(num_steps=20, batch_size=20), seed=5) for _ in range(2))
    np.testing.assert_array_equal(one.mean, two.mean)


def test_predictions_come_in_blocks():
    given, y = PROBLEMS["Softmax"]
    fit = fg.fit_gaussian(given, X, y, NaturalGradient(max_steps=1))
    small = eqx.tree_at(lambda m: m.kernel, fit.model._replace(block_size=7), fit.model.kernel)
    blocked = fg.GaussianFit(**{**vars(fit), "model": small})
    np.testing.assert_allclose(blocked.predict_f(X)[1], fit.predict_f(X)[1], rtol=1e-12)
    p = fit.predict_y(X)[0]
    assert p.shape == (60, 3)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-5)


def test_new_exposures_for_prediction():
    exposure = RNG.uniform(0.5, 2.0, 60)
    fit = fg.fit_gaussian(model(fg.likelihoods.Poisson(exposure)), X, COUNTS, train_inducing=False)
    mean = fit.predict_y(X[:3], exposure=2.0)[0]
    np.testing.assert_allclose(mean, 2.0 * fit.predict_y(X[:3], exposure=1.0)[0])
    with pytest.raises(ValueError, match="exposure="):
        fit.predict_y(X[:3])


def test_unknown_method():
    with pytest.raises(ValueError, match="sites, lbfgs, adadelta"):
        fg.fit_gaussian(PROBLEMS["Poisson"][0], X, COUNTS, "newton")
