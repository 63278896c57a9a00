"""Weights of the basis against whitened coordinates: the same Gaussians, bounds and steps."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from reference import numerical_gradient

import freegp as fg
from freegp.approximation import gaussian
from freegp.approximation.minibatches import (
    _steps,
    carried,
    concave_slope,
    from_whitened,
    is_within_reach,
    nudged_bound,
    prior_precision,
    proposed,
    to_whitened,
    under,
)
from freegp.approximation.problem import Problem
from freegp.parameters import free_parameters
from freegp.target.projection import Projection

RNG = np.random.default_rng(0)
X = np.sort(RNG.uniform(0, 6, (40, 1)), axis=0)
COUNTS = RNG.poisson(np.exp(np.sin(X[:, 0]))).astype(float)
CLASSES = np.digitize(np.sin(X[:, 0]), [-0.4, 0.4]).astype(float)
Z = np.linspace(0, 6, 7)[:, None]
KERNEL = fg.kernels.RBF(1.2, 0.8)
MODELS = {
    "points": (fg.SparseGP(KERNEL, fg.likelihoods.Poisson(), inducing=Z), COUNTS),
    "features": (fg.SparseGP(KERNEL, fg.likelihoods.Poisson(), inducing=fg.HilbertSpace(7)), COUNTS),
    "classes": (fg.SparseGP(KERNEL, fg.likelihoods.Softmax(3), inducing=Z), CLASSES),
    "kernels": (fg.SparseGP([fg.kernels.RBF(1.2, s) for s in (0.5, 0.8, 1.2)], fg.likelihoods.Softmax(3), inducing=Z), CLASSES),
}


def problem_of(name):
    model, y = MODELS[name]
    model = model.prepared(X)
    return Problem(model, jnp.asarray(X), jnp.asarray(y), train_inducing=name != "features")


def two_steps(problem):
    """Whitened sites that are neither the prior nor where steps come to rest."""
    sites = gaussian.prior_sites(problem.model)
    for rate in (0.5, 0.4):
        sites = sites.blended(gaussian.site_update(problem.model, problem.X, problem.y, sites)[1], rate)
    return sites


def no_nudge(sites):
    return Projection(jnp.zeros_like(sites.linear), jnp.zeros_like(sites.precision))


@pytest.mark.parametrize("name", MODELS)
def test_a_step_is_the_one_in_whitened_coordinates(name):
    problem = problem_of(name)
    sites = two_steps(problem)
    weights = from_whitened(problem.model, sites)
    slopes = eqx.filter_jit(jax.value_and_grad(nudged_bound, argnums=3, has_aux=True))
    (value, projection), slope = slopes(problem, problem.start(), weights, no_nudge(sites), 1.0)
    expected, whitened = gaussian.site_update(problem.model, problem.X, problem.y, sites)
    np.testing.assert_allclose(value - problem.log_prior(problem.start()), expected, rtol=1e-9)
    there = to_whitened(problem.model, proposed(projection, slope))
    np.testing.assert_allclose(there.precision, whitened.precision, atol=1e-6 * np.abs(whitened.precision).max())
    np.testing.assert_allclose(there.linear, whitened.linear, atol=1e-6 * np.abs(whitened.linear).max())


@pytest.mark.parametrize("name", MODELS)
def test_there_and_back(name):
    problem = problem_of(name)
    sites = two_steps(problem)
    back = to_whitened(problem.model, from_whitened(problem.model, sites))
    np.testing.assert_allclose(back.precision, sites.precision, atol=1e-7 * np.abs(sites.precision).max())
    np.testing.assert_allclose(back.linear, sites.linear, atol=1e-7 * np.abs(sites.linear).max())


@pytest.mark.parametrize("name", MODELS)
def test_slope_in_the_position(name):
    problem = problem_of(name)
    weights = from_whitened(problem.model, two_steps(problem))
    start = problem.start() + 0.05
    K = prior_precision(problem.at(start))

    @eqx.filter_jit
    def with_factors_of_u_held(position):
        held = carried(weights, K, prior_precision(problem.at(position)))
        return nudged_bound(problem, position, held, no_nudge(weights), 1.0)[0]

    slope = jax.grad(lambda position: nudged_bound(problem, position, weights, no_nudge(weights), 1.0)[0])(start)
    np.testing.assert_allclose(slope, numerical_gradient(with_factors_of_u_held, start), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("name", MODELS)
def test_carried_sites_are_the_same_factors_of_u(name):
    problem = problem_of(name)
    sites, moved = two_steps(problem), problem.at(problem.start() + 0.05)
    weights = carried(from_whitened(problem.model, sites), prior_precision(problem.model), prior_precision(moved))
    there, expected = to_whitened(moved, weights), gaussian.sites_at(moved, sites)
    np.testing.assert_allclose(there.precision, expected.precision, atol=1e-7 * np.abs(expected.precision).max())
    np.testing.assert_allclose(there.linear, expected.linear, atol=1e-7 * np.abs(expected.linear).max())


def test_curvature_that_is_never_negative():
    """A label that the fit has wrong has a negative curvature under robust-max, and none in the concave slope."""
    model = fg.SparseGP(KERNEL, fg.likelihoods.RobustMax(3), inducing=Z).prepared(X)
    problem = Problem(model, jnp.asarray(X), jnp.asarray(CLASSES), train_inducing=False)
    weights = from_whitened(model, gaussian.prior_sites(model))
    projection, _ = under(prior_precision(model), weights)
    spectra = {}
    for name, slope in (
        (
            "as it is",
            jax.grad(nudged_bound, argnums=3, has_aux=True)(problem, problem.start(), weights, no_nudge(weights), 1.0)[0],
        ),
        ("concave", concave_slope(problem, problem.start(), projection, 1.0)),
    ):
        spectra[name] = np.linalg.eigvalsh(proposed(projection, slope).precision)
    assert spectra["as it is"].min() < -0.1
    assert spectra["concave"].min() > -1e-9


def test_sites_are_found_in_double_precision():
    """In single, with many points close together, rounding would make a step's curvature indefinite: another q(v), or none."""
    many = np.linspace(0, 6, 30)[:, None]
    for settings in (fg.NaturalGradient(batch_size=20, num_steps=60), fg.NaturalGradient(max_steps=2)):
        single, double = (
            fg.fit_gaussian(
                fg.SparseGP(KERNEL, fg.likelihoods.RobustMax(3), inducing=many, single_precision=is_single),
                X,
                CLASSES,
                settings,
                train_inducing=False,
                progress=False,
            )
            for is_single in (True, False)
        )
        assert single.model.single_precision
        np.testing.assert_array_equal(single.mean, double.mean)
        np.testing.assert_array_equal(single.covariance, double.covariance)


@pytest.mark.parametrize(("shift", "is_taken"), [(1.0, False), (-1.0, True)])
def test_no_step_moves_k_away_from_under_the_sites(shift, is_taken):
    """Factors of u of ``-0.8 Kuu^-1`` are within reach where the variance falls; where it rose, q(u) would be no Gaussian."""
    model = fg.SparseGP(KERNEL, fg.likelihoods.RobustMax(3), inducing=Z, fixed=["likelihood"]).prepared(X)
    problem = Problem(model, jnp.asarray(X), jnp.asarray(CLASSES), train_inducing=False)
    prior, start = gaussian.prior_sites(model), problem.start()
    sites = eqx.tree_at(lambda sites: sites.precision, prior, -0.8 * jnp.broadcast_to(jnp.eye(7), (3, 7, 7)))
    update = jnp.where(jnp.arange(start.size) == [p.path for p in free_parameters(model)].index("kernel.variance"), shift, 0.0)
    optimizer = optax.GradientTransformation(lambda _: (), lambda slope, state, _: (update, state))
    settings, one = fg.NaturalGradient(site_rate=0.0), jnp.array([0])
    position, sites, _, values = _steps(
        settings, optimizer, problem, start, sites, (), problem.minibatches(jax.random.key(0), 8, range(1)), one, one == 0
    )
    np.testing.assert_allclose(position, start + update if is_taken else start)
    here = problem.at(position)
    assert is_within_reach(prior_precision(here), from_whitened(here, sites))
    assert np.isfinite(values).all()


def test_reach():
    """From the prior to ten times its width, and no further."""
    model = MODELS["points"][0].prepared(X)
    K = prior_precision(model)
    weights = from_whitened(model, gaussian.prior_sites(model))
    for share, reached in ((0.0, True), (-0.89, True), (-0.91, False), (5.0, True)):
        sites = eqx.tree_at(lambda sites: sites.precision, weights, share * K)
        assert bool(is_within_reach(K, sites)) is reached


class TestRounds:
    """Which rows the steps have."""

    problem = problem_of("points")

    def rows(self, first, last, size=12):
        return np.asarray(self.problem.minibatches(jax.random.key(0), size, range(first, last)))

    def test_no_row_comes_twice_in_a_round(self):
        assert len(np.unique(self.rows(0, 4, 10))) == 40
        assert len(np.unique(self.rows(3, 6))) == 36, "four of forty rows are left out of a round"

    def test_every_round_has_an_order_of_its_own(self):
        assert not np.array_equal(self.rows(0, 3), self.rows(3, 6))
        assert set(self.rows(0, 30).ravel()) == set(range(40)), "other rows are left out in another round"

    def test_steps_may_be_asked_for_in_any_pieces(self):
        np.testing.assert_array_equal(np.concatenate([self.rows(0, 5), self.rows(5, 11)]), self.rows(0, 11))

    def test_likelihoods_with_a_number_for_each_datum_go_along(self):
        exposure = np.arange(1.0, 41.0)
        model = fg.SparseGP(KERNEL, fg.likelihoods.Poisson(exposure=exposure), inducing=Z).prepared(X)
        part = Problem(model, jnp.asarray(X), jnp.asarray(COUNTS), True).on(jnp.array([3, 1]))
        np.testing.assert_array_equal(part.model.likelihood.exposure, [4.0, 2.0])
        np.testing.assert_array_equal(part.y, COUNTS[[3, 1]])
