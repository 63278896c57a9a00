"""The report's pictures, drawn without a display and kept inside the page."""

import base64
import io
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from freegp import plots
from freegp.likelihoods import Bernoulli, Count, Multiclass
from freegp.plots.curves import can_show_mean
from freegp.plots.maps import shows_inducing
from freegp.posterior import Posterior
from freegp.report.units import Scale, Units

WIDTH = 6.0
DPI = 150
DRAWS_FOR_MAPS = 50
CELLS_A_SIDE = 40
FEWEST_FOR_LEAVE_ONE_OUT = 25


class Picture(NamedTuple):
    """A picture as a data address, what it shows for those who cannot see it, and a sentence below it."""

    address: str
    alternative: str
    caption: str


def belief_picture(posterior: Posterior, names: list[str]) -> Picture:
    """Prior against posterior of these parameters."""
    num_rows = -(-len(names) // 2)
    figure = Figure(figsize=(WIDTH, 2.2 * num_rows), layout="constrained")
    axes = figure.subplots(num_rows, 2, squeeze=False).ravel()
    for spare in axes[len(names) :]:
        spare.remove()
    plots.prior_and_posterior(posterior, names, axes=axes[: len(names)])
    caption = "What was believed before the data (dashed) and what is believed now, from the draws."
    return Picture(_address(figure), f"Prior density and histogram of draws of {', '.join(names)}", caption)


def chain_pictures(posterior: Posterior, names: list[str]) -> list[Picture]:
    """Traces and ranks of these parameters."""
    figure = Figure(figsize=(WIDTH, 0.4 + 1.2 * len(names)), layout="constrained")
    plots.traces(posterior, names, axes=figure.subplots(len(names), 1, squeeze=False).ravel())
    listed = ", ".join(names)
    caption = "Draws in the order they came, a colour a chain. Good chains look alike and wander over the same heights."
    traces = Picture(_address(figure), f"Traces of {listed}", caption)
    num_rows, height = -(-len(names) // 2), 0.9 + 0.4 * posterior.num_chains
    figure = Figure(figsize=(WIDTH, height * num_rows), layout="constrained")
    axes = figure.subplots(num_rows, 2, squeeze=False).ravel()
    for spare in axes[len(names) :]:
        spare.remove()
    plots.ranks(posterior, names, axes=axes[: len(names)])
    caption = "Ranks of each chain's draws among all. Bars about level with the dashed lines mean that the chains agree."
    return [traces, Picture(_address(figure), f"Rank histograms of {listed}", caption)]


def fit_picture(posterior: Posterior, units: Units | None) -> Picture | None:
    """The function itself where it has one or two inputs."""
    draw = {1: _curve, 2: _map}.get(posterior.X.shape[1])
    return None if draw is None else draw(posterior, units)


def calibration_picture(posterior: Posterior) -> Picture | None:
    """Whether predicted class probabilities are right, where there are classes."""
    likelihood = posterior.model.likelihood
    if isinstance(likelihood, Bernoulli) and posterior.num_chains * posterior.num_draws < FEWEST_FOR_LEAVE_ONE_OUT:
        return None
    if isinstance(likelihood, Bernoulli):
        left_out = posterior.loo()
        own = np.exp(left_out.pointwise)
        predicted, seen = np.where(posterior.y == 1.0, own, 1.0 - own), posterior.y
        caption = (
            "Probability of class 1 for each datum, predicted from the others, against how often it came. "
            f"Leave-one-out by importance sampling is {left_out.verdict}."
        )
    elif isinstance(likelihood, Multiclass):
        every = np.asarray(posterior.predict_y(posterior.X)[0])
        predicted, seen = every.max(axis=1), (every.argmax(axis=1) == posterior.y).astype(float)
        caption = (
            "Probability of the likeliest class against how often it was the right one, on the data that the model was fitted "
            "to; on new data it may well do worse."
        )
    else:
        return None
    num_bins = int(np.clip(len(seen) // 10, 2, 10))
    picture = _single(lambda axes: plots.calibration_curve(np.clip(predicted, 0.0, 1.0), seen, num_bins=num_bins, axes=axes), 4.4)
    return Picture(picture, "Predicted probability against observed share", caption)


def _curve(posterior: Posterior, units: Units | None) -> Picture:
    exposure = _unit_exposure(posterior) if units is None else units.rate
    of_mean = can_show_mean(posterior)

    def draw(axes: Axes) -> None:
        plots.latent_1d(posterior, "mean" if of_mean else "f", exposure=exposure if of_mean else None, axes=axes)
        if units is not None:
            units.inputs[0].label(axes.xaxis)
        if units is not None and of_mean:
            units.target.label(axes.yaxis)

    if not of_mean:
        return Picture(_single(draw), "Latent functions against the input", "Latent functions: median and 90 % band.")
    mean = "Mean of y" if units is None else units.target.name.capitalize()
    unit = ", for an exposure of 1" if units is None and exposure is not None else ""
    caption = f"{mean}: median and 90 % band{unit}. The band is for the mean; single data scatter around it."
    return Picture(_single(draw), f"{mean} against the input, with the data", caption)


def _map(posterior: Posterior, units: Units | None) -> Picture:
    """From some of the draws, as a map asks for thousands of predictions."""
    step = posterior.num_chains * posterior.num_draws // DRAWS_FOR_MAPS
    posterior = posterior.thinned(int(np.clip(step, 1, posterior.num_draws)))
    used = f"averaged over {posterior.num_chains * posterior.num_draws} draws"
    if isinstance(posterior.model.likelihood, Bernoulli | Multiclass):

        def contours(axes: Axes) -> None:
            plots.probability_contours(posterior, names=units.classes if units else None, resolution=CELLS_A_SIDE, axes=axes)
            _name_sides(axes, units)

        caption = f"Class probabilities, {used}: thick lines at 0.5.{_crosses(posterior)}"
        return Picture(_single(contours, 5.0), "Map of class probabilities with the data", caption)
    figure = Figure(figsize=(WIDTH, 2.7), layout="constrained")
    maps = plots.latent_2d(posterior, resolution=CELLS_A_SIDE, axes=figure.subplots(1, 2))
    for axes in maps:
        _name_sides(axes, units)
    if units is not None:
        spread = Scale("standard deviation", 0.0, units.latent.scale)
        for axes, scale in zip(maps, (units.latent, spread), strict=True):
            _name_bar(axes, scale)
    name = "latent function" if units is None else units.latent.name
    caption = f"The {name}: posterior mean and standard deviation, {used}. Dots are data.{_crosses(posterior)}"
    return Picture(_address(figure), f"Maps of the mean and standard deviation of the {name}", caption)


def _crosses(posterior: Posterior) -> str:
    return " Crosses are the inducing inputs." if shows_inducing(posterior) else " Most of the data are inducing inputs."


def _name_sides(axes: Axes, units: Units | None) -> None:
    if units is not None:
        units.inputs[0].label(axes.xaxis, 2)
        units.inputs[1].label(axes.yaxis)


def _name_bar(axes: Axes, scale: Scale) -> None:
    bar = axes.collections[0].colorbar
    if bar is None:
        return
    bar.locator, bar.formatter = scale.locator(), scale.formatter()
    bar.set_label(scale.name)
    bar.update_ticks()


def _unit_exposure(posterior: Posterior) -> float | None:
    """A rate where each datum had an exposure of its own."""
    likelihood = posterior.model.likelihood
    return 1.0 if isinstance(likelihood, Count) and np.ndim(likelihood.exposure) == 1 else None


def _single(draw: Callable[[Axes], object], height: float = 3.6) -> str:
    figure = Figure(figsize=(WIDTH if height < 4.0 else 1.15 * height, height), layout="constrained")
    draw(figure.subplots())
    return _address(figure)


def _address(figure: Figure) -> str:
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=DPI)
    return "data:image/png;base64," + base64.b64encode(data.getvalue()).decode()
