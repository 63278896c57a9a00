"""From a Gaussian approximation to the coordinates that are sampled."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from freegp.approximation import GaussianFit
from freegp.approximation.gaussian import Sites, site_bound
from freegp.approximation.problem import Problem
from freegp.numerics.linalg import quadratic_form, symmetrize
from freegp.parameters import to_free
from freegp.sampling.coordinates import SiteCoordinates, contrasts, positive_sites
from freegp.target.blocks import per_datum_part, streamed_sum
from freegp.target.projection import covariances, marginals, project_gaussian, whitening

FLATTEST = 1.0 / 9.0
"""Least curvature believed in any direction of theta: a standard deviation of 3 in free coordinates."""


def site_coordinates(fit: GaussianFit, X: Float[Array, "N D"], y: Float[Array, " N"]) -> SiteCoordinates:
    """Coordinates around the fit; the common mode of several classes is split off where it is its prior."""
    model, P = fit.model, fit.model.num_latents
    if model.likelihood.ignores_common_shift and len(model.kernels) == 1:
        mixing, common = (jnp.asarray(part) for part in contrasts(P))
        sites = _contrast_sites(fit, X, y, mixing)
    else:
        mixing, common, sites = jnp.eye(P), jnp.zeros(P), positive_sites(fit.sites)
    shape = (model.num_inducing, mixing.shape[0])
    factor = _factor(Problem(model, X, y, False), fit.sites)
    return SiteCoordinates(model, X, y, sites, mixing, common, to_free(model), factor, jnp.zeros(shape), jnp.ones(shape))


def _factor(problem: Problem, sites: Sites) -> Float[Array, "T T"]:
    """Factor of the inverse Hessian, in theta, of the bound with the sites held; flat directions are given an end."""
    free = np.asarray(problem.start())
    slope = eqx.filter_jit(eqx.filter_grad(_held_objective))
    steps = 1e-3 * np.eye(free.size)
    rows = [
        np.asarray(slope(jnp.asarray(free + s), problem, sites) - slope(jnp.asarray(free - s), problem, sites)) for s in steps
    ]
    hessian = -np.asarray(rows).reshape(free.size, free.size) / 2e-3
    hessian = np.where(np.isfinite(hessian), hessian, np.eye(free.size))
    values, vectors = np.linalg.eigh(0.5 * (hessian + hessian.T))
    return jnp.linalg.cholesky(jnp.asarray((vectors / np.maximum(values, FLATTEST)) @ vectors.T))


def _held_objective(free: Float[Array, " T"], problem: Problem, sites: Sites) -> Float[Array, ""]:
    return site_bound(problem.at(free), problem.X, problem.y, sites) + problem.log_prior(free)


@eqx.filter_jit
def _contrast_sites(fit: GaussianFit, X: Array, y: Array, mixing: Float[Array, "C P"]) -> Sites:
    """Sites of the contrasts: curvature of the expected log likelihood along each, at the fit, and the fit's mean."""
    model = fit.model
    inverse_factors = whitening(covariances(model))
    projection = project_gaussian(inverse_factors, fit.mean, fit.covariance)

    def weighted(precision: Float[Array, "C M M"], rows: PyTree) -> Array:
        X_block, y_block, per_datum = rows
        mean, variance = marginals(model, projection, X_block)
        likelihood = eqx.combine(per_datum, model.likelihood)
        slope = jax.grad(lambda m: jnp.sum(likelihood.expected_log_prob(m, variance, y_block)))
        along = [jax.jvp(slope, (mean,), (jnp.broadcast_to(q, mean.shape),))[1] @ q for q in mixing]
        Kuf = model.placed.Kuf(model.kernels[0], X_block)
        curvature = jax.lax.stop_gradient(jnp.maximum(-jnp.stack(along), 0.0))
        return jnp.sum(curvature * jax.vmap(quadratic_form, in_axes=(0, None))(precision, Kuf), axis=0)

    zero = jnp.zeros((mixing.shape[0], fit.mean.shape[0], fit.mean.shape[0]))
    rows = (X, y, per_datum_part(model.likelihood))
    curvature = jax.grad(lambda precision: streamed_sum(weighted, precision, rows, model.block_size))(zero)
    precision = symmetrize(inverse_factors @ curvature @ jnp.swapaxes(inverse_factors, -1, -2))
    mean = fit.mean @ mixing.T
    return Sites(inverse_factors, precision, mean + jnp.einsum("cab,bc->ac", precision, mean))
