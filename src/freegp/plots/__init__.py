"""Pictures; each function draws on axes, its own if none are given, and returns them."""

from freegp.plots.beliefs import prior_and_posterior
from freegp.plots.chains import psrf_curves, ranks, traces
from freegp.plots.classes import calibration_curve, probability_contours
from freegp.plots.curves import intensity_curve, latent_1d
from freegp.plots.inducing import inducing_inputs
from freegp.plots.maps import intensity_map, latent_2d, surface_2d
from freegp.plots.style import ACCENT, BAND, INK
from freegp.plots.sweeps import inducing_sweep

__all__ = [
    "ACCENT",
    "BAND",
    "INK",
    "calibration_curve",
    "inducing_inputs",
    "inducing_sweep",
    "intensity_curve",
    "intensity_map",
    "latent_1d",
    "latent_2d",
    "prior_and_posterior",
    "probability_contours",
    "psrf_curves",
    "ranks",
    "surface_2d",
    "traces",
]
