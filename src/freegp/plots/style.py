"""Colours and axes that all pictures share."""

from collections.abc import Sequence
from typing import TypeAlias

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from freegp.posterior import Posterior

INK, ACCENT, BAND, QUIET = "#222222", "#1f5a94", "#9ec3e6", "#8a8a8a"
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#222222")
"""Okabe and Ito's, which people who see few colours tell apart."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X")

AxesGrid: TypeAlias = Sequence[Axes] | np.ndarray


def colour_of(index: int) -> str:
    """The colour of a chain, a class or a latent function."""
    return COLOURS[index % len(COLOURS)]


def check_draws(posterior: object, picture: str) -> None:
    """That a picture of draws is given draws."""
    if not isinstance(posterior, Posterior):
        raise TypeError(
            f"{picture} shows draws, which a {type(posterior).__name__} does not have; give what fg.sample returned, "
            "or draw a fit's fit.quantiles_f(Xs) with matplotlib"
        )


def own_axes(axes: Axes | None, width: float = 7.0, height: float = 3.6) -> Axes:
    """The axes given, or new ones."""
    return plt.subplots(figsize=(width, height), layout="constrained")[1] if axes is None else axes


def own_grid(axes: AxesGrid | None, count: int, num_columns: int, width: float, height: float) -> np.ndarray:
    """As many axes as there are things to draw, ``[count]``: those given, or new ones of this size each."""
    if axes is None:
        num_columns = min(count, num_columns)
        num_rows = -(-count // num_columns)
        size = (width * num_columns, height * num_rows)
        made = plt.subplots(num_rows, num_columns, figsize=size, layout="constrained", squeeze=False)[1].ravel()
        for spare in made[count:]:
            spare.remove()
        return made[:count]
    given = np.asarray(axes, dtype=object).ravel()
    if len(given) != count:
        raise ValueError(f"there are {count} pictures to draw, but {len(given)} axes were given; give one for each")
    return given


def tidy(axes: Axes) -> Axes:
    """Without the box."""
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def dot_size(count: int) -> float:
    """Dots that shrink as they become many."""
    return float(np.clip(60.0 / np.sqrt(max(count, 1)), 1.5, 4.5))
