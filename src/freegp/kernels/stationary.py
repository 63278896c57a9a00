"""Kernels of the distance between inputs, in units of their lengthscales."""

from abc import abstractmethod

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from freegp.fields import Value, parameter, positive
from freegp.kernels.base import LeafKernel, as_dims
from freegp.numerics.distances import safe_sqrt, squared_distances


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

    def scaled_distances(self, X: Float[Array, "N D"], X2: Float[Array, "M D"]) -> Float[Array, "N M"]:
        """``r^2``. A single lengthscale divides the distances and not the columns, and so has a gradient that costs O(N M)."""
        X, X2 = self.select(X), self.select(X2)
        if self.lengthscales.ndim == 0:
            unit = jnp.ones(())
            return squared_distances(self.embed(X, unit), self.embed(X2, unit)) / jnp.square(self.lengthscales)
        if self.lengthscales.shape[0] != X.shape[1]:
            raise ValueError(
                f"{type(self).__name__} has {self.lengthscales.shape[0]} lengthscales, but sees {X.shape[1]} input "
                "column(s); give one lengthscale, or one for each column"
            )
        return squared_distances(self.embed(X, self.lengthscales), self.embed(X2, self.lengthscales))

    def matrix(self, X: Float[Array, "N D"], X2: Float[Array, "M D"]) -> Float[Array, "N M"]:  # noqa: D102
        return self.variance * self.profile(self.scaled_distances(X, X2))

    def diagonal(self, X: Float[Array, "N D"]) -> Float[Array, " N"]:  # noqa: D102
        return jnp.broadcast_to(self.variance, X.shape[:1])

    @property
    def uses_distances(self) -> bool:
        """If there is one lengthscale for all columns as they are."""
        return self.lengthscales.ndim == 0 and self.active_dims is None and type(self).embed is Stationary.embed

    def matrix_given(  # noqa: D102
        self, X: Float[Array, "N D"], X2: Float[Array, "M D"], distances: Float[Array, "N M"]
    ) -> Float[Array, "N M"]:
        if not self.uses_distances:
            return self.matrix(X, X2)
        return self.variance * self.profile(distances / jnp.square(self.lengthscales))


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


SquaredExponential = RBF


class Matern12(Stationary):
    """Exponential: ``variance * exp(-r)``; continuous, rough functions."""

    variance: Value = parameter(positive, default=1.0)
    lengthscales: Value = parameter(positive, default=1.0)
    active_dims: tuple[int, ...] | None = eqx.field(static=True, default=None, converter=as_dims)

    def profile(self, r2: Float[Array, "N M"]) -> Float[Array, "N M"]:  # noqa: D102
        return jnp.exp(-safe_sqrt(r2))


class Matern32(Stationary):
    """``variance * (1 + sqrt(3) r) exp(-sqrt(3) r)``; once differentiable functions."""

    variance: Value = parameter(positive, default=1.0)
    lengthscales: Value = parameter(positive, default=1.0)
    active_dims: tuple[int, ...] | None = eqx.field(static=True, default=None, converter=as_dims)

    def profile(self, r2: Float[Array, "N M"]) -> Float[Array, "N M"]:  # noqa: D102
        r = safe_sqrt(3.0 * r2)
        return (1.0 + r) * jnp.exp(-r)


class Matern52(Stationary):
    """``variance * (1 + sqrt(5) r + 5 r^2 / 3) exp(-sqrt(5) r)``; twice differentiable functions."""

    variance: Value = parameter(positive, default=1.0)
    lengthscales: Value = parameter(positive, default=1.0)
    active_dims: tuple[int, ...] | None = eqx.field(static=True, default=None, converter=as_dims)

    def profile(self, r2: Float[Array, "N M"]) -> Float[Array, "N M"]:  # noqa: D102
        r = safe_sqrt(5.0 * r2)
        return (1.0 + r + 5.0 / 3.0 * r2) * jnp.exp(-r)


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
