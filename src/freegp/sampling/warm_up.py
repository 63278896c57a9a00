"""Warm-up: from dispersed starts to a tuned step size and to scales that fit the target."""

import warnings
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from blackjax.optimizers.dual_averaging import DualAveragingState, dual_averaging
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from freegp.sampling.chains import CHUNK, WARM_UP, Report, Warm, advance, settled, start_states
from freegp.sampling.coordinates import Place, SiteCoordinates

if TYPE_CHECKING:
    from freegp.sampling.samplers import InSiteCoordinates

NUM_WINDOWS = 6
RESCALE_AFTER = (2, 4)
DISPERSION = 2.0
SHORT_STEP = 1.0 / 12.0
"""Steps shorter than this share of the longest are worth a notice."""


class StepSize(NamedTuple):
    """The tuning of a sampler in site coordinates: dual averaging of the log of its longest step (radians, or x's units)."""

    log_x: Float[Array, ""]
    log_x_avg: Float[Array, ""]
    step: Int[Array, ""]
    avg_error: Float[Array, ""]
    mu: Float[Array, ""]
    is_adapting: Bool[Array, ""]

    @property
    def step_size(self) -> Float[Array, ""]:
        """The step."""
        return jnp.exp(self.log_x)

    def adapted(self, error: Float[Array, ""], longest_step: float) -> "StepSize":
        """After a draw whose acceptance was so much below its target; no longer than makes sense, however well it is accepted."""
        _, update, _ = dual_averaging()
        new = update(DualAveragingState(*self[:5]), error)
        longest = jnp.log(longest_step)
        new = new._replace(log_x=jnp.minimum(new.log_x, longest), log_x_avg=jnp.minimum(new.log_x_avg, longest))
        return jax.tree.map(lambda one, two: jnp.where(self.is_adapting, one, two), self._replace(**new._asdict()), self)


@partial(jax.jit, static_argnames="is_adapting")
def adapting(step_sizes: Float[Array, " chain"], is_adapting: bool = True) -> StepSize:
    """Dual averaging of each chain, from these step sizes on."""
    init, _, _ = dual_averaging()
    averaging = jax.vmap(lambda step: jax.tree.map(jnp.asarray, init(step)))(step_sizes)
    return StepSize(**averaging._asdict(), is_adapting=jnp.full(step_sizes.shape, is_adapting))


def warm_up(
    sampler: "InSiteCoordinates",
    mesh: jax.sharding.Mesh,
    coordinates: SiteCoordinates,
    keys: PRNGKeyArray,
    num_draws: int,
    report: Report,
) -> Warm:
    """Six windows of equal length; strength, location and scales are taken from all chains' draws after the third and the fifth.

    The step size, one for all chains, is the mean of what each found in the last.
    """
    coordinates, keys = settled(mesh, coordinates, keys)
    steps = jnp.full(keys.shape[0], 0.25 * sampler.longest_step)
    warm = Warm(coordinates, dispersed(sampler, mesh, coordinates, keys), adapting(steps))
    size = max(1, num_draws // NUM_WINDOWS)
    seen: list[Place] = []
    for window in range(NUM_WINDOWS if num_draws else 0):
        for begin in range(window * size, (window + 1) * size, CHUNK):
            count = min(CHUNK, (window + 1) * size - begin)
            warm, trail = advance(sampler, mesh, warm, keys, WARM_UP + begin, count)
            seen.append(trail.place)
            report(begin + count, float(np.mean(trail.info.acceptance)))
        if window == 0:
            seen = []
        if window in RESCALE_AFTER and num_draws >= 10 * NUM_WINDOWS:
            target, positions = _rescaled(warm.target, seen)
            warm, seen = Warm(target, positions, adapting(jnp.exp(warm.tunings.log_x_avg))), []
    found = jnp.mean(warm.tunings.log_x_avg) if num_draws else jnp.mean(warm.tunings.log_x)
    _notice(float(jnp.exp(found)) / sampler.longest_step, float(warm.target.strength), sampler.if_far(warm.target))
    return warm._replace(tunings=adapting(jnp.full(keys.shape[0], jnp.exp(found)), is_adapting=False))


def _notice(share: float, strength: float, remedy: str) -> None:
    """Say so where the coordinates serve badly."""
    if share < SHORT_STEP:
        warnings.warn(
            f"the target is far from the Gaussian approximation here: {1.0 / share:.0f} gradients a draw, with sites at "
            f"{strength:g} of their strength; look at R-hat, {remedy}, or use a smoother likelihood (Softmax for RobustMax)",
            stacklevel=2,
        )


def dispersed(
    sampler: "InSiteCoordinates", mesh: jax.sharding.Mesh, coordinates: SiteCoordinates, keys: PRNGKeyArray
) -> Float[Array, "chain X"]:
    """Starts twice as wide as the target is believed to be, each drawn in until its density is finite."""
    size = coordinates.num_dimensions
    directions = jax.vmap(lambda key: jax.random.normal(jax.random.fold_in(key, 2**31 - 1), (size,)))(keys)
    scales = np.full(keys.shape[0], DISPERSION)
    for _ in range(12):
        positions = jnp.asarray(scales)[:, None] * directions
        states = start_states(sampler, mesh, *settled(mesh, coordinates, positions))
        finite = np.all([np.isfinite(_flat_rows(leaf)).all(axis=1) for leaf in jax.tree.leaves(states)], axis=0)
        if finite.all():
            return positions
        scales = np.where(finite, scales, 0.5 * scales)
    raise FloatingPointError(
        "the target's density is not finite anywhere near the fit; tighten the priors, raise jitter, or standardise the inputs"
    )


def _rescaled(coordinates: SiteCoordinates, windows: list[Place]) -> tuple[SiteCoordinates, Float[Array, "chain X"]]:
    pooled = jax.tree.map(lambda *parts: jnp.asarray(np.concatenate([_flat(part) for part in parts])), *windows)
    changed, positions = _rescale(coordinates, pooled, jax.tree.map(lambda part: jnp.asarray(part[:, -1]), windows[-1]))
    return changed.with_tuned(changed.tuned()), positions


@eqx.filter_jit
def _rescale(coordinates: SiteCoordinates, draws: Place, last: Place) -> tuple[SiteCoordinates, Float[Array, "chain X"]]:
    changed = coordinates.rescaled(draws.free, draws.whitened)
    return changed, jax.lax.map(changed.position, last)


def _flat_rows(leaf: Array) -> np.ndarray:
    return np.asarray(leaf).reshape(leaf.shape[0], -1)


def _flat(part: np.ndarray) -> np.ndarray:
    return part.reshape(part.shape[0] * part.shape[1], *part.shape[2:])
