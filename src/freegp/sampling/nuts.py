"""The no-U-turn sampler of blackjax, with unit mass, behind the same interface as rotation HMC."""

import jax.numpy as jnp
from blackjax.mcmc.hmc import HMCState
from blackjax.mcmc.nuts import build_kernel
from jaxtyping import Array, Float, PRNGKeyArray

from freegp.sampling.rotation import Info, LogDensity, State

_kernel = build_kernel()


def transition(
    key: PRNGKeyArray, state: State, log_density: LogDensity, step_size: Float[Array, ""], max_doublings: int
) -> tuple[State, Info]:
    """One draw; a trajectory doubles until it turns back, or as often as it may."""
    mass = jnp.ones_like(state.position)
    new, info = _kernel(key, HMCState(*state), log_density, step_size, mass, max_num_doublings=max_doublings)
    finite = jnp.isfinite(info.energy)
    num_gradients = info.num_integration_steps.astype(float)
    return State(*new), Info(info.acceptance_rate, info.energy, num_gradients, info.is_divergent, ~finite)
