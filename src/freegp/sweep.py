"""How many inducing points? Fits with more and more of them, side by side, and a plain recommendation."""

import itertools
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import ArrayLike, Float

from freegp import plots
from freegp.approximation import GaussianFit, fit_gaussian
from freegp.approximation.progress import announce
from freegp.approximation.words import loss_in_words
from freegp.diagnostics import entry_names
from freegp.inducing import Placement
from freegp.model import SparseGP
from freegp.parameters import free_parameters, get_value
from freegp.plots.style import AxesGrid
from freegp.plots.sweeps import BOUND, CHANGE, LITTLE, LOST, SCORE, SECONDS, SPREAD
from freegp.posterior import Posterior
from freegp.sampling import sample as draw_samples
from freegp.sparsity import FEW_NATS, Sparsity
from freegp.validation import check_training_data

FEWEST, MOST = 16, 512
"""Where doubling begins, and the most it leads to."""
NOTHING_LOST = 0.1
"""Doubling ends where this many nats are lost."""
MOST_WATCHED = 500
"""How many of the data predictions are compared at, where there are no held-out ones."""


@dataclass(frozen=True, eq=False)
class InducingSweep:
    """What changed with M.

    Attributes
    ----------
    table
        A row for each M: the bound, the nats lost, the largest change of the latent function to the next larger M (in its
        standard deviations there), the mean log density of held-out data, every inferred number (its mean and sd where it was
        sampled, else its estimate), and seconds.
    recommendation, recommended
        One sentence, and the smallest M that is enough (None where none is).
    results
        The `GaussianFit` or `Posterior` of each M.
    """

    table: pd.DataFrame
    recommendation: str
    recommended: int | None
    results: tuple[GaussianFit | Posterior, ...]

    def plot(self, axes: AxesGrid | None = None) -> np.ndarray:
        """The table in pictures: see `fg.plots.inducing_sweep`."""
        return plots.inducing_sweep(self.table, axes=axes)

    def __str__(self) -> str:
        return f"{self.recommendation}\n{self.table.to_string(float_format=lambda value: f'{value:.4g}')}"


def sweep_inducing(
    model: SparseGP,
    X: ArrayLike,
    y: ArrayLike,
    sizes: Sequence[int | ArrayLike | Placement] | None = None,
    test: tuple[ArrayLike, ...] | None = None,
    sample: bool | Mapping[str, Any] = False,
    train_inducing: bool = True,
    seed: int = 0,
    progress: bool = True,
) -> InducingSweep:
    """Fit with more and more inducing points, each fit from the model's own values, and say how many are enough.

    Few points can fit a function so smooth that they lose next to nothing of it; that a larger M raises the bound gives it away.

    Parameters
    ----------
    model, X, y
        The model, whose own inducing points are replaced, and its data.
    sizes
        Numbers of points, or placements such as `fg.Grid(15)`; by default 16, 32, 64, ... until next to nothing is lost, all the
        distinct rows are used, or there are 512.
    test
        Held-out data ``(Xs, ys)``, or ``(Xs, ys, exposure)``, to score and to compare predictions at.
    sample
        Whether to sample each as well; options of `fg.sample`, such as ``{"num_samples": 250}``, mean yes.
    train_inducing, seed, progress
        As in `fg.fit_gaussian`.

    >>> import numpy as np
    >>> import freegp as fg
    >>> X = np.linspace(0.0, 6.0, 40)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.3 * np.random.default_rng(0).normal(size=40)
    >>> model = fg.SparseGP(fg.kernels.RBF(), fg.likelihoods.Gaussian(0.1), inducing="auto")
    >>> sweep = fg.sweep_inducing(model, X, y, sizes=[fg.Grid(4), fg.Grid(8), fg.Grid(12)], train_inducing=False, progress=False)
    >>> sweep.recommended
    12
    """
    for size in sizes or ():
        check_training_data(model.with_inducing(size), X, y)
    X, y = check_training_data(model, X, y)
    watched = X[:: -(-len(X) // MOST_WATCHED)] if test is None else test[0]
    options = dict(sample) if isinstance(sample, Mapping) else {}
    tried: list[Tried] = []
    for size in sizes if sizes is not None else _doubling(X, tried):
        begun = time.perf_counter()
        at = model.with_inducing(size)
        fit = fit_gaussian(at, X, y, train_inducing=train_inducing, seed=seed, progress=progress)
        if fit.status == "diverged" or fit.sparsity is None:
            raise FloatingPointError(f"with {fit.model.num_inducing} inducing points the Gaussian approximation {fit.message}")
        result = fit if sample is False else draw_samples(at, X, y, fit=fit, seed=seed, progress=progress, **options)
        found = Tried(fit, result, *_beliefs(result, watched), _score(result, test), time.perf_counter() - begun)
        announce(f"M = {found.size}: bound {fit.elbo:.2f}; {loss_in_words(found.lost)}", progress)
        tried.append(found)
    if not tried:
        raise ValueError("sizes is empty; give at least one number of inducing points, or leave it out")
    tried.sort(key=lambda one: one.size)
    changes = [_largest_change(one, other) for one, other in itertools.pairwise(tried)] + [math.nan]
    return InducingSweep(_table(tried, changes), *_recommend(tried, changes), tuple(one.result for one in tried))


class Tried(NamedTuple):
    """One M: what was fitted, mean and standard deviation of the latents where they are watched, a score and what it took."""

    fit: GaussianFit
    result: GaussianFit | Posterior
    mean: Float[np.ndarray, "N P"]
    deviation: Float[np.ndarray, "N P"]
    score: float
    seconds: float

    @property
    def size(self) -> int:
        """M."""
        return self.fit.model.num_inducing

    @property
    def lost(self) -> Sparsity:
        """What the inducing points lose."""
        assert self.result.sparsity is not None
        return self.result.sparsity


def _doubling(X: np.ndarray, tried: list[Tried]) -> Iterator[int]:
    """Sizes, for as long as what was tried last lost anything."""
    num_distinct = len(np.unique(X, axis=0))
    size = min(FEWEST, num_distinct)
    while True:
        yield size
        lost = tried[-1].lost
        if size in (num_distinct, MOST) or (lost.nats_lost < NOTHING_LOST and not lost.matters):
            return
        size = min(2 * size, num_distinct, MOST)


def _beliefs(result: GaussianFit | Posterior, at: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    mean, variance = (np.asarray(part) for part in result.predict_f(at))
    return mean, np.sqrt(variance)


def _score(result: GaussianFit | Posterior, test: tuple[ArrayLike, ...] | None) -> float:
    """Mean log density of held-out data."""
    if test is None:
        return math.nan
    Xs, ys, *exposure = test
    densities = result.predict_log_density(Xs, ys, exposure=exposure[0] if exposure else None)
    return float(np.mean(np.asarray(densities)))


def _largest_change(one: Tried, other: Tried) -> float:
    return float(np.max(np.abs(one.mean - other.mean) / np.maximum(other.deviation, np.finfo(float).tiny)))


def _table(tried: list[Tried], changes: list[float]) -> pd.DataFrame:
    rows = [
        {
            BOUND: one.fit.elbo,
            LOST: one.lost.nats_lost,
            CHANGE: change,
            SCORE: one.score,
            **_parameters(one),
            SECONDS: one.seconds,
        }
        for one, change in zip(tried, changes, strict=True)
    ]
    table = pd.DataFrame(rows, index=pd.Index([one.size for one in tried], name="M"))
    return table.drop(columns=SCORE) if table[SCORE].isna().all() else table


def _parameters(one: Tried) -> dict[str, float]:
    """Every inferred number by name: its mean and sd where there are draws, else its estimate."""
    if isinstance(one.result, Posterior):
        summary = one.result.summary()
        kinds = (("", "mean"), (SPREAD, "sd"))
        return {name + end: float(summary[column][name]) for name in summary.index for end, column in kinds}
    entries: dict[str, float] = {}
    for parameter in free_parameters(one.fit.model):
        values = np.ravel(get_value(one.fit.model, parameter.path)).tolist()
        entries |= dict(zip(entry_names(parameter.path, parameter.shape), values, strict=True))
    return entries


def _recommend(tried: list[Tried], changes: list[float]) -> tuple[str, int | None]:
    """The smallest M that loses little, and whose bound and predictions larger ones hardly change."""
    best = np.maximum.accumulate([one.fit.elbo for one in reversed(tried)])[::-1]
    enough = [i for i, one in enumerate(tried) if _is_enough(one, best[i] - one.fit.elbo, changes[i])]
    if not enough:
        return f"No M tried is enough: {loss_in_words(tried[-1].lost)}.", None
    one, change = tried[enough[0]], changes[enough[0]]
    found = f"M = {one.size} is enough: {loss_in_words(one.lost)}"
    if one is tried[-1]:
        return f"{found}; no larger M was tried.", one.size
    larger = tried[enough[0] + 1].size
    return f"{found}, and M = {larger} moves no prediction by more than {change:.2g} of its standard deviations.", one.size


def _is_enough(one: Tried, gain: float, change: float) -> bool:
    return not one.lost.matters and gain <= FEW_NATS and not change > LITTLE[CHANGE]
