"""Kernels of the distance between inputs, in units of their lengthscales."""

import math
from abc import abstractmethod

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from freegp.fields import Value, parameter, positive
from freegp.kernels.base import LeafKernel, as_dims
from freegp.numerics.distances import safe_sqrt, squared_distances
from freegp.numerics.sums import affine


class Stationary(LeafKernel):
    """``variance * profile(r^2)`` with ``r^2 = sum_d (x_d - x2_d)^2 / lengthscales_d^2``."""

    variance: eqx.AbstractVar[Array]
    lengthscales: eqx.AbstractVar[Array]

    @abstractmethod
    def profile(self, r2: Float[Array, "N M"]) -> Float[Array, "N M"]:
        """The correlation at squared scaled distance r2."""

    def embed(self, X: Float[Array, "N d"], lengthscales: Float[Array, "..."]) -> Float[Array, "N e"]:
        """The kernel's columns in the space where the distance is taken."""
        return X / lengthscales

    def covariance(self, distances: Float[Array, "N M"], factor: Float[Array, ""]) -> Float[Array, "N M"]:
        """``variance * profile(r^2)`` with ``r^2`` the distances times a factor."""
        nothing = jnp.zeros((), distances.dtype)
        return affine(self.profile(affine(distances, factor, nothing)), self.variance, nothing)

    def matrix(self, X: Float[Array, "N D"], X2: Float[Array, "M D"]) -> Float[Array, "N M"]:
        """``k(x_i, x2_j)``. A single lengthscale divides distances and not columns, and so has a gradient that costs O(N M)."""
        X, X2 = self.select(X), self.select(X2)
        unit = jnp.ones((), X.dtype)
        if self.lengthscales.ndim == 0:
            distances = squared_distances(self.embed(X, unit), self.embed(X2, unit))
            return self.covariance(distances, 1.0 / jnp.square(self.lengthscales))
        if self.lengthscales.shape[0] != X.shape[1]:
            raise ValueError(
                f"{type(self).__name__} has {self.lengthscales.shape[0]} lengthscales, but sees {X.shape[1]} input "
                "column(s); give one lengthscale, or one for each column"
            )
        return self.covariance(squared_distances(self.embed(X, self.lengthscales), self.embed(X2, self.lengthscales)), unit)

    def diagonal(self, X: Float[Array, "N D"]) -> Float[Array, " N"]:  # noqa: D102
        return jnp.broadcast_to(self.variance, X.shape[:1])

    def spectrum(self, w2: Float[Array, " M"], num_columns: int) -> Float[Array, " M"]:
        """The Fourier transform of the profile at squared scaled frequency w2."""
        return super().spectral_density(w2[:, None])

    def spectral_density(self, frequencies: Float[Array, "M D"]) -> Float[Array, " M"]:  # noqa: D102
        num_columns = frequencies.shape[1]
        if self.active_dims is not None and sorted(self.active_dims) != list(range(num_columns)):
            return super().spectral_density(frequencies)
        lengthscales = jnp.broadcast_to(self.lengthscales, (num_columns,))
        w2 = jnp.sum(jnp.square(self.select(frequencies) * lengthscales), axis=1)
        return self.variance * jnp.prod(lengthscales) * self.spectrum(w2, num_columns)

    @property
    def scale(self) -> Float[Array, ""]:  # noqa: D102
        return self.variance

    @property
    def unscaled(self) -> "Stationary":  # noqa: D102
        return eqx.tree_at(lambda kernel: kernel.variance, self, jnp.ones_like(self.variance))

    @property
    def uses_distances(self) -> bool:
        """If there is one lengthscale for all columns as they are."""
        return self.lengthscales.ndim == 0 and self.active_dims is None and type(self).embed is Stationary.embed

    def matrix_given(  # noqa: D102
        self, X: Float[Array, "N D"], X2: Float[Array, "M D"], distances: Float[Array, "N M"]
    ) -> Float[Array, "N M"]:
        if not self.uses_distances:
            return self.matrix(X, X2)
        return self.covariance(distances, 1.0 / jnp.square(self.lengthscales))


class RBF(Stationary):
    """Squared exponential: ``variance * exp(-r^2 / 2)``.

    >>> import jax.numpy as jnp
    >>> k = RBF(variance=2.0, lengthscales=[1.0, 3.0])
    >>> float(k(jnp.zeros((1, 2)), jnp.array([[1.0, 0.0]]))[0, 0].round(6))
    1.213061
    """

    variance: Value = parameter(positive, default=1.0)
    lengthscales: Value = parameter(positive, default=1.0)
    active_dims: tuple[int, ...] | None = eqx.field(static=True, default=None, converter=as_dims)

    def profile(self, r2: Float[Array, "N M"]) -> Float[Array, "N M"]:  # noqa: D102
        return jnp.exp(-0.5 * r2)

    def covariance(self, distances: Float[Array, "N M"], factor: Float[Array, ""]) -> Float[Array, "N M"]:  # noqa: D102
        return jnp.exp(affine(distances, -0.5 * factor, jnp.log(self.variance)))  # of which only the whole need be kept

    def spectrum(self, w2: Float[Array, " M"], num_columns: int) -> Float[Array, " M"]:  # noqa: D102
        return (2.0 * math.pi) ** (0.5 * num_columns) * jnp.exp(-0.5 * w2)


SquaredExponential = RBF


class Matern12(Stationary):
    """Exponential: ``variance * exp(-r)``; continuous, rough functions."""

    variance: Value = parameter(positive, default=1.0)
    lengthscales: Value = parameter(positive, default=1.0)
    active_dims: tuple[int, ...] | None = eqx.field(static=True, default=None, converter=as_dims)

    def profile(self, r2: Float[Array, "N M"]) -> Float[Array, "N M"]:  # noqa: D102
        return jnp.exp(-safe_sqrt(r2))

    def spectrum(self, w2: Float[Array, " M"], num_columns: int) -> Float[Array, " M"]:  # noqa: D102
        return _matern_spectrum(0.5, w2, num_columns)


class Matern32(Stationary):
    """``variance * (1 + sqrt(3) r) exp(-sqrt(3) r)``; once differentiable functions."""

    variance: Value = parameter(positive, default=1.0)
    lengthscales: Value = parameter(positive, default=1.0)
    active_dims: tuple[int, ...] | None = eqx.field(static=True, default=None, converter=as_dims)

    def profile(self, r2: Float[Array, "N M"]) -> Float[Array, "N M"]:  # noqa: D102
        r = safe_sqrt(3.0 * r2)
        return (1.0 + r) * jnp.exp(-r)

    def spectrum(self, w2: Float[Array, " M"], num_columns: int) -> Float[Array, " M"]:  # noqa: D102
        return _matern_spectrum(1.5, w2, num_columns)


class Matern52(Stationary):
    """``variance * (1 + sqrt(5) r + 5 r^2 / 3) exp(-sqrt(5) r)``; twice differentiable functions."""

    variance: Value = parameter(positive, default=1.0)
    lengthscales: Value = parameter(positive, default=1.0)
    active_dims: tuple[int, ...] | None = eqx.field(static=True, default=None, converter=as_dims)

    def profile(self, r2: Float[Array, "N M"]) -> Float[Array, "N M"]:  # noqa: D102
        r = safe_sqrt(5.0 * r2)
        return (1.0 + r + 5.0 / 3.0 * r2) * jnp.exp(-r)

    def spectrum(self, w2: Float[Array, " M"], num_columns: int) -> Float[Array, " M"]:  # noqa: D102
        return _matern_spectrum(2.5, w2, num_columns)


def _matern_spectrum(nu: float, w2: Float[Array, " M"], num_columns: int) -> Float[Array, " M"]:
    """``2^D pi^(D/2) Gamma(nu + D/2) (2 nu)^nu / Gamma(nu) (2 nu + w^2)^-(nu + D/2)``."""
    power = nu + 0.5 * num_columns
    ratio = math.gamma(power) / math.gamma(nu)
    scale = (4.0 * math.pi) ** (0.5 * num_columns) * ratio * (2.0 * nu) ** nu
    return scale * (2.0 * nu + w2) ** -power


class RationalQuadratic(Stationary):
    """``variance * (1 + r^2 / (2 alpha))^-alpha``: a mixture of RBF kernels over lengthscales; RBF as alpha grows."""

    variance: Value = parameter(positive, default=1.0)
    lengthscales: Value = parameter(positive, default=1.0)
    alpha: Value = parameter(positive, default=1.0)
    active_dims: tuple[int, ...] | None = eqx.field(static=True, default=None, converter=as_dims)

    def profile(self, r2: Float[Array, "N M"]) -> Float[Array, "N M"]:  # noqa: D102
        return jnp.exp(-self.alpha * jnp.log1p(0.5 * r2 / self.alpha))


class Periodic(Stationary):
    """``variance * exp(-2 sum_d sin^2(pi (x_d - x2_d) / period) / lengthscales_d^2)``.

    It is the RBF kernel of the inputs wrapped on a circle, which is how it is computed.
    """

    variance: Value = parameter(positive, default=1.0)
    lengthscales: Value = parameter(positive, default=1.0)
    period: Value = parameter(positive, default=1.0)
    active_dims: tuple[int, ...] | None = eqx.field(static=True, default=None, converter=as_dims)

    def embed(self, X: Float[Array, "N d"], lengthscales: Float[Array, "..."]) -> Float[Array, "N e"]:  # noqa: D102
        angle = 2.0 * jnp.pi * X / self.period
        return jnp.concatenate([jnp.cos(angle) / lengthscales, jnp.sin(angle) / lengthscales], axis=1)

    def profile(self, r2: Float[Array, "N M"]) -> Float[Array, "N M"]:  # noqa: D102
        return jnp.exp(-0.5 * r2)
