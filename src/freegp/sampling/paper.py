"""The paper's own sampler: Hamiltonian Monte Carlo on ``(v, theta)`` with unit mass (section 3, steps 2 to 4)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from freegp.approximation import GaussianFit
from freegp.sampling.chains import WARM_UP, Report, Warm, advance, settled, start_states
from freegp.sampling.coordinates import Place
from freegp.sampling.plain import PlainCoordinates, plain_coordinates
from freegp.sampling.rotation import Info, LogDensity, Point, State, initial_state, metropolis
from freegp.sampling.tuning import LeapfrogSearch, Search, record_all, squared_jumps
from freegp.saving import registered


class Leapfrog(NamedTuple):
    """The tuning: the step size, and the largest number of steps."""

    step_size: Float[Array, ""]
    max_steps: Int[Array, ""]


@registered
@dataclass(frozen=True)
class PaperHMC(LeapfrogSearch):
    """``"paper"``: leapfrog HMC on v and free theta themselves, unit mass, ``L ~ U{1..Lmax}`` steps a draw.

    Chains start at a draw of v from the Gaussian approximation, with theta at its MAP value. Each is then tuned on its own, by
    ``num_rounds`` rounds of Bayesian optimisation of ``ESJD / sqrt(Lmax)`` with ``draws_per_round`` draws each, over step sizes
    from ``shortest_step`` to ``longest_step`` and Lmax from 1 to ``most_steps``; the first ``spread_rounds`` are spread over all
    of these. The best of those tried is kept. How many warm-up draws are asked for makes no difference, but 0 asks for no
    tuning: then the step size is ``untuned_step`` and Lmax ``untuned_max_steps``.
    """

    tuning_type: ClassVar[Any] = Leapfrog

    def prepare(self, fit: GaussianFit, X: Float[Array, "N D"], y: Float[Array, " N"]) -> PlainCoordinates:
        """The target as it is."""
        return plain_coordinates(fit, X, y)

    def warm_up(
        self, mesh: jax.sharding.Mesh, target: PlainCoordinates, keys: PRNGKeyArray, num_draws: int, report: Report
    ) -> Warm:
        """Steps 2 and 3. Chains move together, each with the settings it tries; progress is told as a share of num_draws."""
        positions = checked_starts(self, mesh, target, keys)
        num_chains = keys.shape[0]
        if num_draws == 0:
            return Warm(target, positions, leapfrog_tunings(num_chains * [(self.untuned_step, self.untuned_max_steps)]))
        searches = [Search(self.leapfrog_grid(), chain, self.spread_rounds) for chain in range(num_chains)]
        for number in range(self.num_rounds):
            tunings = leapfrog_tunings([search.propose() for search in searches])
            start = jax.vmap(target.split)(positions)
            first = WARM_UP + number * self.draws_per_round
            (_, positions, _), trail = advance(self, mesh, Warm(target, positions, tunings), keys, first, self.draws_per_round)
            jumps = squared_jumps(start[0], trail.place.whitened) + squared_jumps(start[1], trail.place.free)
            record_all(searches, jumps / np.sqrt(tunings.max_steps))
            report(round(num_draws * (number + 1) / self.num_rounds), float(jnp.mean(trail.info.acceptance)))
        return Warm(target, positions, leapfrog_tunings([search.best() for search in searches]))

    def initial_state(self, target: PlainCoordinates, position: Float[Array, " X"]) -> State:
        """A state from a position."""
        return initial_state(position, target.log_density)

    def place(self, target: PlainCoordinates, state: State, key: PRNGKeyArray) -> Place:
        """What a state means."""
        return target.place(state.position)

    def __call__(self, key: PRNGKeyArray, state: State, target: PlainCoordinates, tuning: Leapfrog) -> tuple[State, Info]:
        """One draw."""
        return transition(key, state, target.log_density, tuning)

    def adapted(self, tuning: Leapfrog, info: Info) -> Leapfrog:
        """As it was: tuning is by rounds."""
        return tuning


def transition(key: PRNGKeyArray, state: State, log_density: LogDensity, tuning: Leapfrog) -> tuple[State, Info]:
    """One draw of HMC with unit mass: ``L ~ U{1..Lmax}`` leapfrog steps, then accept or reject."""
    key_momentum, key_length, key_accept = jax.random.split(key, 3)
    momentum = jax.random.normal(key_momentum, state.position.shape)
    num_steps = jax.random.randint(key_length, (), 1, tuning.max_steps + 1)
    end = Point(*leapfrog(state, momentum, log_density, tuning.step_size, num_steps))
    return metropolis(jax.random.uniform(key_accept), Point(state, momentum), end, num_steps)


def leapfrog(
    state: State, momentum: Float[Array, " X"], log_density: LogDensity, step_size: Float[Array, ""], num_steps: Int[Array, ""]
) -> tuple[State, Float[Array, " X"]]:
    """``p += e g / 2``, ``x += e p``, ``p += e g / 2``, this many times. Reversible, and it keeps volume."""
    value_and_gradient = jax.value_and_grad(log_density)

    def step(_: int, carry: tuple[State, Array]) -> tuple[State, Array]:
        state, p = carry
        p = p + 0.5 * step_size * state.gradient
        x = state.position + step_size * p
        state = State(x, *value_and_gradient(x))
        return state, p + 0.5 * step_size * state.gradient

    return jax.lax.fori_loop(0, num_steps, step, (state, momentum))


def checked_starts(
    sampler: Any, mesh: jax.sharding.Mesh, target: PlainCoordinates, keys: PRNGKeyArray
) -> Float[Array, "chain X"]:
    """Every chain at a start of its own, where the density is finite."""
    positions = jax.vmap(target.start)(keys)
    states = start_states(sampler, mesh, *settled(mesh, target, positions))
    if not all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in jax.tree.leaves(states)):
        raise FloatingPointError(
            "the target's density is not finite at the Gaussian approximation; tighten the priors, raise jitter, or "
            "standardise the inputs"
        )
    return positions


def leapfrog_tunings(settings: Sequence[Sequence[float] | np.ndarray]) -> Leapfrog:
    """The tuning of each chain, stacked, from a step size and an Lmax for each."""
    step_size, max_steps = np.array(settings, dtype=float).T
    return Leapfrog(jnp.asarray(step_size), jnp.asarray(max_steps, dtype=int))
