"""The target as the paper samples it: a density of ``x = (v, theta)`` itself, with theta in free coordinates."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from freegp.approximation import GaussianFit
from freegp.inducing import Inputs
from freegp.model import SparseGP
from freegp.parameters import to_free
from freegp.sampling.coordinates import Place
from freegp.target.log_density import log_density

START = 2**31 - 1
"""Folded into a chain's key for its start, a number that no draw has."""


class PlainCoordinates(eqx.Module):
    """``log q(v, theta)`` of paper eq. 7, and the Gaussian approximation that chains start from."""

    model: SparseGP
    X: Float[Array, "N D"] | Inputs
    y: Float[Array, " N"]
    mean: Float[Array, "M P"]
    covariance: Float[Array, "P M M"]

    def log_density(self, x: Float[Array, " X"]) -> Float[Array, ""]:
        """Log density of x, up to a constant."""
        v, free = self.split(x)
        return log_density(self.model, self.X, self.y, free, v)

    def split(self, x: Float[Array, " X"]) -> tuple[Float[Array, "M P"], Float[Array, " T"]]:
        """The parts of x: v, and theta in free coordinates."""
        return x[: self.mean.size].reshape(self.mean.shape), x[self.mean.size :]

    def place(self, x: Float[Array, " X"]) -> Place:
        """What x means: itself."""
        v, free = self.split(x)
        return Place(free, v, jnp.zeros(()))

    def start(self, key: PRNGKeyArray) -> Float[Array, " X"]:
        """Section 3, step 2: v drawn from the Gaussian approximation, theta at its (approximate) MAP value."""
        noise = jax.random.normal(jax.random.fold_in(key, START), self.mean.shape)
        v = self.mean + jnp.einsum("pab,bp->ap", jnp.linalg.cholesky(self.covariance), noise)
        return jnp.concatenate([v.ravel(), to_free(self.model)])

    def tuned(self) -> dict[str, Array]:
        """Nothing: warm-up leaves these coordinates as they are."""
        return {}

    def with_tuned(self, values: dict[str, Array]) -> "PlainCoordinates":
        """The same."""
        return self


def plain_coordinates(fit: GaussianFit, X: Float[Array, "N D"], y: Float[Array, " N"]) -> PlainCoordinates:
    """The target of a fit's model, with its inducing inputs, and the fit to start from."""
    X, y, mean, covariance = (jnp.asarray(array) for array in (X, y, fit.mean, fit.covariance))
    return PlainCoordinates(fit.model, fit.model.with_known(X), y, mean, covariance)
