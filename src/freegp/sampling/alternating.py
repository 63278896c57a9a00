"""Values and parameters in turn, in site coordinates: where there are few parameters, the cheapest way to a draw.

With the parameters held, what they make of the data is kept, and z moves by rotation HMC in O(N M) a step, for little. With z
held, the parameters move by an elliptical slice (Murray, Adams & MacKay 2010), which needs no gradient, no tuning and one to two
values of the target. In other coordinates such moves hardly get anywhere, since v and theta hold each other fast; in these they
are nearly independent, and both nearly standard normal, and so each move is nearly a draw of its own. Where warm-up had to weaken
the sites, for they say too much, there are more slices, and where little is left of them some with v held (interweaving: Yu &
Meng 2011).
"""

from collections.abc import Callable
from functools import partial
from typing import Generic, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from freegp.numerics.blocks import Blocks
from freegp.numerics.stacks import gram, log_determinant, times
from freegp.parameters import from_free, log_jacobian, log_prior
from freegp.sampling import rotation
from freegp.sampling.coordinates import VERY_WEAK, Place, SiteCoordinates
from freegp.sampling.rotation import Info
from freegp.target.kept import Kept, keep, kept_data_term
from freegp.target.projection import unwhiten

MOST_KEPT = 2**28
"""Most bytes of N x M numbers that are kept, for each kernel and chain."""
WIDTH = 1.6
"""Standard deviation of the normal distribution whose ellipses are sliced: wider than the parameters', to reach their tails."""
WEAK = 0.5
"""Where warm-up weakened the sites to less than this there are two slices; where to hardly any, three, v-held ones between."""
MOST_TRIES = 60
"""Of a slice: by then it is narrower than rounding, and the chain stays where it is."""


class Held(NamedTuple):
    """What depends on the parameters alone: themselves, what they make of the data, and ``u = mean + L^-T z`` of the sites."""

    zeta: Float[Array, " T"]
    free: Float[Array, " T"]
    kept: Kept
    inverse: Blocks
    mean: Float[Array, "M C"]
    log_volume: Float[Array, ""]


class AlternatingState(NamedTuple):
    """What the next draw needs."""

    position: Float[Array, " X"]
    log_density: Float[Array, ""]
    held: Held


class SliceInfo(NamedTuple):
    """How many values of the target a slice took, and whether any was not a number."""

    num_values: Int[Array, ""]
    is_nonfinite: Bool[Array, ""]

    def and_another(self, num_values: Int[Array, ""], is_nonfinite: Bool[Array, ""]) -> "SliceInfo":
        """Of this slice and the next."""
        return SliceInfo(self.num_values + num_values, self.is_nonfinite | is_nonfinite)


Moved = tuple[AlternatingState, SliceInfo]


def is_possible(target: SiteCoordinates) -> bool:
    """Whether what the parameters make of the data can be kept."""
    bytes_each = 4 if target.model.single_precision else 8
    return target.X.shape[0] * target.model.num_inducing * bytes_each <= MOST_KEPT


def hold(target: SiteCoordinates, zeta: Float[Array, " T"]) -> Held:
    """What these parameters make of the data and of the sites; O(N M^2)."""
    free = target.location + target.factor @ zeta
    return _with_sites(target, zeta, free, keep(from_free(target.model, free), target.X))


def _with_sites(target: SiteCoordinates, zeta: Float[Array, " T"], free: Float[Array, " T"], kept: Kept) -> Held:
    H, linear = target.site_gaussian(gram(kept.inverse_factors))
    inverse = H.inverse_cholesky()
    mean = inverse.transposed_times(inverse.times(linear))
    log_factors = jnp.sum(inverse.log_determinant() + log_determinant(kept.inverse_factors))
    return Held(zeta, free, kept, inverse, mean, log_factors + target.log_scale())


def _whitened(target: SiteCoordinates, held: Held, z: Float[Array, " Z"]) -> Float[Array, "M C"]:
    """``R^-1 u`` of each mixed function."""
    standard = target.z_location + target.z_scale * z.reshape(target.z_scale.shape)
    return times(held.kept.inverse_factors, held.mean + held.inverse.transposed_times(standard))


def _log_density(
    target: SiteCoordinates, kept: Kept, free: Float[Array, " T"], whitened: Float[Array, "M C"]
) -> Float[Array, ""]:
    """Of v and theta; O(N M)."""
    model = target.model
    weights = unwhiten(kept.inverse_factors, whitened) @ target.mixing
    data = kept_data_term(kept, from_free(model, free).likelihood, weights, target.y, model.rows_at_once)
    prior = -0.5 * jnp.sum(jnp.square(whitened)) - 0.5 * whitened.size * jnp.log(2.0 * jnp.pi)
    return data + prior + log_prior(model, free) + log_jacobian(model, free)


def log_density(target: SiteCoordinates, held: Held, z: Float[Array, " Z"]) -> Float[Array, ""]:
    """The target's log density at z and the parameters held; O(N M), and so is its gradient in z."""
    return _log_density(target, held.kept, held.free, _whitened(target, held, z)) + held.log_volume


def initial_state(target: SiteCoordinates, position: Float[Array, " X"]) -> AlternatingState:
    """A state from a position."""
    z, zeta = target.split(position)
    held = hold(target, zeta)
    return AlternatingState(position, log_density(target, held, z.ravel()), held)


def place(target: SiteCoordinates, state: AlternatingState, key: PRNGKeyArray) -> Place:
    """What the state's position means; the key is for the common mode."""
    z, _ = target.split(state.position)
    return Place(state.held.free, target.unmixed(_whitened(target, state.held, z.ravel()), key), state.held.log_volume)


def transition(
    key: PRNGKeyArray, state: AlternatingState, target: SiteCoordinates, step_size: Float[Array, ""], turn: float, jitter: float
) -> tuple[AlternatingState, Info]:
    """A trajectory of z, then a slice of the parameters, if there are any.

    Gradients are counted in evaluations of O(N M^2): one for each value along the slice, 1/M for each gradient in z.
    """
    key_values, key_parameters = jax.random.split(key)
    z, zeta = target.split(state.position)

    def given(z: Float[Array, " Z"]) -> Float[Array, ""]:
        return log_density(target, state.held, z)

    moved, info = rotation.transition(key_values, rotation.initial_state(z.ravel(), given), given, step_size, turn, jitter)
    info = info._replace(num_gradients=(info.num_gradients + 1.0) / target.model.num_inducing)
    state = AlternatingState(jnp.concatenate([moved.position, zeta]), moved.log_density, state.held)
    if zeta.size == 0:
        return state, info

    interweaves = target.strength < VERY_WEAK

    def slices(number: Array, moved: Moved) -> Moved:
        """With z held and, from the second on and if need be, with v held before that."""
        key = jax.random.fold_in(key_parameters, number)
        moved = jax.lax.cond(interweaves & (number > 0), partial(slice_given_whitened, key, target), lambda moved: moved, moved)
        return slice_given_values(jax.random.fold_in(key, 1), target, moved)

    nothing = SliceInfo(jnp.asarray(0), jnp.asarray(False))
    num_slices = 1 + (target.strength < WEAK) + interweaves
    state, told = jax.lax.fori_loop(0, num_slices, slices, (state, nothing))
    return state, info._replace(
        num_gradients=info.num_gradients + told.num_values, is_nonfinite=info.is_nonfinite | told.is_nonfinite
    )


def slice_given_values(key: PRNGKeyArray, target: SiteCoordinates, moved: Moved) -> Moved:
    """The parameters moved, z being held."""
    state, told = moved
    z = target.split(state.position)[0].ravel()

    def there(zeta: Float[Array, " T"]) -> tuple[Held, Float[Array, ""]]:
        held = hold(target, zeta)
        return held, log_density(target, held, z)

    zeta, held, value, new = elliptical_slice(key, state.held.zeta, state.held, state.log_density, there)
    return AlternatingState(jnp.concatenate([z, zeta]), value, held), told.and_another(*new)


def slice_given_whitened(key: PRNGKeyArray, target: SiteCoordinates, moved: Moved) -> Moved:
    """The parameters moved, v being held; z, which says what v is, goes with them."""
    state, told = moved
    start = state.held
    whitened = _whitened(target, start, target.split(state.position)[0].ravel())

    def there(zeta: Float[Array, " T"]) -> tuple[Kept, Float[Array, ""]]:
        free = target.location + target.factor @ zeta
        kept = keep(from_free(target.model, free), target.X)
        return kept, _log_density(target, kept, free, whitened)

    zeta, kept, value, new = elliptical_slice(key, start.zeta, start.kept, state.log_density - start.log_volume, there)
    free = target.location + target.factor @ zeta
    held = _with_sites(target, zeta, free, kept)
    z, _ = target.standardize(free, whitened @ target.mixing)
    z = (z - target.z_location) / target.z_scale
    return AlternatingState(jnp.concatenate([z.ravel(), zeta]), value + held.log_volume, held), told.and_another(*new)


Payload = TypeVar("Payload")


class _Slice(NamedTuple, Generic[Payload]):
    """A slice being narrowed: its ends, the point tried, what is known there, and whether it is on the slice."""

    low: Float[Array, ""]
    high: Float[Array, ""]
    zeta: Float[Array, " T"]
    payload: Payload
    log_density: Float[Array, ""]
    is_on_slice: Bool[Array, ""]
    told: SliceInfo


def elliptical_slice(
    key: PRNGKeyArray,
    zeta: Float[Array, " T"],
    payload: Payload,
    log_density: Float[Array, ""],
    there: Callable[[Float[Array, " T"]], tuple[Payload, Float[Array, ""]]],
) -> tuple[Float[Array, " T"], Payload, Float[Array, ""], SliceInfo]:
    """A move of zeta that leaves a density as it is: the new point, and what ``there`` says of it.

    Along the ellipse ``zeta cos a + nu sin a``, nu ~ N(0, W^2 I), angles come from a bracket that every failure narrows to
    a = 0, the present place, until one is as likely, beside N(0, W^2 I), as a level drawn below the present.
    """
    key_ellipse, key_level, key_angle = jax.random.split(key, 3)
    nu = WIDTH * jax.random.normal(key_ellipse, zeta.shape)
    level = log_density + 0.5 * jnp.sum(jnp.square(zeta / WIDTH)) + jnp.log(jax.random.uniform(key_level))

    def attempt(slice_: _Slice[Payload]) -> _Slice[Payload]:
        low, high, number = slice_.low, slice_.high, slice_.told.num_values
        angle = jax.random.uniform(jax.random.fold_in(key_angle, number), minval=low, maxval=high)
        angle = jnp.where(number < MOST_TRIES, angle, 0.0)
        tried = zeta * jnp.cos(angle) + nu * jnp.sin(angle)
        payload, value = there(tried)
        is_on_slice = (value + 0.5 * jnp.sum(jnp.square(tried / WIDTH)) > level) | (number >= MOST_TRIES)
        ends = jnp.where(angle < 0.0, angle, low), jnp.where(angle < 0.0, high, angle)
        told = SliceInfo(number + 1, slice_.told.is_nonfinite | ~jnp.isfinite(value))
        return _Slice(*ends, tried, payload, value, is_on_slice, told)

    first = jax.random.uniform(jax.random.fold_in(key_angle, MOST_TRIES + 1), maxval=2.0 * jnp.pi)
    nothing = SliceInfo(jnp.asarray(0), jnp.asarray(False))
    whole = _Slice(first - 2.0 * jnp.pi, first, zeta, payload, log_density, jnp.asarray(False), nothing)
    end = jax.lax.while_loop(lambda slice_: ~slice_.is_on_slice, attempt, whole)
    return end.zeta, end.payload, end.log_density, end.told
