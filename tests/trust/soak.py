"""Fits and runs one after another in one process: memory must not grow."""

import gc
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import freegp as fg

NUM_BEFORE = 10
"""Rounds until every program is compiled and every pool has the size it needs."""


@dataclass(frozen=True)
class Soaked:
    """Resident memory in MiB after the first rounds and after all of them."""

    num_rounds: int
    before: float
    after: float

    @property
    def growth(self) -> float:
        """As a share."""
        return self.after / self.before - 1.0


def soak(num_rounds: int) -> Soaked:
    """Fit, sample and predict, with other data each time."""
    before = 0.0
    for number in range(num_rounds):
        _one_round(number)
        if number == NUM_BEFORE - 1:
            before = _resident()
    return Soaked(num_rounds, before, _resident())


def _one_round(number: int) -> None:
    rng = np.random.default_rng(number)
    X = rng.uniform(0.0, 5.0, (300, 1))
    y = rng.poisson(np.exp(np.sin(X[:, 0]))).astype(float)
    model = fg.SparseGP(fg.kernels.RBF(), fg.likelihoods.Poisson(), inducing=fg.Grid(12))
    posterior = fg.sample(model, X, y, num_samples=100, num_warmup=60, seed=number, progress=False)
    posterior.predict_y(X)
    assert posterior.diagnostics.verdict


def _resident() -> float:
    gc.collect()
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) / 1024.0 for line in lines if line.startswith("VmRSS"))
