"""Functions of one input."""

from typing import Literal

import numpy as np
from jaxtyping import ArrayLike, Float
from matplotlib.axes import Axes

from freegp.likelihoods import Count, Custom, Gaussian, Ordinal, StudentT
from freegp.plots.style import ACCENT, BAND, INK, check_draws, colour_of, dot_size, own_axes, tidy
from freegp.posterior import Posterior

Quantity = Literal["f", "mean", "y"]
LEVELS = (0.05, 0.5, 0.95)
NUM_INPUTS = 200
NUM_DRAWS = 1000


def intensity_curve(
    times: Float[np.ndarray, " T"], bands: Float[np.ndarray, "3 T"], events: Float[np.ndarray, " E"], *, axes: Axes | None = None
) -> Axes:
    """A rate in time: its median with a band around it, and the events themselves as ticks below. Bands are low, median, high."""
    axes = own_axes(axes, 7.5)
    _band(axes, times, bands, "median rate", ACCENT, BAND)
    _ticks(axes, events)
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    return axes


def latent_1d(
    posterior: Posterior,
    of: Quantity = "f",
    *,
    inputs: ArrayLike | None = None,
    exposure: float | None = None,
    axes: Axes | None = None,
) -> Axes:
    """What is known of a function of one input: a line with a 90 % band, and the data.

    Parameters
    ----------
    posterior
        Draws of a model with one input column.
    of
        "f", the latent functions (median and band); "mean", the mean of y (the rate, the probability), also median and band;
        "y", new observations: their mean, and a band that holds 90 % of them.
    inputs
        Where to draw it; the range of the data if left out.
    exposure
        For counts whose data have an exposure each: the exposure that the picture is for.

    Data are shown as points where y is on the scale of the picture, and as ticks below it where it is not.
    """
    check_draws(posterior, "latent_1d")
    _check_one_column(posterior)
    axes = own_axes(axes)
    at = _inputs_of(posterior) if inputs is None else np.asarray(inputs, dtype=float).ravel()
    if of == "f":
        _draw_latents(axes, posterior, at)
    elif of == "mean":
        _band(axes, at, _mean_bands(posterior, at, exposure), "median of the mean of y", ACCENT, BAND)
    elif of == "y":
        _band(axes, at, _observation_bands(posterior, at, exposure), "mean of y", ACCENT, BAND, "90 % of new data")
    else:
        raise ValueError(f'of must be "f", "mean" or "y", but is {of!r}')
    _draw_data(axes, posterior, of, exposure)
    axes.set(xlabel="input", ylabel={"f": "latent function", "mean": "mean of y", "y": "y"}[of])
    axes.legend(frameon=False, ncols=3, loc="lower left", bbox_to_anchor=(0.0, 1.0), borderaxespad=0.0)
    return axes


def can_show_mean(posterior: Posterior) -> bool:
    """Whether the mean of y rises with the one latent function, whatever the parameters, so that it has f's quantiles."""
    likelihood = posterior.model.likelihood
    return likelihood.num_latents == 1 and not isinstance(likelihood, Ordinal | Custom)


def _check_one_column(posterior: Posterior) -> None:
    if posterior.X.shape[1] != 1:
        raise ValueError(
            f"latent_1d draws functions of one input column, but the model has {posterior.X.shape[1]}; "
            "use latent_2d for two, or predict along a line"
        )


def _inputs_of(posterior: Posterior) -> np.ndarray:
    low, high = posterior.X.min(), posterior.X.max()
    return np.linspace(low, high, NUM_INPUTS)


def _draw_latents(axes: Axes, posterior: Posterior, at: np.ndarray) -> None:
    bands = np.asarray(posterior.quantiles_f(at[:, None], LEVELS))
    if bands.shape[2] == 1:
        _band(axes, at, bands[..., 0], "median of f", ACCENT, BAND)
        return
    for p in range(bands.shape[2]):
        axes.fill_between(at, bands[0, :, p], bands[2, :, p], color=colour_of(p), alpha=0.2, lw=0)
        axes.plot(at, bands[1, :, p], color=colour_of(p), lw=2, label=f"f[{p}], 90 % band")


def _mean_bands(posterior: Posterior, at: np.ndarray, exposure: float | None) -> np.ndarray:
    if not can_show_mean(posterior):
        raise ValueError(
            f'{type(posterior.model.likelihood).__name__} has no mean that rises with one latent function alone; draw "f" or "y"'
        )
    likelihood = posterior.model.likelihood.for_prediction(len(at), exposure)
    bands = np.asarray(posterior.quantiles_f(at[:, None], LEVELS))[..., 0]
    return np.stack([np.asarray(likelihood.predict_y(band, np.zeros_like(band))[0]) for band in bands])


def _observation_bands(posterior: Posterior, at: np.ndarray, exposure: float | None) -> np.ndarray:
    mean = np.asarray(posterior.predict_y(at[:, None], exposure)[0])
    if mean.ndim != 1:
        raise ValueError(f'y is one of {mean.shape[1]} classes, which have no bands; draw "f"')
    drawn = np.asarray(posterior.sample_y(at[:, None], NUM_DRAWS, exposure=exposure))
    low, high = np.quantile(drawn, (LEVELS[0], LEVELS[-1]), axis=0)
    return np.stack([low, mean, high])


def _draw_data(axes: Axes, posterior: Posterior, of: Quantity, exposure: float | None) -> None:
    likelihood, y = posterior.model.likelihood, posterior.y
    if of == "f" and not isinstance(likelihood, Gaussian | StudentT):
        _ticks(axes, posterior.X[:, 0])
        return
    if isinstance(likelihood, Count) and exposure is not None:
        y = y * (exposure / np.asarray(likelihood.exposure))
    axes.plot(posterior.X[:, 0], y, "o", color=INK, ms=dot_size(len(y)), mec="white", mew=0.4, alpha=0.8, label="data", zorder=3)


def _band(axes: Axes, at: np.ndarray, bands: np.ndarray, label: str, line: str, fill: str, band_label: str = "90 % band") -> None:
    low, middle, high = bands
    axes.fill_between(at, low, high, color=fill, lw=0, label=band_label)
    axes.plot(at, middle, color=line, lw=2, label=label)
    axes.margins(x=0.01)
    tidy(axes)


def _ticks(axes: Axes, at: np.ndarray) -> None:
    """Events or inputs along the lower edge."""
    below = np.full(at.shape, -0.03)
    axes.plot(at, below, "|", color=INK, ms=9, mew=0.7, transform=axes.get_xaxis_transform(), clip_on=False)
    axes.tick_params(axis="x", pad=10)
    tidy(axes)
