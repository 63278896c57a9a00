"""Inducing variables: points and where to put them, and features.

What the model needs of inducing variables is their covariance with themselves and with the data. Points have a matrix; features
that are independent of each other have a diagonal, and carry the process by functions in which no parameter occurs.
"""

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int

from freegp.fields import as_float, is_traced
from freegp.kernels import Kernel
from freegp.numerics.distances import squared_distances
from freegp.saving import registered

MANY_COLUMNS = 32
"""From so many input columns on, distances to inducing inputs that stay are worth keeping."""


MOST_NODES = 3
"""A lattice is used if it has at most so many nodes for each input."""
SMALLEST = 1e-12
"""Variance of a feature, in units of the largest, below which it is not told from zero."""


class Waves(eqx.Module):
    """Features at the nodes of a lattice, or at some of them, where sums over features are done column by column.

    A sine of each wave number at each node of each column; which wave every feature but the level has along each column; and
    at which node along each column every input is.
    """

    sines: tuple[Float[Array, "n m"], ...]
    waves: Int[Array, "W D"]
    nodes: Int[Array, "N D"]

    def sum(self, weights: Float[Array, "M P"]) -> Float[Array, "N P"]:
        """``sum_j w_j phi_j(x)`` at each input."""
        return self._sum(self.sines, weights)

    def sum_of_squares(self, weights: Float[Array, "M P"]) -> Float[Array, "N P"]:
        """``sum_j w_j phi_j(x)^2`` at each input."""
        return self._sum(tuple(jnp.square(sine) for sine in self.sines), weights)

    def _sum(self, sines: tuple[Array, ...], weights: Float[Array, "M P"]) -> Float[Array, "N P"]:
        shape = (*(sine.shape[1] for sine in sines), weights.shape[1])
        total = jnp.zeros(shape).at[tuple(self.waves.T)].set(weights[1:])
        for sine in sines:
            total = jnp.tensordot(total, sine, axes=(0, 1))
        return weights[0] + total[(slice(None), *self.nodes.T)].T


class Inputs(eqx.Module):
    """Data inputs with what of the basis no parameter changes: distances to points that stay, or features. It stands for X."""

    X: Float[Array, "N D"]
    known: Float[Array, "N M"] | Waves

    @property
    def shape(self) -> tuple[int, ...]:
        """Of X."""
        return self.X.shape


def rows_of(X: Float[Array, "N D"] | Inputs) -> Float[Array, "N D"]:
    """X itself."""
    return X.X if isinstance(X, Inputs) else X


def lattice_of(X: Float[Array, "N D"] | Inputs) -> Waves | None:
    """Features that are known at a lattice; they are not cut into blocks of rows."""
    return X.known if isinstance(X, Inputs) and isinstance(X.known, Waves) else None


class Inducing(eqx.Module):
    """M inducing variables, linear functions of the latent process."""

    what: ClassVar[str]

    @property
    @abstractmethod
    def num_inducing(self) -> int:
        """M."""

    @property
    @abstractmethod
    def num_columns(self) -> int:
        """Of the inputs, D."""

    @abstractmethod
    def Kuu(self, kernel: Kernel) -> Float[Array, "M M"] | Float[Array, " M"]:
        """Their prior covariance, or its diagonal where that is all there is of it."""

    def variances(self, kernel: Kernel) -> Float[Array, " M"]:
        """The diagonal of Kuu."""
        Kuu = self.Kuu(kernel)
        return Kuu if Kuu.ndim == 1 else jnp.diagonal(Kuu)

    @abstractmethod
    def Kuf(self, kernel: Kernel, X: Float[Array, "N D"] | Inputs) -> Float[Array, "M N"]:
        """Their prior covariance with the process at X."""

    def basis(self, kernel: Kernel, X: Float[Array, "N D"] | Inputs) -> Float[Array, "M N"]:
        """The functions that carry the process: Kuf, or Kuu^-1 Kuf where Kuu is a diagonal."""
        return self.Kuf(kernel, X)

    def without_scale(self, kernel: Kernel) -> tuple[Float[Array, ""], Kernel]:
        """A factor of the basis that costs less outside it than in it, and the kernel without that factor."""
        return jnp.ones(()), kernel

    def with_known(self, kernels: Sequence[Kernel], X: Float[Array, "N D"]) -> Float[Array, "N D"] | Inputs:
        """X with what of the basis does not depend on the kernels' parameters, if that spares work."""
        return X


@registered
class InducingPoints(Inducing):
    """Values of the process at M inputs Z."""

    what: ClassVar[str] = "points"
    Z: Float[Array, "M D"] = eqx.field(converter=as_float)

    @property
    def num_inducing(self) -> int:  # noqa: D102
        return self.Z.shape[0]

    @property
    def num_columns(self) -> int:  # noqa: D102
        return self.Z.shape[1]

    def Kuu(self, kernel: Kernel) -> Float[Array, "M M"]:  # noqa: D102
        return kernel.matrix(self.Z, self.Z)

    def variances(self, kernel: Kernel) -> Float[Array, " M"]:  # noqa: D102
        return kernel.diagonal(self.Z)

    def Kuf(self, kernel: Kernel, X: Float[Array, "N D"] | Inputs) -> Float[Array, "M N"]:  # noqa: D102
        if isinstance(X, Inputs) and not isinstance(X.known, Waves):
            return kernel.matrix_given(self.Z, X.X, X.known.T)
        return kernel.matrix(self.Z, rows_of(X))

    def without_scale(self, kernel: Kernel) -> tuple[Float[Array, ""], Kernel]:  # noqa: D102
        return kernel.scale, kernel.unscaled

    def with_known(self, kernels: Sequence[Kernel], X: Float[Array, "N D"]) -> Float[Array, "N D"] | Inputs:  # noqa: D102
        if X.shape[1] < MANY_COLUMNS or not any(kernel.uses_distances for kernel in kernels):
            return X
        return Inputs(X, squared_distances(X, self.Z))


@registered
class HilbertFeatures(Inducing):
    """Coefficients of the process in the Laplacian's eigenfunctions on a box (Solin & Särkkä 2020), and of its level.

    ``f(x) = c + sum_j a_j phi_j(x)`` with ``a_j ~ N(0, S(w_j))``, S the kernel's spectral density, and products of sines
    ``phi_j(x) = prod_d sin(w_jd (x_d - low_d)) / sqrt(L_d)``, ``w_jd = pi j_d / (2 L_d)``, L being half the box's width; row 0
    of the numbers j, which is zero, stands for the level. The variables are c and a, with ``Kuu = S`` and ``Kuf = S phi``.
    What is not carried by them, ``k(x, x) - sum_j S(w_j) phi_j(x)^2``, stays in the model as with points.
    """

    what: ClassVar[str] = "features"
    numbers: Float[Array, "M D"] = eqx.field(converter=as_float)
    low: Float[Array, " D"] = eqx.field(converter=as_float)
    high: Float[Array, " D"] = eqx.field(converter=as_float)

    @property
    def num_inducing(self) -> int:  # noqa: D102
        return self.numbers.shape[0]

    @property
    def num_columns(self) -> int:  # noqa: D102
        return self.numbers.shape[1]

    @property
    def frequencies(self) -> Float[Array, "M D"]:
        """Angular frequencies of the waves."""
        return jnp.pi * self.numbers / (self.high - self.low)

    def Kuu(self, kernel: Kernel) -> Float[Array, " M"]:  # noqa: D102
        waves = kernel.spectral_density(self.frequencies[1:])
        variances = jnp.concatenate([kernel.level[None], waves])
        return variances + SMALLEST * jnp.max(waves)

    def Kuf(self, kernel: Kernel, X: Float[Array, "N D"] | Inputs) -> Float[Array, "M N"]:  # noqa: D102
        return self.Kuu(kernel)[:, None] * self.basis(kernel, X)

    def basis(self, kernel: Kernel, X: Float[Array, "N D"] | Inputs) -> Float[Array, "M N"]:  # noqa: D102
        if isinstance(X, Inputs) and not isinstance(X.known, Waves):
            return X.known.T
        return self.features(rows_of(X)).T

    def features(self, X: Float[Array, "N D"]) -> Float[Array, "N M"]:
        """phi, a row for each input."""
        waves = jnp.prod(self._sines(X[:, None, :], self.numbers[1:]), axis=2)
        return jnp.concatenate([jnp.ones((X.shape[0], 1)), waves], axis=1)

    def _sines(self, X: ArrayLike, numbers: ArrayLike, column: int | slice = slice(None)) -> Float[Array, "..."]:
        """The waves of these numbers along a column, or along all of them (the last axis)."""
        low, width = self.low[column], (self.high - self.low)[column]
        return jnp.sin(jnp.pi * numbers * (X - low) / width) / jnp.sqrt(0.5 * width)

    def with_known(self, kernels: Sequence[Kernel], X: Float[Array, "N D"]) -> Float[Array, "N D"] | Inputs:  # noqa: D102
        lattice = None if is_traced(X) else self._lattice(np.asarray(X))
        return Inputs(X, self.features(X) if lattice is None else lattice)

    def _lattice(self, X: Float[np.ndarray, "N D"]) -> Waves | None:
        """The features by columns, if the inputs have several and are most of a lattice's nodes."""
        found = [np.unique(column, return_inverse=True) for column in X.T]
        if len(found) == 1 or math.prod(len(nodes) for nodes, _ in found) > MOST_NODES * len(X):
            return None
        most = np.max(np.asarray(self.numbers), axis=0).astype(int)
        numbers = [np.arange(1, number + 1) for number in most]
        sines = tuple(self._sines(nodes[:, None], numbers[column], column) for column, (nodes, _) in enumerate(found))
        waves = jnp.asarray(self.numbers[1:] - 1, dtype=int)
        return Waves(sines, waves, jnp.asarray(np.stack([inverse for _, inverse in found], axis=1)))

    def grown(self, factor: float) -> "HilbertFeatures":
        """On the same box, with frequencies so many times higher."""
        counts = tuple(math.ceil(factor * number) for number in np.max(np.asarray(self.numbers), axis=0))
        return HilbertFeatures(waves_up_to(counts), self.low, self.high)


class Placement(Protocol):
    """A way to choose inducing variables once the data are known."""

    def place(self, X: np.ndarray, seed: int) -> np.ndarray | Inducing:
        """M points for data at X, or other inducing variables."""


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
        counts = counts_of_columns(self.num_points, X.shape[1], "Grid")
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
class HilbertSpace:
    """Waves instead of points: `HilbertFeatures` on a box around the data, for smooth functions of one or two columns.

    ``num_waves`` is the largest number of half waves along each column (or along all alike); of all products of them those
    are taken whose frequency is at most as high. The box is ``boundary`` times as wide as the data are; it must be wider
    by about the longest lengthscale, and predictions are made inside it. A gradient costs O(N M) and not O(N M^2).
    """

    num_waves: int | tuple[int, ...]
    boundary: float = 1.5

    def __post_init__(self) -> None:
        counts = np.atleast_1d(self.num_waves)
        if counts.dtype.kind not in "iu" or counts.min(initial=1) < 1 or not 1.0 < self.boundary < math.inf:
            raise ValueError(
                f"num_waves must be whole numbers, 1 or more, and boundary above 1, but are {self.num_waves} and {self.boundary}"
            )

    def place(self, X: np.ndarray, seed: int) -> HilbertFeatures:
        """The features of a box around X."""
        numbers = waves_up_to(counts_of_columns(self.num_waves, X.shape[1], "HilbertSpace"))
        middle, half = 0.5 * (X.max(axis=0) + X.min(axis=0)), 0.5 * self.boundary * np.ptp(X, axis=0)
        return HilbertFeatures(numbers, middle - half, middle + half)


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


def waves_up_to(counts: tuple[int, ...]) -> Float[Array, "M D"]:
    """Numbers of half waves along each column: none, and those in the ellipsoid that reaches so far, the longest first."""
    lattice = np.indices(counts).reshape(len(counts), -1).T
    radius = np.sum(np.square(lattice / np.maximum(np.array(counts) - 1, 1)), axis=1)
    order = np.argsort(radius, kind="stable")[: np.count_nonzero(radius <= 1.0)]
    return jnp.asarray(np.concatenate([np.zeros((1, len(counts))), 1.0 + lattice[order]]))


def counts_of_columns(counts: int | tuple[int, ...], num_columns: int, owner: str) -> tuple[int, ...]:
    """One number for each column, of which one may stand for all."""
    counts = (int(counts),) * num_columns if isinstance(counts, int | np.integer) else tuple(counts)
    if len(counts) != num_columns:
        raise ValueError(f"{owner} has {len(counts)} counts for {num_columns} input columns; give one for each, or one number")
    return counts


def as_inducing(value: object) -> Inducing | Placement:
    """An int is k-means, an array is Z itself, "auto" is `Automatic`; inducing variables and placements are what they are."""
    if isinstance(value, Inducing | KMeans | Grid | Subset | HilbertSpace | Automatic):
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
