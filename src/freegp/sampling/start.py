"""From a Gaussian approximation to the coordinates that are sampled."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from freegp.approximation import GaussianFit
from freegp.approximation.gaussian import Sites
from freegp.approximation.natural import position_slope
from freegp.approximation.problem import Problem
from freegp.model import SparseGP
from freegp.numerics.linalg import quadratic_form, symmetrize
from freegp.parameters import to_free
from freegp.sampling.coordinates import SiteCoordinates, contrasts, unwhitened
from freegp.target.blocks import per_datum_part, streamed_sum
from freegp.target.projection import covariances, marginals, project_gaussian, whitening

FLATTEST = 1.0 / 9.0
"""Least curvature believed in any direction of theta: a standard deviation of 3 in free coordinates."""


MOST_DIRECTIONS = 100
NUM_PROBES = 20


def site_coordinates(fit: GaussianFit, X: Float[Array, "N D"], y: Float[Array, " N"]) -> SiteCoordinates:
    """Coordinates around the fit; the common mode of several classes is split off where it is its prior."""
    model, P = fit.model, fit.model.num_latents
    if model.likelihood.ignores_common_shift and len(model.kernels) == 1:
        mixing, common = (jnp.asarray(part) for part in contrasts(P))
        sites = _contrast_sites(model, fit.mean, fit.covariance, X, y, mixing)
    else:
        mixing, common, sites = jnp.eye(P), jnp.zeros(P), fit.sites
    shape = (model.num_inducing, mixing.shape[0])
    factor = _factor(Problem(model, X, y, False), fit.sites)
    site_gaussian = unwhitened(sites, covariances(model))
    tuned = (to_free(model), factor, jnp.ones(()), jnp.zeros(shape), jnp.ones(shape))
    return SiteCoordinates(model, X, y, *site_gaussian, mixing, common, *tuned)


def _factor(problem: Problem, sites: Sites) -> Float[Array, "T T"]:
    """Factor of the inverse Hessian, in theta, of the bound with the sites held; flat directions are given an end.

    It is found by differences of slopes; with very many parameters only its diagonal is, from a few random directions.
    """
    free = np.asarray(problem.start())
    if free.size == 0:
        return jnp.zeros((0, 0))

    def slope(at: np.ndarray) -> np.ndarray:
        return np.asarray(position_slope(problem, jnp.asarray(at), sites))

    def curvature(direction: np.ndarray) -> np.ndarray:
        return -(slope(free + 1e-3 * direction) - slope(free - 1e-3 * direction)) / 2e-3

    if free.size > MOST_DIRECTIONS:
        signs = np.random.default_rng(0).choice([-1.0, 1.0], (NUM_PROBES, free.size))
        diagonal = np.nan_to_num(np.mean([sign * curvature(sign) for sign in signs], axis=0), nan=1.0)
        return jnp.diag(jnp.asarray(1.0 / np.sqrt(np.maximum(diagonal, FLATTEST))))
    hessian = np.array([curvature(direction) for direction in np.eye(free.size)])
    hessian = np.where(np.isfinite(hessian), hessian, np.eye(free.size))
    values, vectors = np.linalg.eigh(0.5 * (hessian + hessian.T))
    return jnp.linalg.cholesky(jnp.asarray((vectors / np.maximum(values, FLATTEST)) @ vectors.T))


@eqx.filter_jit
def _contrast_sites(
    model: SparseGP, mean: Float[Array, "M P"], covariance: Float[Array, "P M M"], X: Array, y: Array, mixing: Float[Array, "C P"]
) -> Sites:
    """Sites of the contrasts: curvature of the expected log likelihood along each, at the fit, and the fit's mean."""
    inverse_factors = whitening(covariances(model))
    projection = project_gaussian(inverse_factors, mean, covariance)

    def weighted(precision: Float[Array, "C M M"], rows: PyTree) -> Array:
        X_block, y_block, per_datum = rows
        f_mean, f_variance = marginals(model, projection, X_block)
        likelihood = eqx.combine(per_datum, model.likelihood)
        slope = jax.grad(lambda m: jnp.sum(likelihood.expected_log_prob(m, f_variance, y_block)))
        along = [jax.jvp(slope, (f_mean,), (jnp.broadcast_to(q, f_mean.shape),))[1] @ q for q in mixing]
        Kuf = model.placed.Kuf(model.kernels[0], X_block)
        curvature = jax.lax.stop_gradient(jnp.maximum(-jnp.stack(along), 0.0))
        return jnp.sum(curvature * jax.vmap(quadratic_form, in_axes=(0, None))(precision, Kuf), axis=0)

    zero = jnp.zeros((mixing.shape[0], mean.shape[0], mean.shape[0]))
    rows = (X, y, per_datum_part(model.likelihood))
    curvature = jax.grad(lambda precision: streamed_sum(weighted, precision, rows, model.block_size))(zero)
    precision = symmetrize(inverse_factors @ curvature @ jnp.swapaxes(inverse_factors, -1, -2))
    mixed = mean @ mixing.T
    return Sites(inverse_factors, precision, mixed + jnp.einsum("cab,bc->ac", precision, mixed))
