"""What a Cox process assumes unless it is told otherwise."""

import math

import numpy as np
from jaxtyping import Float

from freegp import priors
from freegp.kernels import RBF, Constant, Kernel
from freegp.point_patterns.cells import Cells, nearly_square
from freegp.point_patterns.window import Window
from freegp.priors import Prior

INDUCING_IN_LINE, INDUCING_IN_PLANE = 30, 225
LEVEL = "kernel.members.1.variance"
"""The default kernel's variance of the level, which one pattern says nothing of: it is held."""


def default_kernel(window: Window) -> Kernel:
    """Smooth, isotropic variation around an unknown level of the log intensity, which has a standard deviation of 2."""
    return RBF(variance=1.0, lengthscales=_usual_length(window)) + Constant(variance=4.0)


def default_priors(window: Window) -> dict[str, Prior]:
    """Of the default kernel's variance and lengthscale.

    The variance of the log intensity is exponential with mean 1. The lengthscale is log-normal: its median is 0.15 of the
    window's side, and 95 % lies between 0.03 and 0.7 of it. The side is the geometric mean of the sides around the window.
    """
    return {
        "kernel.members.0.variance": priors.Exponential(1.0),
        "kernel.members.0.lengthscales": priors.LogNormal(math.log(_usual_length(window)), 0.8),
    }


def regular_points(cells: Cells) -> Float[np.ndarray, "M D"]:
    """Inducing inputs on a regular grid over the window's cells: 30 in one dimension, about 225 in two, never more than cells."""
    axes = cells.middles
    if len(axes) == 1:
        return np.linspace(axes[0][0], axes[0][-1], min(INDUCING_IN_LINE, len(axes[0])))[:, None]
    wanted = min(INDUCING_IN_PLANE, len(cells.exposure))
    total = wanted * cells.kept.size / np.count_nonzero(cells.kept)
    while True:
        numbers = nearly_square(round(total), [axis[-1] - axis[0] for axis in axes])
        lines = [np.linspace(axis[0], axis[-1], number) for axis, number in zip(axes, numbers, strict=True)]
        points = np.stack([grid.ravel() for grid in np.meshgrid(*lines)], axis=1)
        points = points[cells.covers(points)]
        if len(points) <= max(wanted, 4):
            return points
        total *= 0.97


def _usual_length(window: Window) -> float:
    sides = [high - low for low, high in window.bounds]
    return 0.15 * math.prod(sides) ** (1.0 / len(sides))
