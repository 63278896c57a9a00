"""Gelman and Rubin's potential scale reduction against iterations, as the paper's supplement draws it."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from freegp.diagnostics.estimates import FEWEST_DRAWS, as_draws, statistics


@dataclass(frozen=True, eq=False)
class PsrfCurve:
    """Potential scale reduction against the number of iterations.

    Attributes
    ----------
    iterations
        How many draws of each chain were looked at, ``[point]``.
    psrf
        The factor after so many draws, ``[point, variable]``, the slowest variable first.
    variables
        Which columns of the draws these are.
    """

    iterations: np.ndarray
    psrf: np.ndarray
    variables: np.ndarray


def psrf_curve(draws: Float[np.ndarray, "chain draw d"], num_points: int = 50, num_slowest: int = 20) -> PsrfCurve:
    """Gelman & Rubin's (1992) factor of the slowest variables, after more and more draws from the start.

    With W the variance within m chains of n draws and B / n that of their means, it is
    ``sqrt((n - 1) / n + (1 + 1 / m) (B / n) / W)``; no draw is discarded, no rank taken. Constant variables are left out.
    """
    x = as_draws(draws, "draws")
    if x.ndim != 3:
        raise ValueError(f"draws must have shape (chain, draw, d), but have shape {x.shape}; reshape them")
    if x.shape[0] < 2 or x.shape[1] < FEWEST_DRAWS:
        raise ValueError(f"a PSRF needs 2 chains of 4 draws, but there are {x.shape[0]} of {x.shape[1]}; draw more")
    found = statistics(x)
    if found.num_broken.any():
        raise ValueError(f"{found.num_broken.sum()} draws are NaN or infinite; leave those variables out")
    slowest = np.argsort(np.where(found.constant, np.inf, found.ess_bulk), kind="stable")
    slowest = slowest[~found.constant[slowest]][:num_slowest]
    points = np.linspace(0, x.shape[1], num_points + 1)[1:].round().astype(int)
    iterations = np.unique(np.maximum(points, FEWEST_DRAWS))
    return PsrfCurve(iterations, _psrf(x[:, :, slowest], iterations), slowest)


def _psrf(x: Float[np.ndarray, "chain draw d"], iterations: np.ndarray) -> Float[np.ndarray, "point d"]:
    num_chains, n = x.shape[0], iterations[None, :, None]
    centres = np.mean(x, axis=1, keepdims=True)
    means = np.cumsum(x - centres, axis=1)[:, iterations - 1] / n
    squares = np.cumsum(np.square(x - centres), axis=1)[:, iterations - 1] / n
    within = np.mean(np.maximum(squares - np.square(means), 0.0) * n / (n - 1), axis=0)
    between = np.var(centres + means, axis=0, ddof=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.sqrt((n[0] - 1) / n[0] + (1.0 + 1.0 / num_chains) * between / within)
