"""A map of an intensity."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Polygon as Outline

from freegp.plots import INK
from freegp.point_patterns.window import Edges, Polygon, Window


def intensity_map(edges: Edges, mean: np.ndarray, events: np.ndarray, window: Window, *, axes: Axes | None = None) -> Axes:
    """The mean intensity of each cell in colour, the events as dots, and the window's border."""
    axes = plt.subplots(figsize=(5.6, 4.6), layout="constrained")[1] if axes is None else axes
    mesh = axes.pcolormesh(*edges, mean, cmap="YlGnBu", vmin=0.0, rasterized=True, zorder=1)
    size = float(np.clip(60.0 / np.sqrt(max(len(events), 1)), 1.5, 4.5))
    axes.plot(*events.T, "o", color=INK, ms=size, mec="white", mew=0.18 * size, alpha=0.9, clip_on=False, zorder=3)
    if isinstance(window, Polygon):
        outline = Outline(window.vertices, closed=True, fill=False, ec=INK, lw=0.9, zorder=2, clip_on=False)
        mesh.set_clip_path(outline.get_path(), axes.transData)
        axes.add_patch(outline)
    axes.set_aspect("equal")
    axes.spines[:].set_visible(False)
    axes.tick_params(length=3, color=INK)
    bar = axes.figure.colorbar(mesh, ax=axes, label="events per unit area", pad=0.02, shrink=0.9, aspect=25)
    bar.outline.set_visible(False)
    return axes
