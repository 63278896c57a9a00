"""The site form: natural gradients on the sites, inside a search over the parameters and inducing inputs.

Adam, Chang, Khan & Solin (2021); Khan & Lin (2017).
"""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from freegp.approximation.gaussian import Sites, site_bound, site_update, sites_at
from freegp.approximation.minibatches import run_minibatches
from freegp.approximation.problem import DIVERGED, Outcome, Problem
from freegp.approximation.progress import FitProgress
from freegp.approximation.search import ascend


@dataclass(frozen=True)
class NaturalGradient:
    """Settings of the site form.

    On all data (no ``batch_size``): at most ``max_steps`` of L-BFGS on the parameters and inducing inputs, of the bound at its
    best sites; at each point these are found by at most ``site_steps`` natural-gradient steps (shortened where the bound
    would fall) from the last ones. It has converged when a fresh start gains less than ``tolerance`` nats.
    On minibatches: ``num_steps`` steps of rate ``site_rate`` on the sites and of Adam with ``learning_rate`` on the rest, both
    rates falling to the share ``falling`` along a cosine; Adam's rises to it over a tenth of the steps. The first tenth are on
    the sites alone, if they start from nothing.
    """

    max_steps: int = 300
    site_steps: int = 30
    tolerance: float = 1e-4
    batch_size: int | None = None
    num_steps: int = 2000
    site_rate: float = 0.1
    learning_rate: float = 0.02
    falling: float = 0.1

    def run(self, problem: Problem, outcome: Outcome, key: PRNGKeyArray, show: bool) -> None:
        """Fit, keeping the outcome up to date.

        In double precision, whatever the model's: in single, rounding in the sum of the data's curvatures is large beside the
        smallest eigenvalues of Kuu, and the sites are no Gaussian.
        """
        problem = problem.in_double_precision()
        if self.batch_size is None or self.batch_size >= problem.num_data:
            with FitProgress("natural gradients", self.max_steps, show) as progress:
                _run_full_batch(self, problem, outcome, progress)
        else:
            with FitProgress("natural gradients, minibatches", self.num_steps, show) as progress:
                run_minibatches(self, problem, outcome, self.batch_size, key, progress)


def _run_full_batch(settings: NaturalGradient, problem: Problem, outcome: Outcome, progress: FitProgress) -> None:
    start, first = _settle_sites(settings, problem, outcome.position, outcome.sites)
    if not np.isfinite(start):
        return outcome.end("diverged", DIVERGED)
    outcome.record(outcome.position, first, start)
    progress.update(0, start)
    if outcome.position.size == 0:
        return outcome.end("converged", "converged: there was only q(v) to find")
    latest = first

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        """The bound at its best sites; there, its slope is the slope with the sites held."""
        nonlocal latest
        position = jnp.asarray(flat)
        value, latest = _settle_sites(settings, problem, position, outcome.sites)
        return value, np.asarray(position_slope(problem, position, latest))

    def record(flat: np.ndarray, value: float) -> None:
        outcome.record(jnp.asarray(flat), latest, value)
        progress.update(len(outcome.trace) - 1, value)

    if ascend(objective, np.asarray(outcome.position), record, settings.max_steps, settings.tolerance):
        outcome.end("converged", f"converged in {len(outcome.trace) - 1} steps")
    else:
        outcome.end("ran out", f"ran out of steps ({settings.max_steps}) before it stopped gaining")


def _settle_sites(settings: NaturalGradient, problem: Problem, position: Float[Array, " T"], sites: Sites) -> tuple[float, Sites]:
    """Natural-gradient steps at a fixed position until the bound stands still; never downhill."""
    rate = 1.0
    sites = _moved(problem, position, sites)
    value, proposed = _evaluate(problem, position, sites)
    for _ in range(settings.site_steps):
        trial = sites.blended(proposed, rate)
        trial_value, trial_proposed = _evaluate(problem, position, trial)
        gain = float(trial_value - value)
        if gain > -1e-10 * abs(float(value)):  # false for NaN: such a step is shortened too
            sites, value, proposed = trial, trial_value, trial_proposed
            if gain < 1e-3 * settings.tolerance:
                break
            rate = min(1.0, 2.0 * rate)
        elif rate > 1e-4:
            rate *= 0.5
        else:
            break
    return float(value), sites


@eqx.filter_jit
def _moved(problem: Problem, position: Float[Array, " T"], sites: Sites) -> Sites:
    return sites_at(problem.at(position), sites)


@eqx.filter_jit
def _evaluate(problem: Problem, position: Float[Array, " T"], sites: Sites) -> tuple[Array, Sites]:
    value, proposed = site_update(problem.at(position), problem.X, problem.y, sites)
    return value + problem.log_prior(position), proposed


@eqx.filter_jit
def position_slope(problem: Problem, position: Float[Array, " T"], sites: Sites) -> Float[Array, " T"]:
    """Gradient of bound plus log prior in the position, the sites held."""

    def objective(position: Array) -> Array:
        return site_bound(problem.at(position), problem.X, problem.y, sites) + problem.log_prior(position)

    return jax.grad(objective)(position)
