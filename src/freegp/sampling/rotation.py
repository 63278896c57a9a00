"""Rotation HMC: Hamiltonian Monte Carlo for targets near N(0, I), whose Gaussian part is solved exactly.

The energy ``-log pi(x) + p.p / 2`` is split into ``(x.x + p.p) / 2``, whose flow is a rotation of (x, p), and the rest, whose
flow is a kick: half a kick, a rotation, half a kick. Where the target is N(0, I) the step can be a quarter turn, and a draw costs
one gradient.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

LogDensity = Callable[[Array], Array]
DIVERGENCE = 1000.0


class State(NamedTuple):
    """What the next transition needs."""

    position: Float[Array, " X"]
    log_density: Float[Array, ""]
    gradient: Float[Array, " X"]


class Info(NamedTuple):
    """What a person reads of a transition."""

    acceptance: Float[Array, ""]
    energy: Float[Array, ""]
    num_gradients: Int[Array, ""]
    is_divergent: Bool[Array, ""]
    is_nonfinite: Bool[Array, ""]


def initial_state(position: Float[Array, " X"], log_density: LogDensity) -> State:
    """A state from a position."""
    return State(position, *jax.value_and_grad(log_density)(position))


def transition(
    key: PRNGKeyArray, state: State, log_density: LogDensity, step_size: Float[Array, ""], turn: float, jitter: float
) -> tuple[State, Info]:
    """A trajectory of about ``turn`` radians (within a fraction ``jitter``), in equal steps no longer than the step size."""
    key_momentum, key_length, key_accept = jax.random.split(key, 3)
    momentum = jax.random.normal(key_momentum, state.position.shape)
    length = turn * jax.random.uniform(key_length, minval=1.0 - jitter, maxval=1.0 + jitter)
    num_steps = jnp.maximum(jnp.ceil(length / step_size), 1.0).astype(int)
    proposal, end_momentum = trajectory(state, momentum, log_density, length / num_steps, num_steps)
    energy, end_energy = (energy_of(s, p) for s, p in ((state, momentum), (proposal, end_momentum)))
    return metropolis(key_accept, state, proposal, energy, end_energy, num_steps)


def trajectory(
    state: State, momentum: Float[Array, " X"], log_density: LogDensity, angle: Float[Array, ""], num_steps: Int[Array, ""]
) -> tuple[State, Float[Array, " X"]]:
    """Half-kick, rotation, half-kick, this many times. Reversible, and it keeps volume."""
    cosine, sine = jnp.cos(angle), jnp.sin(angle)
    value_and_gradient = jax.value_and_grad(log_density)

    def step(_: int, carry: tuple[State, Array]) -> tuple[State, Array]:
        state, p = carry
        x = state.position
        p = p + 0.5 * angle * (state.gradient + x)
        x, p = cosine * x + sine * p, cosine * p - sine * x
        state = State(x, *value_and_gradient(x))
        return state, p + 0.5 * angle * (state.gradient + x)

    return jax.lax.fori_loop(0, num_steps, step, (state, momentum))


def energy_of(state: State, momentum: Float[Array, " X"]) -> Float[Array, ""]:
    """Potential and kinetic energy."""
    return -state.log_density + 0.5 * jnp.sum(jnp.square(momentum))


def metropolis(
    key: PRNGKeyArray,
    state: State,
    proposal: State,
    energy: Float[Array, ""],
    end_energy: Float[Array, ""],
    num_gradients: Int[Array, ""],
) -> tuple[State, Info]:
    """Accept or reject; an energy that is not a number is a rejection, and counted."""
    error = end_energy - energy
    finite = jnp.isfinite(error) & jnp.all(jnp.isfinite(proposal.gradient))
    acceptance = jnp.where(finite, jnp.minimum(1.0, jnp.exp(-error)), 0.0)
    accepted = jax.random.uniform(key) < acceptance
    new_state = jax.tree.map(lambda new, old: jnp.where(accepted, new, old), proposal, state)
    info = Info(acceptance, jnp.where(accepted, end_energy, energy), num_gradients, ~finite | (error > DIVERGENCE), ~finite)
    return new_state, info
