"""How a model changes with the number of its inducing points."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, LogFormatter, NullLocator

from freegp.plots.style import ACCENT, INK, AxesGrid, colour_of, own_grid, tidy

BOUND, LOST, CHANGE, SCORE, SECONDS = "bound", "nats lost", "change of predictions", "held-out log density", "seconds"
"""The columns of a sweep that are not parameters."""
SPREAD = " sd"
"""What the column of a parameter's posterior standard deviation ends in."""
LITTLE = {LOST: 1.0, CHANGE: 0.25}
"""Up to here a loss, in nats, and a change, in standard deviations of f, are let pass."""
TITLES = {
    BOUND: "bound on the log evidence",
    LOST: "nats lost to sparsity",
    CHANGE: "largest change of f to the next M, in sd",
    SCORE: "held-out log density, mean",
}


def inducing_sweep(table: pd.DataFrame, *, axes: AxesGrid | None = None) -> np.ndarray:
    """What changes with M, each in a picture of its own: the bound, nats lost, predictions, held-out density and parameters.

    The table is that of `fg.sweep_inducing`. Dashed lines are where it no longer matters; parameters are relative to their value
    at the largest M, with a bar of one posterior standard deviation each way where they were sampled.
    """
    shown = [name for name in TITLES if name in table.columns and table[name].notna().any()]
    names = parameter_columns(table)
    grid = own_grid(axes, len(shown) + bool(names), 2, 4.2, 2.6)
    for each, name in zip(grid, shown, strict=False):
        each.plot(table.index, table[name], "o-", color=ACCENT, ms=4.5)
        each.set_title(TITLES[name], loc="left", fontsize="medium")
        if name in LITTLE:
            each.axhline(LITTLE[name], color=INK, lw=1.0, ls="--", label="below this it matters little")
            each.set_yscale("log")
            for formatter in (each.yaxis.set_major_formatter, each.yaxis.set_minor_formatter):
                formatter(LogFormatter(minor_thresholds=(2.0, 0.5)))
            each.legend(frameon=False, fontsize="x-small")
    if names:
        _parameters(grid[-1], table, names)
    for each in grid:
        _along_sizes(each, table.index.to_numpy())
    return grid


def parameter_columns(table: pd.DataFrame) -> list[str]:
    """The columns that hold parameters."""
    known = (*TITLES, SECONDS)
    return [name for name in table.columns if name not in known and not name.endswith(SPREAD)]


def _parameters(axes: Axes, table: pd.DataFrame, names: list[str]) -> None:
    for index, name in enumerate(names):
        last = table[name].iloc[-1]
        bars = table[f"{name}{SPREAD}"] / abs(last) if f"{name}{SPREAD}" in table.columns else None
        axes.errorbar(table.index, table[name] / last, bars, fmt="o-", color=colour_of(index), ms=4.0, capsize=2.0, label=name)
    axes.axhline(1.0, color=INK, lw=1.0, ls="--")
    axes.set_title("parameters, relative to the largest M", loc="left", fontsize="medium")
    if len(names) <= 7:
        axes.legend(frameon=False, fontsize="x-small")


def _along_sizes(axes: Axes, sizes: np.ndarray) -> None:
    axes.set_xscale("log")
    axes.set_xlim(sizes[0] / 1.1, sizes[-1] * 1.1)
    axes.xaxis.set_major_locator(FixedLocator(sizes.tolist()))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticklabels([str(size) for size in sizes])
    axes.set_xlabel("inducing points M")
    tidy(axes)
