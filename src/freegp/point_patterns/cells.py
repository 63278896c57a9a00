"""A grid of cells over a window: how much of each lies inside, and how many events fall in it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int

from freegp.point_patterns.window import Edges, Window, cell_sizes

SLIVER = 1e-9
"""A cell with less than this share of its size inside the window is outside."""
BINS, CELLS_ALONG_SIDE = 100, 32


@dataclass(frozen=True, eq=False)
class Cells:
    """Cells of equal size over the rectangle around a window; those with a part inside it are kept, and carry the data.

    Attributes
    ----------
    window
        Where events were looked for.
    edges
        Edges of the cells along each axis, x first. Arrays over the whole grid have shape ``[X]`` or ``[Y, X]``.
    sizes
        Length or area of each cell inside the window, over the whole grid.
    """

    window: Window
    edges: Edges
    sizes: np.ndarray

    @cached_property
    def kept(self) -> Bool[np.ndarray, "..."]:
        """Which cells of the grid have a part inside the window."""
        return self.sizes > 0.0

    @cached_property
    def exposure(self) -> Float[np.ndarray, " N"]:
        """Length or area inside the window of each kept cell."""
        return self.sizes[self.kept]

    @property
    def middles(self) -> tuple[np.ndarray, ...]:
        """Middles of the cells along each axis."""
        return tuple(0.5 * (axis[1:] + axis[:-1]) for axis in self.edges)

    @property
    def widths(self) -> Float[np.ndarray, " D"]:
        """A cell's width along each axis."""
        return np.array([axis[1] - axis[0] for axis in self.edges])

    @cached_property
    def centres(self) -> Float[np.ndarray, "N D"]:
        """Centres of the kept cells."""
        grids = np.meshgrid(*self.middles)
        return np.stack([grid[self.kept] for grid in grids], axis=1)

    def counts(self, events: Float[np.ndarray, "E D"]) -> Float[np.ndarray, " N"]:
        """How many events fall in each kept cell; one on the border of a cell that was left out goes to the nearest kept one."""
        return np.bincount(self._cell_of(events), minlength=len(self.exposure)).astype(float)

    def sizes_in(self, region: Window) -> Float[np.ndarray, " N"]:
        """Length or area of each kept cell inside the window and the region."""
        return cell_sizes(self.edges, self.window, region)[self.kept]

    def on_grid(self, values: Float[np.ndarray, "... N"]) -> np.ndarray:
        """Values of the kept cells over the whole grid, NaN outside."""
        grid = np.full((*values.shape[:-1], *self.sizes.shape), np.nan)
        grid[..., self.kept] = values
        return grid

    def scatter(self, counts: Int[np.ndarray, " N"], rng: np.random.Generator) -> Float[np.ndarray, "E D"]:
        """So many points in each kept cell, uniform over the part of it inside the window."""
        cell = np.repeat(np.arange(len(counts)), counts)
        points = np.empty((len(cell), len(self.edges)))
        left = np.arange(len(cell))
        while left.size:
            points[left] = self.centres[cell[left]] + (rng.random((left.size, len(self.edges))) - 0.5) * self.widths
            left = left[~self.window.contains(points[left])]
        return points

    def covers(self, points: Float[np.ndarray, "E D"]) -> Bool[np.ndarray, " E"]:
        """Whether each point, within the grid, is in a kept cell."""
        return self.kept[self._index_of(points)]

    def _index_of(self, points: Float[np.ndarray, "E D"]) -> tuple[np.ndarray, ...]:
        """Where in the grid the cell of each point is."""
        columns = [
            np.clip(np.searchsorted(axis, column, side="right") - 1, 0, len(axis) - 2)
            for axis, column in zip(self.edges, points.T, strict=True)
        ]
        return tuple(reversed(columns))

    def _cell_of(self, events: Float[np.ndarray, "E D"]) -> Int[np.ndarray, " E"]:
        """The number of each event's cell among those kept."""
        number = np.full(self.sizes.shape, -1)
        number[self.kept] = np.arange(np.count_nonzero(self.kept))
        found = number[self._index_of(events)]
        for stray in np.flatnonzero(found < 0):
            found[stray] = np.argmin(np.linalg.norm((self.centres - events[stray]) / self.widths, axis=1))
        return found


def lay_cells(window: Window, grid: int | Sequence[int] | None = None) -> Cells:
    """Cells over a window; without a number, 100 bins in one dimension and about 1024 nearly square cells in two."""
    bounds = window.bounds
    numbers = _numbers(grid, [high - low for low, high in bounds])
    edges = tuple(np.linspace(low, high, number + 1) for (low, high), number in zip(bounds, numbers, strict=True))
    sizes = cell_sizes(edges, window)
    whole = math.prod(axis[1] - axis[0] for axis in edges)
    return Cells(window, edges, np.where(sizes > SLIVER * whole, sizes, 0.0))


def _numbers(grid: int | Sequence[int] | None, sides: list[float]) -> tuple[int, ...]:
    if grid is None:
        return (BINS,) if len(sides) == 1 else nearly_square(CELLS_ALONG_SIDE**2, sides)
    numbers = tuple(grid) if isinstance(grid, Sequence) else (grid,) * len(sides)
    if len(numbers) != len(sides):
        raise ValueError(f"grid has {len(numbers)} numbers for {len(sides)} axes; give one for each, or one for all")
    if not all(isinstance(number, int | np.integer) and number >= 2 for number in numbers):
        raise ValueError(f"grid must be 2 or more whole cells along each axis, but is {grid}")
    return tuple(int(number) for number in numbers)


def nearly_square(total: int, sides: list[float]) -> tuple[int, ...]:
    """Numbers along two sides whose product is about a total, in proportion to the sides."""
    along = math.sqrt(total * sides[0] / sides[1])
    return max(2, round(along)), max(2, round(total / along))
