"""How sharply a fit knows its parameters."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from freegp.approximation.gaussian import Sites
from freegp.approximation.natural import position_slope
from freegp.approximation.problem import Problem

FLATTEST = 1.0 / 9.0
"""Least curvature believed in any direction of theta: a standard deviation of 3 in free coordinates."""
MOST_DIRECTIONS = 100
NUM_PROBES = 20


def parameter_factor(problem: Problem, sites: Sites) -> Float[np.ndarray, "T T"]:
    """Factor of the inverse Hessian, in theta, of the bound with the sites held; flat directions are given an end.

    It is found by differences of slopes; with very many parameters only its diagonal is, from a few random directions.
    """
    at = np.asarray(problem.start())
    if at.size == 0:
        return np.zeros((0, 0))

    def slope(place: np.ndarray) -> np.ndarray:
        return np.asarray(position_slope(problem, jnp.asarray(place), sites))

    def curvature(direction: np.ndarray) -> np.ndarray:
        return -(slope(at + 1e-3 * direction) - slope(at - 1e-3 * direction)) / 2e-3

    if at.size > MOST_DIRECTIONS:
        signs = np.random.default_rng(0).choice([-1.0, 1.0], (NUM_PROBES, at.size))
        diagonal = np.nan_to_num(np.mean([sign * curvature(sign) for sign in signs], axis=0), nan=1.0)
        return np.diag(1.0 / np.sqrt(np.maximum(diagonal, FLATTEST)))
    hessian = np.array([curvature(direction) for direction in np.eye(at.size)])
    hessian = np.where(np.isfinite(hessian), hessian, np.eye(at.size))
    values, vectors = np.linalg.eigh(0.5 * (hessian + hessian.T))
    return vectors / np.sqrt(np.maximum(values, FLATTEST))
