"""Inducing inputs, and where to put them.

What the model needs of an inducing variable is its covariance with itself and with the data. Points are the first kind; others
(Fourier or Hilbert-space features) answer the same two questions.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from freegp.fields import as_float
from freegp.kernels import Kernel
from freegp.numerics.distances import squared_distances
from freegp.saving import registered

MANY_COLUMNS = 32
"""From so many input columns on, distances to inducing inputs that stay are worth keeping."""


class Inputs(eqx.Module):
    """Data inputs with their squared distances to inducing inputs that stay where they are; stands for X where Kuf is made."""

    X: Float[Array, "N D"]
    distances: Float[Array, "N M"]

    @property
    def shape(self) -> tuple[int, ...]:
        """Of X."""
        return self.X.shape


def rows_of(X: Float[Array, "N D"] | Inputs) -> Float[Array, "N D"]:
    """X itself."""
    return X.X if isinstance(X, Inputs) else X


class Inducing(eqx.Module):
    """M inducing variables, linear functions of the latent process."""

    @property
    @abstractmethod
    def num_inducing(self) -> int:
        """M."""

    @abstractmethod
    def Kuu(self, kernel: Kernel) -> Float[Array, "M M"]:
        """Their prior covariance."""

    @abstractmethod
    def Kuf(self, kernel: Kernel, X: Float[Array, "N D"] | Inputs) -> Float[Array, "M N"]:
        """Their prior covariance with the process at X."""

    def with_distances(self, kernels: Sequence[Kernel], X: Float[Array, "N D"]) -> Float[Array, "N D"] | Inputs:
        """X with what of Kuf does not depend on the kernels' parameters, if that spares work."""
        return X


@registered
class InducingPoints(Inducing):
    """Values of the process at M inputs Z."""

    Z: Float[Array, "M D"] = eqx.field(converter=as_float)

    @property
    def num_inducing(self) -> int:  # noqa: D102
        return self.Z.shape[0]

    def Kuu(self, kernel: Kernel) -> Float[Array, "M M"]:  # noqa: D102
        return kernel(self.Z)

    def Kuf(self, kernel: Kernel, X: Float[Array, "N D"] | Inputs) -> Float[Array, "M N"]:  # noqa: D102
        if isinstance(X, Inputs):
            return kernel.matrix_given(self.Z, X.X, X.distances.T)
        return kernel(self.Z, X)

    def with_distances(self, kernels: Sequence[Kernel], X: Float[Array, "N D"]) -> Float[Array, "N D"] | Inputs:  # noqa: D102
        if X.shape[1] < MANY_COLUMNS or not any(kernel.uses_distances for kernel in kernels):
            return X
        return Inputs(X, squared_distances(X, self.Z))


class Placement(Protocol):
    """A way to choose Z once the data are known."""

    def place(self, X: np.ndarray, seed: int) -> np.ndarray:
        """M inputs for data at X."""


@registered
@dataclass(frozen=True)
class KMeans:
    """The centres of M clusters of the data: the paper's choice, and what a plain number means."""

    num_inducing: int

    def place(self, X: np.ndarray, seed: int) -> np.ndarray:
        """Centres of k-means on the distinct rows, on each column's own scale."""
        scale = X.std(axis=0)
        scaled = X / np.where(scale > 0, scale, 1.0)
        distinct = np.unique(scaled, axis=0)
        if len(distinct) < self.num_inducing:
            raise ValueError(
                f"{self.num_inducing} inducing points were asked for, but the data have {len(distinct)} distinct rows; "
                f"use inducing={len(distinct)} or fewer"
            )
        if len(distinct) == self.num_inducing:
            return distinct * np.where(scale > 0, scale, 1.0)
        from sklearn import cluster  # late: it takes longer to import than all of freegp

        family = cluster.KMeans if len(distinct) <= 20_000 else cluster.MiniBatchKMeans
        centres = family(self.num_inducing, n_init=1, random_state=seed).fit(distinct).cluster_centers_
        return centres * np.where(scale > 0, scale, 1.0)


@registered
@dataclass(frozen=True)
class Grid:
    """A regular grid over the range of the data, with this many points along each column (or along all alike)."""

    num_points: int | tuple[int, ...]

    def place(self, X: np.ndarray, seed: int) -> np.ndarray:
        """Grid points, the range's ends among them."""
        counts = (self.num_points,) * X.shape[1] if isinstance(self.num_points, int) else tuple(self.num_points)
        if len(counts) != X.shape[1]:
            raise ValueError(f"Grid has {len(counts)} counts for {X.shape[1]} input columns; give one for each, or one number")
        axes = [np.linspace(column.min(), column.max(), count) for column, count in zip(X.T, counts, strict=True)]
        return np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)


@registered
@dataclass(frozen=True)
class Subset:
    """M of the data inputs, drawn at random without repetition."""

    num_inducing: int

    def place(self, X: np.ndarray, seed: int) -> np.ndarray:
        """Distinct rows of X."""
        distinct = np.unique(X, axis=0)
        if len(distinct) < self.num_inducing:
            raise ValueError(f"a subset of {self.num_inducing} was asked for, but the data have {len(distinct)} distinct rows")
        rows = np.random.default_rng(seed).choice(len(distinct), self.num_inducing, replace=False)
        return distinct[np.sort(rows)]


@registered
@dataclass(frozen=True)
class Automatic:
    """As many points as it takes, which is what "auto" means.

    A fit begins with few (30 a column, at most 120) and adds points where most is lost, while what they lose still matters; there
    are never more than ``most``, nor more than there are distinct rows. What the first few points cannot show at all, such as
    very many waves, they do not miss: where that may be, look at `fg.sweep_inducing`.
    """

    most: int = 1000

    def __post_init__(self) -> None:
        if self.most < 1:
            raise ValueError(f"most must be 1 or more, but is {self.most}")

    def limit(self, X: np.ndarray) -> int:
        """The most points there can be."""
        return min(self.most, len(np.unique(X, axis=0)))

    def place(self, X: np.ndarray, seed: int) -> np.ndarray:
        """The points a fit begins with."""
        return KMeans(min(30 * X.shape[1], 120, self.limit(X))).place(X, seed)


def as_inducing(value: object) -> Inducing | Placement:
    """An int is k-means, an array is Z itself, "auto" is `Automatic`; inducing variables and placements are what they are."""
    if isinstance(value, Inducing | KMeans | Grid | Subset | Automatic):
        return value
    if isinstance(value, str) and value == "auto":
        return Automatic()
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        if value < 1:
            raise ValueError(f"inducing must be 1 or more, but is {value}")
        return KMeans(int(value))
    try:
        Z = jnp.asarray(value, dtype=jnp.float64)
    except (TypeError, ValueError):
        raise TypeError(
            f"inducing is a number of points, 'auto', an (M, D) array or a placement such as Grid(15), not {value!r}"
        ) from None
    if Z.ndim != 2:
        raise ValueError(f"inducing inputs must have shape (M, D), but have shape {Z.shape}; for one column use Z[:, None]")
    return InducingPoints(Z)
