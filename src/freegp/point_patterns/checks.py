"""The boundary: events, points, regions and probabilities are checked here; each failure names the remedy."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import ArrayLike, Float

from freegp.point_patterns.window import Window, as_window, refuse_dates
from freegp.validation import check_inputs

METHODS = ("sample", "gaussian")
MANY_TWINS = 0.1
"""More than this share of events in the same place as another is worth a word."""


def checked_points(given: ArrayLike, window: Window, name: str) -> Float[np.ndarray, "E D"]:
    """Points inside a window, ``[E, D]``; in one dimension ``[E]`` will do. There may be none."""
    refuse_dates(given, name)
    num_columns = len(window.bounds)
    points = np.asarray(given)
    if points.size == 0:
        return np.zeros((0, num_columns))
    if num_columns == 1 and points.ndim == 1:
        points = points[:, None]
    if points.ndim != 2 or points.shape[1] != num_columns:
        wanted = "(E,) or (E, 1)" if num_columns == 1 else "(E, 2)"
        raise ValueError(
            f"{name} must have shape {wanted} in a window of {num_columns} dimension{'s' * (num_columns > 1)}, but have shape "
            f"{points.shape}; give one row for each"
        )
    points = check_inputs(points, name)
    outside = ~window.contains(points)
    if outside.any():
        first = ", ".join(f"{coordinate:g}" for coordinate in points[outside][0])
        raise ValueError(
            f"{np.count_nonzero(outside)} of {len(points)} {name} lie outside the window (the first is ({first})); widen the "
            "window or drop them"
        )
    return points


def warn_of_twins(events: Float[np.ndarray, "E D"]) -> None:
    """Say so if many events share their place with another."""
    _, copies = np.unique(events, axis=0, return_counts=True)
    twins = int(copies[copies > 1].sum())
    if twins > MANY_TWINS * len(events):
        warnings.warn(
            f"{twins} of {len(events)} events are in the same place as another, which a Cox process does not do; rounding to "
            "less than a cell is harmless, but copies should be dropped (np.unique(events, axis=0))",
            stacklevel=3,
        )


def checked_region(given: Any, window: Window) -> Window:
    """A region of as many dimensions as the window."""
    region = as_window(given, "region")
    if len(region.bounds) != len(window.bounds):
        raise ValueError(f"region has {len(region.bounds)} dimension(s), but the window has {len(window.bounds)}; give as many")
    return region


def check_run(method: str, num_samples: int, num_warmup: int, num_chains: int) -> None:
    """How to fit, before anything is written or computed."""
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, but is {method!r}")
    for name, value, least in (("num_samples", num_samples, 1), ("num_warmup", num_warmup, 0), ("num_chains", num_chains, 1)):
        if value < least:
            raise ValueError(f"{name} must be {least} or more, but is {value}")


def checked_levels(probabilities: Sequence[float]) -> tuple[float, ...]:
    """Probabilities of quantiles, between 0 and 1."""
    levels = tuple(float(level) for level in probabilities)
    if not all(0.0 < level < 1.0 for level in levels):
        raise ValueError(f"probabilities must lie between 0 and 1, but are {levels}; for a 90 % band give (0.05, 0.95)")
    return levels
