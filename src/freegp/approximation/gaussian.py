"""Gaussian approximations q(v) = N(m, S) of the whitened inducing values, and the bound they give.

A Gaussian is held by its mean and covariance, or by *sites*: a Gaussian factor of the inducing values u,
``q(u) ∝ p(u | theta) exp(h^T u - u^T Lambda u / 2)``, which follows theta where (m, S) would stay behind. The sites are kept
in whitened coordinates of the parameters at which they were found, ``W = R0^T Lambda R0`` and ``b = R0^T h``, because Lambda
itself is large where Kuu is nearly singular.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from freegp.model import SparseGP
from freegp.numerics.linalg import inverse_cholesky, symmetrize
from freegp.saving import registered
from freegp.target.log_density import data_term
from freegp.target.projection import covariances, project_gaussian, whitening


class Gaussian(eqx.Module):
    """q(v) of each latent function."""

    mean: Float[Array, "M P"]
    covariance: Float[Array, "P M M"]
    log_determinant: Float[Array, " P"]

    def divergence_from_prior(self) -> Float[Array, ""]:
        """``KL[q(v) || N(0, I)]``."""
        trace = jnp.trace(self.covariance, axis1=-2, axis2=-1)
        M, P = self.mean.shape
        return 0.5 * (jnp.sum(trace - self.log_determinant) + jnp.sum(jnp.square(self.mean)) - M * P)


@registered
class Sites(eqx.Module):
    """Gaussian factors of u, in coordinates whitened by ``inverse_factors`` = R0^-1."""

    inverse_factors: Float[Array, "K M M"]
    precision: Float[Array, "P M M"]
    linear: Float[Array, "M P"]

    def moved_to(self, Kuu: Float[Array, "K M M"], inverse_factors: Float[Array, "K M M"]) -> "Sites":
        """The same factors of u in the coordinates of another Kuu and its R^-1: ``C^T W C``, ``C^T b`` with ``C = R0^-1 R``."""
        change = self.inverse_factors @ Kuu @ jnp.swapaxes(inverse_factors, -1, -2)  # R = Kuu R^-T
        precision = symmetrize(jnp.swapaxes(change, -1, -2) @ self.precision @ change)
        change_each = jnp.broadcast_to(change, self.precision.shape)
        return Sites(inverse_factors, precision, jnp.einsum("pab,ap->bp", change_each, self.linear))

    def gaussian(self) -> Gaussian:
        """q(v) where the sites stand: ``S^-1 = I + W``, ``m = S b``."""
        inverse = jax.vmap(inverse_cholesky)(jnp.eye(self.linear.shape[0]) + self.precision)
        covariance = jnp.swapaxes(inverse, -1, -2) @ inverse
        mean = jnp.einsum("pab,bp->ap", covariance, self.linear)
        log_determinant = 2.0 * jnp.sum(jnp.log(jnp.diagonal(inverse, axis1=-2, axis2=-1)), axis=-1)
        return Gaussian(mean, covariance, log_determinant)

    def blended(self, other: "Sites", rate: float | Array) -> "Sites":
        """A step towards other sites in the same coordinates."""
        precision = (1.0 - rate) * self.precision + rate * other.precision
        return Sites(self.inverse_factors, precision, (1.0 - rate) * self.linear + rate * other.linear)


def sites_at(model: SparseGP, sites: Sites) -> Sites:
    """The same factors of u, in the coordinates of the model's parameters and inducing inputs."""
    Kuu = covariances(model)
    return sites.moved_to(Kuu, whitening(Kuu))


@eqx.filter_jit
def prior_sites(model: SparseGP) -> Sites:
    """Sites that say nothing: q(v) is the prior."""
    M, P = model.num_inducing, model.num_latents
    return Sites(whitening(covariances(model)), jnp.zeros((P, M, M)), jnp.zeros((M, P)))


@eqx.filter_jit
def sites_from_gaussian(model: SparseGP, mean: Float[Array, "M P"], covariance: Float[Array, "P M M"]) -> Sites:
    """The sites of a given q(v) at the model's parameters: ``W = S^-1 - I``, ``b = S^-1 m``."""
    inverse = jnp.linalg.inv(covariance)
    linear = jnp.einsum("pab,bp->ap", inverse, mean)
    return Sites(whitening(covariances(model)), symmetrize(inverse) - jnp.eye(mean.shape[0]), linear)


def bound(model: SparseGP, X: Float[Array, "N D"], y: Float[Array, " N"], q: Gaussian, scale: float = 1.0) -> Float[Array, ""]:
    """Lower bound on log p(y | theta): scaled expected log likelihood less the divergence from the prior."""
    projection = project_gaussian(whitening(covariances(model)), q.mean, q.covariance)
    return scale * data_term(model, projection, X, y) - q.divergence_from_prior()


def site_bound(
    model: SparseGP, X: Float[Array, "N D"], y: Float[Array, " N"], sites: Sites, scale: float = 1.0
) -> Float[Array, ""]:
    """The bound where q(u) has these sites, at whatever parameters and inducing inputs the model has."""
    return bound(model, X, y, sites_at(model, sites).gaussian(), scale)


def site_update(
    model: SparseGP,
    X: Float[Array, "N D"],
    y: Float[Array, " N"],
    sites: Sites,
    scale: float = 1.0,
    concave: bool = False,
) -> tuple[Float[Array, ""], Sites]:
    """The bound at the given sites, and the sites to which a full natural-gradient step leads.

    The sites must stand in the model's own coordinates (`sites_at`).
    With ``g_n = dE_n/dmean_n`` and ``w_n = -2 dE_n/dvariance_n`` a full step (rate 1) is ``W = sum_n w_n a_n a_n^T`` and
    ``b = sum_n (g_n + w_n mu_n) a_n``, where ``a_n = R^-1 k_n``. Both are gradients of the data term in its projection, so
    one streamed pass yields them: ``dE/dprecision = sum_n w_n k_n k_n^T / 2``, ``dE/dweights = sum_n g_n k_n``. With
    ``concave`` no w_n is below zero, and so W is positive semi-definite; the mean where steps come to rest is the same.
    """
    q = sites.gaussian()
    projection = project_gaussian(sites.inverse_factors, q.mean, q.covariance)
    value, slope = jax.value_and_grad(lambda p: scale * data_term(model, p, X, y, concave))(projection)
    curvature = 2.0 * slope.precision
    factors = jnp.broadcast_to(sites.inverse_factors, curvature.shape)
    linear = slope.weights + jnp.einsum("pab,bp->ap", curvature, projection.weights)
    precision = symmetrize(factors @ curvature @ jnp.swapaxes(factors, -1, -2))
    proposed = Sites(sites.inverse_factors, precision, jnp.einsum("pab,bp->ap", factors, linear))
    return value - q.divergence_from_prior(), proposed
