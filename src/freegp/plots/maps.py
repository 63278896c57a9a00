"""Functions of two inputs."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from freegp.inducing import InducingPoints
from freegp.plots.style import INK, AxesGrid, check_draws, dot_size, own_axes, own_grid
from freegp.posterior import Posterior

RESOLUTION = 50


def surface_2d(
    x: Float[np.ndarray, " X"],
    y: Float[np.ndarray, " Y"],
    values: Float[np.ndarray, "Y X"],
    *,
    points: Float[np.ndarray, "N 2"] | None = None,
    inducing: Float[np.ndarray, "M 2"] | None = None,
    label: str = "",
    colours: str = "viridis",
    axes: Axes | None = None,
) -> Axes:
    """A map of values at the middles of cells, with data as dots and inducing inputs as crosses."""
    values = np.asarray(values)
    if values.shape != (len(y), len(x)):
        raise ValueError(f"values must have shape (len(y), len(x)) = {(len(y), len(x))}, but have shape {values.shape}")
    axes = own_axes(axes, 5.0, 4.0)
    mesh = axes.pcolormesh(x, y, values, cmap=colours, shading="nearest", rasterized=True)
    if points is not None:
        draw_points(axes, points)
    if inducing is not None:
        draw_inducing(axes, inducing)
    _bar(axes, mesh, label)
    axes.tick_params(length=3, color=INK)
    axes.spines[:].set_visible(False)
    return axes


def latent_2d(
    posterior: Posterior,
    of: Literal["f", "y"] = "f",
    *,
    latent: int = 0,
    exposure: float | None = None,
    resolution: int = RESOLUTION,
    axes: AxesGrid | None = None,
) -> np.ndarray:
    """Two maps: posterior mean and standard deviation of a latent function of two inputs, or of new observations ("y").

    Where there are several latent functions or classes, `latent` says which. Inducing inputs are crosses, unless they are more
    than half as many as the data. The axes come as an array of two.
    """
    if of not in ("f", "y"):
        raise ValueError(f'of must be "f" or "y", but is {of!r}')
    check_draws(posterior, "latent_2d")
    x, y, cells = grid_over(posterior, resolution)
    mean, variance = posterior.predict_f(cells) if of == "f" else posterior.predict_y(cells, exposure)
    maps = [_column(np.asarray(part), latent).reshape(len(y), len(x)) for part in (mean, np.sqrt(variance))]
    name = _name_of(of, latent, np.asarray(mean))
    drawn = own_grid(axes, 2, 2, 4.6, 3.8)
    Z = np.asarray(posterior.model.inducing_inputs) if shows_inducing(posterior) else None
    for each, values, label, colours in zip(
        drawn, maps, (f"mean of {name}", f"sd of {name}"), ("viridis", "YlGnBu"), strict=True
    ):
        surface_2d(x, y, values, points=posterior.X, inducing=Z, label=label, colours=colours, axes=each)
        name_sides(each)
    return drawn


def intensity_map(
    edges: Sequence[Float[np.ndarray, " E"]],
    mean: Float[np.ndarray, "Y X"],
    events: Float[np.ndarray, "E 2"],
    *,
    borders: Sequence[Float[np.ndarray, "V 2"]] = (),
    axes: Axes | None = None,
) -> Axes:
    """The mean intensity of each cell in colour, the events as dots, and the borders of the window if it is not a rectangle.

    A border is a polygon, counter-clockwise, or clockwise around a hole.
    """
    axes = own_axes(axes, 5.6, 4.6)
    mesh = axes.pcolormesh(*edges, mean, cmap="YlGnBu", vmin=0.0, rasterized=True, zorder=1)
    size = dot_size(len(events))
    axes.plot(*events.T, "o", color=INK, ms=size, mec="white", mew=0.18 * size, alpha=0.9, clip_on=False, zorder=3)
    if borders:
        closed = [np.concatenate([border, border[:1]]) for border in borders]
        outline = Path.make_compound_path(*(Path(border, closed=True) for border in closed))
        mesh.set_clip_path(outline, axes.transData)
        axes.add_patch(PathPatch(outline, fill=False, ec=INK, lw=0.9, zorder=2, clip_on=False))
    axes.set_aspect("equal")
    axes.ticklabel_format(useOffset=False, style="plain")
    axes.spines[:].set_visible(False)
    axes.tick_params(length=3, color=INK)
    _bar(axes, mesh, "events per unit area")
    return axes


def grid_over(posterior: Posterior, resolution: int) -> tuple[np.ndarray, np.ndarray, Float[np.ndarray, "G 2"]]:
    """Coordinates along each column, a little beyond the data, and all the points of the grid, the first column fastest."""
    if posterior.X.shape[1] != 2:
        raise ValueError(
            f"a map needs two input columns, but the model has {posterior.X.shape[1]}; use latent_1d for one, "
            "or predict on a plane of your own and draw it with surface_2d"
        )
    low, high = posterior.X.min(axis=0), posterior.X.max(axis=0)
    margin = 0.04 * (high - low)
    x, y = (np.linspace(a, b, resolution) for a, b in zip(low - margin, high + margin, strict=True))
    return x, y, np.stack([part.ravel() for part in np.meshgrid(x, y)], axis=1)


def name_sides(axes: Axes) -> None:
    """The two inputs along their sides."""
    axes.set(xlabel="input 0", ylabel="input 1")


def shows_inducing(posterior: Posterior) -> bool:
    """Whether crosses at the inducing inputs leave the data to be seen."""
    inducing = posterior.model.inducing
    return isinstance(inducing, InducingPoints) and 2 * inducing.num_inducing <= len(posterior.X)


def draw_points(axes: Axes, points: Float[np.ndarray, "N 2"]) -> None:
    """Data, as small dots."""
    axes.plot(*points.T, "o", color=INK, ms=0.8 * dot_size(len(points)), mec="white", mew=0.4, alpha=0.9, zorder=3)


def draw_inducing(axes: Axes, inducing: Float[np.ndarray, "M 2"]) -> None:
    """Inducing inputs, as crosses that show on light and dark."""
    axes.plot(*inducing.T, "x", color="white", ms=7.5, mew=3.0, zorder=4)
    axes.plot(*inducing.T, "x", color=INK, ms=6.5, mew=1.3, zorder=5, label="inducing inputs")


def _name_of(of: str, latent: int, mean: np.ndarray) -> str:
    if mean.ndim == 1 or mean.shape[1] == 1:
        return of
    return f"f[{latent}]" if of == "f" else f"(y = class {latent})"


def _column(values: np.ndarray, index: int) -> np.ndarray:
    return values if values.ndim == 1 else values[:, index]


def _bar(axes: Axes, mesh: object, label: str) -> None:
    bar = axes.figure.colorbar(mesh, ax=axes, label=label, pad=0.02, shrink=0.9, aspect=25)  # type: ignore[arg-type]
    bar.outline.set_visible(False)
