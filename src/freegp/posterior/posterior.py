"""Draws from the target, and what they say of new inputs."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray
from rich.console import Console
from rich.progress import track

from freegp.approximation.words import loss_in_words, with_nats_lost
from freegp.devices import one_blas_thread
from freegp.diagnostics import Diagnostics, LeaveOneOut, diagnose, entry_names, import_arviz, psis_loo, summary_table
from freegp.likelihoods import Likelihood
from freegp.model import SparseGP
from freegp.observations import NUM_OBSERVATIONS, check_levels, observation_quantiles
from freegp.parameters import free_parameters
from freegp.posterior.per_draw import (
    Moments,
    draw_f,
    draw_observations,
    draw_y,
    latent_moments,
    log_density_of_draws,
    marginals_of_draws,
    mixture_quantiles,
    moments_of_draws,
    natural,
    pointwise_of_draws,
    sparsity_of_draws,
    target_moments,
)
from freegp.saving import registered, save
from freegp.sparsity import Sparsity, judge
from freegp.validation import check_prediction_inputs, check_targets

if TYPE_CHECKING:
    import arviz

DRAWS_AT_ONCE = 25
NUM_WATCHED = 50
NUM_FOR_SPARSITY = 100
LARGEST_JOINT = 5000


class Draws(dict[str, np.ndarray]):
    """Draws by name; a name that is not there is answered with those that are."""

    def __missing__(self, name: str) -> np.ndarray:
        raise KeyError(f"there are no draws of {name!r} (is it fixed?), but of {', '.join(self)}")


@registered
@dataclass(frozen=True, repr=False)
class Posterior:
    """Draws of theta and v, with predictions averaged over them.

    Attributes
    ----------
    model
        The model whose inducing inputs and priors were sampled with; its parameter values are the starting fit's.
    X, y
        The data.
    free, whitened
        Draws, ``[chain, draw, T]`` in free coordinates and ``[chain, draw, M, P]``.
    statistics
        What the sampler noted of each draw, ``[chain, draw]`` by name.
    seconds_sampling, seconds_total
        Time spent on the draws kept, and on everything (fit, compilation, warm-up).
    """

    model: SparseGP
    X: np.ndarray
    y: np.ndarray
    free: np.ndarray
    whitened: np.ndarray
    statistics: tuple[tuple[str, np.ndarray], ...]
    seconds_sampling: float
    seconds_total: float

    @cached_property
    def draws(self) -> dict[str, np.ndarray]:
        """Draws by name, ``[chain, draw, ...]``: parameters in natural units, and "whitened"."""
        values = jax.vmap(jax.vmap(lambda free: natural(self.model, free)))(jnp.asarray(self.free))
        return Draws({path: np.asarray(value) for path, value in values.items()} | {"whitened": self.whitened})

    @property
    def num_chains(self) -> int:
        """Chains."""
        return self.free.shape[0]

    @property
    def num_draws(self) -> int:
        """Draws of each chain."""
        return self.free.shape[1]

    def thinned(self, step: int) -> "Posterior":
        """Every step-th draw only, for cheaper predictions; nothing is thinned unless it is asked for."""
        if step < 1 or step > self.num_draws:
            raise ValueError(f"step must be between 1 and {self.num_draws}, the draws of each chain, but is {step}")
        kept = {name: array[:, ::step] for name, array in self.statistics}
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        changed = {"free": self.free[:, ::step], "whitened": self.whitened[:, ::step], "statistics": tuple(kept.items())}
        return Posterior(**(fields | changed))

    @one_blas_thread
    def predict_f(self, Xs: ArrayLike, progress: bool = False) -> tuple[Float[Array, "N P"], Float[Array, "N P"]]:
        """Mean and variance of the latent functions, averaged over draws."""
        return self._moments(latent_moments, check_prediction_inputs(self.model, Xs), self.model.likelihood, progress)

    @one_blas_thread
    def predict_y(self, Xs: ArrayLike, exposure: ArrayLike | None = None, progress: bool = False) -> tuple[Array, Array]:
        """Mean and variance of observations, averaged over draws; for classes their probabilities and p (1 - p)."""
        Xs = check_prediction_inputs(self.model, Xs)
        likelihood = self.model.likelihood.for_prediction(Xs.shape[0], exposure)
        return self._moments(target_moments, Xs, likelihood, progress)

    @one_blas_thread
    def predict_log_density(
        self, Xs: ArrayLike, ys: ArrayLike, exposure: ArrayLike | None = None, progress: bool = False
    ) -> Float[Array, " N"]:
        """Log of the draw-averaged predictive density of each observation."""
        Xs = check_prediction_inputs(self.model, Xs)
        ys = jnp.asarray(check_targets(ys, Xs.shape[0], "ys"))
        likelihood = self.model.likelihood.for_prediction(Xs.shape[0], exposure)
        likelihood.check_targets(np.asarray(ys))
        results = []
        for rows in self._blocks(Xs.shape[0], progress):
            arguments = (self._at(likelihood, rows), jnp.asarray(Xs[rows]), ys[rows])
            densities = jnp.concatenate([log_density_of_draws(*arguments, *draws) for draws in self._batches()])
            results.append(jax.nn.logsumexp(densities, axis=0) - jnp.log(densities.shape[0]))
        return jnp.concatenate(results)

    @one_blas_thread
    def quantiles_f(
        self, Xs: ArrayLike, probabilities: Sequence[float] = (0.05, 0.5, 0.95), progress: bool = False
    ) -> Float[Array, "Q N P"]:
        """Quantiles of the latent functions at each input, of the mixture over draws; for bands."""
        Xs = check_prediction_inputs(self.model, Xs)
        levels = jnp.asarray(check_levels(probabilities))
        blocks = []
        for rows in self._blocks(Xs.shape[0], progress):
            parts = [marginals_of_draws(self.model, jnp.asarray(Xs[rows]), *draws) for draws in self._batches()]
            mean, variance = (jnp.concatenate(part) for part in zip(*parts, strict=True))
            blocks.append(mixture_quantiles(levels, mean, jnp.sqrt(variance)))
        return jnp.concatenate(blocks, axis=1)

    @one_blas_thread
    def quantiles_y(
        self,
        Xs: ArrayLike,
        probabilities: Sequence[float] = (0.05, 0.5, 0.95),
        exposure: ArrayLike | None = None,
        seed: int = 0,
    ) -> Float[Array, "Q N"]:
        """Quantiles of new observations at each input, noise included, from 10 000 or more simulated under all draws.

        They are good to about 2 % of the observations' standard deviation; of counts they are counts.
        """
        Xs = check_prediction_inputs(self.model, Xs)
        free, whitened = self._taken()
        keys, each = jax.random.split(jax.random.key(seed), len(free)), math.ceil(NUM_OBSERVATIONS / len(free))

        def draw(likelihood: Likelihood, X: Array) -> Array:
            return draw_observations(self.model.with_likelihood(likelihood), X, free, whitened, keys, each)

        likelihood = self.model.likelihood.for_prediction(Xs.shape[0], exposure)
        return observation_quantiles(draw, likelihood, Xs, probabilities)

    @one_blas_thread
    def sample_f(self, Xs: ArrayLike, n: int, seed: int = 0) -> Float[Array, "S N P"]:
        """Joint draws of the latent functions at new inputs, each from a draw of the posterior taken at random."""
        return self._draw_f(Xs, n, jax.random.key(seed))[1]

    @one_blas_thread
    def sample_y(self, Xs: ArrayLike, n: int, seed: int = 0, exposure: ArrayLike | None = None) -> Float[Array, "S N"]:
        """Draws of observations at new inputs."""
        key_f, key_y = jax.random.split(jax.random.key(seed))
        free, f = self._draw_f(Xs, n, key_f)
        likelihood = self.model.likelihood.for_prediction(f.shape[1], exposure)
        return draw_y(self.model.with_likelihood(likelihood), free, f, jax.random.split(key_y, n))

    def _draw_f(self, Xs: ArrayLike, n: int, key: PRNGKeyArray) -> tuple[Float[Array, "S T"], Float[Array, "S N P"]]:
        """Parameters of posterior draws taken at random, and joint draws of the latents under them."""
        Xs = check_prediction_inputs(self.model, Xs)
        if Xs.shape[0] > LARGEST_JOINT:
            raise ValueError(f"joint draws at {Xs.shape[0]} inputs need too large a covariance; use at most {LARGEST_JOINT}")
        key_pick, key_draw = jax.random.split(key)
        picked = jax.random.randint(key_pick, (n,), 0, self.num_chains * self.num_draws)
        free, whitened = self._taken(np.asarray(picked))
        return free, draw_f(self.model, jnp.asarray(Xs), free, whitened, jax.random.split(key_draw, n))

    def summary(self) -> pd.DataFrame:
        """Mean, sd, mcse, r_hat, ess_bulk and ess_tail, one row a parameter; in the corner, the nats lost to sparsity."""
        table = summary_table({name: draws for name, draws in self.draws.items() if name != "whitened"})
        return with_nats_lost(table, self.sparsity)

    @cached_property
    @one_blas_thread
    def diagnostics(self) -> Diagnostics:
        """R-hat, effective samples, acceptance, time and a verdict, on theta, v, the log density and f at 50 of the data."""
        noted = dict(self.statistics)
        parameters = free_parameters(self.model)
        theta = [self.draws[p.path].reshape(*self.free.shape[:2], -1) for p in parameters]
        groups = {"theta": np.concatenate(theta, axis=2)} if parameters else {}
        groups |= {"whitened": self.whitened, "log_density": noted["log_density"], "f": self._watched_f()}
        labels = {"theta": [n for p in parameters for n in entry_names(p.path, p.shape)]} if parameters else {}
        return diagnose(
            groups,
            acceptance=noted["acceptance"],
            divergences=noted["is_divergent"],
            nonfinite=noted["is_nonfinite"],
            energy=noted["energy"],
            seconds_sampling=self.seconds_sampling,
            seconds_total=self.seconds_total,
            gradients=int(noted["num_gradients"].sum()),
            sparsity=self.sparsity,
            labels=labels,
        )

    @cached_property
    @one_blas_thread
    def sparsity(self) -> Sparsity:
        """What the inducing points lose, averaged over up to 100 of the draws."""
        total = self.num_chains * self.num_draws
        free, whitened = self._taken(np.linspace(0, total - 1, min(NUM_FOR_SPARSITY, total)).astype(int))
        curvature, losses = sparsity_of_draws(self.model, jnp.asarray(self.X), jnp.asarray(self.y), free, whitened)
        return judge(self.model, self.X, *(np.asarray(array) for array in (free, losses, curvature)))

    @one_blas_thread
    def loo(self) -> LeaveOneOut:
        """Leave-one-out predictive density, weighted by the factor each datum has in this target."""
        expected, predictive = self._pointwise()
        return psis_loo(expected, predictive)

    @one_blas_thread
    def to_arviz(self) -> "arviz.InferenceData":
        """An ArviZ InferenceData: posterior, sample_stats, log_likelihood (log predictive density a datum), observed_data.

        For leave-one-out use `loo`: `arviz.loo` would weight the draws by these densities, and not by what the data contribute
        to the target that was sampled.
        """
        noted = dict(self.statistics)
        names = {"acceptance": "acceptance_rate", "is_divergent": "diverging", "num_gradients": "n_steps", "log_density": "lp"}
        return import_arviz().from_dict(
            posterior=self.draws,
            sample_stats={names.get(name, name): array for name, array in noted.items()},
            log_likelihood={"y": self._pointwise()[1]},
            observed_data={"y": self.y},
        )

    def save(self, path: str | PathLike[str]) -> None:
        """Write to one file, without pickle; `fg.load` reads it back."""
        save(self, path)

    def __repr__(self) -> str:
        return f"Posterior({self.num_chains} chains of {self.num_draws} draws; {self.model!r})"

    def __str__(self) -> str:
        size = f"{self.num_chains} chains of {self.num_draws} draws"
        lost = "" if self.sparsity.matters else f"; {loss_in_words(self.sparsity)}"  # where it matters the verdict says so
        return f"{size}: {self.diagnostics.verdict}{lost}\n{self.summary().to_string()}"

    def _taken(self, rows: slice | np.ndarray = slice(None)) -> tuple[Array, Array]:
        """These of all chains' draws, one chain after another; taken by NumPy, which has nothing to compile."""
        total = self.num_chains * self.num_draws
        free, whitened = (array.reshape(total, *array.shape[2:])[rows] for array in (self.free, self.whitened))
        return jnp.asarray(free), jnp.asarray(whitened)

    def _batches(self) -> Iterator[tuple[Array, Array]]:
        """Draws of all chains, a few at a time."""
        for start in range(0, self.num_chains * self.num_draws, DRAWS_AT_ONCE):
            yield self._taken(slice(start, start + DRAWS_AT_ONCE))

    def _blocks(self, num_rows: int, progress: bool) -> Iterator[slice]:
        """Rows of new inputs, a block at a time, so that memory stays bounded."""
        size = self.model.rows_at_once
        blocks = [slice(start, min(start + size, num_rows)) for start in range(0, num_rows, size)]
        return iter(track(blocks, "predicting", console=Console(stderr=True), transient=True, disable=not progress))

    def _at(self, likelihood: Likelihood, rows: slice) -> SparseGP:
        """The model with the likelihood of these rows."""
        return self.model.with_likelihood(likelihood.take(jnp.arange(rows.start, rows.stop)))

    def _moments(self, moments: Moments, Xs: np.ndarray, likelihood: Likelihood, progress: bool) -> tuple[Array, Array]:
        """Mean over draws, and variance as the mean of variances plus the variance of means."""
        results = []
        for rows in self._blocks(Xs.shape[0], progress):
            model = self._at(likelihood, rows)
            parts = [moments_of_draws(moments, model, jnp.asarray(Xs[rows]), *draws) for draws in self._batches()]
            mean, variance = (jnp.concatenate(part) for part in zip(*parts, strict=True))
            results.append((jnp.mean(mean, axis=0), jnp.mean(variance, axis=0) + jnp.var(mean, axis=0)))
        mean, variance = (jnp.concatenate(part) for part in zip(*results, strict=True))
        return mean, variance

    def _watched_f(self) -> np.ndarray:
        """Mean of the latents given each draw, at up to 50 of the data inputs."""
        rows = np.linspace(0, self.X.shape[0] - 1, min(NUM_WATCHED, self.X.shape[0])).astype(int)
        parts = [marginals_of_draws(self.model, self.X[rows], *draws)[0] for draws in self._batches()]
        return np.concatenate([np.asarray(part) for part in parts]).reshape(*self.free.shape[:2], -1)

    def _pointwise(self) -> tuple[np.ndarray, np.ndarray]:
        """Expected log likelihood and log predictive density of each datum under each draw, ``[chain, draw, N]``."""
        blocks = []
        for rows in self._blocks(self.X.shape[0], False):
            model = self._at(self.model.likelihood, rows)
            X, y = jnp.asarray(self.X[rows]), jnp.asarray(self.y[rows])
            parts = [pointwise_of_draws(model, X, y, *draws) for draws in self._batches()]
            blocks.append([np.concatenate([np.asarray(p) for p in part]) for part in zip(*parts, strict=True)])
        expected, predictive = (np.concatenate(part, axis=1) for part in zip(*blocks, strict=True))
        shape = (self.num_chains, self.num_draws, -1)
        return expected.reshape(shape), predictive.reshape(shape)
