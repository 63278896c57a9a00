"""More inducing points for a fit that has too few: taken from the data, each where most is still lost.

Greedy choice by what is left unexplained is Burt, Rasmussen & van der Wilk's (2020). The points there are stay, so that the bound
at the same parameters can only rise.
"""

import numpy as np
from jaxtyping import Float
from scipy.linalg import solve_triangular

from freegp.kernels import Kernel
from freegp.model import SparseGP

MOST_CANDIDATES = 3000
"""How many of the data new points are taken from."""


def with_more_points(model: SparseGP, X: Float[np.ndarray, "N D"], curvature: Float[np.ndarray, "N P"], size: int) -> SparseGP:
    """The model with so many inducing points: those it has, and rows of X taken one by one where ``sum w gamma`` is largest.

    Fewer, if nothing is left unexplained before.
    """
    rows = np.linspace(0, len(X) - 1, min(len(X), MOST_CANDIDATES)).astype(int)
    weights = np.maximum(curvature[rows], 0.0).T
    weights = weights.sum(axis=0, keepdims=True) if len(model.kernels) == 1 else weights
    Z = np.asarray(model.inducing_inputs)
    residuals = [Residual(kernel, Z, X[rows], model.jitter, size) for kernel in model.kernels]
    chosen: list[int] = []
    while len(Z) + len(chosen) < size:
        lost = np.sum([weight * residual.variance for weight, residual in zip(weights, residuals, strict=True)], axis=0)
        if not lost.max() > 0.0:
            break
        chosen.append(int(np.argmax(lost)))
        for residual in residuals:
            residual.explain(chosen[-1])
    return model.with_inducing(np.concatenate([Z, X[rows][chosen]]))


class Residual:
    """The variance of one kernel's process that points leave unexplained: a Cholesky factorisation, one row after another."""

    def __init__(self, kernel: Kernel, Z: Float[np.ndarray, "M D"], X: Float[np.ndarray, "R D"], jitter: float, most: int):
        Kuu, self._K = np.asarray(kernel(Z)), np.asarray(kernel(X))
        factor = np.linalg.cholesky(Kuu + jitter * np.mean(np.diag(Kuu)) * np.eye(len(Z)))
        self._count, self._columns = len(Z), np.zeros((max(most, len(Z)), len(X)))
        self._columns[: len(Z)] = solve_triangular(factor, np.asarray(kernel(Z, X)), lower=True)
        self._least = 10.0 * jitter * np.diag(self._K)
        self.variance = self._known(np.diag(self._K) - np.sum(np.square(self._columns), axis=0))

    def explain(self, at: int) -> None:
        """One more point, at this row."""
        if self.variance[at] > 0.0:
            before = self._columns[: self._count]
            self._columns[self._count] = (self._K[at] - before[:, at] @ before) / np.sqrt(self.variance[at])
            self.variance = self._known(self.variance - np.square(self._columns[self._count]))
            self._count += 1

    def _known(self, variance: np.ndarray) -> np.ndarray:
        """Without what is of the jitter's size, which a point already there leaves."""
        return np.where(variance > self._least, variance, 0.0)
