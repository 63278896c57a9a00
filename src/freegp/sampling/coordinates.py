"""Coordinates in which the target is nearly N(0, I): the site transform.

Freeze the sites of the Gaussian approximation, ``exp(h^T u - u^T Lambda u / 2)``. At any theta they and the prior give a Gaussian
of u with precision ``H = Kuu^-1 + Lambda``, and so an exact change of variables ``u = L^-T (L^-1 h + z)`` with ``L L^T = H``,
``log |du/dz| = -log |H| / 2``, in O(M^3) and nothing in N. Where the data say much, u hardly moves with theta; where they say
little, v hardly does. Parameters are ``theta = location + factor zeta``. Whatever the sites, the answer is the same; their
quality sets the speed. So they may also be weakened, all alike, where they say more than the likelihood does away from the fit
(few data, hard edges): ``strength`` is what warm-up finds to bring its draws nearest to N(0, I).
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from freegp.approximation.gaussian import Sites
from freegp.inducing import Inputs
from freegp.model import SparseGP
from freegp.numerics import stacks
from freegp.numerics.blocks import Blocks, blocks_of
from freegp.numerics.linalg import symmetrize
from freegp.numerics.stacks import Stack, around, gram, is_diagonal, times, transposed, whitening
from freegp.parameters import from_free, log_jacobian, log_prior
from freegp.target.log_density import data_term
from freegp.target.projection import Projection, covariances, in_basis

TUNED = ("location", "factor", "strength", "z_location", "z_scale")
STRENGTHS = (1.5, 1.0, 0.6, 0.35, 0.2, 0.1, 0.03, 0.0)
NUM_FOR_STRENGTH = 60
MOST_DENSE = 128
"""Of features, so many rows of the sites' precision are dense."""
VERY_WEAK = 0.1
"""Sites that warm-up weakened to less than this are hardly any."""
SHARPEST = 1e12
"""Largest site precision, in units of the prior's smallest, for which H is still positive definite in double precision."""


class Place(eqx.Module):
    """Where a position is, in terms of the model: theta in free coordinates, v, and the log volume ``log |d(v, theta)/dx|``."""

    free: Float[Array, " T"]
    whitened: Float[Array, "M P"]
    log_volume: Float[Array, ""]


class SiteCoordinates(eqx.Module):
    """The target as a density of ``x = (z, zeta)``.

    Latent functions are first mixed, ``u = w mixing`` with orthonormal rows: for a likelihood that does not change when all
    latents are shifted together, and a shared kernel, the mode common to all of them is exactly its prior, is left out of x
    and drawn afresh (``common``). ``site_precision``, ``site_linear`` and ``site_mean`` are Lambda and h of each of the C mixed
    functions, and their mean at the fit, which stays where it is whatever the strength. Of many features' Lambda the first rows
    are dense and of the rest there is the diagonal: data tell waves that are short apart.
    """

    model: SparseGP
    X: Float[Array, "N D"] | Inputs
    y: Float[Array, " N"]
    site_precision: Blocks
    site_linear: Float[Array, "M C"]
    site_mean: Float[Array, "M C"]
    mixing: Float[Array, "C P"]
    common: Float[Array, " P"]
    location: Float[Array, " T"]
    factor: Float[Array, "T T"]
    strength: Float[Array, ""]
    z_location: Float[Array, "M C"]
    z_scale: Float[Array, "M C"]
    is_weak: bool = eqx.field(static=True, default=False)

    @property
    def num_dimensions(self) -> int:
        """Length of x."""
        return self.z_scale.size + self.location.size

    def log_density(self, x: Float[Array, " X"]) -> Float[Array, ""]:
        """Log density of x, up to the target's own constant."""
        z, zeta = self.split(x)
        free = self.location + self.factor @ zeta
        at = from_free(self.model, free)
        Kuu = covariances(at)
        precision, log_determinant = stacks.inverse_and_log_determinant(Kuu)
        w, log_volume = self._unstandardize(precision, log_determinant, self.z_location + self.z_scale * z)
        weights = times(precision, w)
        data = data_term(at, in_basis(Projection(weights @ self.mixing, precision), Kuu), self.X, self.y)
        prior = -0.5 * jnp.sum(w * weights) - 0.5 * w.size * jnp.log(2.0 * jnp.pi)
        theta = log_prior(self.model, free) + log_jacobian(self.model, free)
        return data + prior + theta + log_volume + self.log_scale()

    def place(self, x: Float[Array, " X"], key: PRNGKeyArray) -> Place:
        """What x means; the key is for the common mode."""
        z, zeta = self.split(x)
        free = self.location + self.factor @ zeta
        inverse_factors, precision, log_determinant = _whitening_and_precision(covariances(from_free(self.model, free)))
        w, log_volume = self._unstandardize(precision, log_determinant, self.z_location + self.z_scale * z)
        return Place(free, self.unmixed(times(inverse_factors, w), key), log_volume + self.log_scale())

    def unmixed(self, mixed: Float[Array, "M C"], key: PRNGKeyArray) -> Float[Array, "M P"]:
        """Whitened values of the latent functions from those of the mixed ones, and a draw of what is common to all."""
        return mixed @ self.mixing + jax.random.normal(key, (mixed.shape[0], 1)) * self.common

    def position(self, place: Place) -> Float[Array, " X"]:
        """The x of a place (the common mode forgotten)."""
        zeta = jnp.linalg.solve(self.factor, place.free - self.location)
        z, _ = self.standardize(place.free, place.whitened)
        return jnp.concatenate([((z - self.z_location) / self.z_scale).ravel(), zeta])

    def standardize(self, free: Float[Array, " T"], whitened: Float[Array, "M P"]) -> tuple[Float[Array, "M C"], Array]:
        """The z, before its location and scale are taken out, ``L^T u - L^-1 h``, and the log volume ``log |dv/dz|``."""
        Kuu = covariances(from_free(self.model, free))
        inverse_factors, precision, log_determinant = _whitening_and_precision(Kuu)
        w = times(Kuu, times(transposed(inverse_factors), whitened @ self.mixing.T))  # R = Kuu R^-T
        H, linear = self.site_gaussian(precision)
        L = H.cholesky()
        z = L.transposed_times(w) - L.solve_lower(linear)
        return z, -0.5 * jnp.sum(2.0 * L.log_determinant() + log_determinant)

    def rescaled(self, free: Float[Array, "S T"], whitened: Float[Array, "S M P"]) -> "SiteCoordinates":
        """The same target with strength, location and scale of x taken from draws: dense in theta, a scale for each z."""
        few = jnp.linspace(0, free.shape[0] - 1, min(free.shape[0], NUM_FOR_STRENGTH)).astype(int)
        strengths = jnp.asarray(STRENGTHS)
        scores = jax.lax.map(lambda s: self._with_strength(s)._distance(free[few], whitened[few]), strengths)
        best = jnp.append(strengths, self.strength)[jnp.nanargmin(jnp.append(scores, jnp.inf))]
        chosen = self._with_strength(best)
        z, _ = jax.lax.map(lambda draw: chosen.standardize(*draw), (free, whitened))
        weight = z.shape[0] / (z.shape[0] + 10.0)
        z_scale = jnp.exp(weight * jnp.log(jnp.maximum(jnp.std(z, axis=0), 1e-3)))
        theta = {"location": jnp.mean(free, axis=0), "factor": _factor_of_draws(free, self.factor)}
        return self._with(theta | {"strength": best, "z_location": weight * jnp.mean(z, axis=0), "z_scale": z_scale})

    def _distance(self, free: Float[Array, "S T"], whitened: Float[Array, "S M P"]) -> Float[Array, ""]:
        """Divergence of the draws from N(0, I) after their own location and scale are taken out, up to a constant."""
        z, log_volume = jax.lax.map(lambda draw: self.standardize(*draw), (free, whitened))
        return jnp.mean(log_volume) + jnp.sum(jnp.log(jnp.maximum(jnp.std(z, axis=0), 1e-3)))

    def _with_strength(self, strength: Array) -> "SiteCoordinates":
        return eqx.tree_at(lambda c: c.strength, self, strength)

    def tuned(self) -> dict[str, Array]:
        """What warm-up settles, by name."""
        return {name: getattr(self, name) for name in TUNED}

    def with_tuned(self, values: dict[str, Array]) -> "SiteCoordinates":
        """The same target with other values of what warm-up settles; they must be known, and whether sites are left with them."""
        return dataclasses.replace(self._with(values), is_weak=bool(values["strength"] < VERY_WEAK))

    def _with(self, values: dict[str, Array]) -> "SiteCoordinates":
        return eqx.tree_at(lambda c: [getattr(c, name) for name in TUNED], self, [values[name] for name in TUNED])

    def log_scale(self) -> Float[Array, ""]:
        """Log volume of the scales of z and theta."""
        return jnp.sum(jnp.log(self.z_scale)) + jnp.linalg.slogdet(self.factor)[1]

    def split(self, x: Float[Array, " X"]) -> tuple[Float[Array, "M C"], Float[Array, " T"]]:
        """The parts of x: z and zeta."""
        return x[: self.z_scale.size].reshape(self.z_scale.shape), x[self.z_scale.size :]

    def site_gaussian(self, precision: Stack) -> tuple[Blocks, Float[Array, "M C"]]:
        """H and h at the present strength."""
        weakened = (1.0 - self.strength) * self.site_precision.times(self.site_mean)
        return self.site_precision.scaled(self.strength).plus(precision), self.site_linear - weakened

    def _unstandardize(self, precision: Stack, log_determinant: Array, z: Float[Array, "M C"]) -> tuple[Array, Array]:
        """The u of each mixed function from z, and the log volume ``log |dv/dz| = -(log |H| + log |Kuu|) / 2``."""
        H, linear = self.site_gaussian(precision)
        w, log_determinants = H.from_standard(linear, z)
        return w, -0.5 * jnp.sum(log_determinants + log_determinant)


def _whitening_and_precision(Kuu: Stack) -> tuple[Stack, Stack, Float[Array, " K"]]:
    """``R^-1``, ``Kuu^-1`` and ``log |Kuu|`` of each, by one factorisation."""
    inverse_factors = whitening(Kuu)
    return inverse_factors, gram(inverse_factors), -2.0 * stacks.log_determinant(inverse_factors)


def unwhitened(sites: Sites, Kuu: Stack) -> tuple[Blocks, Float[Array, "M C"], Float[Array, "M C"]]:
    """Lambda, h and the mean of whitened sites: ``R0^-T W R0^-1``, ``R0^-T b``, ``R0 m``.

    Directions of W below zero, or too sharp for double precision, are brought into range; the mean stays.
    """
    values, vectors = jnp.linalg.eigh(sites.precision)
    clipped = (vectors * jnp.maximum(values, 0.0)[:, None, :]) @ jnp.swapaxes(vectors, -1, -2)
    unwhiten = transposed(sites.inverse_factors)
    precision = symmetrize(around(unwhiten, clipped))
    sharpest = _largest_trace(clipped) if is_diagonal(Kuu) else _largest_trace(precision) * _largest_trace(Kuu)
    within = jnp.minimum(1.0, SHARPEST / sharpest)
    blocks = blocks_of(within * precision, MOST_DENSE if is_diagonal(Kuu) else precision.shape[-1])
    weights = times(unwhiten, sites.gaussian().mean)
    mean = times(Kuu, weights)  # R0 = Kuu R0^-T
    return blocks, weights + blocks.times(mean), mean  # h = (Kuu^-1 + Lambda) u keeps the mean


def _largest_trace(matrices: Float[Array, "C M M"]) -> Float[Array, ""]:
    return jnp.max(jnp.trace(matrices, axis1=-2, axis2=-1))


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
