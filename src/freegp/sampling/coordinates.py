"""Coordinates in which the target is nearly N(0, I): the site transform.

Freeze the sites of the Gaussian approximation. At any theta they give a Gaussian ``N(S b, S)`` of v with ``S^-1 = I + W``, and so
an exact change of variables ``v = L^-T (L^-1 b + z)`` with ``L L^T = I + W``, ``log |dv/dz| = -sum log diag L``, in O(M^3) and
nothing in N. Parameters are ``theta = location + factor zeta``. Whatever the sites, the answer is the same; their quality sets
the speed.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from freegp.approximation.gaussian import Sites
from freegp.model import SparseGP
from freegp.numerics.linalg import inverse_cholesky
from freegp.parameters import from_free, log_jacobian, log_prior
from freegp.target.log_density import data_term
from freegp.target.projection import covariances, project_whitened, whitening

TUNED = ("location", "factor", "z_location", "z_scale")


class Place(eqx.Module):
    """Where a position is, in terms of the model: theta in free coordinates, v, z before its scale is taken out, the volume."""

    free: Float[Array, " T"]
    whitened: Float[Array, "M P"]
    standardized: Float[Array, "M C"]
    log_volume: Float[Array, ""]


class SiteCoordinates(eqx.Module):
    """The target as a density of ``x = (z, zeta)``.

    Latent functions are first mixed, ``v = w mixing`` with orthonormal rows: for a likelihood that does not change when all
    latents are shifted together, and a shared kernel, the mode common to all of them is exactly its prior, is left out of x
    and drawn afresh (``common``).
    """

    model: SparseGP
    X: Float[Array, "N D"]
    y: Float[Array, " N"]
    sites: Sites
    mixing: Float[Array, "C P"]
    common: Float[Array, " P"]
    location: Float[Array, " T"]
    factor: Float[Array, "T T"]
    z_location: Float[Array, "M C"]
    z_scale: Float[Array, "M C"]

    @property
    def num_dimensions(self) -> int:
        """Length of x."""
        return self.z_scale.size + self.location.size

    def log_density(self, x: Float[Array, " X"]) -> Float[Array, ""]:
        """Log density of x, up to the target's own constant."""
        z, zeta = self._split(x)
        free = self.location + self.factor @ zeta
        at = from_free(self.model, free)
        Kuu = covariances(at)
        inverse_factors = whitening(Kuu)
        w, log_determinant = self._unstandardize(Kuu, inverse_factors, self.z_location + self.z_scale * z)
        data = data_term(at, project_whitened(inverse_factors, w @ self.mixing), self.X, self.y)
        prior = -0.5 * jnp.sum(jnp.square(w)) - 0.5 * w.size * jnp.log(2.0 * jnp.pi)
        theta = log_prior(self.model, free) + log_jacobian(self.model, free)
        return data + prior + theta + log_determinant + self._log_scale()

    def place(self, x: Float[Array, " X"], key: PRNGKeyArray) -> Place:
        """What x means; the key is for the common mode."""
        z, zeta = self._split(x)
        free = self.location + self.factor @ zeta
        Kuu = covariances(from_free(self.model, free))
        standardized = self.z_location + self.z_scale * z
        w, log_determinant = self._unstandardize(Kuu, whitening(Kuu), standardized)
        shared = jax.random.normal(key, (w.shape[0], 1)) * self.common
        return Place(free, w @ self.mixing + shared, standardized, log_determinant + self._log_scale())

    def position(self, place: Place) -> Float[Array, " X"]:
        """The x of a place (the common mode forgotten)."""
        zeta = jnp.linalg.solve(self.factor, place.free - self.location)
        return jnp.concatenate([((place.standardized - self.z_location) / self.z_scale).ravel(), zeta])

    def rescaled(self, free: Float[Array, "S T"], standardized: Float[Array, "S M C"]) -> "SiteCoordinates":
        """The same target with location and scale of x taken from draws: dense in theta, a scale for each z."""
        spread = jnp.std(standardized, axis=0)
        weight = standardized.shape[0] / (standardized.shape[0] + 10.0)
        z_scale = jnp.exp(weight * jnp.log(jnp.maximum(spread, 1e-3)))
        z_location = weight * jnp.mean(standardized, axis=0)
        theta = {"location": jnp.mean(free, axis=0), "factor": _factor_of_draws(free, self.factor)}
        return self.with_tuned(theta | {"z_location": z_location, "z_scale": z_scale})

    def tuned(self) -> dict[str, Array]:
        """What warm-up settles, by name."""
        return {name: getattr(self, name) for name in TUNED}

    def with_tuned(self, values: dict[str, Array]) -> "SiteCoordinates":
        """The same target with other values of what warm-up settles."""
        return eqx.tree_at(lambda c: [getattr(c, name) for name in TUNED], self, [values[name] for name in TUNED])

    def _log_scale(self) -> Float[Array, ""]:
        return jnp.sum(jnp.log(self.z_scale)) + jnp.linalg.slogdet(self.factor)[1]

    def _split(self, x: Float[Array, " X"]) -> tuple[Array, Array]:
        return x[: self.z_scale.size].reshape(self.z_scale.shape), x[self.z_scale.size :]

    def _unstandardize(self, Kuu: Array, inverse_factors: Array, z: Float[Array, "M C"]) -> tuple[Array, Array]:
        """``w = L^-T (L^-1 b + z)`` of each latent, and the log-determinant."""
        moved = self.sites.moved_to(Kuu, inverse_factors)
        inverse = jax.vmap(inverse_cholesky)(jnp.eye(z.shape[0]) + moved.precision)
        shifted = jnp.einsum("cab,bc->ac", inverse, moved.linear) + z
        w = jnp.einsum("cab,ac->bc", inverse, shifted)
        return w, jnp.sum(jnp.log(jnp.diagonal(inverse, axis1=-2, axis2=-1)))


def _factor_of_draws(free: Float[Array, "S T"], fallback: Float[Array, "T T"]) -> Float[Array, "T T"]:
    """Cholesky factor of the draws' covariance, shrunk a little towards the present one."""
    num_draws, T = free.shape
    if T == 0:
        return fallback
    centred = free - jnp.mean(free, axis=0)
    covariance = centred.T @ centred / num_draws
    weight = num_draws / (num_draws + 5.0 + T)
    factor = jnp.linalg.cholesky(weight * covariance + (1.0 - weight) * fallback @ fallback.T)
    return jnp.where(jnp.all(jnp.isfinite(factor)), factor, fallback)


def positive_sites(sites: Sites) -> Sites:
    """The sites with the precision's negative eigenvalues set to zero, as the transform must have at every theta."""
    values, vectors = jnp.linalg.eigh(sites.precision)
    precision = (vectors * jnp.maximum(values, 0.0)[:, None, :]) @ jnp.swapaxes(vectors, -1, -2)
    mean = sites.gaussian().mean
    linear = mean + jnp.einsum("pab,bp->ap", precision, mean)  # b = (I + W) m keeps the mean
    return Sites(sites.inverse_factors, precision, linear)


def contrasts(num_latents: int) -> tuple[np.ndarray, np.ndarray]:
    """An orthonormal basis of what differs between latents ``[P-1, P]`` and the direction common to all ``[P]``."""
    basis, _ = np.linalg.qr(np.concatenate([np.ones((num_latents, 1)), np.eye(num_latents)[:, 1:]], axis=1))
    return basis[:, 1:].T, np.full(num_latents, 1.0 / np.sqrt(num_latents))
