"""Whether chains agree, to the eye."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from scipy.stats import rankdata

from freegp.diagnostics import PsrfCurve
from freegp.plots.scalars import scalar_draws
from freegp.plots.style import ACCENT, INK, QUIET, AxesGrid, colour_of, own_axes, own_grid, tidy
from freegp.posterior import Posterior


def traces(posterior: Posterior, names: Sequence[str] | None = None, *, axes: AxesGrid | None = None) -> np.ndarray:
    """Draws in the order they came, one row a parameter and one colour a chain; good ones look like grass, all of one height.

    Names choose parameters ("kernel.lengthscales") or single entries ("kernel.lengthscales[0]"); all if left out.
    """
    scalars = scalar_draws(posterior, names)
    rows = own_grid(axes, len(scalars), 1, 7.0, 1.3)
    for each, (name, draws) in zip(rows, scalars.items(), strict=True):
        for chain, line in enumerate(draws):
            each.plot(line, color=colour_of(chain), lw=0.7, alpha=0.85)
        each.set_title(name, loc="left", fontsize="medium")
        each.margins(x=0.0)
        each.tick_params(labelbottom=each is rows[-1])
        tidy(each)
    rows[-1].set_xlabel("draw")
    return rows


def ranks(
    posterior: Posterior, names: Sequence[str] | None = None, *, num_bins: int = 20, axes: AxesGrid | None = None
) -> np.ndarray:
    """Histograms of the ranks that each chain's draws have among all: level where chains agree (Vehtari et al. 2021).

    One picture a parameter, one row of bars a chain, and a dashed line where bars would all end if ranks were uniform.
    """
    scalars = scalar_draws(posterior, names)
    grid = own_grid(axes, len(scalars), 2, 3.6, 1.9)
    for each, (name, draws) in zip(grid, scalars.items(), strict=True):
        _rank_bars(each, draws, num_bins)
        each.set_title(name, loc="left", fontsize="medium")
        each.set_xlabel("rank among all draws")
    return grid


def psrf_curves(curve: PsrfCurve, *, wanted: float = 1.1, axes: Axes | None = None) -> Axes:
    """Potential scale reduction of the slowest variables against iterations, the slowest of all dark; 1 is agreement."""
    axes = own_axes(axes)
    for values in curve.psrf.T[1:]:
        axes.plot(curve.iterations, values, color=QUIET, lw=0.8, alpha=0.6)
    axes.plot([], [], color=QUIET, lw=0.8, label=f"the {curve.psrf.shape[1]} slowest variables")
    axes.plot(curve.iterations, curve.psrf[:, 0], color=ACCENT, lw=2.0, label=f"variable {curve.variables[0]}, the slowest")
    axes.axhline(wanted, color=INK, lw=1.0, ls="--", label=f"wanted: at most {wanted:g}")
    axes.set(xlabel="draws a chain", ylabel="potential scale reduction")
    axes.margins(x=0.0)
    axes.legend(frameon=False)
    return tidy(axes)


def _rank_bars(axes: Axes, draws: np.ndarray, num_bins: int) -> None:
    place = rankdata(draws, axis=None).reshape(draws.shape)
    edges = np.linspace(0.5, draws.size + 0.5, num_bins + 1)
    counts = np.stack([np.histogram(row, edges)[0] for row in place])
    level = draws.shape[1] / num_bins
    scale = 0.9 / max(counts.max(), 1.8 * level)
    for chain, heights in enumerate(scale * counts):
        axes.bar(edges[:-1], heights, width=0.92 * np.diff(edges), align="edge", bottom=chain, color=colour_of(chain), alpha=0.85)
        axes.axhline(chain + scale * level, color=INK, lw=0.8, ls="--")
    axes.set_yticks(np.arange(len(draws)) + 0.25, [f"chain {chain}" for chain in range(len(draws))])
    axes.tick_params(axis="y", length=0)
    axes.margins(x=0.0)
    tidy(axes).spines["left"].set_visible(False)
