"""The site form: natural gradients on the sites, inside a search over the parameters and inducing inputs.

Adam, Chang, Khan & Solin (2021); Khan & Lin (2017).
"""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from freegp.approximation.gaussian import Sites, no_nudge, nudged_bound, proposed_sites, site_bound, site_update, sites_at
from freegp.approximation.problem import Outcome, Problem
from freegp.approximation.progress import FitProgress
from freegp.approximation.search import ascend
from freegp.target.projection import Projection

WIDEST = 10.0
DIVERGED = "diverged: the bound is not a number; standardise the inputs, or start from other parameter values"


@dataclass(frozen=True)
class NaturalGradient:
    """Settings of the site form.

    On all data (no ``batch_size``): at most ``max_steps`` of L-BFGS on the parameters and inducing inputs, of the bound at its
    best sites; at each point these are found by at most ``site_steps`` natural-gradient steps (shortened where the bound
    would fall) from the last ones. It has converged when a fresh start gains less than ``tolerance`` nats.
    On minibatches: ``num_steps`` steps of rate ``site_rate`` on the sites and of Adam with ``learning_rate`` on the rest, both
    rates falling to a tenth along a cosine; the first tenth are on the sites alone, if they start from nothing.
    """

    max_steps: int = 300
    site_steps: int = 30
    tolerance: float = 1e-4
    batch_size: int | None = None
    num_steps: int = 2000
    site_rate: float = 0.1
    learning_rate: float = 0.02

    def run(self, problem: Problem, outcome: Outcome, key: PRNGKeyArray, show: bool) -> None:
        """Fit, keeping the outcome up to date."""
        if self.batch_size is None or self.batch_size >= problem.num_data:
            with FitProgress("natural gradients", self.max_steps, show) as progress:
                _run_full_batch(self, problem, outcome, progress)
        else:
            with FitProgress("natural gradients, minibatches", self.num_steps, show) as progress:
                _run_minibatches(self, problem, outcome, key, progress)


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


def _run_minibatches(
    settings: NaturalGradient, problem: Problem, outcome: Outcome, key: PRNGKeyArray, progress: FitProgress
) -> None:
    decay = optax.cosine_decay_schedule(1.0, settings.num_steps, alpha=0.1)
    optimizer = optax.adam(lambda count: settings.learning_rate * decay(count))
    state = optimizer.init(outcome.position)
    frozen_steps = 0 if jnp.any(outcome.sites.precision) else settings.num_steps // 10
    chunk = min(50, settings.num_steps)
    for start in range(0, settings.num_steps, chunk):
        counts = jnp.arange(start, min(start + chunk, settings.num_steps))
        position, sites, state, values = _minibatch_steps(
            settings, optimizer, problem, outcome.position, outcome.sites, state, key, counts, counts >= frozen_steps
        )
        if not bool(jnp.all(jnp.isfinite(values))):
            return outcome.end("diverged", f"{DIVERGED}, or smaller rates")
        outcome.record(position, sites, float(jnp.mean(values)))
        progress.update(int(counts[-1]) + 1, outcome.trace[-1])
    settled(outcome, settings.num_steps)


def settled(outcome: Outcome, num_steps: int) -> None:
    """Judge a noisy trace: it has converged if its last two fifths differ by less than their noise."""
    if len(outcome.trace) < 10:
        return outcome.end("ran out", f"ran out of steps ({num_steps}), too few to tell whether it had converged")
    late = np.array_split(np.asarray(outcome.trace), 5)[-2:]
    noise = np.sqrt(sum(np.var(part) / len(part) for part in late))
    gain = float(np.mean(late[1]) - np.mean(late[0]))
    if gain < 2.0 * noise:
        outcome.end("converged", f"converged to within the noise of its minibatches in {num_steps} steps")
    else:
        outcome.end("ran out", f"ran out of steps ({num_steps}), still gaining {gain:.2g} nats over the last fifth")


@eqx.filter_jit
def _minibatch_steps(
    settings: NaturalGradient,
    optimizer: optax.GradientTransformation,
    problem: Problem,
    position: Array,
    sites: Sites,
    state: optax.OptState,
    key: PRNGKeyArray,
    counts: Int[Array, " steps"],
    moves: Bool[Array, " steps"],
) -> tuple[Array, Sites, optax.OptState, Array]:
    size = settings.batch_size or problem.num_data
    scale = problem.num_data / size
    decay = optax.cosine_decay_schedule(1.0, settings.num_steps, alpha=0.1)

    Carry = tuple[Array, Sites, optax.OptState]

    def step(carry: Carry, number: tuple[Array, Array]) -> tuple[Carry, Array]:
        (position, sites, state), (count, is_moving) = carry, number
        batch = problem.minibatch(jax.random.fold_in(key, count), size)
        sites = sites_at(batch.at(position), sites)
        rate = settings.site_rate * decay(count)

        def objective(position: Array, nudge: Projection) -> tuple[Array, Projection]:
            value, projection = nudged_bound(batch.at(position), batch.X, batch.y, sites, nudge, scale)
            return value + problem.log_prior(position), projection

        slopes = jax.value_and_grad(objective, argnums=(0, 1), has_aux=True)
        (value, projection), (slope, of_projection) = slopes(position, no_nudge(sites))

        def concave(sites: Sites) -> Sites:
            _, proposed = site_update(batch.at(position), batch.X, batch.y, sites, scale, concave=True)
            return sites.blended(proposed, rate)

        ahead = sites.blended(proposed_sites(sites, projection, of_projection), rate)
        sites = jax.lax.cond(_is_within_reach(ahead), lambda _: ahead, concave, sites)
        updates, new_state = optimizer.update(-slope, state, position)
        position = jnp.where(is_moving, position + updates, position)
        state = jax.tree.map(lambda new, old: jnp.where(is_moving, new, old), new_state, state)
        return (position, sites, state), value

    (position, sites, state), values = jax.lax.scan(step, (position, sites, state), (counts, moves))
    return position, sites, state, values


def _is_within_reach(sites: Sites) -> Bool[Array, ""]:
    """Whether q(v) is a Gaussian, and in no direction far wider than its prior: whether ``I + W`` is above ``I / WIDEST``.

    It may not be after a step where the likelihood is not log-concave and a minibatch's curvature is negative.
    """
    rest = sites.precision + (1.0 - 1.0 / WIDEST) * jnp.eye(sites.precision.shape[-1])
    return jnp.all(jnp.isfinite(jnp.linalg.cholesky(rest)))
