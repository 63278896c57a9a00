import functools
import itertools
import os
import signal
import subprocess
import sys
import textwrap
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import pytest
from reference import conditional, kernel_matrix, rbf, titsias_bound
from scipy import stats

import freegp as fg
from freegp.diagnostics import statistics
from freegp.parameters import to_free
from freegp.sampling import alternating, nuts, rotation, runner, samplers, warm_up
from freegp.sampling.chains import CHUNK, advance, chain_keys, chain_mesh
from freegp.sampling.coordinates import Place, contrasts
from freegp.sampling.start import site_coordinates

RNG = np.random.default_rng(0)
X = np.sort(RNG.uniform(0, 5, (40, 1)), axis=0)
TRUTH = np.sin(1.5 * X[:, 0])
REAL = TRUTH + 0.3 * RNG.normal(size=40)
COUNTS = RNG.poisson(np.exp(TRUTH)).astype(float)
LABELS = (TRUTH + 0.4 * RNG.normal(size=40) > 0).astype(float)
CLASSES = np.digitize(TRUTH + 0.2 * RNG.normal(size=40), [-0.4, 0.4]).astype(float)
OUTLIERS = REAL + np.where(RNG.uniform(size=40) < 0.1, 3.0, 0.0)
Z = np.linspace(0, 5, 7)[:, None]
PRIOR = {"kernel.lengthscales": fg.priors.Gamma(2.0, 2.0)}


def model(likelihood, fixed=("kernel.variance",), **kwargs):
    return fg.SparseGP(fg.kernels.RBF(1.2, 0.8), likelihood, inducing=Z, priors=PRIOR, fixed=fixed, **kwargs)


# Every sampler must sample every one of these.
PROBLEMS = {
    "Poisson": (model(fg.likelihoods.Poisson()), COUNTS),
    "Bernoulli": (model(fg.likelihoods.Bernoulli()), LABELS),
    "StudentT": (model(fg.likelihoods.StudentT(0.3, 3.0), ("kernel.variance", "likelihood")), OUTLIERS),
    "Softmax": (model(fg.likelihoods.Softmax(3)), CLASSES),
}


class Weakened(fg.RotationHMC):
    """With sites far from their strength, as a warm-up may leave them, parameters are moved with v held too."""

    def prepare(self, fit, X, y):
        target = super().prepare(fit, X, y)
        return target.with_tuned(target.tuned() | {"strength": jnp.asarray(0.05)})

    def _wanders(self, target):
        return False


SAMPLERS = {"sites": "sites", "jointly": fg.RotationHMC(most_sliced=-1), "nuts": "nuts"}
EVERY = SAMPLERS | {"weakened": Weakened()}


def draw(given, y, name="sites", **kwargs):
    fit = fg.fit_gaussian(given, X, y, train_inducing=False)
    settings = {"num_samples": 1000, "num_warmup": 120, "num_chains": 2, "seed": 1} | kwargs
    return fg.sample(given, X, y, fit=fit, sampler=EVERY[name], **settings)


@functools.cache
def site_target(name):
    given, y = PROBLEMS[name]
    fit = fg.fit_gaussian(given, X, y, fg.NaturalGradient(max_steps=2), train_inducing=False)
    return site_coordinates(fit, jnp.asarray(X), jnp.asarray(y))


def assert_moments(draws, mean, covariance=None):
    """Means and covariances within 4.5 Monte-Carlo standard errors."""
    found = statistics(draws)
    assert (np.abs(found.mean - mean) < 4.5 * found.mcse).all(), (found.mean, mean, found.mcse)
    if covariance is not None:
        centred = draws - mean
        products = centred[..., :, None] * centred[..., None, :]
        second = statistics(products)
        assert (np.abs(second.mean - covariance) < 4.5 * second.mcse).all()


class TestExactAnswers:
    @pytest.mark.parametrize("sampler", SAMPLERS)
    def test_gaussian_values_at_fixed_parameters(self, sampler):
        """Gaussian noise: q(v) is N(m, S) with S^-1 = I + A A^T / noise."""
        given = fg.SparseGP(fg.kernels.RBF(1.2, 0.8), fg.likelihoods.Gaussian(0.1), inducing=Z, fixed=["kernel", "likelihood"])
        posterior = draw(given, REAL, sampler)
        Kuu = kernel_matrix(rbf(1.2, 0.8), Z, Z) + 1.2e-6 * np.eye(7)
        A = np.linalg.solve(np.linalg.cholesky(Kuu), kernel_matrix(rbf(1.2, 0.8), Z, X))
        S = np.linalg.inv(np.eye(7) + A @ A.T / 0.1)
        assert_moments(posterior.whitened[..., 0], S @ A @ REAL / 0.1, S)

    @pytest.mark.parametrize("sampler", ["sites", "weakened", "jointly", pytest.param("nuts", marks=pytest.mark.slow)])
    def test_parameter_against_the_grid(self, sampler):
        """Gaussian noise: q(theta) ∝ p(theta) exp(Titsias' bound)."""
        given = model(fg.likelihoods.Gaussian(0.1), ("kernel.variance", "likelihood"))
        num_warmup = 50 if sampler == "weakened" else 120  # too few to change the strength
        posterior = draw(given, REAL, sampler, num_samples=2000, num_warmup=num_warmup)
        grid = np.linspace(0.2, 3.0, 281)
        log_density = [titsias_bound(rbf(1.2, at), Z, X, 0.1, REAL, 1e-6) + np.log(at) - 2.0 * at for at in grid]
        weights = np.exp(log_density - np.max(log_density))
        weights /= weights.sum()
        lengths = posterior.draws["kernel.lengthscales"]
        assert_moments(lengths, grid @ weights)
        middle = grid @ weights
        assert_moments((lengths - middle) ** 2, (grid - middle) ** 2 @ weights)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROBLEMS)
def test_samplers_agree(name):
    """On theta and on f at the data."""
    given, y = PROBLEMS[name]
    posteriors = [draw(given, y, sampler) for sampler in SAMPLERS]
    found = [
        statistics(np.concatenate([np.log(p.draws["kernel.lengthscales"])[..., None], p._watched_f()], -1)) for p in posteriors
    ]
    for one, two in itertools.combinations(found, 2):
        assert (np.abs(one.mean - two.mean) / np.hypot(one.mcse, two.mcse)).max() < 4.5
    for posterior in posteriors:
        assert posterior.diagnostics.r_hat < 1.05
        assert posterior.diagnostics.divergences == 0


@pytest.mark.slow
def test_an_outside_sampler_agrees():
    given, y = PROBLEMS["Poisson"]
    ours = draw(given, y)
    prepared = given.prepared(X)

    def potential(x):
        return -fg.log_density(prepared, jnp.asarray(X), jnp.asarray(y), x["free"], x["v"])

    kernel = numpyro.infer.NUTS(potential_fn=potential)
    mcmc = numpyro.infer.MCMC(kernel, num_warmup=300, num_samples=1500, num_chains=1, progress_bar=False)
    mcmc.run(jax.random.key(0), init_params={"free": to_free(prepared), "v": jnp.zeros((7, 1))})
    theirs = mcmc.get_samples(group_by_chain=True)
    for ours_draws, their_draws in ((ours.free, theirs["free"]), (ours.whitened, theirs["v"])):
        one, two = statistics(ours_draws), statistics(np.asarray(their_draws))
        assert (np.abs(one.mean - two.mean) < 4.5 * np.hypot(one.mcse, two.mcse)).all()


class TestCoordinates:
    @pytest.mark.parametrize("name", ["Poisson", pytest.param("Softmax", marks=pytest.mark.slow)])
    def test_change_of_variables(self, name):
        """log pi(x) is the target's log density plus the log-determinant of the numerical Jacobian of x -> (v, theta)."""
        given, y = PROBLEMS[name]
        fit = fg.fit_gaussian(given, X, y, fg.NaturalGradient(max_steps=2), train_inducing=False)
        target = site_coordinates(fit, jnp.asarray(X), jnp.asarray(y))
        x = 0.5 * jax.random.normal(jax.random.key(3), (target.num_dimensions,))
        no_common = eqx.tree_at(lambda t: t.common, target, 0.0 * target.common)
        key = jax.random.key(0)

        def parameters(x):
            place = no_common.place(x, key)
            return jnp.concatenate([(place.whitened @ target.mixing.T).ravel(), place.free])

        _, log_determinant = np.linalg.slogdet(jax.jacrev(parameters)(x))
        place = no_common.place(x, key)
        expected = fg.log_density(fit.model, jnp.asarray(X), jnp.asarray(y), place.free, place.whitened) + log_determinant
        left_out = 0.5 * Z.shape[0] * (target.common.any()) * np.log(2 * np.pi)  # the common mode's own normalizer
        np.testing.assert_allclose(target.log_density(x), expected + left_out, rtol=1e-9)
        np.testing.assert_allclose(place.log_volume, log_determinant, rtol=1e-9)
        np.testing.assert_allclose(target.position(place), x, atol=1e-9)

    @pytest.mark.parametrize("name", ["Poisson", pytest.param("Softmax", marks=pytest.mark.slow)])
    def test_with_parameters_held_it_is_the_same_target(self, name):
        target = site_target(name)
        target = target.with_tuned(target.tuned() | {"strength": jnp.asarray(0.6), "z_scale": 1.3 * target.z_scale})
        x, key = 0.5 * jax.random.normal(jax.random.key(3), (target.num_dimensions,)), jax.random.key(4)
        value, gradient = jax.value_and_grad(target.log_density)(x)
        state = alternating.initial_state(target, x)
        held, held_gradient = jax.value_and_grad(lambda z: alternating.log_density(target, state.held, z))(x[:-1])
        np.testing.assert_allclose([state.log_density, held], value, rtol=1e-10)
        np.testing.assert_allclose(held_gradient, gradient[:-1], rtol=1e-7, atol=1e-9)
        for found, expected in zip(
            jax.tree.leaves(alternating.place(target, state, key)), jax.tree.leaves(target.place(x, key)), strict=True
        ):
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)

    @pytest.mark.parametrize(("sampler", "remedy"), [(fg.RotationHMC(), 'try sampler="nuts", or'), (fg.NUTS(), "draw more, or")])
    def test_a_target_far_from_the_fit_is_told_with_what_to_do(self, sampler, remedy):
        target = site_target("Poisson")
        with pytest.warns(UserWarning, match=f"40 gradients a draw, with sites at 0.03 .*{remedy} use a smoother"):
            warm_up._notice(1 / 40, 0.03, sampler.if_far(target))

    def test_where_nothing_is_left_of_the_sites_all_move_together(self, monkeypatch):
        sampler, target = fg.RotationHMC(), site_target("Poisson")
        assert isinstance(sampler.initial_state(target, jnp.zeros(target.num_dimensions)), alternating.AlternatingState)
        weak = target.with_tuned(target.tuned() | {"strength": jnp.asarray(0.03)})
        start = sampler.initial_state(weak, jnp.full(weak.num_dimensions, 0.3))
        tuning = jax.tree.map(lambda leaf: leaf[0], warm_up.adapting(jnp.full(1, 0.4)))
        key = jax.random.key(0)
        moved, _ = sampler(key, start, weak, tuning)
        expected, _ = nuts.transition(key, start, weak.log_density, tuning.step_size, sampler.max_doublings)
        np.testing.assert_allclose(moved.position, expected.position, rtol=1e-12)
        assert not np.allclose(moved.position[-1], start.position[-1])
        assert sampler.if_far(weak) == "draw more"
        monkeypatch.setattr(samplers, "MOST_WANDERED", 1)
        assert isinstance(sampler.initial_state(weak, start.position), alternating.AlternatingState)
        assert "nuts" in sampler.if_far(weak)

    def test_warm_up_says_whether_anything_is_left_of_the_sites(self):
        target = site_target("Poisson")
        assert not target.with_tuned(target.tuned() | {"strength": jnp.asarray(0.1)}).is_weak
        draws = 3.0 * jax.random.normal(jax.random.key(0), (1, 200, target.model.num_inducing, 1))  # nothing like the fit's
        free = target.location + 0.1 * jax.random.normal(jax.random.key(1), (1, 200, target.location.size))
        changed, _ = warm_up._rescaled(target, [Place(np.asarray(free), np.asarray(draws), np.zeros((1, 200)))])
        assert changed.strength < 0.1
        assert changed.is_weak

    def test_rescaling_moves_nothing(self):
        target = site_target("Bernoulli")
        key = jax.random.key(0)
        places = jax.vmap(lambda k: target.place(jax.random.normal(k, (target.num_dimensions,)), k))(jax.random.split(key, 50))
        changed = target.rescaled(places.free, 2.0 * places.whitened)
        assert float(jnp.abs(changed.z_scale - 1.0).max()) > 0.5
        place = jax.tree.map(lambda a: a[7], places)
        x, changed_x = target.position(place), changed.position(place)
        np.testing.assert_allclose(changed.place(changed_x, key).whitened, place.whitened, atol=1e-9)
        plain = target.log_density(x) - target.place(x, key).log_volume
        np.testing.assert_allclose(changed.log_density(changed_x) - changed.place(changed_x, key).log_volume, plain, rtol=1e-10)

    @pytest.mark.parametrize("strength", [0.0, 0.3, 1.0])
    def test_strength_changes_the_coordinates_and_not_the_target(self, strength):
        given, y = PROBLEMS["Bernoulli"]
        fit = fg.fit_gaussian(given, X, y, fg.NaturalGradient(max_steps=2), train_inducing=False)
        target = site_coordinates(fit, jnp.asarray(X), jnp.asarray(y))
        other = eqx.tree_at(lambda t: t.strength, target, jnp.asarray(strength))
        place = target.place(0.5 * jnp.ones(target.num_dimensions), jax.random.key(0))
        x = other.position(place)
        there = other.place(x, jax.random.key(0))
        np.testing.assert_allclose(there.whitened, place.whitened, atol=1e-9)
        expected = fg.log_density(fit.model, jnp.asarray(X), jnp.asarray(y), place.free, place.whitened)
        np.testing.assert_allclose(other.log_density(x) - there.log_volume, expected, rtol=1e-9)

    def test_sites_are_weakened_for_draws_that_are_the_prior(self):
        given, y = PROBLEMS["Poisson"]
        fit = fg.fit_gaussian(given, X, y, fg.NaturalGradient(max_steps=2), train_inducing=False)
        target = site_coordinates(fit, jnp.asarray(X), jnp.asarray(y))
        key_v, key_x, key_theta = jax.random.split(jax.random.key(0), 3)
        free = target.location + 0.3 * jax.random.normal(key_theta, (300, 1))
        from_prior = jax.random.normal(key_v, (300, 7, 1))
        assert float(target.rescaled(free, from_prior).strength) < 0.2
        from_sites = jax.vmap(lambda k: target.place(jax.random.normal(k, (target.num_dimensions,)), k))
        places = from_sites(jax.random.split(key_x, 300))
        assert float(target.rescaled(places.free, places.whitened).strength) == 1.0

    @pytest.mark.parametrize("strength", [1.0, 0.05])
    def test_what_is_kept_between_moves_is_that_of_the_position(self, strength):
        given, y = PROBLEMS["Poisson"]
        fit = fg.fit_gaussian(given, X, y, fg.NaturalGradient(max_steps=2), train_inducing=False)
        target = site_coordinates(fit, jnp.asarray(X), jnp.asarray(y))
        target = eqx.tree_at(lambda t: t.strength, target, jnp.asarray(strength))
        start = alternating.initial_state(target, jnp.full(target.num_dimensions, 0.3))
        moved, _ = jax.jit(alternating.transition, static_argnums=(4, 5))(jax.random.key(0), start, target, 0.4, 1.5, 0.2)
        assert not np.any(moved.held.zeta == start.held.zeta)
        for found, expected in zip(
            jax.tree.leaves(moved), jax.tree.leaves(alternating.initial_state(target, moved.position)), strict=True
        ):
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)

    @pytest.mark.parametrize("held", ["z", "v"])
    def test_slices_draw_the_parameter_given_what_is_held(self, held):
        """One move over and over, against the density on a grid."""
        given, y = PROBLEMS["Poisson"]
        fit = fg.fit_gaussian(given, X, y, fg.NaturalGradient(max_steps=2), train_inducing=False)
        target = site_coordinates(fit, jnp.asarray(X), jnp.asarray(y))
        narrow = 0.3 * target.factor  # so that the ellipses are narrower than what is sliced, which they must not show
        target = eqx.tree_at(lambda t: (t.strength, t.factor), target, (jnp.asarray(0.3), narrow))
        start = alternating.initial_state(target, jnp.full(target.num_dimensions, 0.3))
        move = alternating.slice_given_values if held == "z" else alternating.slice_given_whitened

        def again(carry, key):
            moved, told = move(key, target, (carry, alternating.SliceInfo(jnp.asarray(0), jnp.asarray(False))))
            return moved, (moved.held.zeta[0], told.num_values)

        zetas, tries = jax.jit(lambda keys: jax.lax.scan(again, start, keys)[1])(jax.random.split(jax.random.key(0), 4000))
        grid = jnp.linspace(-12.0, 12.0, 481)
        z, _ = target.split(start.position)
        v = target.place(start.position, jax.random.key(0)).whitened

        def log_density(zeta):
            if held == "z":
                return target.log_density(jnp.append(z.ravel(), zeta))
            return fg.log_density(fit.model, jnp.asarray(X), jnp.asarray(y), target.location + target.factor[0] * zeta, v)

        weights = jax.nn.softmax(jax.vmap(log_density)(grid))
        middle = grid @ weights
        draws = np.asarray(zetas).reshape(2, -1)
        assert_moments(draws, middle)
        assert_moments((draws - middle) ** 2, jnp.square(grid - middle) @ weights)
        assert np.mean(tries) < 4.0, "a level that is too high narrows slices to nothing"

    def test_contrasts_are_orthonormal(self):
        rows, common = contrasts(4)
        basis = np.concatenate([common[None], rows])
        np.testing.assert_allclose(basis @ basis.T, np.eye(4), atol=1e-12)
        np.testing.assert_allclose(common, 0.5)

    @pytest.mark.slow
    def test_the_common_mode_is_its_prior(self):
        given, y = PROBLEMS["Softmax"]
        posterior = draw(given, y, num_samples=500)
        common = posterior.whitened @ np.full(3, 1 / np.sqrt(3))
        assert_moments(common, np.zeros(7), np.eye(7))


class TestIntegrator:
    """Kicks and rotations on a target that is not Gaussian, in even and odd numbers."""

    @staticmethod
    def log_density(x):
        return -0.5 * jnp.sum(x**2) - 0.1 * jnp.sum(x**4) + jnp.sin(x[0] * x[1])

    def flow(self, point, num_steps=5, angle=0.2):
        x, p = jnp.split(point, 2)
        state, end = rotation.trajectory(rotation.initial_state(x, self.log_density), p, self.log_density, angle, num_steps)
        return jnp.concatenate([state.position, end])

    @pytest.mark.parametrize("num_steps", [1, 4, 5])
    def test_reversible(self, num_steps):
        point = jax.random.normal(jax.random.key(0), (6,))
        x, p = jnp.split(self.flow(point, num_steps), 2)
        back, back_p = jnp.split(self.flow(jnp.concatenate([x, -p]), num_steps), 2)
        np.testing.assert_allclose(jnp.concatenate([back, -back_p]), point, atol=1e-12)

    @pytest.mark.parametrize("num_steps", [4, 5])
    def test_keeps_volume(self, num_steps):
        point = jax.random.normal(jax.random.key(1), (6,))
        _, log_determinant = np.linalg.slogdet(jax.jacfwd(self.flow)(point, num_steps))
        assert abs(log_determinant) < 1e-10

    def test_exact_on_a_gaussian(self):
        def log_density(x):
            return -0.5 * jnp.sum(x**2)

        start = jnp.array([1.0, -2.0, 0.5])
        state, p = rotation.trajectory(rotation.initial_state(start, log_density), jnp.ones(3), log_density, 0.5 * jnp.pi, 1)
        np.testing.assert_allclose(state.position, jnp.ones(3), atol=1e-12)
        np.testing.assert_allclose(p, -start, atol=1e-12)

    def test_second_order(self):
        point = jax.random.normal(jax.random.key(2), (6,))
        exact = self.flow(point, 4096, 1.0 / 4096)
        coarse, fine = (np.linalg.norm(self.flow(point, n, 1.0 / n) - exact) for n in (8, 16))
        assert 3.5 < coarse / fine < 4.5

    def test_slices_leave_a_narrow_density_as_it_is(self):
        """Much narrower than the ellipses, so that every bracket has to be drawn in."""

        def there(zeta):
            return zeta, -0.5 * jnp.sum(jnp.square((zeta - 0.8) / 0.2))

        def step(zeta, key):
            moved = alternating.elliptical_slice(key, zeta, zeta, there(zeta)[1], there)[0]
            return moved, moved

        keys = jax.random.split(jax.random.key(0), 20_000)
        _, draws = jax.jit(lambda keys: jax.lax.scan(step, jnp.full(1, 0.8), keys))(keys)
        draws = np.asarray(draws)[None, :, 0]
        assert_moments(draws, 0.8)
        assert_moments((draws - 0.8) ** 2, 0.04)

    def test_second_attempts_leave_the_target_as_it_is(self):
        """A narrow and a wide Gaussian with steps fit for the wide one: shares and moments of the mixture come out right."""

        def log_density(x):
            narrow = jax.scipy.stats.norm.logpdf(x, 1.0, 0.05)
            return jnp.sum(jnp.logaddexp(jnp.log(0.3) + narrow, jnp.log(0.7) + jax.scipy.stats.norm.logpdf(x)))

        def chain(key):
            def step(state, key):
                state, info = rotation.transition(key, state, log_density, jnp.asarray(1.6), 1.5, 0.3)
                return state, (state.position[0], info.num_gradients)

            return jax.lax.scan(step, rotation.initial_state(jnp.zeros(1), log_density), jax.random.split(key, 30_000))[1]

        x, num_gradients = jax.lax.map(chain, jax.random.split(jax.random.key(0), 4))
        x = np.asarray(x)
        assert (np.asarray(num_gradients) >= 3).mean() > 0.02, "second attempts are made"
        exact = {
            "inside": 0.3 * 0.9545 + 0.7 * (stats.norm.cdf(1.1) - stats.norm.cdf(0.9)),
            "mean": 0.3,
            "square": 0.7 + 0.3 * 1.0025,
        }
        for name, values in {"inside": np.abs(x - 1.0) < 0.1, "mean": x, "square": x**2}.items():
            found = statistics(values.astype(float))
            assert abs(found.mean - exact[name]) < 4.5 * found.mcse, (name, found.mean, exact[name], found.mcse)

    def test_a_draw_comes_to_an_end_however_short_the_step(self):
        def normal(x):
            return -0.5 * jnp.sum(jnp.square(x))

        step, state = jnp.asarray(1e-9), rotation.initial_state(jnp.ones(2), normal)
        after, info = jax.jit(lambda key: rotation.transition(key, state, normal, step, 1.5, 0.2))(jax.random.key(0))
        assert info.num_gradients == rotation.MOST_STEPS
        assert 0.0 < float(jnp.abs(after.position - 1.0).max()) < 1e-5

    def test_nuts_doubles_its_trajectory_as_often_as_it_may(self):
        def normal(x):
            return -0.5 * jnp.sum(jnp.square(x))

        step, state = jnp.asarray(1e-3), rotation.initial_state(jnp.ones(2), normal)
        _, info = jax.jit(lambda key: nuts.transition(key, state, normal, step, 4))(jax.random.key(0))
        assert info.num_gradients == 15

    def test_nonfinite_is_rejected_and_counted(self):
        def wall(x):
            return jnp.where(jnp.sum(x) > 0.1, jnp.nan, -0.5 * jnp.sum(x**2))

        state = rotation.initial_state(jnp.zeros(2), wall)
        infos = []
        transition = jax.jit(lambda key, state: rotation.transition(key, state, wall, jnp.asarray(0.7), 1.5, 0.2))
        for i in range(30):
            state, info = transition(jax.random.key(i), state)
            infos.append(info)
            assert np.isfinite(state.log_density)
        assert any(bool(info.is_nonfinite) for info in infos)
        assert all(float(info.acceptance) == 0.0 for info in infos if info.is_nonfinite)


SETTINGS = {"num_samples": 130, "num_warmup": 60, "num_chains": 2, "seed": 4}


@pytest.fixture(scope="module")
def whole():
    given, y = PROBLEMS["Poisson"]
    fit = fg.fit_gaussian(given, X, y, train_inducing=False)
    return given, y, fit, fg.sample(given, X, y, fit=fit, **SETTINGS)


@pytest.fixture(scope="module")
def posterior():
    given, y = PROBLEMS["Poisson"]
    return draw(given, y, num_samples=60, num_warmup=60)


class TestRuns:
    def test_same_seed_same_draws(self, whole):
        given, y, fit, posterior = whole
        again = fg.sample(given, X, y, fit=fit, **SETTINGS)
        np.testing.assert_array_equal(again.whitened, posterior.whitened)
        other = fg.sample(given, X, y, fit=fit, **(SETTINGS | {"seed": 5}))
        assert not np.array_equal(other.whitened, posterior.whitened)

    def test_more_draws_than_a_chunk_are_all_there(self, whole):
        _, y, fit, _ = whole
        sampler, mesh, keys = fg.RotationHMC(), chain_mesh(2), chain_keys(2, jax.random.key(0))
        warm = sampler.warm_up(mesh, sampler.prepare(fit, jnp.asarray(X), jnp.asarray(y)), keys, 0, lambda *_: None)
        _, together = advance(sampler, mesh, warm, keys, 0, CHUNK + 20)
        part, first = advance(sampler, mesh, warm, keys, 0, CHUNK)
        _, second = advance(sampler, mesh, part, keys, CHUNK, 20)
        apart = np.concatenate([first.place.free, second.place.free], axis=1)
        np.testing.assert_array_equal(together.place.free, apart)

    def test_interrupted_and_resumed_is_bit_identical(self, whole, tmp_path, monkeypatch):
        given, y, fit, posterior = whole
        advance, calls = runner._advance, []

        def interrupted(*arguments):
            if len(calls) == 2:
                raise KeyboardInterrupt
            calls.append(advance(*arguments))

        monkeypatch.setattr(runner, "_advance", interrupted)
        with pytest.warns(UserWarning, match="interrupted after 100 of 130 draws a chain; fg.resume"):
            part = fg.sample(given, X, y, fit=fit, run_dir=tmp_path / "run", **SETTINGS)
        np.testing.assert_array_equal(part.whitened, posterior.whitened[:, :100])
        monkeypatch.undo()
        resumed = fg.resume(tmp_path / "run")
        np.testing.assert_array_equal(resumed.whitened, posterior.whitened)
        np.testing.assert_array_equal(resumed.free, posterior.free)
        np.testing.assert_array_equal(fg.resume(tmp_path / "run").free, posterior.free)

    def test_a_clock_that_goes_backwards_changes_nothing(self, whole, tmp_path, monkeypatch):
        """Chunks follow their numbers and not their dates, and durations are not differences of dates."""
        given, y, fit, posterior = whole
        dates = itertools.count(2_000_000_000, -3600)
        monkeypatch.setattr(time, "time", lambda: float(next(dates)))
        monkeypatch.setattr(time, "time_ns", lambda: next(dates) * 10**9)
        fg.sample(given, X, y, fit=fit, run_dir=tmp_path / "run", **SETTINGS)
        chunks = sorted((tmp_path / "run").glob("chunk-*.npz"))
        chunks.pop().unlink()  # the last one is to be sampled anew
        for chunk in chunks:
            os.utime(chunk, (next(dates),) * 2)
        resumed = fg.resume(tmp_path / "run")
        np.testing.assert_array_equal(resumed.whitened, posterior.whitened)
        np.testing.assert_array_equal(resumed.free, posterior.free)
        assert 0.0 < resumed.seconds_sampling < resumed.seconds_total < 3600.0

    def test_a_damaged_chunk_is_redone(self, whole, tmp_path):
        given, y, fit, posterior = whole
        fg.sample(given, X, y, fit=fit, run_dir=tmp_path / "run", **SETTINGS)
        chunk = tmp_path / "run" / "chunk-00002.npz"
        content = bytearray(chunk.read_bytes())
        content[len(content) // 2] ^= 1
        chunk.write_bytes(content)
        with pytest.warns(UserWarning, match="damaged"):
            resumed = fg.resume(tmp_path / "run")
        np.testing.assert_array_equal(resumed.whitened, posterior.whitened)

    @pytest.mark.slow
    def test_killed_and_resumed_is_bit_identical(self, tmp_path):
        script = textwrap.dedent(
            """
            import sys, numpy as np, freegp as fg
            X = np.linspace(0, 5, 40)[:, None]
            y = np.random.default_rng(0).poisson(np.exp(np.sin(X[:, 0]))).astype(float)
            model = fg.SparseGP(fg.kernels.RBF(), fg.likelihoods.Poisson(), inducing=6)
            fg.sample(model, X, y, num_samples=int(sys.argv[2]), num_warmup=60, num_chains=2, seed=3, run_dir=sys.argv[1])
            """
        )
        arguments = [sys.executable, "-c", script]
        process = subprocess.Popen([*arguments, str(tmp_path / "killed"), "4000"])
        deadline = time.time() + 240
        while not (tmp_path / "killed" / "chunk-00003.npz").exists():
            assert process.poll() is None
            assert time.time() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
        before = len([name for name in os.listdir(tmp_path / "killed") if name.startswith("chunk-")])
        assert before < 81, "it was killed before the end"
        resumed = fg.resume(tmp_path / "killed")
        subprocess.run([*arguments, str(tmp_path / "whole"), "4000"], check=True)
        whole = fg.resume(tmp_path / "whole")
        np.testing.assert_array_equal(resumed.whitened, whole.whitened)
        np.testing.assert_array_equal(resumed.free, whole.free)

    def test_chains_do_not_depend_on_their_number_of_devices(self, whole):
        given, y, fit, _ = whole
        one = fg.sample(given, X, y, fit=fit, **(SETTINGS | {"num_chains": 1, "num_warmup": 0}))
        three = fg.sample(given, X, y, fit=fit, **(SETTINGS | {"num_chains": 3, "num_warmup": 0}))
        np.testing.assert_allclose(three.whitened[:1, :20], one.whitened[:, :20], rtol=1e-8)
        assert jax.local_device_count() > 1

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"sampler": "metropolis"}, "sampler must be one of sites, nuts"),
            ({"num_samples": 0}, "num_samples must be 1 or more"),
            ({"num_chains": 0}, "num_chains must be 1 or more"),
        ],
    )
    def test_bad_settings(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            fg.sample(*PROBLEMS["Poisson"][:1], X, COUNTS, **arguments)

    def test_a_run_directory_is_not_overwritten(self, whole, tmp_path):
        given, y, fit, _ = whole
        settings = SETTINGS | {"num_samples": 2, "num_warmup": 0}
        fg.sample(given, X, y, fit=fit, run_dir=tmp_path / "run", **settings)
        with pytest.raises(ValueError, match=r"already holds a run; continue it with fg\.resume"):
            fg.sample(given, X, y, fit=fit, run_dir=tmp_path / "run", **settings)
        with pytest.raises(ValueError, match="there is no folder"):
            fg.resume(tmp_path / "nothing")


class TestPosterior:
    def test_draws_are_in_natural_units(self, posterior):
        assert posterior.draws["kernel.lengthscales"].shape == (2, 60)
        assert posterior.draws["whitened"].shape == (2, 60, 7, 1)
        np.testing.assert_allclose(np.log(posterior.draws["kernel.lengthscales"]), posterior.free[..., 0], atol=1e-12)

    def test_predictions_average_over_draws(self, posterior):
        """Against a loop over draws in NumPy."""
        Xs = np.array([[0.4], [2.5], [6.0]])
        means, variances = [], []
        for chain in range(2):
            for i in range(60):
                length = posterior.draws["kernel.lengthscales"][chain, i]
                mean, variance = conditional(rbf(1.2, length), Z, Xs, posterior.whitened[chain, i, :, 0], 1e-6)
                means.append(mean)
                variances.append(variance)
        means, variances = np.array(means), np.array(variances)
        mean, variance = posterior.predict_f(Xs)
        np.testing.assert_allclose(mean[:, 0], means.mean(axis=0), rtol=1e-6)
        np.testing.assert_allclose(variance[:, 0], variances.mean(axis=0) + means.var(axis=0), rtol=1e-5)
        rates = np.exp(means + variances / 2)
        np.testing.assert_allclose(posterior.predict_y(Xs)[0], rates.mean(axis=0), rtol=1e-5)
        spread = (rates + rates**2 * np.expm1(variances)).mean(axis=0) + rates.var(axis=0)
        np.testing.assert_allclose(posterior.predict_y(Xs)[1], spread, rtol=1e-5)
        each = [
            fg.likelihoods.Poisson().predict_log_density(m, v, np.array([1.0, 0.0, 2.0]))
            for m, v in zip(means, variances, strict=True)
        ]
        expected = np.log(np.mean(np.exp(each), axis=0))
        np.testing.assert_allclose(posterior.predict_log_density(Xs, [1.0, 0.0, 2.0]), expected, rtol=1e-6)

    def test_quantiles_and_joint_draws_match_the_moments(self, posterior):
        Xs = np.array([[0.4], [0.5], [6.0]])
        mean, variance = posterior.predict_f(Xs)
        f = np.asarray(posterior.sample_f(Xs, 4000, seed=1))[..., 0]
        assert (np.abs(f.mean(axis=0) - mean[:, 0]) < 4.5 * f.std(axis=0) / np.sqrt(4000)).all()
        np.testing.assert_allclose(f.var(axis=0), variance[:, 0], rtol=0.15)
        assert np.corrcoef(f[:, 0], f[:, 1])[0, 1] > 0.95, "neighbours move together"
        low, middle, high = np.asarray(posterior.quantiles_f(Xs, (0.1, 0.5, 0.9)))[..., 0]
        for level, quantile in ((0.1, low), (0.5, middle), (0.9, high)):
            below = (f < quantile).mean(axis=0)
            assert (np.abs(below - level) < 4.5 * np.sqrt(level * (1 - level) / 4000)).all()
        y = np.asarray(posterior.sample_y(Xs, 4000, seed=2))
        assert y.shape == (4000, 3)
        assert (np.abs(y.mean(axis=0) - posterior.predict_y(Xs)[0]) < 4.5 * y.std(axis=0) / np.sqrt(4000)).all()

    @pytest.mark.slow
    def test_blocks_of_inputs_change_nothing(self, posterior):
        small = fg.Posterior(
            **{
                **{f: getattr(posterior, f) for f in posterior.__dataclass_fields__},
                "model": posterior.model._replace(block_size=7),
            }
        )
        np.testing.assert_allclose(small.predict_y(X)[1], posterior.predict_y(X)[1], rtol=1e-9)
        np.testing.assert_allclose(small.predict_log_density(X, COUNTS), posterior.predict_log_density(X, COUNTS), rtol=1e-9)
        np.testing.assert_allclose(small.quantiles_f(X), posterior.quantiles_f(X), atol=1e-9)

    def test_thinning_is_by_hand_alone(self, posterior):
        assert posterior.thinned(3).whitened.shape == (2, 20, 7, 1)
        with pytest.raises(ValueError, match="between 1 and 60"):
            posterior.thinned(0)

    def test_saved_and_loaded(self, posterior, tmp_path):
        posterior.save(tmp_path / "posterior.npz")
        loaded = fg.load(tmp_path / "posterior.npz")
        np.testing.assert_array_equal(loaded.predict_f(X)[0], posterior.predict_f(X)[0])
        assert loaded.diagnostics == posterior.diagnostics

    def test_summary_and_arviz(self, posterior):
        assert list(posterior.summary().index) == ["kernel.lengthscales"]
        data = posterior.to_arviz()
        assert set(data.groups()) >= {"posterior", "sample_stats", "log_likelihood", "observed_data"}
        assert data.posterior["kernel.lengthscales"].shape == (2, 60)
        assert "60 draws" in str(posterior)

    @pytest.mark.slow
    def test_leave_one_out_is_near_refitting(self):
        """Exact for one datum: sample again without it."""
        given, y = PROBLEMS["Poisson"]
        everything = draw(given, y, num_samples=1500)
        loo = everything.loo()
        rest = np.arange(40) != 20
        fit = fg.fit_gaussian(given, X[rest], y[rest], train_inducing=False)
        without = fg.sample(given, X[rest], y[rest], fit=fit, num_samples=1500, num_warmup=120, num_chains=2)
        exact = float(without.predict_log_density(X[20:21], y[20:21])[0])
        assert loo.pareto_k[20] < 0.7
        np.testing.assert_allclose(loo.pointwise[20], exact, atol=0.02)
