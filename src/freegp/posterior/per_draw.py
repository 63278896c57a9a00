"""What each draw says of inputs: compiled, and mapped over a few draws at a time so that memory stays bounded."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from freegp.likelihoods import Likelihood
from freegp.model import SparseGP
from freegp.numerics.normal import ndtr
from freegp.numerics.stacks import whitening
from freegp.observations import draw_around
from freegp.parameters import free_parameters, from_free, get_value
from freegp.sparsity import curvature_and_loss
from freegp.target.projection import conditional, covariances, marginals, project_whitened

Moments = Callable[[Likelihood, Array, Array], tuple[Array, Array]]


def latent_moments(likelihood: Likelihood, mean: Array, variance: Array) -> tuple[Array, Array]:
    """Of the latents themselves."""
    return mean, variance


def target_moments(likelihood: Likelihood, mean: Array, variance: Array) -> tuple[Array, Array]:
    """Of observations."""
    return likelihood.predict_y(mean, variance)


def natural(model: SparseGP, free: Float[Array, " T"]) -> dict[str, Array]:
    """Parameters in natural units, by path."""
    at = from_free(model, free)
    return {p.path: get_value(at, p.path) for p in free_parameters(model)}


def _at_draw(model: SparseGP, X: Array, free: Array, whitened: Array) -> tuple[SparseGP, Array, Array]:
    """The model at a draw, and mean and variance of the latents at X."""
    at = from_free(model, free)
    mean, variance = marginals(at, project_whitened(whitening(covariances(at)), whitened), X)
    return at, mean, variance


@eqx.filter_jit
def marginals_of_draws(model: SparseGP, X: Array, free: Array, whitened: Array) -> tuple[Array, Array]:
    """Mean and variance of the latents at X under each draw."""
    return jax.lax.map(lambda draw: _at_draw(model, X, *draw)[1:], (free, whitened))


@eqx.filter_jit
def moments_of_draws(moments: Moments, model: SparseGP, X: Array, free: Array, whitened: Array) -> tuple[Array, Array]:
    """Of what is asked for, at X, under each draw."""

    def one(draw: tuple[Array, Array]) -> tuple[Array, Array]:
        at, mean, variance = _at_draw(model, X, *draw)
        return moments(at.likelihood, mean, variance)

    return jax.lax.map(one, (free, whitened))


@eqx.filter_jit
def draw_observations(model: SparseGP, X: Array, free: Array, whitened: Array, keys: Array, each: int) -> Float[Array, "S R N"]:
    """So many observations under each draw."""

    def one(draw: tuple[Array, Array, Array]) -> Array:
        at, mean, variance = _at_draw(model, X, *draw[:2])
        return draw_around(at.likelihood, mean, variance, draw[2], each)

    return jax.lax.map(one, (free, whitened, keys))


@eqx.filter_jit
def log_density_of_draws(model: SparseGP, X: Array, y: Array, free: Array, whitened: Array) -> Float[Array, "S N"]:
    """Log predictive density of each observation under each draw."""

    def one(draw: tuple[Array, Array]) -> Array:
        at, mean, variance = _at_draw(model, X, *draw)
        return at.likelihood.predict_log_density(mean, variance, y)

    return jax.lax.map(one, (free, whitened))


@eqx.filter_jit
def pointwise_of_draws(model: SparseGP, X: Array, y: Array, free: Array, whitened: Array) -> tuple[Array, Array]:
    """Expected log likelihood and log predictive density of each observation under each draw."""

    def one(draw: tuple[Array, Array]) -> tuple[Array, Array]:
        at, mean, variance = _at_draw(model, X, *draw)
        density = at.likelihood.predict_log_density(mean, variance, y)
        return at.likelihood.expected_log_prob(mean, variance, y), density

    return jax.lax.map(one, (free, whitened))


@eqx.filter_jit
def sparsity_of_draws(model: SparseGP, X: Array, y: Array, free: Array, whitened: Array) -> tuple[Array, Array]:
    """Curvature of each datum and latent, averaged over draws, and the nats each draw loses."""

    def add(total: Array, draw: tuple[Array, Array]) -> tuple[Array, Array]:
        at = from_free(model, draw[0])
        inverse_factors = whitening(covariances(at))
        curvature, loss = curvature_and_loss(at, inverse_factors, project_whitened(inverse_factors, draw[1]), X, y)
        return total + curvature / free.shape[0], jnp.sum(loss)

    return jax.lax.scan(add, jnp.zeros((X.shape[0], model.num_latents)), (free, whitened))


@jax.jit
def mixture_quantiles(levels: Float[Array, " Q"], mean: Float[Array, "S N P"], deviation: Float[Array, "S N P"]) -> Array:
    """Quantiles of an equal mixture of Gaussians, by bisection."""

    def of_level(level: Array) -> Array:
        def halve(_: int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
            low, high = ends
            middle = 0.5 * (low + high)
            below = jnp.mean(ndtr((middle - mean) / jnp.maximum(deviation, 1e-12)), axis=0) < level
            return jnp.where(below, middle, low), jnp.where(below, high, middle)

        ends = jnp.min(mean - 9.0 * deviation, axis=0), jnp.max(mean + 9.0 * deviation, axis=0)
        low, high = jax.lax.fori_loop(0, 50, halve, ends)
        return 0.5 * (low + high)

    return jax.lax.map(of_level, levels)


@eqx.filter_jit
def draw_f(model: SparseGP, Xs: Array, free: Array, whitened: Array, keys: Array) -> Float[Array, "S N P"]:
    """A joint draw of the latents at Xs under each draw."""

    def one(draw: tuple[Array, Array, Array]) -> Array:
        free, whitened, key = draw
        at = from_free(model, free)
        inverse_factors = whitening(covariances(at))
        projection = project_whitened(inverse_factors, whitened)
        mean, _ = marginals(at, projection, Xs)
        rests = [conditional(at, kernel, inverse, Xs)[1] for kernel, inverse in zip(at.kernels, inverse_factors, strict=True)]
        factors = jnp.linalg.cholesky(jnp.stack(rests))
        noise = jax.random.normal(key, mean.shape)
        return mean + jnp.einsum("pab,bp->ap", jnp.broadcast_to(factors, (mean.shape[1], *factors.shape[1:])), noise)

    return jax.lax.map(one, (free, whitened, keys))


@eqx.filter_jit
def draw_y(model: SparseGP, free: Array, f: Float[Array, "S N P"], keys: Array) -> Float[Array, "S N"]:
    """Observations of latents drawn."""
    return jax.lax.map(lambda draw: from_free(model, draw[0]).likelihood.sample(draw[2], draw[1]), (free, f, keys))
