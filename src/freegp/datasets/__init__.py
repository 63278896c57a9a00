"""Data that ship with the package."""

from importlib.resources import files

import numpy as np


def load_coal() -> np.ndarray:
    """Dates, in decimal years, of 191 explosions in British coal mines that killed ten or more, March 1851 to March 1962.

    R. G. Jarrett (1979), A note on the intervals between coal-mining disasters, Biometrika 66, 191-193; as ``coal`` in R's
    package boot.
    """
    return np.loadtxt(str(files("freegp.datasets") / "coal.csv"), skiprows=1)


def binned_counts(events: np.ndarray, low: float, high: float, num_bins: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Middles ``[N, 1]`` of equal bins between low and high, how many events fall in each ``[N]``, and a bin's width."""
    counts, edges = np.histogram(events, bins=num_bins, range=(low, high))
    return 0.5 * (edges[1:] + edges[:-1])[:, None], counts.astype(float), (high - low) / num_bins
