"""Draws of any peer, judged alike by freegp's own statistics."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from freegp.diagnostics import statistics


@dataclass(frozen=True)
class Chains:
    """Draws ``[chain, draw, ...]`` in natural units, and the seconds they took (compilation and warm-up apart).

    ``values`` are what carries the function: whitened inducing values, or weights of basis functions.
    """

    values: np.ndarray
    variance: np.ndarray
    lengthscales: np.ndarray
    seconds: float
    seconds_warmup: float

    def judged(self) -> dict[str, Any]:
        """Effective samples of the slowest coordinate over values and parameters, and what one costs."""
        flat = [part.reshape(*self.variance.shape[:2], -1) for part in (self.values, self.variance, self.lengthscales)]
        found = statistics(np.concatenate(flat, axis=2))
        ess = float(found.ess_bulk.min())
        return {
            "ess": ess,
            "seconds_per_ess": self.seconds / ess,
            "r_hat": float(found.r_hat.max()),
            "draws": list(self.variance.shape[:2]),
            "seconds": self.seconds,
            "seconds_warmup": self.seconds_warmup,
            "lengthscale": _moments(self._mean_lengthscale()),
            "variance": _moments(self.variance),
        }

    def _mean_lengthscale(self) -> np.ndarray:
        """The lengthscale, or the geometric mean of one a column."""
        columns = self.lengthscales.reshape(*self.variance.shape[:2], -1)
        return np.exp(np.mean(np.log(columns), axis=2))


def _moments(draws: np.ndarray) -> list[float]:
    """Mean, standard deviation, and Monte-Carlo standard error of the mean."""
    found = statistics(draws)
    return [float(found.mean), float(found.sd), float(found.mcse)]
