"""Tuning by Bayesian optimisation: a sampler's settings tried one after another, a few draws each, to move as far as possible.

The paper's section 3, step 3, after Wang, Mohamed & de Freitas (2013): a Gaussian process is fitted to the expected squared
jump distances (ESJD) seen so far, as a function of the logarithms of the settings, and the next to be tried is where the
expected improvement is greatest. It is fixed by its seed.
"""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import ArrayLike, Float
from scipy.special import ndtr

if TYPE_CHECKING:
    from sklearn.gaussian_process import GaussianProcessRegressor

GRID = 40


def log_axis(low: float, high: float) -> Float[np.ndarray, " G"]:
    """Values evenly spaced in their logarithm."""
    return np.geomspace(low, high, GRID)


def log_axis_of_integers(high: int) -> Float[np.ndarray, " G"]:
    """Integers from 1, evenly spaced in their logarithm as far as integers can be."""
    return np.unique(np.round(np.geomspace(1, high, GRID)))


def grid_of(*axes: Float[np.ndarray, " G"]) -> Float[np.ndarray, "G D"]:
    """All combinations."""
    return np.stack([mesh.ravel() for mesh in np.meshgrid(*axes, indexing="ij")], axis=-1)


def squared_jumps(start: ArrayLike, draws: ArrayLike) -> Float[np.ndarray, " chain"]:
    """ESJD of each chain, ``mean_t |x_t - x_{t-1}|^2``, over draws ``[chain, draw, ...]`` after the start ``[chain, ...]``."""
    path = np.concatenate([np.asarray(start)[:, None], np.asarray(draws)], axis=1)
    jumps = np.square(np.diff(path, axis=1))
    return np.mean(jumps.sum(axis=tuple(range(2, jumps.ndim))), axis=1)


@dataclass
class Search:
    """The maximum of a noisy function on a grid of positive settings ``[G, D]``, one evaluation at a time.

    The first few are spread over the grid (a scrambled Halton sequence), the others are where the expected improvement on the
    best fitted value so far is greatest.
    """

    grid: Float[np.ndarray, "G D"]
    seed: int
    num_first: int = 6
    tried: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        from scipy.stats import qmc  # late, as scikit-learn below: who does not tune does not wait for them

        logs = np.log(self.grid)
        width = np.ptp(logs, axis=0)
        self._unit = (logs - logs.min(axis=0)) / np.where(width > 0.0, width, 1.0)
        self._first = qmc.Halton(self.grid.shape[1], rng=np.random.default_rng(self.seed)).random(self.num_first)

    def propose(self) -> Float[np.ndarray, " D"]:
        """The settings to try next."""
        done = len(self.values)
        if done < self.num_first:
            at = np.argmin(np.sum(np.square(self._unit - self._first[done]), axis=1))
        else:
            at = np.argmax(self._expected_improvement())
        self.tried.append(int(at))
        return self.grid[at]

    def record(self, value: float) -> None:
        """What the settings proposed last gave."""
        self.values.append(float(value))

    def best(self) -> Float[np.ndarray, " D"]:
        """The settings that gave the greatest value; where they were tried more than once, on average."""
        tried, values = np.array(self.tried), np.array(self.values)
        means = [values[tried == at].mean() for at in tried]
        return self.grid[tried[np.argmax(means)]]

    def _expected_improvement(self) -> Float[np.ndarray, " G"]:
        """``E[max(f - f*, 0)]`` of the fitted f, with f* its greatest mean where it was tried (the values are noisy)."""
        mean, deviation = self._fitted().predict(self._unit, return_std=True)
        deviation = np.maximum(deviation, 1e-12)
        gain = mean - mean[self.tried].max()
        density = np.exp(-0.5 * np.square(gain / deviation)) / np.sqrt(2.0 * np.pi)
        return gain * ndtr(gain / deviation) + deviation * density

    def _fitted(self) -> "GaussianProcessRegressor":
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import Matern, WhiteKernel

        smooth = Matern([0.3] * self.grid.shape[1], (0.05, 5.0), nu=2.5)
        regressor = GaussianProcessRegressor(smooth + WhiteKernel(0.1, (1e-4, 1.0)), normalize_y=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a lengthscale at its bound: an axis that does not matter
            return regressor.fit(self._unit[self.tried], self.values)


@dataclass(frozen=True)
class LeapfrogSearch:
    """How step size and Lmax of a leapfrog HMC are searched for, and what they are without a search."""

    num_rounds: int = 30
    draws_per_round: int = 30
    spread_rounds: int = 6
    shortest_step: float = 1e-3
    longest_step: float = 1.0
    most_steps: int = 100
    untuned_step: float = 0.05
    untuned_max_steps: int = 20

    def leapfrog_grid(self) -> Float[np.ndarray, "G 2"]:
        """The settings to choose from."""
        return grid_of(log_axis(self.shortest_step, self.longest_step), log_axis_of_integers(self.most_steps))


def record_all(searches: Sequence[Search], values: Iterable[float]) -> None:
    """What the settings proposed last gave, chain by chain."""
    for search, value in zip(searches, values, strict=True):
        search.record(value)
