"""Where events were looked for: an interval, a polygon (a rectangle is one) or a mask."""

import contextlib
import datetime
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import numpy as np
from jaxtyping import ArrayLike, Bool, Float

from freegp.point_patterns import geometry
from freegp.saving import registered

Edges: TypeAlias = tuple[np.ndarray, ...]
"""Edges of a grid's cells along each axis, x first."""
Bounds: TypeAlias = tuple[tuple[float, float], ...]
"""The lowest and highest coordinate along each axis, x first."""

NEAR = 1e-9
"""An event this near the border, in units of the window's longest side, is inside."""


@registered
@dataclass(frozen=True)
class Interval:
    """A stretch of a line or of time, its ends included."""

    low: float
    high: float

    def __post_init__(self) -> None:
        _check_ends(self.low, self.high, "the interval")

    @property
    def bounds(self) -> Bounds:
        """Its ends."""
        return ((self.low, self.high),)

    @property
    def size(self) -> float:
        """Its length."""
        return self.high - self.low

    def contains(self, points: Float[np.ndarray, "E 1"]) -> Bool[np.ndarray, " E"]:
        """Whether each point is in it."""
        slack = NEAR * self.size
        return (points[:, 0] >= self.low - slack) & (points[:, 0] <= self.high + slack)


@registered
@dataclass(frozen=True, eq=False)
class Polygon:
    """A simple polygon: vertices ``[V, 2]`` in order, either way round; the first need not be repeated."""

    vertices: np.ndarray = field(repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "vertices", _checked_vertices(self.vertices))

    @property
    def bounds(self) -> Bounds:
        """The rectangle around it."""
        return tuple((float(column.min()), float(column.max())) for column in self.vertices.T)

    @cached_property
    def size(self) -> float:
        """Its area."""
        return geometry.signed_area(self.vertices)

    def contains(self, points: Float[np.ndarray, "E 2"]) -> Bool[np.ndarray, " E"]:
        """Whether each point is in it or on its border."""
        return geometry.is_inside(self.vertices, points, NEAR * max(high - low for low, high in self.bounds))


@registered
@dataclass(frozen=True, eq=False)
class Mask:
    """The pixels of a rectangle that were looked at.

    Parameters
    ----------
    extent
        The rectangle, ``((x0, x1), (y0, y1))``.
    inside
        Booleans ``[rows, columns]``: rows go up from y0, columns to the right from x0 (as ``imshow(origin="lower")`` shows
        them).
    """

    extent: Bounds
    inside: np.ndarray = field(repr=False)

    def __post_init__(self) -> None:
        extent, inside = np.asarray(self.extent, dtype=float), np.asarray(self.inside)
        if extent.shape != (2, 2):
            raise ValueError(f"the mask's extent must be ((x0, x1), (y0, y1)), but has shape {extent.shape}")
        for name, (low, high) in zip(("x", "y"), extent.tolist(), strict=True):
            _check_ends(low, high, f"the mask's extent in {name}")
        if inside.ndim != 2 or inside.dtype != bool:
            raise ValueError(
                f"the mask must be a two-dimensional array of True and False, but has shape {inside.shape} and holds "
                f"{inside.dtype}; for numbers use mask > 0"
            )
        if not inside.any():
            raise ValueError("the mask is empty: no pixel is True; mark those that were looked at")
        object.__setattr__(self, "extent", tuple((low, high) for low, high in extent.tolist()))
        object.__setattr__(self, "inside", inside)

    @property
    def bounds(self) -> Bounds:
        """Its extent."""
        return self.extent

    @property
    def pixel_edges(self) -> Edges:
        """Edges of the pixels along x and along y."""
        counts = self.inside.shape[::-1]
        return tuple(np.linspace(low, high, count + 1) for (low, high), count in zip(self.extent, counts, strict=True))

    @property
    def size(self) -> float:
        """The area of its pixels."""
        (x0, x1), (y0, y1) = self.extent
        return float((x1 - x0) * (y1 - y0) * np.mean(self.inside))

    def contains(self, points: Float[np.ndarray, "E 2"]) -> Bool[np.ndarray, " E"]:
        """Whether each point is in one of its pixels, or on the border of one."""
        found = np.zeros(len(points), dtype=bool)
        slack = NEAR * max(high - low for low, high in self.extent)
        for shift in np.array([(0.0, 0.0), (slack, slack), (slack, -slack), (-slack, slack), (-slack, -slack)]):
            found |= self._pixel_is_inside(points + shift)
        return found

    def _pixel_is_inside(self, points: Float[np.ndarray, "E 2"]) -> Bool[np.ndarray, " E"]:
        (x_edges, y_edges), found = self.pixel_edges, np.zeros(len(points), dtype=bool)
        column = np.searchsorted(x_edges, points[:, 0], side="right") - 1
        row = np.searchsorted(y_edges, points[:, 1], side="right") - 1
        rows, columns = self.inside.shape
        within = (row >= 0) & (row < rows) & (column >= 0) & (column < columns)
        found[within] = self.inside[row[within], column[within]]
        return found


Window: TypeAlias = Interval | Polygon | Mask


def as_window(value: "Window | ArrayLike | Sequence[object]", name: str = "window") -> Window:
    """``(low, high)`` is an interval, ``((x0, x1), (y0, y1))`` a rectangle, three or more rows a polygon's vertices."""
    if isinstance(value, Interval | Polygon | Mask):
        return value
    refuse_dates(value, name)
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise TypeError(f"{name} {_KINDS}, not {value!r}") from None
    if not np.isfinite(array).all():
        raise ValueError(f"{name} holds NaN or infinite numbers; give finite ends or vertices")
    if array.shape == (2,):
        _check_ends(array[0], array[1], name)
        return Interval(float(array[0]), float(array[1]))
    if array.shape == (2, 2):
        for axis, (low, high) in zip("xy", array, strict=True):
            _check_ends(low, high, f"{name} in {axis}")
        (x0, x1), (y0, y1) = array
        return Polygon(np.array([(x0, y0), (x1, y0), (x1, y1), (x0, y1)]))
    if array.ndim == 2 and array.shape[1] == 2:
        return Polygon(array)
    raise ValueError(f"{name} {_KINDS}, but an array of shape {array.shape} was given")


def refuse_dates(value: object, name: str) -> None:
    """Dates count from different days in different units, so that a rate could not be read."""
    with contextlib.suppress(ValueError):  # of rows that differ in length, which others refuse
        entries = np.asarray(value)
        if entries.dtype.kind not in "mM" and not any(isinstance(entry, datetime.date) for entry in entries.ravel()[:1].tolist()):
            return
        raise TypeError(
            f"{name} holds dates; give numbers in the unit that the rate is to be per, for example "
            "(dates - first) / np.timedelta64(1, 'D') for days"
        )


def borders(window: Window) -> list[np.ndarray]:
    """The polygons around the window: one, or those around the pixels of a mask; none of an interval."""
    if isinstance(window, Interval):
        return []
    return [window.vertices] if isinstance(window, Polygon) else geometry.outlines(window.inside, *window.pixel_edges)


_KINDS = "is (low, high), ((x0, x1), (y0, y1)), a polygon's vertices as an (n, 2) array, or a Mask"


def cell_sizes(edges: Edges, *windows: Window) -> np.ndarray:
    """Length or area of each cell that lies in all of the windows, exactly; ``[X]`` or ``[Y, X]``."""
    if len(edges) == 1:
        low, high = (limit(end) for limit, end in zip((max, min), zip(*(w.bounds[0] for w in windows), strict=True), strict=True))
        return np.diff(np.clip(edges[0], low, max(low, high)))
    masks = [window for window in windows if isinstance(window, Mask)]
    fine = tuple(np.unique(np.concatenate([axis, *(mask.pixel_edges[i] for mask in masks)])) for i, axis in enumerate(edges))
    fine = tuple(axis[(axis >= coarse[0]) & (axis <= coarse[-1])] for axis, coarse in zip(fine, edges, strict=True))
    areas = _polygon_areas(fine, [window.vertices for window in windows if isinstance(window, Polygon)])
    middles = [0.5 * (axis[1:] + axis[:-1]) for axis in fine]
    points = np.stack([grid.ravel() for grid in np.meshgrid(*middles)], axis=1)
    for mask in masks:
        areas = areas * mask._pixel_is_inside(points).reshape(areas.shape)
    for axis, (own, coarse) in enumerate(zip(fine, edges, strict=True)):
        areas = np.add.reduceat(areas, np.searchsorted(own, coarse[:-1]), axis=1 - axis)
    return areas


def _polygon_areas(edges: Edges, polygons: list[np.ndarray]) -> np.ndarray:
    """Area of each cell inside all of at most two polygons."""
    x_edges, y_edges = edges
    if not polygons:
        return np.outer(np.diff(y_edges), np.diff(x_edges))
    if len(polygons) == 1:
        return geometry.cell_areas(polygons[0], x_edges, y_edges)
    total = np.zeros((len(y_edges) - 1, len(x_edges) - 1))
    for sign, piece in geometry.overlap_pieces(*polygons):
        total += sign * geometry.cell_areas(piece, x_edges, y_edges)
    return np.maximum(total, 0.0)


def _check_ends(low: float, high: float, name: str) -> None:
    if not (np.isfinite(low) and np.isfinite(high)):
        raise ValueError(f"{name} holds NaN or infinite numbers; give finite ends")
    if not low < high:
        problem = "is empty: both ends are" if low == high else "is reversed: it goes from"
        shown = f"{low:g}" if low == high else f"{low:g} to {high:g}"
        raise ValueError(f"{name} {problem} {shown}; give the low end first and a higher one after it")


def _checked_vertices(given: ArrayLike) -> np.ndarray:
    """Vertices counter-clockwise, without a repeated last one."""
    vertices = np.asarray(given, dtype=float)
    if vertices.ndim != 2 or vertices.shape[1] != 2 or not np.isfinite(vertices).all():
        raise ValueError(f"a polygon's vertices must be finite numbers of shape (n, 2), but have shape {vertices.shape}")
    if len(vertices) > 1 and (vertices[0] == vertices[-1]).all():
        vertices = vertices[:-1]
    if len(vertices) < 3:
        raise ValueError(
            f"a polygon has 3 or more vertices, but {len(vertices)} were given; for a rectangle use ((x0, x1), (y0, y1))"
        )
    area, box = geometry.signed_area(vertices), float(np.prod(np.ptp(vertices, axis=0)))
    if geometry.crosses_itself(vertices):
        raise ValueError("the polygon's edges cross each other; give its vertices in order along the border")
    if not abs(area) > 1e-12 * box:
        raise ValueError("the polygon has no area: its vertices lie on a line; give vertices in order along the border")
    return vertices if area > 0 else vertices[::-1]
