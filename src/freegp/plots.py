"""Pictures; each function draws on axes, its own if none are given, and returns them."""

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

INK, ACCENT, BAND = "#222222", "#1f5a94", "#9ec3e6"


def intensity_curve(
    times: Float[np.ndarray, " T"], bands: Float[np.ndarray, "3 T"], events: Float[np.ndarray, " E"], *, axes: Axes | None = None
) -> Axes:
    """A rate in time: its median with a band around it, and the events themselves as ticks below. Bands are low, median, high."""
    axes = plt.subplots(figsize=(7.5, 3.6), layout="constrained")[1] if axes is None else axes
    low, median, high = bands
    axes.fill_between(times, low, high, color=BAND, lw=0, label="90 % band")
    axes.plot(times, median, color=ACCENT, lw=2, label="median rate")
    axes.plot(
        events,
        np.full(events.shape, -0.03),
        "|",
        color=INK,
        ms=9,
        mew=0.7,
        transform=axes.get_xaxis_transform(),
        clip_on=False,
    )
    axes.set_ylim(bottom=0)
    axes.margins(x=0.01)
    axes.tick_params(axis="x", pad=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    return axes
