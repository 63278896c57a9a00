"""Models whose parameters, functions and data are all drawn from what the model says of them."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

import freegp as fg
from freegp.numerics.stacks import whitening
from freegp.parameters import free_parameters, from_free, to_free, with_values
from freegp.target.projection import covariances, marginals, project_whitened

PRIORS = {"kernel.variance": fg.priors.LogNormal(0.0, 0.5), "kernel.lengthscales": fg.priors.LogNormal(0.0, 0.4)}
LIKELIHOODS = {
    "Bernoulli": (fg.likelihoods.Bernoulli(), {}),
    "Poisson": (fg.likelihoods.Poisson(), {}),
    "StudentT": (fg.likelihoods.StudentT(df=4.0, scale=0.5), {"likelihood.scale": fg.priors.LogNormal(-0.7, 0.4)}),
}
"""By name, with the priors of what they add."""


@dataclass(frozen=True)
class Truth:
    """What the data of a simulation came from."""

    free: np.ndarray
    whitened: np.ndarray
    y: np.ndarray


def full_model(name: str, X: np.ndarray) -> fg.SparseGP:
    """A full Gaussian process (Z = X), for which the target is the posterior itself."""
    likelihood, priors = LIKELIHOODS[name]
    model = fg.SparseGP(
        fg.kernels.Matern32(), likelihood, inducing=X, priors=PRIORS | priors, fixed=["likelihood.df"][: name == "StudentT"]
    )
    return model.prepared(X)


def draw_free(model: fg.SparseGP, key: PRNGKeyArray) -> Float[Array, " T"]:
    """Parameters from their priors, in free coordinates."""
    values = {}
    for number, parameter in enumerate(free_parameters(model)):
        distribution = parameter.prior.distribution()
        values[parameter.path] = distribution.sample(jax.random.fold_in(key, number), parameter.shape)
    return to_free(with_values(model, values))


def draw_data(model: fg.SparseGP, X: Array, free: Array, whitened: Array, key: PRNGKeyArray) -> Float[Array, " N"]:
    """Observations given parameters and values: of the function the inducing values leave, and its noise."""
    at = from_free(model, free)
    mean, variance = marginals(at, project_whitened(whitening(covariances(at)), whitened), X)
    key_f, key_y = jax.random.split(key)
    f = mean + jnp.sqrt(variance) * jax.random.normal(key_f, mean.shape)
    return at.likelihood.sample(key_y, f)


def draw_truth(model: fg.SparseGP, X: np.ndarray, seed: int) -> Truth:
    """Parameters, values and data, one after another."""
    keys = jax.random.split(jax.random.key(seed), 3)
    free = draw_free(model, keys[0])
    whitened = jax.random.normal(keys[1], (model.num_inducing, model.num_latents))
    y = draw_data(model, jnp.asarray(X), free, whitened, keys[2])
    return Truth(*(np.asarray(array, dtype=float) for array in (free, whitened, y)))
