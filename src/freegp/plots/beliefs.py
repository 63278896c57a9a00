"""What was believed of the parameters, and what is now."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from freegp.fields import ordered, positive, unit_interval
from freegp.parameters import Parameter
from freegp.plots.scalars import Entry, entries, scalar_draws
from freegp.plots.style import BAND, INK, AxesGrid, own_grid, tidy
from freegp.posterior import Posterior
from freegp.priors import Prior


def prior_and_posterior(posterior: Posterior, names: Sequence[str] | None = None, *, axes: AxesGrid | None = None) -> np.ndarray:
    """The prior density of each parameter (dashed) against a histogram of its draws, in natural units.

    The picture spans the draws, so a prior much wider than the posterior is a flat line. Of an ordered parameter (cutpoints) only
    the draws are shown: an entry's prior depends on its neighbours.
    """
    chosen = entries(posterior, names)
    draws = scalar_draws(posterior, names)
    grid = own_grid(axes, len(chosen), 3, 2.9, 2.1)
    for each, entry in zip(grid, chosen, strict=True):
        _draw(each, entry, draws[entry.name].ravel())
        each.set_title(entry.name, loc="left", fontsize="medium")
    grid[0].legend(frameon=False, fontsize="small", handlelength=1.5)
    return grid


def prior_density(parameter: Parameter, position: int, values: Float[np.ndarray, " V"]) -> Float[np.ndarray, " V"]:
    """The prior density of one entry of a parameter, in natural units; cut off where the parameter cannot be."""
    prior = entry_prior(parameter, position)
    inside = np.asarray(prior.support(values)) & np.asarray(parameter.constraint(values))
    density = np.exp(np.asarray(prior.log_prob(np.where(inside, values, values[np.argmax(inside)]))))
    return np.where(inside, density, 0.0) / _mass(parameter, prior)


def entry_prior(parameter: Parameter, position: int) -> Prior:
    """The prior of one entry of a parameter."""
    assert parameter.prior is not None
    arguments = (np.broadcast_to(np.asarray(a, dtype=float), parameter.shape) for a in parameter.prior.arguments)
    return Prior(parameter.prior.name, tuple(float(argument.ravel()[position]) for argument in arguments))


def _mass(parameter: Parameter, prior: Prior) -> float:
    """How much of the prior lies where the parameter can be."""
    cdf = prior.distribution().cdf
    if parameter.constraint is positive:
        return 1.0 - float(cdf(0.0)) if prior.name in ("Normal", "StudentT") else 1.0
    if parameter.constraint is unit_interval:
        return float(cdf(1.0) - cdf(0.0)) if prior.name in ("Normal", "StudentT") else 1.0
    return 1.0


def _draw(axes: Axes, entry: Entry, draws: np.ndarray) -> None:
    shown = draws[(draws >= np.quantile(draws, 0.001)) & (draws <= np.quantile(draws, 0.999))]
    num_bins = int(np.clip(np.sqrt(shown.size), 8, 40))
    heights = axes.hist(shown, bins=num_bins, density=True, color=BAND, ec="white", lw=0.3, label="posterior")[0]
    if entry.parameter.constraint is not ordered:
        reach = 0.35 * np.ptp(shown) or 0.1 * abs(shown[0]) or 1.0
        values = np.linspace(shown.min() - reach, shown.max() + reach, 300)
        density = prior_density(entry.parameter, entry.position, values)
        possible = density > 0.0
        axes.plot(values[possible], density[possible], "--", color=INK, lw=1.4, label="prior")
    axes.set_yticks([])
    axes.set_ylim(0.0, min(1.15 * axes.dataLim.y1, 1.6 * float(np.max(heights))))
    tidy(axes).spines["left"].set_visible(False)
