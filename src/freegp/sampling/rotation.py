"""Rotation HMC: Hamiltonian Monte Carlo for targets near N(0, I), whose Gaussian part is solved exactly.

The energy ``-log pi(x) + p.p / 2`` is split into ``(x.x + p.p) / 2``, whose flow is a rotation of (x, p), and the rest, whose
flow is a kick. Where the target is N(0, I) the step can be a quarter turn, and a draw costs one gradient. Where it is not, a
step that suits the bulk can be far too long in a tail, and a chain would be stuck there; so a proposal that fails badly is
followed by a second with shorter steps (delayed rejection: Mira 2001; Modi, Barnett & Carpenter 2024), which costs nothing where
none does.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

LogDensity = Callable[[Array], Array]
DIVERGENCE = 1000.0
BAD_ACCEPTANCE = 0.02
"""A rejected proposal less likely than this to be accepted has a second one after it."""
TWO_STAGE = 0.1931833275037836
MOST_STEPS = 2000
"""Of a trajectory: where so many do not make a turn, the step is so short that something is wrong, and the draws will say so."""
SHORTER = 4
"""How many times shorter the steps of the second proposal are."""


class State(NamedTuple):
    """What the next transition needs."""

    position: Float[Array, " X"]
    log_density: Float[Array, ""]
    gradient: Float[Array, " X"]


class Point(NamedTuple):
    """A state with its momentum."""

    state: State
    momentum: Float[Array, " X"]


class Info(NamedTuple):
    """What a person reads of a transition."""

    acceptance: Float[Array, ""]
    energy: Float[Array, ""]
    num_gradients: Float[Array, ""]
    is_divergent: Bool[Array, ""]
    is_nonfinite: Bool[Array, ""]


def initial_state(position: Float[Array, " X"], log_density: LogDensity) -> State:
    """A state from a position."""
    return State(position, *jax.value_and_grad(log_density)(position))


def transition(
    key: PRNGKeyArray, state: State, log_density: LogDensity, step_size: Float[Array, ""], turn: float, jitter: float
) -> tuple[State, Info]:
    """A trajectory of about ``turn`` radians (within a fraction ``jitter``), in equal steps no longer than the step size.

    Where that would take too many steps it is shorter, so that a draw always comes to an end. If it fails badly a second is tried
    from the same place with the same momentum, with as many steps but shorter ones.
    """
    key_momentum, key_length, key_accept, key_again = jax.random.split(key, 4)
    start = Point(state, jax.random.normal(key_momentum, state.position.shape))
    length = turn * jax.random.uniform(key_length, minval=1.0 - jitter, maxval=1.0 + jitter)
    num_steps = jnp.clip(jnp.ceil(length / step_size), 1.0, MOST_STEPS).astype(int)
    angle = jnp.minimum(length / num_steps, step_size)
    chance, chance_again = jax.random.uniform(key_accept), jax.random.uniform(key_again)

    def fails_badly(end: Point) -> Bool[Array, ""]:
        acceptance = _acceptance(_error(start, end), end.state)
        return (chance >= acceptance) & (acceptance < BAD_ACCEPTANCE)

    ends = _attempts(start, log_density, angle, num_steps, fails_badly)
    first = metropolis(chance, start, ends.first, num_steps)
    second = _delayed(chance_again, start, ends, num_steps, first[1])
    return jax.tree.map(lambda one, two: jnp.where(ends.is_second, two, one), first, second)


class Attempts(NamedTuple):
    """Ends of the first trajectory and, if there was need, of the second and of a first one from the second's end back."""

    first: Point
    second: Point
    ghost: Point
    is_second: Bool[Array, ""]


def _attempts(
    start: Point,
    log_density: LogDensity,
    angle: Float[Array, ""],
    num_steps: Int[Array, ""],
    fails_badly: Callable[[Point], Bool[Array, ""]],
) -> Attempts:
    """One loop over the trajectories, so that the gradient is compiled once."""

    def body(carry: tuple[Array, Array, Point, Point]) -> tuple[Array, Array, Point, Point]:
        number, _, begin, ends = carry
        end = Point(*trajectory(*begin, log_density, jnp.where(number == 1, angle / SHORTER, angle), num_steps))
        ends = jax.tree.map(lambda all_ends, new: all_ends.at[number].set(new), ends, end)
        back = Point(end.state, -end.momentum)
        begin = jax.tree.map(lambda one, two: jnp.where(number == 1, one, two), back, start)
        goes_on = jnp.where(number == 0, fails_badly(end), number == 1)
        return number + 1, goes_on, begin, ends

    stacked = jax.tree.map(lambda leaf: jnp.stack([leaf] * 3), start)
    number, _, _, ends = jax.lax.while_loop(lambda carry: carry[1], body, (jnp.asarray(0), jnp.asarray(True), start, stacked))
    first, second, ghost = (jax.tree.map(lambda leaf, i=i: leaf[i], ends) for i in range(3))
    return Attempts(first, second, ghost, number > 1)


def _delayed(
    chance: Float[Array, ""], start: Point, ends: Attempts, num_steps: Int[Array, ""], first: Info
) -> tuple[State, Info]:
    """Delayed rejection: accepted with ``min(1, pi(y) r(y) / (pi(x) r(x)))``, where r is the probability of getting here.

    From x that is ``1 - a(x)``, if the first acceptance a(x) is bad at all; r(y) is the same of the first proposal from y.
    """
    back = _acceptance(_error(ends.second, ends.ghost), ends.ghost.state)
    may_come = jnp.where(back < BAD_ACCEPTANCE, jnp.log1p(-back), -jnp.inf)
    correction = jnp.log1p(-jnp.minimum(first.acceptance, BAD_ACCEPTANCE)) - may_come
    state, second = metropolis(chance, start, ends.second, 3 * num_steps, correction)
    stuck = first.is_divergent & (chance >= second.acceptance)
    return state, first._replace(energy=second.energy, num_gradients=second.num_gradients, is_divergent=stuck)


def trajectory(
    state: State, momentum: Float[Array, " X"], log_density: LogDensity, angle: Float[Array, ""], num_steps: Int[Array, ""]
) -> tuple[State, Float[Array, " X"]]:
    """Kick, rotation, kick, this many times. Reversible, and it keeps volume.

    Over two steps of angle e the kicks are ``2 e (a, 1 - 2 a, a)``: with a = 1/4 each step is half-kick, rotation, half-kick; an
    even number of them has a smaller error with a = 0.193 (McLachlan 1995), at no cost.
    """
    cosine, sine = jnp.cos(angle), jnp.sin(angle)
    value_and_gradient = jax.value_and_grad(log_density)
    outer = jnp.where(num_steps % 2 == 0, TWO_STAGE, 0.25)

    def step(i: Array, carry: tuple[State, Array]) -> tuple[State, Array]:
        state, p = carry
        before = 2.0 * angle * jnp.where(i % 2 == 0, outer, 0.5 - outer)
        x = state.position
        p = p + before * (state.gradient + x)
        x, p = cosine * x + sine * p, cosine * p - sine * x
        state = State(x, *value_and_gradient(x))
        return state, p + (angle - before) * (state.gradient + x)

    return jax.lax.fori_loop(0, num_steps, step, (state, momentum))


def energy_of(point: Point) -> Float[Array, ""]:
    """Potential and kinetic energy."""
    return -point.state.log_density + 0.5 * jnp.sum(jnp.square(point.momentum))


def metropolis(
    chance: Float[Array, ""],
    start: Point,
    end: Point,
    num_gradients: Int[Array, ""],
    correction: Float[Array, ""] | float = 0.0,
) -> tuple[State, Info]:
    """Accept if chance, a uniform number, is below ``exp(-error - correction)``; a non-finite energy is rejected, and counted."""
    error = _error(start, end)
    acceptance = _acceptance(error + correction, end.state)
    accepted = chance < acceptance
    state = jax.tree.map(lambda new, old: jnp.where(accepted, new, old), end.state, start.state)
    finite = _is_finite(error, end.state)
    energy = jnp.where(accepted, energy_of(end), energy_of(start))
    return state, Info(acceptance, energy, num_gradients.astype(float), ~finite | (error > DIVERGENCE), ~finite)


def _error(start: Point, end: Point) -> Float[Array, ""]:
    """What a trajectory added to the energy."""
    return energy_of(end) - energy_of(start)


def _acceptance(error: Float[Array, ""], proposal: State) -> Float[Array, ""]:
    return jnp.where(_is_finite(error, proposal), jnp.minimum(1.0, jnp.exp(-error)), 0.0)


def _is_finite(error: Float[Array, ""], proposal: State) -> Bool[Array, ""]:
    return jnp.isfinite(error) & jnp.all(jnp.isfinite(proposal.gradient))
