"""Sparse fits on simulated data: how often predictive intervals hold what they promise, and how fast M points become all N."""

from dataclasses import dataclass

import numpy as np

import freegp as fg

LEVELS = (0.5, 0.9)
NUM_DATA, NUM_NEW = 120, 200
SIZES = (4, 8, 16, 32)


@dataclass(frozen=True)
class Covered:
    """Of new data, the share within central intervals of each level, over data sets."""

    likelihood: str
    num_sets: int
    shares: dict[float, float]
    errors: dict[float, float]


def _simulated(likelihood: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Inputs and data, and more of both, of one function drawn from its prior."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 8.0, (NUM_DATA + NUM_NEW, 1))
    K = 0.8 * np.exp(-0.5 * (X - X.T) ** 2) + 1e-10 * np.eye(len(X))
    f = np.linalg.cholesky(K) @ rng.normal(size=len(X))
    y = {
        "Poisson": lambda: rng.poisson(3.0 * np.exp(f)).astype(float),
        "StudentT": lambda: f + 0.3 * rng.standard_t(4.0, len(X)),
    }[likelihood]()
    return X[:NUM_DATA], y[:NUM_DATA], X[NUM_DATA:], y[NUM_DATA:]


def _model(likelihood: str, inducing: int | np.ndarray) -> fg.SparseGP:
    kernel = fg.kernels.RBF(1.0, 1.0)
    if likelihood == "Poisson":
        return fg.SparseGP(kernel, fg.likelihoods.Poisson(exposure=3.0), inducing)
    return fg.SparseGP(kernel, fg.likelihoods.StudentT(df=4.0, scale=0.3), inducing, fixed=["likelihood.df"])


def coverage(likelihood: str, num_sets: int, num_inducing: int = 15) -> Covered:
    """Of intervals from sampled sparse fits."""
    shares = []
    for seed in range(num_sets):
        X, y, X_new, y_new = _simulated(likelihood, seed)
        posterior = fg.sample(_model(likelihood, num_inducing), X, y, num_samples=250, num_warmup=200, progress=False, seed=seed)
        shares.append([_share(posterior, X_new, y_new, level) for level in LEVELS])
    mean, error = np.mean(shares, axis=0), np.std(shares, axis=0) / np.sqrt(num_sets)
    return Covered(likelihood, num_sets, *(dict(zip(LEVELS, map(float, values), strict=True)) for values in (mean, error)))


def _share(posterior: fg.Posterior, X: np.ndarray, y: np.ndarray, level: float) -> float:
    """Within the interval; a count on its end counts by the chance that an interval of exactly this level would hold it."""
    tails = (0.5 - 0.5 * level, 0.5 + 0.5 * level)
    drawn = np.asarray(posterior.sample_y(X, 2000))
    below, equal = np.mean(drawn < y, axis=0), np.mean(drawn == y, axis=0)
    inside = np.clip(tails[1] - below, 0.0, equal) - np.clip(tails[0] - below, 0.0, equal)
    whole = (below > tails[0]) & (below < tails[1])
    return float(np.mean(np.where(equal > 0.0, inside / np.maximum(equal, 1e-12), whole)))


def distances_to_full(seed: int = 0, num_samples: int = 500) -> dict[int, tuple[float, float]]:
    """For each M, how far the mean and the deviation of f are from the full Gaussian process's, in its deviations, at worst."""
    X, y, X_new, _ = _simulated("Poisson", seed)
    moments = {size: _moments(_model("Poisson", size), X, y, X_new, num_samples) for size in SIZES}
    mean, deviation = _moments(_model("Poisson", X), X, y, X_new, num_samples)
    return {
        size: (float(np.max(np.abs(m - mean) / deviation)), float(np.max(np.abs(np.log(s / deviation)))))
        for size, (m, s) in moments.items()
    }


def _moments(
    model: fg.SparseGP, X: np.ndarray, y: np.ndarray, X_new: np.ndarray, num_samples: int
) -> tuple[np.ndarray, np.ndarray]:
    mean, variance = fg.sample(model, X, y, num_samples=num_samples, progress=False).predict_f(X_new)
    return np.asarray(mean), np.sqrt(np.asarray(variance))
