"""A log-Gaussian Cox process: a pattern of events, and the smooth random intensity it came from."""

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import ArrayLike, Float
from matplotlib.axes import Axes
from sklearn.base import BaseEstimator

from freegp import plots
from freegp.approximation import GaussianFit, fit_gaussian
from freegp.diagnostics import Diagnostics
from freegp.inducing import Inducing, Placement
from freegp.kernels import Kernel
from freegp.likelihoods import Poisson
from freegp.model import SparseGP
from freegp.point_patterns.cells import lay_cells
from freegp.point_patterns.checks import check_run, checked_levels, checked_points, checked_region, warn_of_twins
from freegp.point_patterns.defaults import LEVEL, default_kernel, default_priors, regular_points
from freegp.point_patterns.kept import FILE, KeptProcess, kept
from freegp.point_patterns.latent import Approximated, Latent, Sampled
from freegp.point_patterns.results import Count, HeldOut, Intensity, IntensitySurface, Refinement, judged
from freegp.point_patterns.window import as_window, borders
from freegp.posterior import LARGEST_JOINT, Posterior
from freegp.priors import Prior
from freegp.sampling import read_plan, resume, sample
from freegp.sampling.run_directory import RunDirectory
from freegp.sampling.runner import Plan
from freegp.sampling.samplers import as_sampler
from freegp.saving import load, save

BAND = (0.05, 0.5, 0.95)


class CoxProcess(BaseEstimator):
    """Events in a window of one or two dimensions, with an intensity ``rate * e^f`` behind them, f a Gaussian process.

    The window is cut into cells, and the number of events in a cell is Poisson with the intensity at the cell's centre times the
    length or area of the cell inside the window. ``rate`` is the mean rate, events over the window's size, so that f is
    near 0 whatever the units; without events it is one over the window's size, and the answer rests on the prior.

    Parameters
    ----------
    window
        Where events were looked for: ``(low, high)``, ``((x0, x1), (y0, y1))``, a polygon's vertices ``[V, 2]`` or a `Mask`.
    grid
        Cells along each axis of the rectangle around the window, one number or one for each; by default 100 in one dimension,
        and about 1024 nearly square ones in two (32 x 32 over a square).
    kernel
        Of f. By default an isotropic RBF for smooth variation plus a Constant for the level, with priors on the scale of the
        window: see `freegp.point_patterns.defaults`. The level's standard deviation is held at 2.
    priors
        By parameter name, such as ``"kernel.members.0.lengthscales"`` of the default kernel; they replace the default ones.
    inducing
        None (a regular grid over the window: 30 points in one dimension, about 225 in two), or what `fg.SparseGP` takes, "auto"
        among it: as many as it takes, which for a rough intensity is a good part of the cells. The summary says what they lose.
    method
        "sample" (draws of the free-form posterior) or "gaussian" (a Gaussian approximation, in seconds, with point estimates
        of the parameters).
    num_samples, num_warmup, num_chains, seed, run_dir, progress
        As in `fg.sample`; what was interrupted in a ``run_dir`` is taken up by `CoxProcess.resume`.

    Attributes
    ----------
    posterior_
        The `fg.Posterior`, or the `fg.GaussianFit` where the method is "gaussian".
    fit_
        The Gaussian approximation, from which the chains start.
    cells_, events_, counts_, rate_
        The cells, the events ``[E, D]``, how many fell in each cell ``[N]``, and the mean rate.
    """

    def __init__(
        self,
        window: Any,
        grid: int | Sequence[int] | None = None,
        kernel: Kernel | None = None,
        priors: Mapping[str, Prior] | None = None,
        inducing: str | int | ArrayLike | Inducing | Placement | None = None,
        method: str = "sample",
        num_samples: int = 1000,
        num_warmup: int = 300,
        num_chains: int = 4,
        seed: int = 0,
        run_dir: str | PathLike[str] | None = None,
        progress: bool = True,
    ):
        self.window = window
        self.grid = grid
        self.kernel = kernel
        self.priors = priors
        self.inducing = inducing
        self.method = method
        self.num_samples = num_samples
        self.num_warmup = num_warmup
        self.num_chains = num_chains
        self.seed = seed
        self.run_dir = run_dir
        self.progress = progress

    def fit(self, events: ArrayLike) -> "CoxProcess":
        """Learn the intensity from where the events are, ``[E]`` or ``[E, D]``."""
        check_run(self.method, self.num_samples, self.num_warmup, self.num_chains)
        self._see(events)
        warn_of_twins(self.events_)
        model, X = self._model(), self.cells_.centres
        fit = fit_gaussian(model, X, self.counts_, train_inducing=False, seed=self.seed, progress=self.progress)
        return self._learn(fit, self._sample(model, fit) if self.method == "sample" else None)

    @classmethod
    def resume(cls, run_dir: str | PathLike[str], progress: bool = True) -> "CoxProcess":
        """Take up a run where it stopped; its draws are those of a run that never did."""
        found = load(Path(run_dir) / FILE)
        process = cls(**(found.settings() | {"run_dir": run_dir, "progress": progress}))._see(found.events)
        return process._learn(read_plan(run_dir).fit, resume(run_dir, progress))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted process to one file, without pickle; `fg.load` reads it back."""
        posterior = self._fitted().posterior_
        save(kept(self.get_params(), self.events_, self.fit_, posterior if isinstance(posterior, Posterior) else None), path)

    @classmethod
    def restored(cls, found: KeptProcess) -> "CoxProcess":
        """A fitted process from what was kept of it."""
        assert found.approximation is not None
        return cls(**found.settings())._see(found.events)._learn(found.approximation, found.posterior)

    def intensity(self, points: ArrayLike, probabilities: Sequence[float] = BAND) -> Intensity:
        """Mean and quantiles of the intensity at points inside the window, ``[N]`` or ``[N, D]``."""
        at = checked_points(points, self._fitted().cells_.window, "points")
        levels = checked_levels(probabilities)
        return Intensity(self._latent.mean(at, self.rate_), self._latent.bands(at, self.rate_, levels), levels)

    def intensity_surface(self, probabilities: Sequence[float] = BAND) -> IntensitySurface:
        """Mean and quantiles of the intensity at the centre of each cell."""
        cells, levels = self._fitted().cells_, checked_levels(probabilities)
        mean = self._latent.mean(cells.centres, self.rate_)
        bands = self._latent.bands(cells.centres, self.rate_, levels)
        y = cells.middles[1] if len(cells.middles) == 2 else None
        return IntensitySurface(cells.middles[0], y, cells.on_grid(mean), cells.on_grid(bands), levels)

    def expected_count(
        self, region: Any = None, probabilities: Sequence[float] = BAND, num_draws: int = 500, seed: int = 0
    ) -> Count:
        """How many events the intensity expects in a region: its integral there, by joint draws.

        Parameters
        ----------
        region
            Given as a window is; only its part inside the window counts. By default the whole window.
        probabilities
            Of the quantiles.
        num_draws, seed
            Joint draws of the intensity over all cells. The same draws serve every region, so counts of regions add up.
        """
        return self._count(region, probabilities, num_draws, seed, noise=False)

    def predict_count(
        self, region: Any = None, probabilities: Sequence[float] = BAND, num_draws: int = 500, seed: int = 0
    ) -> Count:
        """How many events a new pattern of the same intensity would have in a region: as `expected_count`, with Poisson noise."""
        return self._count(region, probabilities, num_draws, seed, noise=True)

    def sample(self, n: int = 1, seed: int = 0) -> list[Float[np.ndarray, "E D"]]:
        """Simulated patterns: an intensity drawn for each, and events from it, uniform within a cell."""
        cells = self._fitted().cells_
        f = self._joint(np.ones(len(cells.exposure), dtype=bool), n, seed)
        rng = np.random.default_rng(seed)
        return [cells.scatter(rng.poisson(self.rate_ * np.exp(one) * cells.exposure), rng) for one in f]

    def held_out_log_likelihood(self, events: ArrayLike) -> HeldOut:
        """Log predictive probability of the cell counts of another pattern of the same intensity, each cell by itself."""
        cells = self._fitted().cells_
        counts = cells.counts(checked_points(events, cells.window, "events"))
        per_cell = self._latent.log_density(cells.centres, counts, self.rate_ * cells.exposure)
        return HeldOut(per_cell, float(per_cell.mean()))

    def refinement_check(self) -> Refinement:
        """Whether cells of half the size would change the answer, by Gaussian approximations.

        The one of the finer cells starts where that of these cells ended, with the same inducing points, or with more where
        there were few because cells were few.
        """
        fit, rate = self._fitted().fit_, self.rate_
        finer = lay_cells(self.cells_.window, [2 * (len(axis) - 1) for axis in self.cells_.edges])
        model, centres = fit.model.with_likelihood(Poisson(exposure=rate * finer.exposure)), finer.centres
        if self.inducing is None and len(regular_points(finer)) > model.num_inducing:
            model = model.with_inducing_inputs(jnp.asarray(regular_points(finer)))
        counts = finer.counts(self.events_)
        refit = fit_gaussian(model, centres, counts, train_inducing=False, seed=self.seed, progress=self.progress)
        before, after = Approximated(fit), Approximated(refit)
        low, high = before.bands(centres, rate, (0.05, 0.95))
        change = np.abs(after.mean(centres, rate) - before.mean(centres, rate)) / (high - low)
        return judged(float(change.max()), before.summary(), after.summary())

    def plot(self, ax: Axes | None = None) -> Axes:
        """A curve with its 90 % band and the events below it, or a map of the mean intensity with the events on it."""
        cells = self._fitted().cells_
        if len(cells.edges) == 1:
            times = np.linspace(*cells.window.bounds[0], 400)
            axes = plots.intensity_curve(times, self.intensity(times).bands, self.events_[:, 0], axes=ax)
            axes.set_ylabel("events per unit")
            return axes
        mean = cells.on_grid(self._latent.mean(cells.centres, self.rate_))
        return plots.intensity_map(cells.edges, mean, self.events_, borders=borders(cells.window), axes=ax)

    @property
    def diagnostics_(self) -> Diagnostics:
        """R-hat, effective samples and a verdict on the chains."""
        posterior = self._fitted().posterior_
        if isinstance(posterior, Posterior):
            return posterior.diagnostics
        raise AttributeError("a Gaussian approximation has no chains to diagnose; see fit_.message, or use method='sample'")

    def summary(self) -> pd.DataFrame:
        """The parameters, one a row: their posterior, or their point estimates where the method is "gaussian"."""
        return self._fitted()._latent.summary()

    def __str__(self) -> str:
        if not hasattr(self, "posterior_"):
            return repr(self)
        events = f"{len(self.events_)} event{'' if len(self.events_) == 1 else 's'}"
        size = f"{events}, {self.rate_:.4g} per unit, {len(self.counts_)} cells"
        return f"Cox process: {size}; {self._latent.verdict()}\n{self.summary().to_string()}"

    def _see(self, events: ArrayLike) -> "CoxProcess":
        """Lay the cells and count the events in them."""
        window = as_window(self.window)
        self.events_ = checked_points(events, window, "events")
        self.cells_ = lay_cells(window, self.grid)
        self.counts_ = self.cells_.counts(self.events_)
        self.rate_ = max(len(self.events_), 1) / float(self.cells_.exposure.sum())
        return self

    def _learn(self, fit: GaussianFit, posterior: Posterior | None) -> "CoxProcess":
        """Keep what was found."""
        self.fit_ = fit
        self.posterior_: Posterior | GaussianFit = fit if posterior is None else posterior
        self._latent: Latent = Approximated(fit) if posterior is None else Sampled(posterior)
        self._drawn: dict[tuple[int, int], np.ndarray] = {}
        return self

    def _fitted(self) -> "CoxProcess":
        if not hasattr(self, "posterior_"):
            raise ValueError("this Cox process has not seen any events yet; call fit(events) first")
        return self

    def _model(self) -> SparseGP:
        window, priors = self.cells_.window, dict(self.priors or {})
        return SparseGP(
            kernel=default_kernel(window) if self.kernel is None else self.kernel,
            likelihood=Poisson(exposure=self.rate_ * self.cells_.exposure),
            inducing=regular_points(self.cells_) if self.inducing is None else self.inducing,
            priors=default_priors(window) | priors if self.kernel is None else priors,
            fixed=(LEVEL,) if self.kernel is None and LEVEL not in priors else (),
        )

    def _sample(self, model: SparseGP, fit: GaussianFit) -> Posterior:
        chosen = {name: getattr(self, name) for name in ("num_samples", "num_warmup", "num_chains", "seed")}
        X, counts = self.cells_.centres, self.counts_
        if self.run_dir is None:
            return sample(model, X, counts, fit=fit, progress=self.progress, **chosen)
        if fit.status == "diverged":
            raise FloatingPointError(f"the Gaussian approximation {fit.message}")
        plan = Plan(fit, jnp.asarray(X), jnp.asarray(counts), as_sampler("sites"), **chosen)
        with RunDirectory.create(self.run_dir, plan):
            save(kept(self.get_params(), self.events_), Path(self.run_dir) / FILE)
        return resume(self.run_dir, self.progress)

    def _count(self, region: Any, probabilities: Sequence[float], num_draws: int, seed: int, *, noise: bool) -> Count:
        levels, window = checked_levels(probabilities), self._fitted().cells_.window
        within = window if region is None else checked_region(region, window)
        sizes = self.cells_.exposure if region is None else self.cells_.sizes_in(within)
        if not sizes.any():
            raise ValueError("the region lies outside the window, where nothing was observed; give one that overlaps it")
        integrals = self._integrals(sizes, num_draws, seed)
        values = np.random.default_rng(seed).poisson(integrals) if noise else integrals
        quantiles = np.quantile(values, levels, method="inverted_cdf" if noise else "linear")
        return Count(float(integrals.mean()), quantiles, levels, float(sizes.sum() / within.size))

    def _integrals(self, sizes: Float[np.ndarray, " N"], num_draws: int, seed: int) -> Float[np.ndarray, " S"]:
        """Draws of the intensity's integral, given how much of each cell counts."""
        if len(sizes) > LARGEST_JOINT:
            return self.rate_ * np.exp(self._joint(sizes > 0.0, num_draws, seed)) @ sizes[sizes > 0.0]
        if (num_draws, seed) not in self._drawn:
            self._drawn = {(num_draws, seed): self._joint(np.ones(len(sizes), dtype=bool), num_draws, seed)}
        return self.rate_ * np.exp(self._drawn[num_draws, seed]) @ sizes

    def _joint(self, rows: np.ndarray, num_draws: int, seed: int) -> Float[np.ndarray, "S N"]:
        """Joint draws of f at some of the cells."""
        if rows.sum() > LARGEST_JOINT:
            raise ValueError(
                f"joint draws over {rows.sum()} cells need too large a covariance; use a smaller region, or a grid with at most "
                f"{LARGEST_JOINT} cells"
            )
        if num_draws < 1:
            raise ValueError(f"at least one draw is needed, but {num_draws} were asked for")
        return self._latent.draws(self.cells_.centres[rows], num_draws, seed)
