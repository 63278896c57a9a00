"""Gaussian approximations q(v) = N(m, S) of the whitened inducing values, and the bound they give.

A Gaussian is held by its mean and covariance, or by *sites*: a Gaussian factor of the inducing values u,
``q(u) ∝ p(u | theta) exp(h^T u - u^T Lambda u / 2)``, which follows theta where (m, S) would stay behind. The sites are kept
in whitened coordinates of the parameters at which they were found, ``W = R0^T Lambda R0`` and ``b = R0^T h``, because Lambda
itself is large where Kuu is nearly singular.
"""

from collections.abc import Callable
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from freegp.model import SparseGP
from freegp.numerics.linalg import inverse_cholesky, symmetrize
from freegp.numerics.stacks import Stack, around, gram, is_diagonal, plus, product, times, transposed, whitening
from freegp.saving import registered
from freegp.target.log_density import data_term
from freegp.target.projection import Projection, covariances, in_basis, project_gaussian, to_weights

AnySites = TypeVar("AnySites")


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

    inverse_factors: Stack
    precision: Float[Array, "P M M"]
    linear: Float[Array, "M P"]

    def moved_to(self, Kuu: Stack, inverse_factors: Stack) -> "Sites":
        """The same factors of u in the coordinates of another Kuu and its R^-1: ``C^T W C``, ``C^T b`` with ``C = R0^-1 R``."""
        change = product(self.inverse_factors, product(Kuu, transposed(inverse_factors)))  # R = Kuu R^-T
        precision = symmetrize(around(transposed(change), self.precision))
        return Sites(inverse_factors, precision, times(transposed(change), self.linear))

    def gaussian(self) -> Gaussian:
        """q(v) where the sites stand: ``S^-1 = I + W``, ``m = S b``."""
        inverse = jax.vmap(inverse_cholesky)(jnp.eye(self.linear.shape[0]) + self.precision)
        covariance = gram(inverse)
        mean = jnp.einsum("pab,bp->ap", covariance, self.linear)
        log_determinant = 2.0 * jnp.sum(jnp.log(jnp.diagonal(inverse, axis1=-2, axis2=-1)), axis=-1)
        return Gaussian(mean, covariance, log_determinant)

    def with_more(self, num_more: int) -> "Sites":
        """The same factors where there are more inducing points, of which they say nothing."""
        none, more = (0, 0), (0, num_more)
        inverse_factors = jnp.pad(self.inverse_factors, (none, more, more)).at[:, -num_more:, -num_more:].set(jnp.eye(num_more))
        return Sites(inverse_factors, jnp.pad(self.precision, (none, more, more)), jnp.pad(self.linear, (more, none)))

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


def site_bound(model: SparseGP, X: Float[Array, "N D"], y: Float[Array, " N"], sites: Sites) -> Float[Array, ""]:
    """The bound where q(u) has these sites, at whatever parameters and inducing inputs the model has."""
    here = sites_at(model, sites)
    return nudged_bound(model, X, y, here, no_nudge(here))[0]


def site_update(
    model: SparseGP,
    X: Float[Array, "N D"],
    y: Float[Array, " N"],
    sites: Sites,
) -> tuple[Float[Array, ""], Sites]:
    """The bound at the given sites, and the sites to which a full natural-gradient step leads.

    The sites must stand in the model's own coordinates (`sites_at`).
    """

    def value(nudge: Projection) -> tuple[Array, Projection]:
        return nudged_bound(model, X, y, sites, nudge)

    (at_sites, projection), slope = jax.value_and_grad(value, has_aux=True)(no_nudge(sites))
    return at_sites, proposed_sites(sites, projection, slope)


def nudged_bound(
    model: SparseGP,
    X: Float[Array, "N D"],
    y: Float[Array, " N"],
    sites: Sites,
    nudge: Projection,
) -> tuple[Float[Array, ""], Projection]:
    """The bound under the projection of the sites and a nudge to it, and the projection.

    The sites must stand in the model's own coordinates; as factors of u they are held. The slope in the nudge is what
    `proposed_sites` asks for; one pass over the data yields it beside the slope in the model.
    """
    Kuu = covariances(model)
    projection, divergence = _under_sites(Kuu, jax.lax.stop_gradient(sites))
    projection = jax.tree.map(jnp.add, in_basis(projection, Kuu), nudge)
    return data_term(model, projection, X, y) - divergence, projection


def held_as_factors(under: Callable[[Stack, AnySites], tuple[Projection, Array]]) -> Callable[..., tuple[Projection, Array]]:
    """A projection and a divergence from the prior, of Kuu and sites, with their slope in Kuu where the sites are factors of u.

    Held as factors of u, they make the precision ``B = (Kuu + Lambda^-1)^-1``, and so ``dB = -B dKuu B``, the weights
    ``w = B Lambda^-1 h``, ``dw = -B dKuu w``, and the divergence ``dKL = tr((B Kuu B + w w^T - 2 B Kuu w w^T) dKuu) / 2``.
    """

    def forward(Kuu: Stack, sites: AnySites) -> tuple[tuple[Projection, Array], tuple[Stack, Projection, AnySites]]:
        projection, divergence = under(Kuu, sites)
        return (projection, divergence), (Kuu, projection, sites)

    def backward(residuals: tuple[Stack, Projection, AnySites], cotangents: tuple[Projection, Array]) -> tuple[Stack, AnySites]:
        Kuu, projection, sites = residuals
        return _slope_in_covariances(Kuu, projection, cotangents), jax.tree.map(jnp.zeros_like, sites)

    held = jax.custom_vjp(under)
    held.defvjp(forward, backward)
    return held


def _slope_in_covariances(Kuu: Stack, projection: Projection, cotangents: tuple[Projection, Array]) -> Stack:
    w, B = projection.weights, projection.precision
    of_projection, of_divergence = cotangents
    left = times(B, of_projection.weights + of_divergence * times(Kuu, w)) - 0.5 * of_divergence * w
    inner = B @ plus(-0.5 * of_divergence * Kuu, symmetrize(of_projection.precision))
    if is_diagonal(Kuu):
        of_Kuu = -jnp.einsum("pab,pba->pa", inner, B) - (left * w).T
        return jnp.sum(of_Kuu, axis=0, keepdims=True) if Kuu.shape[0] == 1 else of_Kuu
    if Kuu.shape[0] == 1:
        return symmetrize(-jnp.einsum("pab,pbc->ac", inner, B) - left @ w.T)[None]
    return symmetrize(-inner @ B - jnp.einsum("ap,bp->pab", left, w))


@held_as_factors
def _under_sites(Kuu: Stack, sites: Sites) -> tuple[Projection, Float[Array, ""]]:
    """Projection for Kuf, and divergence from the prior, of the q(u) with these sites, which stand in coordinates of Kuu."""
    q = sites.gaussian()
    unwhitening = transposed(sites.inverse_factors)
    precision = around(unwhitening, jnp.eye(q.mean.shape[0]) - q.covariance)
    return Projection(times(unwhitening, q.mean), precision), q.divergence_from_prior()


def no_nudge(sites: Sites) -> Projection:
    """None at all."""
    return Projection(jnp.zeros_like(sites.linear), jnp.zeros_like(sites.precision))


def proposed_sites(sites: Sites, projection: Projection, slope: Projection) -> Sites:
    """The sites to which a full natural-gradient step leads, given the data term's slope in the projection.

    With ``g_n = dE_n/dmean_n`` and ``w_n = -2 dE_n/dvariance_n`` a full step (rate 1) is ``W = sum_n w_n a_n a_n^T`` and
    ``b = sum_n (g_n + w_n mu_n) a_n``, where ``a_n = R^-1 k_n``. Both are gradients of the data term in its projection:
    ``dE/dprecision = sum_n w_n k_n k_n^T / 2``, ``dE/dweights = sum_n g_n k_n``.
    """
    curvature = 2.0 * slope.precision
    whitening_basis = transposed(to_weights(sites.inverse_factors))
    linear = slope.weights + times(curvature, projection.weights)
    precision = symmetrize(around(whitening_basis, curvature))
    return Sites(sites.inverse_factors, precision, times(whitening_basis, linear))
