"""The paper's way: gradients on mean and Cholesky factor of q(v), parameters and inducing inputs, all together.

Hensman, Matthews & Ghahramani (2015), and section 3, step 1, of the paper: parameters and Z are held for the first few hundred
iterations and free after that.
"""

from collections.abc import Callable
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int, PRNGKeyArray

from freegp.approximation.gaussian import Gaussian, Sites, bound, sites_from_gaussian
from freegp.approximation.problem import DIVERGED, Outcome, Problem
from freegp.approximation.progress import FitProgress
from freegp.approximation.search import ascend


class Direct(eqx.Module):
    """Everything that is optimised: q(v) by its mean and factor (S = L L^T, L the lower triangle), and the position."""

    mean: Float[Array, "M P"]
    factor: Float[Array, "P M M"]
    position: Float[Array, " T"]

    def gaussian(self) -> Gaussian:
        """q(v)."""
        factor = jnp.tril(self.factor)
        log_diagonal = jnp.log(jnp.abs(jnp.diagonal(factor, axis1=-2, axis2=-1)))
        return Gaussian(self.mean, factor @ jnp.swapaxes(factor, -1, -2), 2.0 * jnp.sum(log_diagonal, axis=-1))

    def sites(self, problem: Problem) -> Sites:
        """The same Gaussian in site form."""
        q = self.gaussian()
        return sites_from_gaussian(problem.at(self.position), q.mean, q.covariance)


def _start(outcome: Outcome, key: PRNGKeyArray) -> Direct:
    """Where the outcome stands, the prior or an earlier fit, with a mean that is moved a little at random, as in the paper."""
    q = outcome.sites.gaussian()
    mean = q.mean + 0.01 * jax.random.normal(key, q.mean.shape)
    return Direct(mean, jnp.linalg.cholesky(q.covariance), outcome.position)


def _objective(problem: Problem, direct: Direct, scale: float = 1.0) -> Float[Array, ""]:
    model = problem.at(direct.position)
    return bound(model, problem.X, problem.y, direct.gaussian(), scale) + problem.log_prior(direct.position)


@dataclass(frozen=True)
class LBFGS:
    """Settings of the paper's full-batch fit: ``frozen_steps`` on q(v) alone, then at most ``max_steps`` on everything.

    It has converged when a fresh start gains less than ``tolerance`` nats.
    """

    frozen_steps: int = 300
    max_steps: int = 2000
    tolerance: float = 1e-4

    def run(self, problem: Problem, outcome: Outcome, key: PRNGKeyArray, show: bool) -> None:
        """Fit, keeping the outcome up to date."""
        direct = _start(outcome, key)
        phases = ((False, self.frozen_steps), (outcome.position.size > 0, self.max_steps))

        def follow(latest: Direct, value: float) -> None:
            nonlocal direct
            direct = latest
            outcome.trace.append(value)
            progress.update(len(outcome.trace), value)

        if not np.isfinite(_objective(problem, direct)):
            return outcome.end("diverged", DIVERGED)
        try:
            with FitProgress("L-BFGS", self.frozen_steps + self.max_steps, show) as progress:
                finished = [self._phase(problem, direct, *phase, follow) for phase in phases][-1]
        finally:
            outcome.position, outcome.sites = direct.position, direct.sites(problem)
        if finished:
            outcome.end("converged", f"converged in {len(outcome.trace)} steps")
        else:
            outcome.end("ran out", f"ran out of steps ({self.max_steps}) before it stopped gaining")

    def _phase(
        self, problem: Problem, direct: Direct, everything: bool, steps: int, follow: Callable[[Direct, float], None]
    ) -> bool:
        """A run on q(v), or on everything."""
        spec = Direct(mean=True, factor=True, position=everything)  # type: ignore[arg-type]
        moving, held = eqx.partition(direct, spec)
        start, unravel = ravel_pytree(moving)

        def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
            value, slope = _value_and_slope(problem, unravel(jnp.asarray(flat)), held)
            return float(value), np.asarray(ravel_pytree(slope)[0])

        def record(flat: np.ndarray, value: float) -> None:
            follow(eqx.combine(unravel(jnp.asarray(flat)), held), value)

        return ascend(objective, np.asarray(start), record, steps, self.tolerance)


@eqx.filter_jit
def _value_and_slope(problem: Problem, moving: Direct, held: Direct) -> tuple[Array, Direct]:
    return jax.value_and_grad(lambda m: _objective(problem, eqx.combine(m, held)))(moving)


@dataclass(frozen=True)
class AdaDelta:
    """Settings of the paper's minibatch fit: ``frozen_steps`` on q(v) alone, then the rest of ``num_steps`` on everything."""

    batch_size: int = 1000
    num_steps: int = 5000
    frozen_steps: int = 500
    learning_rate: float = 1.0
    decay: float = 0.9
    epsilon: float = 1e-5

    def run(self, problem: Problem, outcome: Outcome, key: PRNGKeyArray, show: bool) -> None:
        """Fit, keeping the outcome up to date."""
        key_start, key_batches = jax.random.split(key)
        direct = _start(outcome, key_start)
        optimizer = optax.adadelta(self.learning_rate, self.decay, self.epsilon)
        state = optimizer.init(direct)
        chunk, size = min(50, self.num_steps), min(self.batch_size, problem.num_data)
        with FitProgress("AdaDelta", self.num_steps, show) as progress:
            for start in range(0, self.num_steps, chunk):
                steps = range(start, min(start + chunk, self.num_steps))
                rows = problem.minibatches(key_batches, size, steps)
                direct, state, values = _adadelta_steps(self, optimizer, problem, direct, state, rows, jnp.array(steps))
                if not bool(jnp.all(jnp.isfinite(values))):
                    return outcome.end("diverged", f"{DIVERGED}, or a smaller learning rate")
                outcome.record(direct.position, direct.sites(problem), float(jnp.mean(values)))
                progress.update(steps[-1] + 1, outcome.trace[-1])
        outcome.end_noisy(self.num_steps)


@eqx.filter_jit
def _adadelta_steps(
    settings: AdaDelta,
    optimizer: optax.GradientTransformation,
    problem: Problem,
    direct: Direct,
    state: optax.OptState,
    rows: Int[Array, "steps B"],
    counts: Int[Array, " steps"],
) -> tuple[Direct, optax.OptState, Array]:
    scale = problem.num_data / rows.shape[1]

    def step(carry: tuple[Direct, optax.OptState], number: tuple[Array, Array]) -> tuple[tuple[Direct, optax.OptState], Array]:
        (direct, state), (rows, count) = carry, number
        batch = problem.on(rows)
        value, slope = jax.value_and_grad(lambda d: -_objective(batch, d, scale))(direct)
        moves = count >= settings.frozen_steps
        slope = Direct(slope.mean, slope.factor, jnp.where(moves, slope.position, 0.0))
        updates, state = optimizer.update(slope, state, direct)
        return (eqx.apply_updates(direct, updates), state), -value

    (direct, state), values = jax.lax.scan(step, (direct, state), (rows, counts))
    return direct, state, values
