"""The number of inducing points, found by the fit; and what a fit says its points lose."""

import importlib
import itertools

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from reference import kernel_matrix, rbf, titsias_bound

import freegp as fg
from freegp.approximation.gaussian import site_bound
from freegp.approximation.growth import with_more_points
from freegp.approximation.problem import Problem
from freegp.sparsity import Sparsity

fit_module = importlib.import_module("freegp.approximation.fit")
RNG = np.random.default_rng(0)
X = np.sort(RNG.uniform(0, 10, (150, 1)), axis=0)
Y = np.sin(9.0 * X[:, 0]) + 0.1 * RNG.normal(size=150)
Z = np.linspace(0, 10, 8)[:, None]


def model(inducing, length=0.2, noise=0.02, **kwargs):
    return fg.SparseGP(fg.kernels.RBF(1.0, length), fg.likelihoods.Gaussian(noise), inducing=inducing, **kwargs)


@pytest.fixture(scope="module")
def found():
    return fg.fit_gaussian(model("auto", fixed=["kernel.variance"]), X, Y, progress=False)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    options = {"num_samples": 30, "num_warmup": 20, "num_chains": 2, "progress": False}
    return folder, fg.sample(model("auto", fixed=["kernel.variance"]), X, Y, run_dir=folder, **options)


@pytest.mark.slow
class TestSearch:
    def test_it_ends_where_the_loss_does_not_matter(self, found):
        assert 30 < found.model.num_inducing < 150
        assert not found.sparsity.matters
        assert found.sparsity.num_inducing == found.model.num_inducing
        assert found.status == "converged"

    def test_the_bound_is_nearly_that_of_all_the_data(self, found):
        full = fg.fit_gaussian(model(X, fixed=["kernel.variance"]), X, Y, train_inducing=False, progress=False)
        assert found.elbo == pytest.approx(full.elbo, abs=1.0)

    def test_it_says_how_it_came_there(self, found):
        assert "M = " in found.message
        assert "after 30" in found.message
        assert f"{found.model.num_inducing} inducing points lose about" in str(found)
        assert "raise M" not in str(found)

    def test_the_parameters_start_where_the_last_ones_ended_and_keep_their_priors(self, found):
        """Default priors have the first value as median; a second fit must not move them to the first fit's."""
        prepared = dict(model("auto", fixed=["kernel.variance"]).prepared(X).priors)
        assert dict(found.model.priors) == prepared

    def test_each_round_begins_no_lower_than_the_last_one_ended(self, monkeypatch):
        """The points stay and the parameters start where they were, so more points can only raise the bound."""
        fits = []

        def noted(*arguments):
            fits.append(fit_once(*arguments))
            return fits[-1]

        fit_once = fit_module._fit
        monkeypatch.setattr(fit_module, "_fit", noted)
        fg.fit_gaussian(model("auto", fixed=["kernel.variance"]), X, Y, progress=False)
        assert len(fits) > 1
        for (before, _), (after, _) in itertools.pairwise(fits):
            assert after.trace[0] > before.trace[-1]
            np.testing.assert_array_equal(after.model.inducing_inputs[: len(before.mean)], before.model.inducing_inputs)

    def test_never_more_than_allowed(self):
        fit = fg.fit_gaussian(model(fg.Automatic(most=12)), X, Y, progress=False)
        assert fit.model.num_inducing == 12
        assert "M = 12, the most there may be" in fit.message
        assert "raise M to about" in str(fit)

    @pytest.mark.slow
    def test_never_more_than_distinct_rows(self):
        twice = np.repeat(np.linspace(0, 10, 35)[:, None], 2, axis=0)
        rough = fg.SparseGP(fg.kernels.Matern12(1.0, 0.1), fg.likelihoods.Gaussian(0.01), inducing="auto", fixed=["kernel"])
        fit = fg.fit_gaussian(rough, twice, RNG.normal(size=70), progress=False)
        assert fit.model.num_inducing == 35
        np.testing.assert_allclose(np.sort(fit.model.inducing_inputs, axis=0), twice[::2])
        assert not fit.sparsity.matters

    def test_an_interruption_ends_the_search(self, monkeypatch):
        def interrupt(*_):
            raise KeyboardInterrupt

        monkeypatch.setattr("freegp.approximation.natural.position_slope", interrupt)
        with pytest.warns(UserWarning, match="interrupted"):
            fit = fg.fit_gaussian(model("auto"), X, Y, progress=False)
        assert fit.message.startswith("was interrupted")
        assert fit.model.num_inducing == 30

    def test_a_search_that_runs_out_says_so(self, monkeypatch):
        monkeypatch.setattr("freegp.approximation.fit.MOST_ROUNDS", 1)
        fit = fg.fit_gaussian(model("auto", fixed=["kernel", "likelihood"]), X, Y, train_inducing=False, progress=False)
        assert "M = 30, where the search ended" in fit.message
        assert fit.sparsity.matters

    def test_bad_words(self):
        with pytest.raises(TypeError, match="'auto'"):
            model("many")
        with pytest.raises(ValueError, match="most must be 1 or more"):
            fg.Automatic(most=0)


@pytest.mark.slow
@pytest.mark.slow
class TestRuns:
    def test_draws_are_of_the_points_that_were_found(self, run, found):
        folder, posterior = run
        assert posterior.model.num_inducing == posterior.whitened.shape[2] == found.model.num_inducing
        np.testing.assert_array_equal(fg.resume(folder, progress=False).whitened, posterior.whitened)

    def test_saved_and_loaded(self, run, found, tmp_path):
        run[1].save(tmp_path / "posterior.npz")
        assert fg.load(tmp_path / "posterior.npz").model.num_inducing == found.model.num_inducing
        found.save(tmp_path / "fit.npz")
        again = fg.load(tmp_path / "fit.npz")
        assert again.sparsity == found.sparsity
        assert isinstance(again.sparsity, Sparsity)
        assert str(again) == str(found)

    def test_the_nats_lost_stand_in_every_summary(self, run):
        posterior = run[1]
        lost = f"{posterior.sparsity.nats_lost:.2g}"
        assert f"inducing points lose about {lost} nats" in str(posterior)
        assert f"nats lost: {lost}" in posterior.summary().to_string()
        assert list(posterior.summary().columns) == ["mean", "sd", "mcse", "r_hat", "ess_bulk", "ess_tail"]


class TestMorePoints:
    def test_each_is_where_most_is_lost(self):
        weights = np.linspace(0.5, 2.0, 150)[:, None]
        grown = np.asarray(with_more_points(model(Z).prepared(X), X, weights, 11).inducing_inputs)
        np.testing.assert_array_equal(grown[:8], Z)
        kernel = rbf(1.0, 0.2)
        for size in (8, 9, 10):
            Kuu, Kuf = kernel_matrix(kernel, grown[:size], grown[:size]), kernel_matrix(kernel, grown[:size], X)
            gamma = 1.0 - np.sum(Kuf * np.linalg.solve(Kuu + 1e-6 * np.eye(size), Kuf), axis=0)
            np.testing.assert_array_equal(grown[size], X[np.argmax(weights[:, 0] * gamma)])

    def test_one_kernel_for_each_function(self):
        """Only the second function is seen, so points go where its own kernel leaves most unexplained."""
        kernels = [fg.kernels.RBF(1.0, length) for length in (5.0, 0.3, 5.0)]
        three = fg.SparseGP(kernels, fg.likelihoods.Softmax(3), inducing=Z).prepared(X)
        weights = np.zeros((150, 3))
        weights[:, 1] = 1.0
        alone = model(Z, length=0.3).prepared(X)
        np.testing.assert_array_equal(
            with_more_points(three, X, weights, 12).inducing_inputs,
            with_more_points(alone, X, weights[:, 1:2], 12).inducing_inputs,
        )

    def test_no_row_is_taken_twice(self):
        twice = np.repeat(np.linspace(0, 1, 6)[:, None], 3, axis=0)
        grown = with_more_points(model(twice[:1]).prepared(twice), twice, np.ones((18, 1)), 12)
        np.testing.assert_allclose(np.sort(grown.inducing_inputs, axis=0), np.linspace(0, 1, 6)[:, None])


class TestJudgement:
    def test_nats_lost_of_gaussian_noise_are_the_trace_term(self):
        """With the parameters held there is one place to look at, and 2 dE/dvariance = -1 / noise."""
        fit = fg.fit_gaussian(model(Z, 0.9, 0.4, fixed=["kernel", "likelihood"]), X, Y, train_inducing=False, progress=False)
        kernel = rbf(1.0, 0.9)
        Kuf = kernel_matrix(kernel, Z, X)
        gamma = 1.0 - np.sum(Kuf * np.linalg.solve(kernel_matrix(kernel, Z, Z) + 1e-6 * np.eye(8), Kuf), axis=0)
        assert fit.sparsity.nats_lost == pytest.approx(gamma.sum() / 0.8, rel=1e-6)
        assert fit.sparsity.shift == 0.0
        assert fit.elbo == pytest.approx(titsias_bound(kernel, Z, X, 0.4, Y, 1e-6), abs=1e-5)

    def test_the_shift_is_that_of_a_gaussian_belief_about_the_parameter(self):
        """One parameter: half the difference of the losses one standard deviation to either side."""
        few = Z[::2]  # so that the loss is far above the rounding errors of gamma
        fit = fg.fit_gaussian(
            model(few, 0.9, 0.4, fixed=["kernel.variance", "likelihood"]), X, Y, train_inducing=False, progress=False
        )
        problem = Problem(fit.model, jnp.asarray(X), jnp.asarray(Y), False)

        @eqx.filter_jit
        def objective(free):
            return site_bound(problem.at(free), problem.X, problem.y, fit.sites) + problem.log_prior(free)

        at = problem.start()
        low, middle, high = (float(objective(at + step)) for step in (-1e-3, 0.0, 1e-3))
        deviation = 1.0 / np.sqrt((2.0 * middle - low - high) / 1e-6)

        def lost(length):
            Kuf = kernel_matrix(rbf(1.0, length), few, X)
            Kuu = kernel_matrix(rbf(1.0, length), few, few) + 1e-6 * np.eye(len(few))
            return np.sum(1.0 - np.sum(Kuf * np.linalg.solve(Kuu, Kuf), axis=0)) / 0.8

        length = float(np.exp(at[0]))
        low, high = lost(length * np.exp(-deviation)), lost(length * np.exp(deviation))
        assert fit.sparsity.shift == pytest.approx(0.5 * abs(high - low), rel=1e-3)
        assert fit.sparsity.nats_lost == pytest.approx(0.5 * (high + low), rel=1e-3)

    def test_minibatches_look_at_the_estimates_alone(self):
        fit = fg.fit_gaussian(model(Z), X, Y, fg.NaturalGradient(batch_size=20, num_steps=20), progress=False)
        assert fit.sparsity.nats_lost > 1.0
        assert fit.sparsity.shift == 0.0
