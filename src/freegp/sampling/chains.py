"""Several chains, advanced together in chunks and spread over the devices there are."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec
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


def chain_mesh(num_chains: int) -> Mesh:
    """As many of the devices as divide the chains evenly."""
    devices = jax.local_devices()
    count = max(n for n in range(1, min(len(devices), num_chains) + 1) if num_chains % n == 0)
    return Mesh(np.array(devices[:count]), ("chains",))


def over_chains(function: Callable[..., Any], mesh: Mesh, target: PyTree, *stacked: PyTree) -> Any:
    """``function(target, ...)`` for each chain of the stacked arguments, one after another on each device."""
    arrays, static = eqx.partition(target, eqx.is_array)

    def on_device(arrays: PyTree, *local: PyTree) -> Any:
        whole = eqx.combine(arrays, static)
        return jax.lax.map(lambda arguments: function(whole, *arguments), local)

    each = PartitionSpec("chains")
    specs = (PartitionSpec(), *(each for _ in stacked))
    return jax.shard_map(on_device, mesh=mesh, in_specs=specs, out_specs=each, check_vma=False)(arrays, *stacked)


@eqx.filter_jit
def run_chunk(
    sampler: "Sampler",
    mesh: Mesh,
    target: PyTree,
    states: PyTree,
    tunings: PyTree,
    keys: PRNGKeyArray,
    draws: Int[Array, " draw"],
) -> tuple[PyTree, Draw]:
    """The draws with these numbers, of every chain; their keys depend on the chain and the number alone."""

    def chain(target: PyTree, state: PyTree, tuning: PyTree, key: PRNGKeyArray) -> tuple[PyTree, Draw]:
        def step(state: PyTree, number: Array) -> tuple[PyTree, Draw]:
            return draw_once(sampler, target, state, tuning, key, number)

        return jax.lax.scan(step, state, draws)

    return over_chains(chain, mesh, target, states, tunings, keys)


def draw_once(
    sampler: "Sampler", target: PyTree, state: PyTree, tuning: PyTree, key: PRNGKeyArray, number: Array
) -> tuple[PyTree, Draw]:
    """A chain's draw of this number."""
    key_move, key_common = jax.random.split(jax.random.fold_in(key, number))
    state, info = sampler(key_move, state, target, tuning)
    place = target.place(state.position, key_common)
    return state, Draw(place, state.log_density - place.log_volume, info)


@partial(jax.jit, static_argnums=0)
def chain_keys(num_chains: int, key: PRNGKeyArray) -> PRNGKeyArray:
    """One key a chain."""
    return jax.vmap(lambda chain: jax.random.fold_in(key, chain))(jnp.arange(num_chains))
