import importlib

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference import kernel_matrix, rbf, titsias_bound
from scipy.stats import chisquare
from threadpoolctl import threadpool_limits

import freegp as fg
from freegp.diagnostics import statistics
from freegp.numerics.stacks import whitening
from freegp.parameters import from_free, to_free
from freegp.sampling import gibbs, paper, rotation
from freegp.sampling.chains import chain_keys, chain_mesh
from freegp.sampling.plain import plain_coordinates
from freegp.sampling.tuning import Search, grid_of, log_axis, log_axis_of_integers, squared_jumps
from freegp.target.kept import latent_means
from freegp.target.projection import covariances, marginals, project_whitened, unwhiten

runner = importlib.import_module("freegp.sampling.runner")

RNG = np.random.default_rng(0)
X = np.sort(RNG.uniform(0, 5, (30, 1)), axis=0)
TRUTH = np.sin(1.5 * X[:, 0])
REAL = TRUTH + 0.3 * RNG.normal(size=30)
COUNTS = RNG.poisson(np.exp(TRUTH)).astype(float)
LABELS = (TRUTH + 0.4 * RNG.normal(size=30) > 0).astype(float)
CLASSES = np.digitize(TRUTH + 0.2 * RNG.normal(size=30), [-0.4, 0.4]).astype(float)
Z = np.linspace(0, 5, 6)[:, None]
PRIOR = {"kernel.lengthscales": fg.priors.Gamma(2.0, 2.0)}
NAMES = ("paper", "gibbs")
KEY = jax.random.key(7)


def model(likelihood, fixed=("kernel.variance",), **kwargs):
    return fg.SparseGP(fg.kernels.RBF(1.2, 0.8), likelihood, inducing=Z, priors=PRIOR, fixed=fixed, **kwargs)


def separate(likelihood):
    """A kernel for each latent function."""
    kernels = [fg.kernels.RBF(1.0 + 0.2 * k, 0.6 + 0.1 * k) for k in range(likelihood.num_latents)]
    return fg.SparseGP(kernels, likelihood, inducing=Z)


# The last has an exposure for each datum, and goes through the data in blocks.
PROBLEMS = {
    "Bernoulli": (model(fg.likelihoods.Bernoulli()), LABELS),
    "Softmax": (model(fg.likelihoods.Softmax(3)), CLASSES),
    "separate": (separate(fg.likelihoods.Softmax(3)), CLASSES),
    "noise": (model(fg.likelihoods.Gaussian(0.1)), REAL),
    "blocks": (model(fg.likelihoods.Poisson(exposure=np.linspace(0.5, 2.0, 30)), block_size=7), COUNTS),
}


@pytest.fixture(autouse=True)
def _one_thread():
    """As the runner has it: on a busy machine BLAS threads make the search several times slower."""
    with threadpool_limits(1, "blas"):
        yield


def crude_fit(given):
    """What a sampler needs of a Gaussian approximation, without the time it takes to make a good one."""
    shape = (len(Z), given.num_latents)
    mean = 0.1 * np.arange(np.prod(shape)).reshape(shape)
    covariance = np.stack([kernel_matrix(rbf(0.1, 1.0 + k), Z, Z) + 0.01 * np.eye(len(Z)) for k in range(shape[1])])
    return fg.GaussianFit(given.prepared(X), mean, covariance, None, 0.0, np.zeros(1), "converged", "crude", "none", 0.0)


def target_of(name):
    given, y = PROBLEMS[name]
    return plain_coordinates(crude_fit(given), X, y)


def assert_moments(draws, mean, covariance):
    """Means and covariances within 4.5 Monte-Carlo standard errors."""
    found = statistics(draws)
    assert (np.abs(found.mean - mean) < 4.5 * found.mcse).all(), (found.mean, mean, found.mcse)
    centred = draws - mean
    second = statistics(centred[..., :, None] * centred[..., None, :])
    assert (np.abs(second.mean - covariance) < 4.5 * second.mcse).all(), (second.mean, covariance, second.mcse)


@pytest.mark.parametrize("name", NAMES)
class TestExactAnswers:
    def test_gaussian_values_at_fixed_parameters(self, name):
        """Gaussian noise: q(v) is N(m, S) with S^-1 = I + A A^T / noise."""
        given = fg.SparseGP(fg.kernels.RBF(1.2, 0.8), fg.likelihoods.Gaussian(0.1), inducing=Z, fixed=["kernel", "likelihood"])
        posterior = fg.sample(given, X, REAL, fit=crude_fit(given), sampler=name, num_samples=2000, num_chains=2, seed=1)
        Kuu = kernel_matrix(rbf(1.2, 0.8), Z, Z) + 1.2e-6 * np.eye(6)
        A = np.linalg.solve(np.linalg.cholesky(Kuu), kernel_matrix(rbf(1.2, 0.8), Z, X))
        S = np.linalg.inv(np.eye(6) + A @ A.T / 0.1)
        assert_moments(posterior.whitened[..., 0], S @ A @ REAL / 0.1, S)
        assert posterior.diagnostics.ess > 500

    @pytest.mark.slow
    def test_parameter_against_the_grid(self, name):
        """Gaussian noise: q(theta) ∝ p(theta) exp(Titsias' bound), and in the logarithm of theta another factor theta."""
        given = model(fg.likelihoods.Gaussian(0.1), ("kernel.variance", "likelihood"))
        num_samples = {"paper": 2500, "gibbs": 12000}[name]  # theta and v hold each other back in Gibbs: 1 in 25 is effective
        posterior = fg.sample(given, X, REAL, fit=crude_fit(given), sampler=name, num_samples=num_samples, num_chains=2, seed=1)
        logs = np.linspace(np.log(0.15), np.log(4.0), 301)
        grid = np.exp(logs)
        bound = np.array([titsias_bound(rbf(1.2, at), Z, X, 0.1, REAL, 1e-6) for at in grid])
        log_density = bound + np.log(grid) - 2.0 * grid + logs  # Gamma(2, 2), and the Jacobian
        weights = np.exp(log_density - np.max(log_density))
        weights /= weights.sum()
        middle = logs @ weights
        assert_moments(posterior.free, np.array([middle]), np.array([[(logs - middle) ** 2 @ weights]]))
        assert statistics(posterior.free).ess_bulk.min() > 400


class TestLeapfrog:
    """On a target that is not Gaussian."""

    @staticmethod
    def log_density(x):
        return -0.5 * jnp.sum(x**2) - 0.1 * jnp.sum(x**4) + jnp.sin(x[0] * x[1])

    def flow(self, point, num_steps=5, step=0.2):
        x, p = jnp.split(point, 2)
        state, end = paper.leapfrog(rotation.initial_state(x, self.log_density), p, self.log_density, step, num_steps)
        return jnp.concatenate([state.position, end])

    def test_it_is_reversible(self):
        start = jax.random.normal(KEY, (6,))
        there = self.flow(start)
        assert float(jnp.abs(there - start).max()) > 0.3
        back = self.flow(there.at[3:].multiply(-1.0))
        np.testing.assert_allclose(back.at[3:].multiply(-1.0), start, atol=1e-12)

    def test_it_keeps_volume(self):
        jacobian = jax.jacfwd(self.flow)(jax.random.normal(KEY, (6,)))
        np.testing.assert_allclose(np.linalg.det(jacobian), 1.0, rtol=1e-10)

    def test_its_error_is_of_second_order(self):
        def energy(point):
            return -self.log_density(point[:3]) + 0.5 * jnp.sum(point[3:] ** 2)

        start = jax.random.normal(KEY, (6,))
        errors = [abs(float(energy(self.flow(start, n, 1.0 / n)) - energy(start))) for n in (20, 40, 80)]
        np.testing.assert_allclose([errors[0] / errors[1], errors[1] / errors[2]], 4.0, rtol=0.1)

    def test_the_number_of_steps_is_uniform(self):
        tuning = paper.Leapfrog(jnp.asarray(0.1), jnp.asarray(5))
        state = rotation.initial_state(jnp.zeros(3), self.log_density)
        _, info = jax.vmap(lambda key: paper.transition(key, state, self.log_density, tuning))(jax.random.split(KEY, 2000))
        numbers, counts = np.unique(info.num_gradients, return_counts=True)
        assert numbers.tolist() == [1, 2, 3, 4, 5]
        assert chisquare(counts).pvalue > 1e-4

    def test_a_density_that_is_not_a_number_is_rejected(self):
        def cliff(x):
            return jnp.where(x[0] > 0.1, jnp.nan, self.log_density(x))

        state = rotation.initial_state(jnp.zeros(3), cliff)
        tuning = paper.Leapfrog(jnp.asarray(0.5), jnp.asarray(10))
        ends, info = jax.vmap(lambda key: paper.transition(key, state, cliff, tuning))(jax.random.split(KEY, 100))
        assert 0 < int(info.is_nonfinite.sum()) < 100
        assert bool(jnp.all(jnp.isfinite(ends.position)) & jnp.all(ends.position[:, 0] <= 0.1))
        assert bool(jnp.all(info.acceptance[info.is_nonfinite] == 0.0))


class TestStart:
    def test_it_is_a_draw_of_the_approximation_at_its_parameters(self):
        target = target_of("Softmax")
        starts = jax.vmap(target.start)(jax.random.split(KEY, 4000))
        v, free = jax.vmap(target.split)(starts)
        np.testing.assert_array_equal(free, np.broadcast_to(to_free(target.model), free.shape))
        for latent in range(3):
            assert_moments(np.asarray(v)[None, ..., latent], target.mean[:, latent], target.covariance[latent])

    def test_each_chain_has_its_own(self):
        target = target_of("Bernoulli")
        positions = paper.checked_starts(fg.PaperHMC(), chain_mesh(3), target, chain_keys(3, KEY))
        assert len(np.unique(positions[:, 0])) == 3
        np.testing.assert_allclose(positions[1], target.start(chain_keys(3, KEY)[1]))

    def test_a_density_that_is_not_a_number_is_told(self):
        target = target_of("Bernoulli")
        broken = eqx.tree_at(lambda t: t.mean, target, jnp.full_like(target.mean, jnp.nan))
        with pytest.raises(FloatingPointError, match="tighten the priors"):
            paper.checked_starts(fg.PaperHMC(), chain_mesh(3), broken, chain_keys(3, KEY))


@eqx.filter_jit
def from_the_model(target, x):
    """Mean and variance of the latents, log density, and its gradient in v, without anything that Gibbs does."""
    v, free = target.split(x)
    at = from_free(target.model, free)
    log_density, gradient = jax.value_and_grad(target.log_density)(x)
    return *marginals(at, project_whitened(whitening(covariances(at)), v), target.X), log_density, gradient[: v.size]


@eqx.filter_jit
def from_the_state(target, state):
    """The same, from what Gibbs keeps."""
    v, free = target.split(state.position)
    given = gibbs.GivenParameters(target.model, target.y, free, state.kept)
    gradient = jax.grad(given.log_density)(v.ravel())
    means = latent_means(state.kept.basis, unwhiten(state.kept.inverse_factors, v))
    return means, state.kept.variance, state.log_density, gradient


@pytest.mark.parametrize(
    "name", ["separate", *(pytest.param(n, marks=pytest.mark.slow) for n in sorted({*PROBLEMS} - {"separate"}))]
)
def test_what_gibbs_keeps_is_the_models(name):
    """After every sweep, whether theta moved or not."""
    target, sampler = target_of(name), fg.Gibbs(num_updates=2)
    tuning = gibbs.GibbsTuning(jnp.asarray(0.05), jnp.asarray(5), jnp.asarray(0.1))
    sweep = eqx.filter_jit(lambda key, state: sampler(key, state, target, tuning))
    state = eqx.filter_jit(lambda x: gibbs.state_at(target, *target.split(x)))(target.start(KEY))
    thetas = set()
    for key in jax.random.split(KEY, 8):
        for found, expected in zip(from_the_state(target, state), from_the_model(target, state.position), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)
        state, info = sweep(key, state)
        thetas.add(float(state.position[-1]))
        assert 2.0 + 2.0 / 6.0 <= info.num_gradients <= 2.0 + 6.0 / 6.0  # two of theta, and up to six sixths of v
    assert len(thetas) > 2


class TestSearch:
    GRID = grid_of(log_axis(1e-3, 1.0), log_axis_of_integers(100))

    @staticmethod
    def hill(settings):
        step, count = np.log(settings)
        return np.exp(-0.5 * ((step - np.log(0.05)) / 0.7) ** 2 - 0.5 * ((count - np.log(20)) / 0.7) ** 2)

    def searched(self, seed, noise=0.05):
        search, rng = Search(self.GRID, seed), np.random.default_rng(seed)
        for _ in range(30):
            search.record(self.hill(search.propose()) + noise * rng.normal())
        return search

    def test_the_grid(self):
        assert self.GRID[:, 0].min() == 1e-3
        assert self.GRID[:, 0].max() == 1.0
        assert set(self.GRID[:, 1]) >= {1, 2, 3, 4, 5, 100}
        assert (self.GRID[:, 1] == np.round(self.GRID[:, 1])).all()

    @pytest.mark.parametrize("seed", range(4))
    def test_it_finds_the_maximum(self, seed):
        """A narrow hill: 1/20 of the range in each direction; picking 30 at random reaches 0.9 in 1 of 5 searches."""
        search = self.searched(seed)
        assert self.hill(search.best()) > 0.85
        later = [self.hill(self.GRID[at]) for at in search.tried[15:]]
        assert np.median(later) > 0.5

    def test_it_is_fixed_by_its_seed(self):
        assert self.searched(3).tried == self.searched(3).tried
        assert self.searched(3).tried != self.searched(4).tried

    def test_nothing_moves(self):
        search = Search(self.GRID, 0)
        for _ in range(8):
            search.propose()
            search.record(0.0)
        assert len(set(search.tried)) > 5

    def test_the_best_is_the_best_seen(self):
        search = Search(grid_of(np.array([1.0, 2.0, 3.0])), 0, tried=[0, 1, 1, 2], values=[1.0, 3.0, 0.0, 2.0])
        assert search.best() == [3.0]

    def test_squared_jumps(self):
        draws = np.array([[[1.0, 0.0], [1.0, 2.0]], [[0.0, 0.0], [0.0, 0.0]]])
        np.testing.assert_allclose(squared_jumps(np.zeros((2, 2)), draws), [2.5, 0.0])


SHORT = {
    "paper": fg.PaperHMC(num_rounds=6, draws_per_round=10, spread_rounds=4, most_steps=12),
    "gibbs": fg.Gibbs(num_rounds=6, draws_per_round=10, spread_rounds=4, most_steps=12, num_updates=2),
}


@pytest.mark.parametrize("name", NAMES)
class TestRuns:
    def test_names(self, name):
        assert runner.as_sampler(name) == {"paper": fg.PaperHMC(), "gibbs": fg.Gibbs()}[name]

    @pytest.mark.slow
    def test_several_latent_functions(self, name):
        given, y = PROBLEMS["Softmax"]
        settings = {"num_samples": 40, "num_chains": 2, "progress": False}
        posterior = fg.sample(given, X, y, fit=crude_fit(given), sampler=SHORT[name], **settings)
        assert posterior.whitened.shape == (2, 40, 6, 3)
        assert np.isfinite(posterior.whitened).all()
        assert len(np.unique(posterior.free)) > 40

    @pytest.mark.slow
    def test_interrupted_and_resumed_is_bit_identical(self, name, tmp_path, monkeypatch):
        given, y = PROBLEMS["Bernoulli"]
        fit = crude_fit(given)
        settings = {"fit": fit, "sampler": SHORT[name], "num_samples": 40, "num_chains": 2, "seed": 3, "progress": False}
        monkeypatch.setattr(runner, "CHUNK", 10)
        whole = fg.sample(given, X, y, **settings)
        assert np.isfinite(whole.free).all()
        assert np.isfinite(whole.whitened).all()
        assert len(np.unique(whole.free)) > 20
        advance, calls = runner._advance, []

        def interrupted(*arguments):
            if len(calls) == 2:
                raise KeyboardInterrupt
            calls.append(advance(*arguments))

        with monkeypatch.context() as patch:
            patch.setattr(runner, "_advance", interrupted)
            with pytest.warns(UserWarning, match="interrupted after 20 of 40 draws a chain; fg.resume"):
                fg.sample(given, X, y, run_dir=tmp_path / "run", **settings)
        resumed = fg.resume(tmp_path / "run", progress=False)
        for draws in ("free", "whitened", "statistics"):
            for found, expected in zip(
                jax.tree.leaves(getattr(resumed, draws)), jax.tree.leaves(getattr(whole, draws)), strict=True
            ):
                np.testing.assert_array_equal(found, expected)

    def test_chains_are_tuned_apart(self, name):
        sampler, reports = SHORT[name], []
        target = target_of("Bernoulli")
        warm = sampler.warm_up(chain_mesh(2), target, chain_keys(2, KEY), 300, lambda *told: reports.append(told))
        assert warm.tunings.step_size.shape == warm.tunings.max_steps.shape == (2,)
        assert float(warm.tunings.step_size[0]) != float(warm.tunings.step_size[1])
        assert warm.tunings.max_steps.dtype == int
        assert len(reports) == 6
        assert reports[-1][0] == 300

    def test_no_warm_up_is_no_tuning(self, name):
        target = target_of("Bernoulli")
        warm = SHORT[name].warm_up(chain_mesh(2), target, chain_keys(2, KEY), 0, lambda *_: pytest.fail("nothing to tell"))
        np.testing.assert_array_equal(warm.tunings.step_size, 0.05)
        np.testing.assert_array_equal(warm.tunings.max_steps, 20)
