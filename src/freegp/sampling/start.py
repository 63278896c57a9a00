"""From a Gaussian approximation to the coordinates that are sampled."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from freegp.approximation import GaussianFit
from freegp.approximation.curvature import parameter_factor
from freegp.approximation.gaussian import Sites
from freegp.approximation.problem import Problem
from freegp.inducing import Inputs
from freegp.model import SparseGP
from freegp.numerics.linalg import forms, symmetrize
from freegp.numerics.stacks import around, transposed, whitening
from freegp.parameters import to_free
from freegp.sampling.coordinates import SiteCoordinates, contrasts, unwhitened
from freegp.target.blocks import per_datum_part, streamed_sum
from freegp.target.projection import covariances, marginals, project_gaussian, to_weights


def site_coordinates(fit: GaussianFit, X: Float[Array, "N D"], y: Float[Array, " N"]) -> SiteCoordinates:
    """Coordinates around the fit; the common mode of several classes is split off where it is its prior."""
    factor = jnp.asarray(parameter_factor(Problem(fit.model, X, y, False), fit.sites))
    inputs = fit.model.with_known(X)
    return _site_coordinates(fit.model, fit.mean, fit.covariance, fit.sites, factor, X, inputs, y)


@eqx.filter_jit
def _site_coordinates(
    model: SparseGP,
    mean: Float[Array, "M P"],
    covariance: Float[Array, "P M M"],
    sites: Sites,
    factor: Float[Array, "T T"],
    X: Float[Array, "N D"],
    inputs: Float[Array, "N D"] | Inputs,
    y: Float[Array, " N"],
) -> SiteCoordinates:
    P = model.num_latents
    if model.likelihood.ignores_common_shift and len(model.kernels) == 1:
        mixing, common = (jnp.asarray(part) for part in contrasts(P))
        sites = _contrast_sites(model, mean, covariance, X, y, mixing)
    else:
        mixing, common = jnp.eye(P), jnp.zeros(P)
    shape = (model.num_inducing, mixing.shape[0])
    site_gaussian = unwhitened(sites, covariances(model))
    tuned = (to_free(model), factor, jnp.ones(()), jnp.zeros(shape), jnp.ones(shape))
    return SiteCoordinates(model, inputs, y, *site_gaussian, mixing, common, *tuned)


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
        basis = model.placed.basis(model.kernels[0], X_block)
        curvature = jax.lax.stop_gradient(jnp.maximum(-jnp.stack(along), 0.0))
        _, quadratic = jax.vmap(forms, in_axes=(None, 0, None))(jnp.zeros((basis.shape[0], 0)), precision, basis)
        return jnp.sum(curvature * quadratic, axis=0)

    zero = jnp.zeros((mixing.shape[0], mean.shape[0], mean.shape[0]))
    rows = (X, y, per_datum_part(model.likelihood))
    curvature = jax.grad(lambda precision: streamed_sum(weighted, precision, rows, model.rows_at_once))(zero)
    precision = symmetrize(around(transposed(to_weights(inverse_factors)), curvature))
    mixed = mean @ mixing.T
    return Sites(inverse_factors, precision, mixed + jnp.einsum("cab,bc->ac", precision, mixed))
