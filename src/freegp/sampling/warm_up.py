"""Warm-up: from dispersed starts to a tuned step size and to scales that fit the target."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from blackjax.optimizers.dual_averaging import DualAveragingState, dual_averaging
from jaxtyping import Array, Float, Int, PRNGKeyArray

from freegp.sampling.chains import Draw, draw_once, over_chains, settled
from freegp.sampling.coordinates import Place, SiteCoordinates
from freegp.sampling.rotation import State, initial_state

if TYPE_CHECKING:
    from freegp.sampling.samplers import InSiteCoordinates

NUM_WINDOWS = 6
RESCALE_AFTER = (2, 4)
DISPERSION = 2.0


class StepSize(NamedTuple):
    """The tuning of a sampler in site coordinates: the longest step, in radians or in units of the coordinates."""

    step_size: Float[Array, ""]


def warm_up(
    sampler: "InSiteCoordinates",
    mesh: jax.sharding.Mesh,
    coordinates: SiteCoordinates,
    keys: PRNGKeyArray,
    num_draws: int,
    report: Callable[[int, float], None],
) -> tuple[SiteCoordinates, State, StepSize]:
    """Six windows of equal length; location and scales are taken from all chains' draws after the third and the fifth.

    Returns the coordinates to sample in, the chains' states, and their step size, one for all.
    """
    num_chains = keys.shape[0]
    coordinates, keys = settled(mesh, coordinates, keys)
    states = dispersed_states(mesh, coordinates, keys)
    averaging = start_averaging(jnp.full(num_chains, 0.25 * sampler.longest_step))
    size = max(1, num_draws // NUM_WINDOWS)
    seen: list[Place] = []
    for window in range(NUM_WINDOWS if num_draws else 0):
        numbers = -1 - jnp.arange(window * size, (window + 1) * size)  # negative, so that no draw kept shares its key
        coordinates, states, averaging, keys = settled(mesh, coordinates, states, averaging, keys)
        states, averaging, trail = adapt_chunk(sampler, mesh, coordinates, states, averaging, keys, numbers)
        seen.append(trail.place)
        if window in RESCALE_AFTER and num_draws >= 10 * NUM_WINDOWS:
            coordinates, states = _rescaled(mesh, coordinates, seen[1:] if window == RESCALE_AFTER[0] else seen)
            averaging = start_averaging(jnp.exp(averaging.log_x_avg))
            seen = []
        report((window + 1) * size, float(jnp.mean(trail.info.acceptance)))
    step = jnp.exp(jnp.mean(averaging.log_x_avg)) if num_draws else jnp.exp(averaging.log_x[0])
    return coordinates, states, StepSize(jnp.full(num_chains, step))


@eqx.filter_jit
def start_states(mesh: jax.sharding.Mesh, coordinates: SiteCoordinates, positions: Float[Array, "chain X"]) -> State:
    """States of all chains from their positions."""
    return over_chains(lambda c, position: initial_state(position, c.log_density), mesh, coordinates, positions)


@eqx.filter_jit
def adapt_chunk(
    sampler: "InSiteCoordinates",
    mesh: jax.sharding.Mesh,
    coordinates: SiteCoordinates,
    states: State,
    averaging: DualAveragingState,
    keys: PRNGKeyArray,
    draws: Int[Array, " draw"],
) -> tuple[State, DualAveragingState, Draw]:
    """Draws whose step size follows the acceptance by dual averaging."""
    _, update, _ = dual_averaging()

    def chain(
        coordinates: SiteCoordinates, state: State, averaging: DualAveragingState, key: PRNGKeyArray
    ) -> tuple[State, DualAveragingState, Draw]:
        def step(carry: tuple[State, DualAveragingState], number: Array) -> tuple[Any, Draw]:
            state, averaging = carry
            state, draw = draw_once(sampler, coordinates, state, StepSize(jnp.exp(averaging.log_x)), key, number)
            averaging = _capped(update(averaging, sampler.target_acceptance - draw.info.acceptance), sampler.longest_step)
            return (state, averaging), draw

        (state, averaging), trail = jax.lax.scan(step, (state, averaging), draws)
        return state, averaging, trail

    return over_chains(chain, mesh, coordinates, states, averaging, keys)


def _capped(averaging: DualAveragingState, longest_step: float) -> DualAveragingState:
    """No step longer than makes sense, however well it is accepted."""
    longest = jnp.log(longest_step)
    return averaging._replace(log_x=jnp.minimum(averaging.log_x, longest), log_x_avg=jnp.minimum(averaging.log_x_avg, longest))


def start_averaging(step_sizes: Float[Array, " chain"]) -> DualAveragingState:
    """Dual averaging of each chain, from these step sizes."""
    init, _, _ = dual_averaging()
    return jax.vmap(lambda step: jax.tree.map(jnp.asarray, init(step)))(step_sizes)


def dispersed_states(mesh: jax.sharding.Mesh, coordinates: SiteCoordinates, keys: PRNGKeyArray) -> State:
    """Starts twice as wide as the target is believed to be, each drawn in until its density is finite."""
    size = coordinates.num_dimensions
    directions = jax.vmap(lambda key: jax.random.normal(jax.random.fold_in(key, 2**31 - 1), (size,)))(keys)
    scales = np.full(keys.shape[0], DISPERSION)
    for _ in range(12):
        states = start_states(mesh, *settled(mesh, coordinates, jnp.asarray(scales)[:, None] * directions))
        finite = np.isfinite(states.log_density) & np.isfinite(states.gradient).all(axis=1)
        if finite.all():
            return states
        scales = np.where(finite, scales, 0.5 * scales)
    raise FloatingPointError(
        "the target's density is not finite anywhere near the fit; tighten the priors, raise jitter, or standardise the inputs"
    )


def _rescaled(mesh: jax.sharding.Mesh, coordinates: SiteCoordinates, windows: list[Place]) -> tuple[SiteCoordinates, State]:
    pooled = jax.tree.map(lambda *parts: jnp.concatenate([_flat(part) for part in parts]), *windows)
    changed = coordinates.rescaled(pooled.free, pooled.standardized)
    last = jax.tree.map(lambda part: part[:, -1], windows[-1])
    changed, positions = settled(mesh, changed, jax.vmap(changed.position)(last))
    return changed, start_states(mesh, changed, positions)


def _flat(part: Float[Array, "chain draw ..."]) -> Float[Array, "sample ..."]:
    return part.reshape(part.shape[0] * part.shape[1], *part.shape[2:])
