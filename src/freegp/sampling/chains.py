"""Several chains, advanced together in chunks and spread over the devices there are."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from freegp.sampling.coordinates import Place
from freegp.sampling.rotation import Info

if TYPE_CHECKING:
    from freegp.sampling.samplers import Sampler


class Draw(NamedTuple):
    """One draw: where it is, the target's log density there, and how it was made."""

    place: Place
    log_density: Float[Array, ""]
    info: Info


CHUNK = 50
"""Draws of each chain between two checkpoints."""
WARM_UP = -(2**30)
"""Number of the first draw of a warm-up; no draw kept shares its key."""

Report = Callable[[int, float], None]
"""Called with the warm-up draws done and their mean acceptance."""


class Warm(NamedTuple):
    """What a warm-up leaves: the target in its final coordinates, and position and tuning of each chain, stacked."""

    target: Any
    positions: Float[Array, "chain X"]
    tunings: Any


def chain_mesh(num_chains: int) -> Mesh:
    """As many of the devices as divide the chains evenly."""
    devices = jax.local_devices()
    count = max(n for n in range(1, min(len(devices), num_chains) + 1) if num_chains % n == 0)
    return Mesh(np.array(devices[:count]), ("chains",))


def settled(mesh: Mesh, target: PyTree, *stacked: PyTree) -> tuple[Any, ...]:
    """The same arguments where `over_chains` wants them and of strong types, lest a program be compiled again for others."""
    arrays, static = eqx.partition(target, eqx.is_array)
    everywhere, each = NamedSharding(mesh, PartitionSpec()), NamedSharding(mesh, PartitionSpec("chains"))
    strong = jax.tree.map(_strong, stacked)
    return eqx.combine(jax.device_put(arrays, everywhere), static), *(jax.device_put(part, each) for part in strong)


def _strong(x: Array) -> Array:
    return x if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else jax.lax.convert_element_type(x, x.dtype)


def over_chains(function: Callable[..., Any], mesh: Mesh, target: PyTree, *stacked: PyTree) -> Any:
    """``function(target, ...)`` for each chain of the stacked arguments, one after another on each device."""
    arrays, static = eqx.partition(target, eqx.is_array)

    def on_device(arrays: PyTree, *local: PyTree) -> Any:
        whole = eqx.combine(arrays, static)
        return jax.lax.map(lambda arguments: function(whole, *arguments), local)

    each = PartitionSpec("chains")
    specs = (PartitionSpec(), *(each for _ in stacked))
    return jax.shard_map(on_device, mesh=mesh, in_specs=specs, out_specs=each, check_vma=False)(arrays, *stacked)


def advance(sampler: "Sampler", mesh: Mesh, warm: Warm, keys: PRNGKeyArray, first: int, count: int) -> tuple[Warm, Draw]:
    """Every chain by the draws numbered first, first + 1, ..., `CHUNK` at a time; none at all compiles the program.

    The draws come as NumPy arrays, since nothing more is computed with them on a device.
    """
    target, positions, tunings, keys = settled(mesh, *warm, keys)
    trails = []
    for start in range(0, max(count, 1), CHUNK):
        size = min(CHUNK, count - start)
        numbers = jnp.asarray(first + start), jnp.asarray(size)
        positions, tunings, trail = run_chunk(sampler, mesh, target, positions, tunings, keys, *numbers)
        trails.append(jax.tree.map(lambda leaf, size=size: np.asarray(leaf)[:, :size], trail))
    return Warm(target, positions, tunings), jax.tree.map(lambda *parts: np.concatenate(parts, axis=1), *trails)


@eqx.filter_jit
def run_chunk(
    sampler: "Sampler",
    mesh: Mesh,
    target: PyTree,
    positions: Float[Array, "chain X"],
    tunings: PyTree,
    keys: PRNGKeyArray,
    first: Int[Array, ""],
    count: Int[Array, ""],
) -> tuple[Float[Array, "chain X"], PyTree, Draw]:
    """One program for warm-up and sampling, however many draws are wanted; keys depend on the chain and the number alone.

    Between chunks a chain is its position and nothing else: what a sampler keeps besides is made anew, whether the run was
    interrupted there or not.
    """

    def chain(target: PyTree, position: Array, tuning: PyTree, key: PRNGKeyArray) -> tuple[Array, PyTree, Draw]:
        def step(i: Array, carry: tuple[PyTree, PyTree, Draw]) -> tuple[PyTree, PyTree, Draw]:
            state, tuning, trail = carry
            state, draw = draw_once(sampler, target, state, tuning, key, first + i)
            trail = jax.tree.map(lambda all_draws, new: all_draws.at[i].set(new), trail, draw)
            return state, sampler.adapted(tuning, draw.info), trail

        state = sampler.initial_state(target, position)
        shapes = eqx.filter_eval_shape(draw_once, sampler, target, state, tuning, key, first)[1]
        trail = jax.tree.map(lambda leaf: jnp.zeros((CHUNK, *leaf.shape), leaf.dtype), shapes)
        state, tuning, trail = jax.lax.fori_loop(0, count, step, (state, tuning, trail))
        return state.position, tuning, trail

    return over_chains(chain, mesh, target, positions, tunings, keys)


@eqx.filter_jit
def start_states(sampler: "Sampler", mesh: Mesh, target: PyTree, positions: Float[Array, "chain X"]) -> PyTree:
    """The state of each chain, stacked."""
    return over_chains(sampler.initial_state, mesh, target, positions)


def draw_once(
    sampler: "Sampler", target: PyTree, state: PyTree, tuning: PyTree, key: PRNGKeyArray, number: Array
) -> tuple[PyTree, Draw]:
    """A chain's draw of this number."""
    key_move, key_common = jax.random.split(jax.random.fold_in(key, number))
    state, info = sampler(key_move, state, target, tuning)
    place = sampler.place(target, state, key_common)
    return state, Draw(place, state.log_density - place.log_volume, info)


@partial(jax.jit, static_argnums=0)
def chain_keys(num_chains: int, key: PRNGKeyArray) -> PRNGKeyArray:
    """One key a chain."""
    return jax.vmap(lambda chain: jax.random.fold_in(key, chain))(jnp.arange(num_chains))
