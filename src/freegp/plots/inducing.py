"""Where inducing inputs went."""

import numpy as np
from jaxtyping import ArrayLike, Float
from matplotlib.axes import Axes

from freegp.plots.style import ACCENT, COLOURS, QUIET, dot_size, own_axes, tidy


def inducing_inputs(
    before: ArrayLike,
    after: ArrayLike,
    X: ArrayLike | None = None,
    *,
    columns: tuple[int, int] = (0, 1),
    axes: Axes | None = None,
) -> Axes:
    """Inducing inputs before and after they were trained, each joined to itself, over the data if given.

    One input column is drawn along a line, before above after; of more than two, `columns` says which two.
    """
    Z0, Z1 = _rows(before, "before"), _rows(after, "after")
    if Z0.shape != Z1.shape:
        raise ValueError(f"before and after must have one shape, but have {Z0.shape} and {Z1.shape}; give the same points")
    data = np.empty((0, Z0.shape[1])) if X is None else _rows(X, "X")
    if data.shape[1] != Z0.shape[1]:
        raise ValueError(f"X has {data.shape[1]} columns, but the inducing inputs have {Z0.shape[1]}; give the same columns")
    if Z0.shape[1] == 1:
        return _along_a_line(own_axes(axes, 7.0, 2.0), Z0[:, 0], Z1[:, 0], data[:, 0])
    if max(columns) >= Z0.shape[1] or min(columns) < 0:
        raise ValueError(f"columns must lie between 0 and {Z0.shape[1] - 1}, but are {columns}")
    pair = list(columns)
    return _on_a_plane(own_axes(axes, 5.0, 4.6), Z0[:, pair], Z1[:, pair], data[:, pair], columns)


def _rows(values: ArrayLike, name: str) -> Float[np.ndarray, "N D"]:
    rows = np.asarray(values, dtype=float)
    if rows.ndim != 2:
        raise ValueError(f"{name} must have shape (N, D), but has shape {rows.shape}; for one column use {name}[:, None]")
    return rows


def _along_a_line(axes: Axes, before: np.ndarray, after: np.ndarray, data: np.ndarray) -> Axes:
    axes.plot([before, after], [np.ones_like(before), np.zeros_like(after)], color=QUIET, lw=0.8, alpha=0.7)
    axes.plot(before, np.ones_like(before), "o", mfc="white", mec=COLOURS[1], mew=1.5, ms=6)
    axes.plot(after, np.zeros_like(after), "o", color=ACCENT, ms=6)
    axes.plot(data, np.full(data.shape, -0.7), "|", color=QUIET, ms=8, mew=0.7)
    levels, names = [1.0, 0.0, -0.7], ["before", "after", "data"]
    shown = slice(None) if data.size else slice(2)
    axes.set_yticks(levels[shown], names[shown])
    axes.set(ylim=(-1.1 if data.size else -0.4, 1.4), xlabel="input")
    axes.tick_params(axis="y", length=0)
    tidy(axes).spines["left"].set_visible(False)
    return axes


def _on_a_plane(axes: Axes, before: np.ndarray, after: np.ndarray, data: np.ndarray, columns: tuple[int, int]) -> Axes:
    if len(data):
        axes.plot(*data.T, "o", color="#cfcfcf", ms=dot_size(len(data)), mew=0, label="data", zorder=1)
    axes.plot(*np.stack([before, after]).transpose(2, 0, 1), color=QUIET, lw=0.8, zorder=2)
    axes.plot(*before.T, "o", mfc="white", mec=COLOURS[1], mew=1.5, ms=5.5, label="before", zorder=3)
    axes.plot(*after.T, "o", color=ACCENT, ms=5.5, label="after", zorder=4)
    axes.set(xlabel=f"column {columns[0]}", ylabel=f"column {columns[1]}")
    axes.legend(frameon=False, ncols=3, loc="lower left", bbox_to_anchor=(0.0, 1.0), borderaxespad=0.0)
    return tidy(axes)
