import jax.numpy as jnp
import numpy as np
import pytest
from reference import kernel_matrix, rbf

import freegp as fg
from freegp.approximation.words import loss_in_words
from freegp.diagnostics import diagnose
from freegp.numerics.stacks import whitening
from freegp.sparsity import Sparsity, _greedy_losses, curvature_and_loss, judge, suggested_size
from freegp.target.projection import covariances, project_whitened

X = np.sort(np.random.default_rng(0).uniform(0, 10, (60, 1)), axis=0)
Z = np.linspace(0, 10, 8)[:, None]


def losses(noise, length, Z=Z):
    """Curvature and loss with Gaussian noise, where they are 1 / noise and gamma / (2 noise) whatever the data."""
    model = fg.SparseGP(fg.kernels.RBF(1.3, length), fg.likelihoods.Gaussian(noise), inducing=Z).prepared(X)
    inverse_factors = whitening(covariances(model))
    projection = project_whitened(inverse_factors, jnp.zeros((len(Z), 1)))
    return model, *(np.asarray(a) for a in curvature_and_loss(model, inverse_factors, projection, jnp.asarray(X), jnp.zeros(60)))


def test_loss_of_gaussian_noise_is_the_trace_term_of_the_bound():
    _, curvature, loss = losses(0.4, 0.9)
    np.testing.assert_allclose(curvature, 1 / 0.4, rtol=1e-9)
    kernel = rbf(1.3, 0.9)
    Kuu = kernel_matrix(kernel, Z, Z) + 1e-6 * 1.3 * np.eye(8)
    Kuf = kernel_matrix(kernel, Z, X)
    gamma = 1.3 - np.sum(Kuf * np.linalg.solve(Kuu, Kuf), axis=0)
    np.testing.assert_allclose(loss[:, 0], gamma / 0.8, atol=1e-8)


def test_greedy_losses_are_those_of_the_points_chosen():
    kernel, weights = fg.kernels.RBF(1.3, 0.9), np.linspace(0.5, 2.0, 60)
    curve = np.fromiter(_greedy_losses(kernel, X, weights), float)
    K = np.asarray(kernel(X))
    assert curve[0] == pytest.approx(0.5 * weights.sum() * 1.3)
    chosen: list[int] = []
    for size in range(4):
        residual = np.diag(K) - np.sum(K[chosen] * np.linalg.solve(K[np.ix_(chosen, chosen)], K[chosen]), axis=0)
        assert curve[size] == pytest.approx(0.5 * weights @ residual, rel=1e-8)
        chosen.append(int(np.argmax(weights * residual)))
    assert (np.diff(curve) <= 1e-12).all()


def test_too_few_points_are_told_to_be_more_and_enough_are_let_pass():
    model, curvature, loss = losses(0.05, 0.7)
    rng = np.random.default_rng(1)
    free = rng.normal(size=(50, 3))
    found = judge(model, X, free, np.full(50, loss.sum()), curvature)
    assert found.matters
    assert found.suggested_inducing is not None
    assert 10 < found.suggested_inducing < 40
    enough = losses(0.05, 0.7, Z=np.linspace(0, 10, 30)[:, None])[2].sum()
    assert enough < 0.5
    assert not judge(model, X, free, np.full(50, enough), curvature).matters
    rough = fg.SparseGP(fg.kernels.Matern12(1.3, 0.01), fg.likelihoods.Gaussian(0.05), inducing=Z).prepared(X)
    assert suggested_size(rough, X, curvature) is None


def test_a_loss_that_goes_with_a_parameter_shifts_it():
    """With loss = a theta the posterior without it is exp(a theta) times this one: a Gaussian moves by a standard deviations."""
    model, curvature, _ = losses(0.05, 5.0)
    free = np.random.default_rng(2).normal(size=(4000, 3)) * [1.0, 2.0, 0.5]
    found = judge(model, X, free, 0.2 + 0.5 * free[:, 1] / 2.0, curvature)
    assert found.shift == pytest.approx(0.5, abs=0.05)
    assert found.matters


def test_the_verdict_says_so():
    draws = np.random.default_rng(0).normal(size=(4, 500, 1))
    plain = {"acceptance": 0.8, "divergences": 0, "nonfinite": 0, "energy": None}
    costs = {"seconds_sampling": 1.0, "seconds_total": 2.0, "gradients": 10}
    verdict = diagnose({"theta": draws}, **plain, **costs, sparsity=Sparsity(3.2, 0.9, 20, 41)).verdict
    assert "20 inducing points lose about 3.2 nats and move a parameter by about 0.9 sd: raise M to about 41" in verdict
    verdict = diagnose({"theta": draws}, **plain, **costs, sparsity=Sparsity(0.2, 0.1, 20, None)).verdict
    assert "raise M" not in verdict


def test_points_that_are_all_the_data_are_not_to_be_more():
    """What is lost then is the jitter's doing, however much it is."""
    X = np.linspace(0.0, 1.0, 6)[:, None]
    model = fg.SparseGP(fg.kernels.RBF(), fg.likelihoods.Gaussian(), inducing=X).prepared(X)
    free = np.random.default_rng(0).normal(size=(8, 3))
    found = judge(model, X, free, np.full(8, 3.0), np.ones((6, 1)))
    assert found.suggested_inducing == 6
    assert loss_in_words(found) == "6 inducing points lose about 3 nats, though they are all the data: lower the jitter"
