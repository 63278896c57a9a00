"""Coordinates in which the target is nearly N(0, I): the site transform.

Freeze the sites of the Gaussian approximation, ``exp(h^T u - u^T Lambda u / 2)``. At any theta they and the prior give a Gaussian
of u with precision ``H = Kuu^-1 + Lambda``, and so an exact change of variables ``u = L^-T (L^-1 h + z)`` with ``L L^T = H``,
``log |du/dz| = -log |H| / 2``, in O(M^3) and nothing in N. Where the data say much, u hardly moves with theta; where they say
little, v hardly does. Parameters are ``theta = location + factor zeta``. Whatever the sites, the answer is the same; their
quality sets the speed.
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from freegp.approximation.gaussian import Sites
from freegp.model import SparseGP
from freegp.numerics.linalg import from_standard, inverse_and_log_determinant, symmetrize
from freegp.parameters import from_free, log_jacobian, log_prior
from freegp.target.log_density import data_term
from freegp.target.projection import Projection, covariances, whitening

TUNED = ("location", "factor", "z_location", "z_scale")
SHARPEST = 1e12
"""Largest site precision, in units of the prior's smallest, for which H is still positive definite in double precision."""


class Place(eqx.Module):
    """Where a position is, in terms of the model: theta in free coordinates, v, z before its scale is taken out, the volume."""

    free: Float[Array, " T"]
    whitened: Float[Array, "M P"]
    standardized: Float[Array, "M C"]
    log_volume: Float[Array, ""]


class SiteCoordinates(eqx.Module):
    """The target as a density of ``x = (z, zeta)``.

    Latent functions are first mixed, ``u = w mixing`` with orthonormal rows: for a likelihood that does not change when all
    latents are shifted together, and a shared kernel, the mode common to all of them is exactly its prior, is left out of x
    and drawn afresh (``common``). ``site_precision`` and ``site_linear`` are Lambda and h of each of the C mixed functions.
    """

    model: SparseGP
    X: Float[Array, "N D"]
    y: Float[Array, " N"]
    site_precision: Float[Array, "C M M"]
    site_linear: Float[Array, "M C"]
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
        precision, log_determinant = jax.vmap(inverse_and_log_determinant)(covariances(at))
        w, log_volume = self._unstandardize(precision, log_determinant, self.z_location + self.z_scale * z)
        weights = _each(precision, w)
        data = data_term(at, Projection(weights @ self.mixing, precision), self.X, self.y)
        prior = -0.5 * jnp.sum(w * weights) - 0.5 * w.size * jnp.log(2.0 * jnp.pi)
        theta = log_prior(self.model, free) + log_jacobian(self.model, free)
        return data + prior + theta + log_volume + self._log_scale()

    def place(self, x: Float[Array, " X"], key: PRNGKeyArray) -> Place:
        """What x means; the key is for the common mode."""
        z, zeta = self._split(x)
        free = self.location + self.factor @ zeta
        Kuu = covariances(from_free(self.model, free))
        standardized = self.z_location + self.z_scale * z
        w, log_volume = self._unstandardize(*jax.vmap(inverse_and_log_determinant)(Kuu), standardized)
        shared = jax.random.normal(key, (w.shape[0], 1)) * self.common
        whitened = _each(whitening(Kuu), w) @ self.mixing + shared
        return Place(free, whitened, standardized, log_volume + self._log_scale())

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

    def _unstandardize(self, precision: Array, log_determinant: Array, z: Float[Array, "M C"]) -> tuple[Array, Array]:
        """U of each mixed function from z, and the log volume ``log |dv/dz| = -(log |H| + log |Kuu|) / 2``."""
        H = precision + self.site_precision
        w, log_determinants = jax.vmap(from_standard, in_axes=(0, 1, 1), out_axes=(1, 0))(H, self.site_linear, z)
        return w, -0.5 * jnp.sum(log_determinants + log_determinant)


def _each(matrices: Float[Array, "K M M"], columns: Float[Array, "M C"]) -> Float[Array, "M C"]:
    """A matrix for all columns, or one for each, applied to them."""
    return matrices[0] @ columns if matrices.shape[0] == 1 else jnp.einsum("cab,bc->ac", matrices, columns)


def unwhitened(sites: Sites, Kuu: Float[Array, "K M M"]) -> tuple[Float[Array, "C M M"], Float[Array, "M C"]]:
    """Lambda and h of whitened sites, ``R0^-T W R0^-1`` and ``R0^-T b``.

    Directions of W below zero, or too sharp for double precision, are brought into range; the mean stays.
    """
    values, vectors = jnp.linalg.eigh(sites.precision)
    clipped = (vectors * jnp.maximum(values, 0.0)[:, None, :]) @ jnp.swapaxes(vectors, -1, -2)
    transposed = jnp.swapaxes(sites.inverse_factors, -1, -2)
    precision = symmetrize(transposed @ clipped @ sites.inverse_factors)
    largest = (jnp.max(jnp.trace(matrix, axis1=-2, axis2=-1)) for matrix in (precision, Kuu))
    within = jnp.minimum(1.0, SHARPEST / math.prod(largest))
    mean = sites.gaussian().mean
    linear = mean + within * jnp.einsum("pab,bp->ap", clipped, mean)  # b = (I + W) m keeps the mean
    return within * precision, _each(transposed, linear)


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


def contrasts(num_latents: int) -> tuple[np.ndarray, np.ndarray]:
    """An orthonormal basis of what differs between latents ``[P-1, P]`` and the direction common to all ``[P]``."""
    basis, _ = np.linalg.qr(np.concatenate([np.ones((num_latents, 1)), np.eye(num_latents)[:, 1:]], axis=1))
    return basis[:, 1:].T, np.full(num_latents, 1.0 / np.sqrt(num_latents))
