"""Areas of polygons, exactly: in the cells of a grid, and where two polygons overlap."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from jaxtyping import Bool, Float

Vertices = Float[np.ndarray, "V 2"]


def signed_area(vertices: Vertices) -> float:
    """The area enclosed; negative where the vertices go round clockwise."""
    x, y = (vertices - vertices[0]).T
    return 0.5 * float(np.sum(x * np.roll(y, -1) - np.roll(x, -1) * y))


def crosses_itself(vertices: Vertices) -> bool:
    """Whether two edges cut through each other."""
    start = vertices - vertices[0]
    end = np.roll(start, -1, axis=0)
    for i in range(len(start) - 2):
        from_here = _side(start[i], end[i], start[i + 2 :]) * _side(start[i], end[i], end[i + 2 :])
        from_there = _side(start[i + 2 :], end[i + 2 :], start[i]) * _side(start[i + 2 :], end[i + 2 :], end[i])
        if bool(np.any((from_here < 0) & (from_there < 0))):
            return True
    return False


def is_inside(vertices: Vertices, points: Float[np.ndarray, "E 2"], tolerance: float) -> Bool[np.ndarray, " E"]:
    """Whether each point is in the polygon (a ray to the right meets its edges an odd number of times) or this near an edge."""
    odd = np.zeros(len(points), dtype=bool)
    near = np.zeros(len(points), dtype=bool)
    for start, end in zip(vertices, np.roll(vertices, -1, axis=0), strict=True):
        spans = (start[1] > points[:, 1]) != (end[1] > points[:, 1])
        step = end - start
        along = (points[spans, 1] - start[1]) / (end[1] - start[1]) if spans.any() else np.zeros(0)
        odd[spans] ^= points[spans, 0] < start[0] + along * step[0]
        share = np.clip((points - start) @ step / max(step @ step, np.finfo(float).tiny), 0.0, 1.0)
        near |= np.linalg.norm(points - start - share[:, None] * step, axis=1) <= tolerance
    return odd | near


def cell_areas(vertices: Vertices, x_edges: Float[np.ndarray, " X"], y_edges: Float[np.ndarray, " Y"]) -> np.ndarray:
    """The area of a counter-clockwise polygon in each cell of a grid, ``[Y - 1, X - 1]``."""
    if len(vertices) < 3:
        return np.zeros((len(y_edges) - 1, len(x_edges) - 1))
    origin = vertices.min(axis=0)
    below = _areas_below(vertices - origin, x_edges - origin[0], y_edges - origin[1])
    return np.maximum(np.diff(np.diff(below, axis=0), axis=1), 0.0)


def overlap_pieces(first: Vertices, second: Vertices) -> Iterator[tuple[float, Vertices]]:
    """Signed polygons that add up to where two counter-clockwise polygons overlap.

    A fan of triangles from one vertex, each counted with the sign of its orientation, adds up to the second polygon; the first
    one is clipped to each of them, which a convex shape allows.
    """
    for start, end in pairwise(second[1:]):
        triangle = np.array([second[0], start, end])
        sign = np.sign(signed_area(triangle))
        if sign != 0.0:
            yield float(sign), _clipped(first, triangle if sign > 0 else triangle[::-1])


def _side(start: np.ndarray, end: np.ndarray, point: np.ndarray) -> np.ndarray:
    """Positive where the point is to the left of the line from start to end."""
    step, away = end - start, point - start
    return step[..., 0] * away[..., 1] - step[..., 1] * away[..., 0]


def _clipped(vertices: Vertices, convex: Vertices) -> Vertices:
    """The part of a polygon inside a convex counter-clockwise one (Sutherland & Hodgman 1974); its area is exact."""
    for start, end in zip(convex, np.roll(convex, -1, axis=0), strict=True):
        side = _side(start, end, vertices)
        following, side_following = np.roll(vertices, -1, axis=0), np.roll(side, -1)
        cut = (side >= 0) != (side_following >= 0)
        share = np.where(cut, side, 0.0) / np.where(cut, side - side_following, 1.0)
        corners = np.stack([vertices, vertices + share[:, None] * (following - vertices)], axis=1).reshape(-1, 2)
        vertices = corners[np.stack([side >= 0, cut], axis=1).ravel()]
    return vertices


def _areas_below(vertices: Vertices, x: Float[np.ndarray, " X"], y: Float[np.ndarray, " Y"]) -> Float[np.ndarray, "Y X"]:
    """The area of a polygon to the left of each x and below each y.

    Green's theorem: each edge adds what lies under it and under y, with the sign of its direction.
    """
    ends = np.roll(vertices, -1, axis=0)
    y = np.clip(y, 0.0, vertices[:, 1].max())[:, None]
    total = np.zeros((len(y), len(x)))
    for (x1, y1), (x2, y2) in zip(vertices, ends, strict=True):
        if x1 == x2:
            continue
        left, right = min(x1, x2), max(x1, x2)
        until = np.clip(x, left, right)[None, :]
        slope = (y2 - y1) / (x2 - x1)
        gap_left, gap_until = y - (y1 + slope * (left - x1)), y - (y1 + slope * (until - x1))
        total += np.sign(x1 - x2) * (until - left) * (y - _mean_above_zero(gap_left, gap_until))
    return total


def _mean_above_zero(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """The mean of max(h, 0) along a straight line from one height to another."""
    high, low = np.maximum(start, end), np.minimum(start, end)
    apart = np.where(high > low, high - low, 1.0)
    return np.where(low >= 0, 0.5 * (high + low), np.square(np.maximum(high, 0.0)) / (2.0 * apart))


def outlines(inside: Bool[np.ndarray, "Y X"], x_edges: np.ndarray, y_edges: np.ndarray) -> list[Float[np.ndarray, "V 2"]]:
    """The polygons around the pixels that are inside: counter-clockwise, and clockwise around holes.

    >>> [len(polygon) for polygon in outlines(np.array([[True, True], [True, False]]), np.arange(3.0), np.arange(3.0))]
    [8]
    """
    onward = _border_steps(np.pad(inside, 1))
    polygons = []
    while onward:
        corner = next(iter(onward))
        around = []
        while corner in onward:
            around.append(corner)
            after = onward[corner].pop()
            if not onward[corner]:
                del onward[corner]
            corner = after
        rows, columns = np.array(around).T
        polygons.append(np.stack([x_edges[columns], y_edges[rows]], axis=1))
    return polygons


def _border_steps(padded: Bool[np.ndarray, "Y X"]) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """From each corner (row, column) of the border the next ones, a pixel's side away, with the inside on the left."""
    steps: dict[tuple[int, int], list[tuple[int, int]]] = {}
    middle = padded[1:-1, 1:-1]
    sides = {  # the neighbour that is outside, and the side's two ends as corners of the pixel
        (0, 1): ((0, 0), (0, 1)),
        (1, 2): ((0, 1), (1, 1)),
        (2, 1): ((1, 1), (1, 0)),
        (1, 0): ((1, 0), (0, 0)),
    }
    for (down, right), (start, end) in sides.items():
        neighbour = padded[down : down + middle.shape[0], right : right + middle.shape[1]]
        for row, column in np.argwhere(middle & ~neighbour).tolist():
            first, second = ((row + corner[0], column + corner[1]) for corner in (start, end))
            steps.setdefault(first, []).append(second)
    return steps
