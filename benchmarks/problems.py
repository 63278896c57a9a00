"""The problems: a model and its data in a form that every peer can read."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import freegp as fg

IMAGE_FILE = "image_unique.csv.gz"


@dataclass(frozen=True)
class Problem:
    """A Gaussian process with an RBF kernel under one of three likelihoods; Gamma priors are (shape, rate)."""

    X: np.ndarray
    y: np.ndarray
    Z: np.ndarray
    likelihood: str
    lengthscales: float | np.ndarray
    variance: float = 1.0
    exposure: float = 1.0
    num_classes: int = 1
    lengthscales_prior: tuple[float, float] = (1.75, 1.0)
    variance_prior: tuple[float, float] = (1.2, 1.0)

    def model(self, inducing: Any = None, **options: Any) -> fg.SparseGP:
        """As freegp sees it; with other inducing variables if some are given, and other options of the model."""
        likelihoods = {
            "poisson": lambda: fg.likelihoods.Poisson(exposure=self.exposure),
            "bernoulli": lambda: fg.likelihoods.Bernoulli(),
            "robustmax": lambda: fg.likelihoods.RobustMax(self.num_classes),
        }
        return fg.SparseGP(
            kernel=fg.kernels.RBF(self.variance, self.lengthscales),
            likelihood=likelihoods[self.likelihood](),
            inducing=self.Z if inducing is None else inducing,
            priors={
                "kernel.lengthscales": fg.priors.Gamma(*self.lengthscales_prior),
                "kernel.variance": fg.priors.Gamma(*self.variance_prior),
            },
            **options,
        )

    def save(self, path: Path, **more: np.ndarray) -> None:
        """Write it, and whatever else a peer needs, where a peer can read it."""
        np.savez(path, **asdict(self) | more)


def synthetic(N: int, M: int, D: int, likelihood: str, num_classes: int = 1) -> Problem:
    """Random data of a given size, with one lengthscale a column if there are many columns (ARD); inputs of unit density."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 10.0, (N, D)) if D <= 2 else rng.normal(size=(N, D))
    targets = {
        "poisson": lambda: rng.poisson(1.0, N),
        "bernoulli": lambda: rng.integers(0, 2, N),
        "robustmax": lambda: rng.integers(0, num_classes, N),
    }
    side = round(M**0.5)
    Z = fg.Grid(side).place(X, 0) if D == 2 and side**2 == M else fg.Subset(M).place(X, 0)
    lengthscales = 1.0 if D <= 2 else np.full(D, D**0.5)
    return Problem(X, targets[likelihood]().astype(float), Z, likelihood, lengthscales, num_classes=num_classes)


def coal() -> Problem:
    """Mining disasters: 100 bins of time, 30 inducing points evenly spaced."""
    X, y, width = fg.datasets.binned_counts(fg.datasets.load_coal(), 1851.0, 1963.0, 100)
    Z = fg.Grid(30).place(X, 0)
    priors = {"lengthscales_prior": (1.1, 0.1), "variance_prior": (1.0, 0.3)}
    return Problem(X, y, Z, "poisson", lengthscales=10.0, exposure=width, **priors)


def pines(side: int = 32) -> Problem:
    """Pine saplings counted in side x side cells of a 10 m square; 225 inducing points on a fixed grid."""
    pattern = fg.datasets.load_pines()
    counts, _, _ = np.histogram2d(*pattern.events.T, bins=side, range=pattern.window)
    middles = 10.0 * (np.arange(side) + 0.5) / side
    X = np.stack([axis.ravel() for axis in np.meshgrid(middles, middles, indexing="ij")], axis=1)
    return Problem(X, counts.ravel(), fg.Grid(15).place(X, 0), "poisson", lengthscales=1.0, exposure=(10.0 / side) ** 2)


def image(folder: Path | None) -> Problem:
    """Two kinds of image segments in 18 columns: 1000 training rows, one lengthscale a column, 100 k-means centres."""
    if folder is None or not (folder / IMAGE_FILE).exists():
        raise FileNotFoundError(f"needs {IMAGE_FILE} in the folder named by --data or FREEGP_DATA")
    rows = np.loadtxt(folder / IMAGE_FILE, delimiter=",", skiprows=1)
    train = rows[np.random.default_rng(0).permutation(len(rows))[:1000]]
    X = (train[:, :-1] - train[:, :-1].mean(axis=0)) / train[:, :-1].std(axis=0)
    priors = {"lengthscales_prior": (1.1, 1.0), "variance_prior": (1.1, 1.0)}
    Z = fg.KMeans(100).place(X, 0)
    return Problem(X, (train[:, -1] > 0).astype(float), Z, "bernoulli", lengthscales=np.full(18, 3.0), **priors)
