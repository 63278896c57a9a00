import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats

import freegp as fg
from freegp.parameters import free_parameters, from_free, get_value, log_jacobian, log_prior, to_free, with_values

# A model with every kind of constraint: positive (scalar and vector), bounded, ordered, bounded by its prior.
MODELS = {
    "positive": fg.SparseGP(
        fg.kernels.RBF(0.7, [1.0, 2.0]) + fg.kernels.White(1e-6),
        fg.likelihoods.StudentT(0.3, 5.0),
        inducing=3,
        priors={"kernel.members.0.lengthscales": fg.priors.Gamma(1.75, 1.0), "likelihood.df": fg.priors.Gamma(2.0, 0.1)},
        fixed=["kernel.members.1"],
    ),
    "bounded": fg.SparseGP(
        fg.kernels.RBF(0.7, 0.4),
        fg.likelihoods.RobustMax(3, 0.01),
        inducing=3,
        priors={"likelihood.epsilon": fg.priors.Beta(1.0, 20.0), "kernel.lengthscales": fg.priors.Uniform(0.1, 3.0)},
    ),
    "ordered": fg.SparseGP(fg.kernels.Matern32(), fg.likelihoods.Ordinal(4), inducing=3),
    "one kernel each": fg.SparseGP(
        [fg.kernels.RBF(), fg.kernels.Matern12(2.0)], fg.likelihoods.Softmax(2), inducing=3, fixed="kernel.0"
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_there_and_back(name):
    model = MODELS[name]
    free = to_free(model)
    moved = from_free(model.prepared(np.zeros((3, 1)) + np.arange(3.0)[:, None]), free)
    for path, value in model.parameter_values().items():
        np.testing.assert_allclose(get_value(moved, path), value, rtol=1e-12)
    assert free.size == sum(p.size for p in free_parameters(model))


@pytest.mark.parametrize("name", MODELS)
def test_jacobian_is_the_numerical_one(name):
    model = MODELS[name].prepared(np.arange(3.0)[:, None])
    free = to_free(model) + 0.3

    def natural(free):
        moved = from_free(model, free)
        return jnp.concatenate([jnp.ravel(get_value(moved, p.path)) for p in free_parameters(model)])

    _, expected = np.linalg.slogdet(jax.jacfwd(natural)(free))
    np.testing.assert_allclose(log_jacobian(model, free), expected, rtol=1e-10)


def test_prior_density_is_scipys():
    model = MODELS["positive"].prepared(np.arange(6.0).reshape(3, 2))
    expected = (
        stats.gamma.logpdf([1.0, 2.0], 1.75).sum()
        + stats.gamma.logpdf(5.0, 2.0, scale=10.0)
        + stats.lognorm.logpdf(0.7, 1.5, scale=0.7)
        + stats.lognorm.logpdf(0.3, 1.5, scale=0.3)
    )
    np.testing.assert_allclose(log_prior(model, to_free(model)), expected, rtol=1e-10)


def test_defaults_stay_where_they_were_when_values_move():
    model = fg.SparseGP(fg.kernels.RBF(2.0, 3.0), fg.likelihoods.Bernoulli(), inducing=2).prepared(np.arange(3.0)[:, None])
    moved = with_values(model, {"kernel.variance": jnp.asarray(9.0)})
    assert dict(moved.priors)["kernel.variance"] == fg.priors.LogNormal(np.log(2.0), 1.5)


def test_held_parameters_move_only_with_a_prior():
    held = fg.SparseGP(fg.kernels.RBF(), fg.likelihoods.RobustMax(3), inducing=3)
    assert "likelihood.epsilon" not in [p.path for p in free_parameters(held)]
    assert "likelihood.epsilon" in [p.path for p in free_parameters(MODELS["bounded"])]


def test_a_uniform_prior_keeps_the_parameter_inside():
    model = MODELS["bounded"].prepared(np.arange(3.0)[:, None])
    for shift in (-40.0, 40.0):
        assert 0.1 <= float(get_value(from_free(model, to_free(model) + shift), "kernel.lengthscales")) <= 3.0


def test_gradient_through_free_coordinates():
    model = MODELS["ordered"].prepared(np.arange(3.0)[:, None])
    free = to_free(model)
    slope = jax.grad(lambda f: log_prior(model, f) + log_jacobian(model, f))(free)
    for i in range(free.size):
        step = 1e-5 * np.eye(free.size)[i]
        high, low = (log_prior(model, free + s) + log_jacobian(model, free + s) for s in (step, -step))
        np.testing.assert_allclose(slope[i], (high - low) / 2e-5, atol=1e-6)


def test_numpyro_distributions_are_taken_too():
    given = {"kernel.variance": dist.Gamma(2.0, 3.0), "kernel.lengthscales": dist.StudentT(4.0, 0.0, 1.0)}
    model = fg.SparseGP(fg.kernels.RBF(), fg.likelihoods.Bernoulli(), inducing=2, priors=given)
    assert dict(model.priors)["kernel.variance"] == fg.priors.Gamma(2.0, 3.0)
    assert dict(model.priors)["kernel.lengthscales"] == fg.priors.StudentT(4.0, 0.0, 1.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"priors": {"kernel.lengthscale": fg.priors.Gamma(1.0, 1.0)}}, "did you mean 'kernel.lengthscales'"),
        ({"fixed": ["noise"]}, "no parameter 'noise'; it has kernel.variance"),
        ({"fixed": ["kernel.variance"], "priors": {"kernel.variance": fg.priors.Gamma(1.0, 1.0)}}, "fixed and has a prior"),
        ({"priors": {"kernel.variance": 3.0}}, "fg.priors"),
        ({"jitter": 0.0}, "positive"),
        ({"inducing": 0}, "1 or more"),
        ({"inducing": "many"}, "number of points"),
        ({"inducing": np.zeros(3)}, r"Z\[:, None\]"),
        ({"likelihood": "Poisson"}, "fg.likelihoods"),
        ({"kernel": ["RBF"]}, "fg.kernels"),
        ({"kernel": [fg.kernels.RBF()] * 2}, "2 kernels were given for 1"),
    ],
)
def test_bad_models_are_one_sentence(arguments, message):
    usual = {"kernel": fg.kernels.RBF(), "likelihood": fg.likelihoods.Bernoulli(), "inducing": 2}
    with pytest.raises((ValueError, TypeError), match=message):
        fg.SparseGP(**(usual | arguments))


@pytest.mark.parametrize(
    ("prior", "message"),
    [(fg.priors.Uniform(2.0, 3.0), "start it inside"), (fg.priors.Gamma([1.0, 2.0], 1.0), "give one, or one each")],
)
def test_priors_must_fit_their_parameters(prior, message):
    model = fg.SparseGP(fg.kernels.RBF(), fg.likelihoods.Bernoulli(), inducing=2, priors={"kernel.lengthscales": prior})
    with pytest.raises(ValueError, match=message):
        model.prepared(np.arange(3.0)[:, None])


def test_a_prior_with_a_bad_argument():
    with pytest.raises(ValueError, match=r"Gamma\(-1.0, 1.0\)"):
        fg.priors.Gamma(-1.0, 1.0)


def test_models_print_what_they_are():
    kernel = fg.kernels.RBF(2.0, [3.0, 0.25], active_dims=(0, 1)) + fg.kernels.White(1e-6)
    assert repr(kernel.members[0]) == "RBF(variance=2, lengthscales=[3, 0.25], active_dims=(0, 1))"
    model = fg.SparseGP(
        kernel,
        fg.likelihoods.Poisson(),
        inducing=20,
        priors={"kernel.members.0.variance": fg.priors.Gamma(1, 2)},
        fixed=["kernel.members.1"],
    )
    for part in ("kernel=Sum(members=(RBF(", "White(variance=1e-06)", "Poisson(exposure=1)", "inducing=KMeans(num_inducing=20)"):
        assert part in repr(model)
    assert "array of shape (30,)" in repr(fg.likelihoods.Poisson(exposure=np.ones(30)))
