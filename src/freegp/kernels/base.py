"""What a kernel is: a covariance function with its parameters, in natural units."""

from abc import abstractmethod
from functools import reduce

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from freegp.fields import Declared, as_float


def as_dims(active_dims: int | tuple[int, ...] | list[int] | None) -> tuple[int, ...] | None:
    """The columns a kernel looks at, as a tuple; None means all."""
    if active_dims is None:
        return None
    return (active_dims,) if isinstance(active_dims, int) else tuple(int(d) for d in active_dims)


class Kernel(Declared):
    """A covariance function. ``kernel(X, X2)`` is the matrix between rows, ``kernel.diagonal(X)`` that of each with itself."""

    def __call__(self, X: ArrayLike, X2: ArrayLike | None = None) -> Float[Array, "N M"]:
        """The covariance matrix between the rows of X and of X2 (of X itself if there is no X2)."""
        rows = _as_rows(X)
        return self.matrix(rows, rows if X2 is None else _as_rows(X2))

    @abstractmethod
    def matrix(self, X: Float[Array, "N D"], X2: Float[Array, "M D"]) -> Float[Array, "N M"]:
        """``k(x_i, x2_j)``."""

    @abstractmethod
    def diagonal(self, X: Float[Array, "N D"]) -> Float[Array, " N"]:
        """``k(x_i, x_i)``."""

    @property
    def scale(self) -> Float[Array, ""]:
        """A factor of the whole kernel, which costs less outside the matrix than in it; one if there is none."""
        return jnp.ones(())

    @property
    def unscaled(self) -> "Kernel":
        """The kernel without that factor."""
        return self

    @property
    def uses_distances(self) -> bool:
        """Whether `matrix_given` is cheaper than `matrix`."""
        return False

    def matrix_given(
        self, X: Float[Array, "N D"], X2: Float[Array, "M D"], distances: Float[Array, "N M"]
    ) -> Float[Array, "N M"]:
        """``k(x_i, x2_j)`` where ``|x_i - x2_j|^2`` is known already."""
        return self.matrix(X, X2)

    def spectral_density(self, frequencies: Float[Array, "M D"]) -> Float[Array, " M"]:
        """``S(w)``, the Fourier transform of a stationary kernel, at angular frequencies; a level and a nugget have none."""
        raise ValueError(
            f"{type(self).__name__} has no spectral density here, which features need; use RBF, Matern12, Matern32 or Matern52 "
            "of all columns, with a Constant or White if you like, or use inducing points"
        )

    @property
    def level(self) -> Float[Array, ""]:
        """The variance of what is the same everywhere."""
        return jnp.zeros(())

    def __add__(self, other: "Kernel") -> "Sum":
        return Sum(_members(self, Sum) + _members(other, Sum))

    def __mul__(self, other: "Kernel") -> "Product":
        return Product(_members(self, Product) + _members(other, Product))

    def __radd__(self, other: "Kernel") -> "Sum":
        return Sum(_members(other, Sum) + _members(self, Sum))

    def __rmul__(self, other: "Kernel") -> "Product":
        return Product(_members(other, Product) + _members(self, Product))


class LeafKernel(Kernel):
    """A kernel that looks at some of the columns; ``active_dims=None`` means all of them."""

    active_dims: eqx.AbstractVar[tuple[int, ...] | None]

    def select(self, X: Float[Array, "N D"]) -> Float[Array, "N d"]:
        """The columns this kernel looks at."""
        if self.active_dims is None:
            return X
        if max(self.active_dims) >= X.shape[1]:
            raise ValueError(
                f"{type(self).__name__} looks at column {max(self.active_dims)}, but the inputs have {X.shape[1]}; "
                "active_dims counts from 0"
            )
        return X[:, jnp.array(self.active_dims)]


class Combination(Kernel):
    """Kernels whose matrices are combined entry by entry."""

    members: eqx.AbstractVar[tuple[Kernel, ...]]

    @abstractmethod
    def combined(self, one: Array, two: Array) -> Array:
        """Two entries into one."""

    def matrix(self, X: Float[Array, "N D"], X2: Float[Array, "M D"]) -> Float[Array, "N M"]:  # noqa: D102
        return reduce(self.combined, [member.matrix(X, X2) for member in self.members])

    def diagonal(self, X: Float[Array, "N D"]) -> Float[Array, " N"]:  # noqa: D102
        return reduce(self.combined, [member.diagonal(X) for member in self.members])

    @property
    def uses_distances(self) -> bool:  # noqa: D102
        return any(member.uses_distances for member in self.members)

    def matrix_given(  # noqa: D102
        self, X: Float[Array, "N D"], X2: Float[Array, "M D"], distances: Float[Array, "N M"]
    ) -> Float[Array, "N M"]:
        return reduce(self.combined, [member.matrix_given(X, X2, distances) for member in self.members])


class Sum(Combination):
    """The sum of kernels: independent functions added."""

    members: tuple[Kernel, ...]

    def combined(self, one: Array, two: Array) -> Array:  # noqa: D102
        return one + two

    def spectral_density(self, frequencies: Float[Array, "M D"]) -> Float[Array, " M"]:  # noqa: D102
        return reduce(self.combined, [member.spectral_density(frequencies) for member in self.members])

    @property
    def level(self) -> Float[Array, ""]:  # noqa: D102
        return reduce(self.combined, [member.level for member in self.members])


class Product(Combination):
    """The product of kernels, entry by entry."""

    members: tuple[Kernel, ...]

    @property
    def scale(self) -> Float[Array, ""]:  # noqa: D102
        return reduce(self.combined, [member.scale for member in self.members])

    @property
    def unscaled(self) -> "Product":  # noqa: D102
        return Product(tuple(member.unscaled for member in self.members))

    def combined(self, one: Array, two: Array) -> Array:  # noqa: D102
        return one * two


def _members(kernel: Kernel, kind: type[Sum] | type[Product]) -> tuple[Kernel, ...]:
    if not isinstance(kernel, Kernel):
        raise TypeError(f"a kernel combines with a kernel, not with {kernel!r}; for a number use Constant({kernel!r})")
    return kernel.members if isinstance(kernel, kind) else (kernel,)


def _as_rows(X: ArrayLike) -> Array:
    rows = as_float(X)
    if rows.ndim != 2:
        raise ValueError(f"inputs must have shape (N, D), but have shape {rows.shape}; for one column use X[:, None]")
    return rows
