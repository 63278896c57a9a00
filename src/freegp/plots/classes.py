"""Class probabilities: where they change, and whether they are right."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import ArrayLike
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from scipy.stats import beta

from freegp.likelihoods import Bernoulli, Multiclass
from freegp.plots.maps import RESOLUTION, draw_inducing, grid_over, name_sides, shows_inducing
from freegp.plots.style import ACCENT, BAND, COLOURS, INK, MARKERS, QUIET, check_draws, colour_of, dot_size, own_axes, tidy
from freegp.posterior import Posterior


def probability_contours(
    posterior: Posterior, *, names: Sequence[str] | None = None, resolution: int = RESOLUTION, axes: Axes | None = None
) -> Axes:
    """Class probabilities over two inputs, with the data in the colours of their classes.

    Inducing inputs are crosses, unless they are more than half as many as the data.

    Two classes: shades of p(y = 1) with lines at 0.1, 0.25, 0.5 (thick), 0.75 and 0.9. Several: for each class, in its colour,
    lines at 0.5 (shaded above it), 0.75 and 0.95. Names stand for the labels 0, 1, ... in the legend.
    """
    check_draws(posterior, "probability_contours")
    likelihood = posterior.model.likelihood
    if not isinstance(likelihood, Bernoulli | Multiclass):
        raise ValueError(f"probability_contours draws classes, but the likelihood is {type(likelihood).__name__}; use latent_2d")
    x, y, cells = grid_over(posterior, resolution)
    probabilities = np.asarray(posterior.predict_y(cells)[0])
    axes = own_axes(axes, 5.2, 4.4)
    if probabilities.ndim == 1:
        _two_classes(axes, x, y, probabilities.reshape(len(y), len(x)), "class 1" if names is None else names[-1])
    else:
        for label, column in enumerate(probabilities.T):
            _one_of_several(axes, x, y, column.reshape(len(y), len(x)), colour_of(label))
    _draw_labels(axes, posterior, names)
    if shows_inducing(posterior):
        draw_inducing(axes, np.asarray(posterior.model.inducing_inputs))
    axes.set(xlim=(x[0], x[-1]), ylim=(y[0], y[-1]))
    name_sides(axes)
    axes.spines[:].set_visible(False)
    axes.legend(frameon=False, ncols=4, loc="lower left", bbox_to_anchor=(0.0, 1.0), borderaxespad=0.0, handletextpad=0.3)
    return axes


def calibration_curve(probabilities: ArrayLike, y: ArrayLike, *, num_bins: int = 10, axes: Axes | None = None) -> Axes:
    """Predicted probabilities of a yes against how often it came, in bins of as many data each.

    Bars are 90 % intervals of the share in each bin (Jeffreys's, for independent data); calibrated ones cross the diagonal nine
    times in ten. Small ticks along the edges are the data: no below, yes above.
    """
    predicted, seen = _checked(probabilities, y, num_bins)
    axes = own_axes(axes, 4.4, 4.2)
    axes.plot([0, 1], [0, 1], "--", color=QUIET, lw=1.2, label="perfectly calibrated")
    for bars in np.array_split(np.argsort(predicted, kind="stable"), min(num_bins, len(seen))):
        count, yes = len(bars), seen[bars].sum()
        low, high = beta.ppf((0.05, 0.95), yes + 0.5, count - yes + 0.5)
        at = predicted[bars].mean()
        axes.plot([at, at], [low, high], color=BAND, lw=5, solid_capstyle="butt", zorder=2)
        axes.plot(at, yes / count, "o", color=ACCENT, ms=6, mec="white", mew=0.8, zorder=3)
    axes.plot([], [], "o-", color=ACCENT, ms=6, label=f"{min(num_bins, len(seen))} bins, 90 % intervals")
    for value, height in ((0.0, -0.03), (1.0, 1.03)):
        ticks = predicted[seen == value]
        axes.plot(ticks, np.full(ticks.shape, height), "|", color=INK, ms=6, mew=0.6, alpha=0.6)
    axes.set(xlim=(-0.03, 1.03), ylim=(-0.06, 1.06), xlabel="predicted probability", ylabel="observed share", aspect="equal")
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(0.0, 0.96), fontsize="small")
    return tidy(axes)


def _checked(probabilities: ArrayLike, y: ArrayLike, num_bins: int) -> tuple[np.ndarray, np.ndarray]:
    predicted, seen = np.asarray(probabilities, dtype=float), np.asarray(y, dtype=float)
    if predicted.ndim != 1 or predicted.shape != seen.shape or not len(seen):
        raise ValueError(f"give one probability and one label a datum, but their shapes are {predicted.shape} and {seen.shape}")
    if not ((predicted >= 0.0) & (predicted <= 1.0)).all() or not np.isin(seen, (0.0, 1.0)).all():
        raise ValueError(
            "probabilities must lie between 0 and 1, and labels must be 0 or 1; for several classes take one of them"
        )
    if num_bins < 1:
        raise ValueError(f"num_bins must be 1 or more, but is {num_bins}")
    return predicted, seen


def _two_classes(axes: Axes, x: np.ndarray, y: np.ndarray, probability: np.ndarray, name: str) -> None:
    shades = LinearSegmentedColormap.from_list("two classes", [COLOURS[0], "#ffffff", COLOURS[1]])
    mesh = axes.pcolormesh(x, y, probability, cmap=shades, vmin=0, vmax=1, shading="nearest", alpha=0.55, lw=0, rasterized=True)
    levels, widths = (0.1, 0.25, 0.5, 0.75, 0.9), (0.7, 0.7, 2.0, 0.7, 0.7)
    _contours(axes, x, y, probability, levels, widths, INK)
    bar = axes.figure.colorbar(mesh, ax=axes, label=f"probability of {name}", pad=0.02, shrink=0.9, aspect=25)
    bar.outline.set_visible(False)


def _one_of_several(axes: Axes, x: np.ndarray, y: np.ndarray, probability: np.ndarray, colour: str) -> None:
    if probability.max() > 0.5:
        axes.contourf(x, y, probability, levels=(0.5, 1.1), colors=[colour], alpha=0.15)
    _contours(axes, x, y, probability, (0.5, 0.75, 0.95), (2.0, 1.0, 0.6), colour)


def _contours(
    axes: Axes,
    x: np.ndarray,
    y: np.ndarray,
    values: np.ndarray,
    levels: Sequence[float],
    widths: Sequence[float],
    colour: str,
) -> None:
    """Only the levels that are reached: matplotlib warns of the others."""
    reached = [(level, width) for level, width in zip(levels, widths, strict=True) if values.min() < level < values.max()]
    if reached:
        at, thick = zip(*reached, strict=True)
        lines = axes.contour(x, y, values, levels=at, linewidths=thick, colors=colour)
        axes.clabel(lines, fmt="%g", fontsize="x-small", inline_spacing=2)


def _draw_labels(axes: Axes, posterior: Posterior, names: Sequence[str] | None) -> None:
    labels = np.unique(posterior.y).astype(int)
    if names is not None and len(names) <= labels.max():
        raise ValueError(f"{len(names)} names were given, but there are labels up to {labels.max()}; give one for each class")
    size = 1.3 * dot_size(len(posterior.y))
    for label in labels:
        rows = posterior.X[posterior.y == label]
        name = f"class {label}" if names is None else names[label]
        marker = MARKERS[label % len(MARKERS)]
        axes.plot(*rows.T, marker, color=colour_of(label), ms=size, mec=INK, mew=0.4, ls="none", label=name, zorder=3)
