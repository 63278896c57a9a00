"""What a Cox process answers with."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float
from numpy import ndarray

SMALL_CHANGE = 0.25
"""A change of the intensity of this share of its band's width is let pass."""


class Intensity(NamedTuple):
    """The intensity at some points: its mean ``[N]``, and its quantiles at the probabilities ``[Q, N]``."""

    mean: Float[ndarray, " N"]
    bands: Float[ndarray, "Q N"]
    probabilities: tuple[float, ...]


class IntensitySurface(NamedTuple):
    """The intensity in each cell; NaN outside the window.

    x and y are the middles of the cells along each axis (y is None in one dimension); mean has shape ``[X]`` or ``[Y, X]``, and
    bands have the quantiles at the probabilities in front of it.
    """

    x: Float[ndarray, " X"]
    y: Float[ndarray, " Y"] | None
    mean: ndarray
    bands: ndarray
    probabilities: tuple[float, ...]


class Count(NamedTuple):
    """A number of events in a region: its mean, its quantiles at the probabilities, and the region's share inside the window."""

    mean: float
    quantiles: Float[ndarray, " Q"]
    probabilities: tuple[float, ...]
    share_inside: float


class HeldOut(NamedTuple):
    """Log predictive probability of another pattern's count in each cell ``[N]``, and its mean over cells."""

    per_cell: Float[ndarray, " N"]
    mean: float


class Refinement(NamedTuple):
    """Whether the cells are small enough.

    Attributes
    ----------
    sentence
        The answer in words.
    fine_enough
        Whether halving the cells leaves the intensity as it is.
    change
        The largest change of the mean intensity, in units of the width of its 90 % band there.
    parameters
        Each parameter's estimate with the cells as they are, and with half their size.
    """

    sentence: str
    fine_enough: bool
    change: float
    parameters: dict[str, tuple[Any, Any]]

    def __str__(self) -> str:
        return self.sentence


def judged(change: float, coarse: pd.DataFrame, fine: pd.DataFrame) -> Refinement:
    """What to make of a change of the intensity, in band widths, and of the estimates before and after."""
    pairs = {name: (coarse.estimate[name], fine.estimate[name]) for name in coarse.index}
    moved = max((float(np.max(np.abs(np.divide(b, a) - 1.0))) for a, b in pairs.values()), default=0.0)
    fine_enough = change <= SMALL_CHANGE
    found = f"halving the cells moves the mean intensity by at most {change:.2g} of its 90 % band's width"
    answer = "the cells are small enough" if fine_enough else "use more cells (grid=)"
    sentence = f"{found} and the parameters by at most {moved:.0%}: {answer} (by Gaussian approximations)"
    return Refinement(sentence, fine_enough, change, pairs)
