"""Point patterns: where or when events happened, and the intensity behind them."""

from freegp.point_patterns.cox import CoxProcess
from freegp.point_patterns.results import Count, HeldOut, Intensity, IntensitySurface, Refinement
from freegp.point_patterns.window import Interval, Mask, Polygon

__all__ = [
    "Count",
    "CoxProcess",
    "HeldOut",
    "Intensity",
    "IntensitySurface",
    "Interval",
    "Mask",
    "Polygon",
    "Refinement",
]
