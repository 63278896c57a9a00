"""Data that ship with the package."""

from dataclasses import dataclass
from importlib.resources import files

import numpy as np


def load_coal() -> np.ndarray:
    """Dates, in decimal years, of 191 explosions in British coal mines that killed ten or more, March 1851 to March 1962.

    R. G. Jarrett (1979), A note on the intervals between coal-mining disasters, Biometrika 66, 191-193; as ``coal`` in R's
    package boot.
    """
    return np.loadtxt(str(files("freegp.datasets") / "coal.csv"), skiprows=1)


@dataclass(frozen=True, eq=False)
class PointPattern:
    """Events ``[E, D]`` and the window they were looked for in, as `fg.CoxProcess` takes it."""

    events: np.ndarray
    window: tuple[tuple[float, float], ...]


def load_pines() -> PointPattern:
    """Where 126 pine saplings stand in a Finnish forest, in metres, in a square of 10 by 10.

    Recorded by S. Kellomäki, University of Joensuu, and prepared by A. Penttinen, University of Jyväskylä; as ``finpines`` in
    R's package spatstat.data. The places were found from a centre by distance and a coarse angle, to which small random changes
    were made afterwards.
    """
    events = np.loadtxt(str(files("freegp.datasets") / "pines.csv"), skiprows=1, delimiter=",")
    return PointPattern(events, ((-5.0, 5.0), (-8.0, 2.0)))


def binned_counts(events: np.ndarray, low: float, high: float, num_bins: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Middles ``[N, 1]`` of equal bins between low and high, how many events fall in each ``[N]``, and a bin's width."""
    counts, edges = np.histogram(events, bins=num_bins, range=(low, high))
    return 0.5 * (edges[1:] + edges[:-1])[:, None], counts.astype(float), (high - low) / num_bins
