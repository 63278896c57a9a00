"""Simulation-based calibration (Talts et al. 2018): where Z = X, ranks of the truth among draws are uniform if all is well."""

import itertools
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import binom, chi2

import freegp as fg
from freegp.numerics.stacks import whitening
from freegp.parameters import free_parameters, from_free
from freegp.target.log_density import data_term
from freegp.target.projection import covariances, project_whitened
from trust.simulation import draw_truth, full_model

X = np.linspace(0.0, 4.0, 12)[:, None]
NUM_RANKED = 99
NUM_BINS = 10
NUM_CHAINS, NUM_DRAWS, NUM_WARM_UP = 4, 250, 200


@dataclass(frozen=True)
class Ranks:
    """Of the truth among ranked draws, by name, one for each simulation."""

    likelihood: str
    ranks: dict[str, np.ndarray]
    num_not_converged: int

    def p_values(self) -> dict[str, float]:
        """Chances of a histogram at least as uneven as each is, if all is well."""
        return {name: _p_value(ranks) for name, ranks in self.ranks.items()}

    def p_value(self) -> float:
        """Of the worst of them, so many being looked at."""
        p_values = list(self.p_values().values())
        return min(1.0, len(p_values) * min(p_values))


def simulate(name: str, num_simulations: int, first_seed: int = 0) -> Ranks:
    """Draw a truth, infer it from its data with the default sampler, and rank it; so many times.

    Data that are all alike, of which a classifier could not learn, are drawn again: that depends on the data alone, and leaves
    ranks uniform.
    """
    model = full_model(name, X)
    found: dict[str, list[int]] = {}
    num_not_converged = 0
    seeds = itertools.count(first_seed)
    for number in range(num_simulations):
        truth = next(truth for truth in (draw_truth(model, X, seed) for seed in seeds) if np.ptp(truth.y) > 0.0)
        fit = fg.fit_gaussian(model, X, truth.y, train_inducing=False, progress=False)
        posterior = fg.sample(
            model,
            X,
            truth.y,
            fit=fit,
            num_chains=NUM_CHAINS,
            num_samples=NUM_DRAWS,
            num_warmup=NUM_WARM_UP,
            seed=first_seed + number,
            progress=False,
        )
        num_not_converged += posterior.diagnostics.r_hat > 1.05
        free, whitened = (array.reshape(-1, *array.shape[2:]) for array in (posterior.free, posterior.whitened))
        of_truth = _quantities(model, truth.y, truth.free[None], truth.whitened[None])
        kept = np.linspace(0, len(free) - 1, NUM_RANKED).astype(int)
        for quantity, values in _quantities(model, truth.y, free[kept], whitened[kept]).items():
            found.setdefault(quantity, []).append(int(np.sum(values < of_truth[quantity][0])))
    return Ranks(name, {quantity: np.array(ranks) for quantity, ranks in found.items()}, num_not_converged)


def _quantities(model: fg.SparseGP, y: np.ndarray, free: np.ndarray, whitened: np.ndarray) -> dict[str, np.ndarray]:
    """Every parameter, two of the values, and the log-likelihood of the data."""
    parameters = {p.path: free[:, number] for number, p in enumerate(free_parameters(model))}
    values = {f"v[{index}]": whitened[:, index, 0] for index in (0, 6)}
    likelihoods = jax.vmap(lambda free, v: _log_likelihood(model, jnp.asarray(y), free, v))(
        jnp.asarray(free), jnp.asarray(whitened)
    )
    return parameters | values | {"log-likelihood": np.asarray(likelihoods)}


@jax.jit
def _log_likelihood(model: fg.SparseGP, y: jax.Array, free: jax.Array, whitened: jax.Array) -> jax.Array:
    at = from_free(model, free)
    return data_term(at, project_whitened(whitening(covariances(at)), whitened), jnp.asarray(X), y)


def _counts(ranks: np.ndarray) -> np.ndarray:
    return np.histogram(ranks, bins=np.linspace(-0.5, NUM_RANKED + 0.5, NUM_BINS + 1))[0]


def _p_value(ranks: np.ndarray) -> float:
    expected = len(ranks) / NUM_BINS
    return float(chi2.sf(np.sum((_counts(ranks) - expected) ** 2) / expected, NUM_BINS - 1))


def plot(all_ranks: list[Ranks], path: Path) -> None:
    """Histograms of ranks, with the band in which 99 of 100 bars lie if all is well."""
    columns = max(len(ranks.ranks) for ranks in all_ranks)
    figure, rows = plt.subplots(
        len(all_ranks), columns, figsize=(2.1 * columns, 1.9 * len(all_ranks)), squeeze=False, layout="tight"
    )
    for axes_row, ranks in zip(rows, all_ranks, strict=True):
        for axes in axes_row[len(ranks.ranks) :]:
            axes.set_axis_off()
        for axes, (name, values) in zip(axes_row, ranks.ranks.items(), strict=False):
            low, high = binom.ppf([0.005, 0.995], len(values), 1.0 / NUM_BINS)
            axes.axhspan(low, high, color="0.9")
            axes.bar(np.arange(NUM_BINS), _counts(values), width=0.9, color="tab:blue")
            axes.set(title=name, xticks=[], ylim=(0, None))
            axes.title.set_fontsize(8)
            axes.tick_params(labelsize=7)
        axes_row[0].set_ylabel(ranks.likelihood)
    figure.savefig(path, dpi=110)
    plt.close(figure)
