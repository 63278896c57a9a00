"""Pictures; each function draws on axes, its own if none are given, and returns them."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from scipy.stats import norm

INK, ACCENT, BAND = "#222222", "#1f5a94", "#9ec3e6"


def intensity_curve(
    times: np.ndarray,
    mean: np.ndarray,
    variance: np.ndarray,
    events: np.ndarray,
    *,
    level: float = 0.9,
    axes: Axes | None = None,
) -> Axes:
    """The rate exp(f) of events in time: median, band, and the events themselves as ticks below.

    Mean and variance are those of f at the times.
    """
    axes = plt.subplots(figsize=(7.5, 3.6), layout="constrained")[1] if axes is None else axes
    reach = norm.ppf(0.5 + 0.5 * level) * np.sqrt(variance)
    axes.fill_between(times, np.exp(mean - reach), np.exp(mean + reach), color=BAND, lw=0, label=f"{100 * level:.0f} % band")
    axes.plot(times, np.exp(mean), color=ACCENT, lw=2, label="median rate")
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
