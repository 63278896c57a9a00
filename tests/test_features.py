import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference import numerical_gradient
from scipy import stats

import freegp as fg
from freegp.inducing import Inputs, lattice_of
from freegp.parameters import from_free, to_free
from freegp.sampling import alternating
from freegp.sampling.start import site_coordinates
from freegp.target.kept import keep, kept_data_term
from freegp.target.projection import unwhiten

RNG = np.random.default_rng(8)
X = RNG.uniform(-1, 1, (25, 1))
COUNTS = RNG.poisson(np.exp(np.sin(3 * X[:, 0]))).astype(float)
RBF, Constant, White = fg.kernels.RBF, fg.kernels.Constant, fg.kernels.White


def cox(inducing, kernel=None):
    return fg.SparseGP(kernel or RBF(0.8, 0.6) + Constant(0.5), fg.likelihoods.Poisson(), inducing)


@pytest.fixture(scope="module")
def fit():
    return fg.fit_gaussian(cox(fg.HilbertSpace(12, boundary=2.5)), X, COUNTS, progress=False)


@pytest.mark.parametrize(
    ("kernel", "num_columns", "accuracy"),
    [
        (RBF(1.3, 0.5), 1, 1e-9),
        (RBF(1.3, [0.8, 1.2]), 2, 1e-5),
        (fg.kernels.Matern12(1.0, 0.7), 1, 2e-2),
        (fg.kernels.Matern32(2.0, 0.7), 1, 1e-3),
        (fg.kernels.Matern52(2.0, 0.9), 2, 5e-3),
        (RBF(1.0, 0.9) + Constant(0.7), 2, 1e-5),
    ],
)
def test_many_features_on_a_wide_box_make_the_kernel(kernel, num_columns, accuracy):
    inputs = np.random.default_rng(0).uniform(-1, 1, (7, num_columns))
    corners = np.stack([-2.0 * np.ones(num_columns), 2.0 * np.ones(num_columns)])
    features = fg.HilbertSpace(200 if num_columns == 1 else 45, boundary=2.2).place(corners, 0)
    Kuf = features.Kuf(kernel, jnp.asarray(inputs))
    np.testing.assert_allclose(Kuf.T / features.Kuu(kernel) @ Kuf, kernel(inputs), atol=accuracy * float(kernel(inputs).max()))


def test_frequencies_fill_an_ellipsoid():
    features = fg.HilbertSpace((6, 3)).place(np.array([[0.0, 0.0], [1.0, 5.0]]), 0)
    numbers = np.asarray(features.numbers)
    assert numbers[0].tolist() == [0.0, 0.0]
    assert numbers.max(axis=0).tolist() == [6.0, 3.0]
    waves = {tuple(row) for row in numbers.tolist()}
    assert {(6.0, 1.0), (1.0, 3.0)} < waves
    assert (6.0, 3.0) not in waves
    np.testing.assert_allclose((features.low, features.high), [[-0.25, -1.25], [1.25, 6.25]])
    assert features.grown(2.0).num_inducing > 3 * features.num_inducing


def test_data_term_is_that_of_the_weights_and_of_what_is_left():
    model = cox(fg.HilbertSpace(5)).prepared(X)
    v = RNG.normal(size=(model.num_inducing, 1))
    features = model.inducing
    S, phi = np.asarray(features.Kuu(model.kernel)), np.asarray(features.features(jnp.asarray(X)))
    mean, variance = phi @ (np.sqrt(S) * v[:, 0]), 1.3 - np.square(phi) @ S
    expected = np.sum(stats.poisson.logpmf(COUNTS, 1.0) + COUNTS * mean - np.exp(mean + variance / 2) + 1.0)
    np.testing.assert_allclose(fg.expected_log_likelihood(model, X, COUNTS, v), expected, rtol=1e-10)


def test_slopes_are_right_with_features_kept():
    model = cox(fg.HilbertSpace(5)).prepared(X)
    free, v, y = to_free(model), jnp.asarray(RNG.normal(size=(model.num_inducing, 1))), jnp.asarray(COUNTS)
    kept = model.with_known(jnp.asarray(X))
    assert isinstance(kept, Inputs)

    def value(free, inputs=kept):
        return fg.log_density(model, inputs, y, free, v)

    np.testing.assert_allclose(value(free), value(free, jnp.asarray(X)), rtol=1e-12)
    np.testing.assert_allclose(jax.grad(value)(free), numerical_gradient(value, np.asarray(free)), rtol=1e-5)


def test_a_gaussian_likelihood_gives_the_exact_posterior():
    y = np.sin(3 * X[:, 0]) + 0.1 * RNG.normal(size=25)
    kernel = RBF(0.9, 0.5)
    model = fg.SparseGP(kernel, fg.likelihoods.Gaussian(0.01), fg.HilbertSpace(40, boundary=3.0), fixed=["kernel", "likelihood"])
    fit = fg.fit_gaussian(model, X, y, progress=False)
    Xs = np.linspace(-1, 1, 9)[:, None]
    solve = np.linalg.solve(np.asarray(kernel(X)) + 0.01 * np.eye(25), np.asarray(kernel(X, Xs)))
    mean, variance = fit.predict_f(Xs)
    np.testing.assert_allclose(mean[:, 0], solve.T @ y, atol=1e-6)
    np.testing.assert_allclose(variance[:, 0], 0.9 - np.sum(solve * np.asarray(kernel(X, Xs)), axis=0), atol=1e-6)


def test_bound_and_parameters_are_those_of_points(fit):
    points = fg.fit_gaussian(cox(X), X, COUNTS, train_inducing=False, progress=False)
    assert abs(fit.elbo - points.elbo) < 0.05
    for name, value in points.model.parameter_values().items():
        np.testing.assert_allclose(fit.model.parameter_values()[name], value, rtol=0.05)
    assert "inducing features lose" in str(fit)


@pytest.mark.parametrize("most_dense", [pytest.param(128, marks=pytest.mark.slow), 4])
def test_coordinates_hold_their_density(fit, most_dense, monkeypatch):
    monkeypatch.setattr("freegp.sampling.coordinates.MOST_DENSE", most_dense)
    jax.clear_caches()  # the number is in the compiled program
    y = jnp.asarray(COUNTS)
    target = site_coordinates(fit, jnp.asarray(X), y)
    assert target.site_precision.diagonal.shape[1] == max(0, fit.model.num_inducing - most_dense)
    x = 0.3 * RNG.normal(size=target.num_dimensions)
    place = target.place(x, jax.random.key(0))
    plain = fg.log_density(fit.model, jnp.asarray(X), y, place.free, place.whitened)
    np.testing.assert_allclose(target.log_density(x), plain + place.log_volume, rtol=1e-9)
    np.testing.assert_allclose(alternating.initial_state(target, jnp.asarray(x)).log_density, plain + place.log_volume, rtol=1e-9)
    np.testing.assert_allclose(target.position(place), x, atol=1e-6)
    gradient = jax.grad(target.log_density)(jnp.asarray(x))
    np.testing.assert_allclose(gradient, numerical_gradient(target.log_density, x), rtol=2e-4, atol=1e-5)


@pytest.mark.slow
def test_chains_on_features_and_on_points_agree(fit):
    posterior = fg.sample(fit.model, X, COUNTS, fit=fit, num_samples=1000, num_warmup=200, num_chains=2, progress=False)
    points = fg.sample(cox(fg.Grid(12)), X, COUNTS, num_samples=1000, num_warmup=200, num_chains=2, progress=False)
    for mine, other in zip(posterior.predict_f(X), points.predict_f(X), strict=True):
        np.testing.assert_allclose(mine, other, atol=0.08)
    drawn = posterior.sample_f(X[:3], 400)
    np.testing.assert_allclose(np.mean(drawn, axis=0), posterior.predict_f(X[:3])[0], atol=0.15)


def test_a_fit_is_saved_and_read(fit, tmp_path):
    fit.save(tmp_path / "fit.npz")
    again = fg.load(tmp_path / "fit.npz")
    np.testing.assert_array_equal(again.predict_f(X)[0], fit.predict_f(X)[0])
    assert eqx.tree_equal(again.model.inducing, fit.model.inducing)


class TestRefused:
    def test_outside_the_box(self, fit):
        with pytest.raises(ValueError, match="row 1 of Xs is outside the box of the features; give"):
            fit.predict_f([[0.0], [9.0]])

    def test_kernels_without_a_spectrum(self):
        with pytest.raises(ValueError, match=r"Linear has no spectral density here.*or use inducing points"):
            fg.fit_gaussian(cox(fg.HilbertSpace(5), fg.kernels.Linear()), X, COUNTS)
        kernel = RBF(active_dims=0)
        with pytest.raises(ValueError, match="RBF has no spectral density here"):
            fg.fit_gaussian(cox(fg.HilbertSpace(5), kernel), np.concatenate([X, X[::-1]], axis=1), COUNTS)

    def test_numbers_that_make_no_box(self):
        for num_waves, boundary in ((5, 0.9), (0, 1.5), (2.5, 1.5), ("many", 1.5), (5, np.nan)):
            with pytest.raises(ValueError, match="num_waves must be whole numbers, 1 or more, and boundary above 1"):
                fg.HilbertSpace(num_waves, boundary)
        with pytest.raises(ValueError, match="HilbertSpace has 2 counts for 1 input columns"):
            cox(fg.HilbertSpace((5, 5))).prepared(X)


def test_too_few_features_are_told():
    kernel = RBF(2.0, 0.1)
    model = fg.SparseGP(kernel, fg.likelihoods.Gaussian(0.01), fg.HilbertSpace(4), fixed=["kernel", "likelihood"])
    fit = fg.fit_gaussian(model, X, np.sin(20 * X[:, 0]), progress=False)
    assert fit.sparsity.matters
    enough = fg.fit_gaussian(model.with_inducing(fit.model.inducing.grown(3.0)), X, np.sin(20 * X[:, 0]), progress=False)
    assert fit.sparsity.suggested_inducing is None
    assert fit.model.num_inducing < enough.sparsity.suggested_inducing


class TestLattice:
    nodes = np.stack([axis.ravel() for axis in np.meshgrid([0.1, 0.4, 0.5, 1.0], [-1.0, 0.0, 2.0], indexing="ij")], axis=1)
    inputs = np.random.default_rng(1).permutation(nodes)[:9]
    counts = np.random.default_rng(2).poisson(1.5, 9).astype(float)

    def model(self):
        kernel = RBF(0.8, [0.6, 1.1]) + Constant(0.5)
        return fg.SparseGP(kernel, fg.likelihoods.Poisson(), fg.HilbertSpace((5, 4)), block_size=4).prepared(self.inputs)

    def test_sums_column_by_column_are_sums_over_features(self):
        features = self.model().inducing
        waves = lattice_of(features.with_known((), jnp.asarray(self.inputs)))
        phi, weights = np.asarray(features.features(jnp.asarray(self.inputs))), RNG.normal(size=(features.num_inducing, 2))
        np.testing.assert_allclose(waves.sum(weights), phi @ weights, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(waves.sum_of_squares(weights), phi**2 @ weights, rtol=1e-10, atol=1e-12)

    def test_density_and_slopes_are_those_of_rows(self):
        model, X, y = self.model(), jnp.asarray(self.inputs), jnp.asarray(self.counts)
        free, v = to_free(model), jnp.asarray(RNG.normal(size=(model.num_inducing, 1)))
        known = model.with_known(X)
        assert lattice_of(known) is not None

        def both(inputs):
            return jax.value_and_grad(lambda free, v: fg.log_density(model, inputs, y, free, v), argnums=(0, 1))(free, v)

        for got, expected in zip(jax.tree.leaves(both(known)), jax.tree.leaves(both(X)), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-10)
        at = from_free(model, free)
        kept, rows = keep(at, known), keep(at, X)
        np.testing.assert_allclose(kept.variance, rows.variance, rtol=1e-10)
        data = [kept_data_term(each, at.likelihood, unwhiten(each.inverse_factors, v), y, 4) for each in (kept, rows)]
        np.testing.assert_allclose(*data, rtol=1e-10)

    def test_scattered_inputs_and_single_columns_are_none(self):
        scattered = RNG.uniform(size=(20, 2))
        assert lattice_of(fg.HilbertSpace(4).place(scattered, 0).with_known((), jnp.asarray(scattered))) is None
        assert lattice_of(fg.HilbertSpace(4).place(X, 0).with_known((), jnp.asarray(X))) is None
