"""Covariance functions: combine them with ``+`` and ``*``, and point them at columns with ``active_dims``."""

from freegp.kernels.base import Kernel, LeafKernel, Product, Sum
from freegp.kernels.linear import Constant, Linear, White
from freegp.kernels.stationary import (
    RBF,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    RationalQuadratic,
    SquaredExponential,
    Stationary,
)

__all__ = [
    "RBF",
    "Constant",
    "Kernel",
    "LeafKernel",
    "Linear",
    "Matern12",
    "Matern32",
    "Matern52",
    "Periodic",
    "Product",
    "RationalQuadratic",
    "SquaredExponential",
    "Stationary",
    "Sum",
    "White",
]
