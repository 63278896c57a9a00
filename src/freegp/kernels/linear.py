"""Kernels that are not functions of a distance: linear, constant and white."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from freegp.fields import Value, parameter, positive
from freegp.kernels.base import LeafKernel, as_dims
from freegp.numerics.distances import rows_equal


class Linear(LeafKernel):
    """``sum_d variance_d x_d x2_d``: straight lines through the origin (add a Constant for an intercept)."""

    variance: Value = parameter(positive, default=1.0)
    active_dims: tuple[int, ...] | None = eqx.field(static=True, default=None, converter=as_dims)

    def matrix(self, X: Float[Array, "N D"], X2: Float[Array, "M D"]) -> Float[Array, "N M"]:  # noqa: D102
        return (self.select(X) * self.variance) @ self.select(X2).T

    def diagonal(self, X: Float[Array, "N D"]) -> Float[Array, " N"]:  # noqa: D102
        return jnp.sum(jnp.square(self.select(X)) * self.variance, axis=1)


class Constant(LeafKernel):
    """``variance`` between any two inputs: an unknown level."""

    variance: Value = parameter(positive, default=1.0)
    active_dims: tuple[int, ...] | None = eqx.field(static=True, default=None, converter=as_dims)

    def matrix(self, X: Float[Array, "N D"], X2: Float[Array, "M D"]) -> Float[Array, "N M"]:  # noqa: D102
        return jnp.broadcast_to(self.variance, (X.shape[0], X2.shape[0]))

    def diagonal(self, X: Float[Array, "N D"]) -> Float[Array, " N"]:  # noqa: D102
        return jnp.broadcast_to(self.variance, X.shape[:1])

    def spectral_density(self, frequencies: Float[Array, "M D"]) -> Float[Array, " M"]:  # noqa: D102
        return jnp.zeros(frequencies.shape[0])

    @property
    def level(self) -> Float[Array, ""]:  # noqa: D102
        return self.variance


class White(LeafKernel):
    """``variance`` between equal inputs and nothing otherwise: a nugget.

    It is a function of the inputs' values, as every kernel: an inducing input that is a data input shares its nugget, so
    that with inducing inputs at the data the model is the full Gaussian process, nugget included.
    """

    variance: Value = parameter(positive, default=1.0)
    active_dims: tuple[int, ...] | None = eqx.field(static=True, default=None, converter=as_dims)

    def matrix(self, X: Float[Array, "N D"], X2: Float[Array, "M D"]) -> Float[Array, "N M"]:  # noqa: D102
        return jnp.where(rows_equal(self.select(X), self.select(X2)), self.variance, 0.0)

    def diagonal(self, X: Float[Array, "N D"]) -> Float[Array, " N"]:  # noqa: D102
        return jnp.broadcast_to(self.variance, X.shape[:1])

    def spectral_density(self, frequencies: Float[Array, "M D"]) -> Float[Array, " M"]:  # noqa: D102
        return jnp.zeros(frequencies.shape[0])
