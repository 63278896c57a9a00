"""Values and parameters in turn, in site coordinates: where there are few parameters, the cheapest way to a draw.

With the parameters held, what they make of the data is kept, and z moves by rotation HMC in O(N M) a step, for little. With z
held, the parameters move by an elliptical slice (Murray, Adams & MacKay 2010), which needs no gradient, no tuning and one to two
values of the target. In other coordinates such moves hardly get anywhere, since v and theta hold each other fast; in these they
are nearly independent, and both nearly standard normal, and so each move is nearly a draw of its own.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from freegp.numerics.linalg import inverse_cholesky
from freegp.parameters import from_free, log_jacobian, log_prior
from freegp.sampling import rotation
from freegp.sampling.coordinates import Place, SiteCoordinates, each
from freegp.sampling.rotation import Info
from freegp.target.kept import Kept, keep, kept_data_term

MOST_KEPT = 2**24
"""Largest N x M that is kept, for each kernel and chain: 128 MiB."""
MOST_TRIES = 60
"""Of a slice: by then it is narrower than rounding, and the chain stays where it is."""


class Held(NamedTuple):
    """What depends on the parameters alone: themselves, what they make of the data, and ``u = mean + spread z`` of the sites."""

    zeta: Float[Array, " T"]
    free: Float[Array, " T"]
    kept: Kept
    spread: Float[Array, "C M M"]
    mean: Float[Array, "M C"]
    log_volume: Float[Array, ""]


class AlternatingState(NamedTuple):
    """What the next draw needs."""

    position: Float[Array, " X"]
    log_density: Float[Array, ""]
    held: Held


def is_possible(target: SiteCoordinates) -> bool:
    """Whether what the parameters make of the data can be kept."""
    return target.X.shape[0] * target.model.num_inducing <= MOST_KEPT


def hold(target: SiteCoordinates, zeta: Float[Array, " T"]) -> Held:
    """What these parameters make of the data and of the sites; O(N M^2)."""
    free = target.location + target.factor @ zeta
    kept = keep(from_free(target.model, free), target.X)
    precision = jnp.swapaxes(kept.inverse_factors, -1, -2) @ kept.inverse_factors
    H, linear = target.site_gaussian(precision)
    inverse = jax.vmap(inverse_cholesky)(jnp.broadcast_to(H, (linear.shape[1], *H.shape[1:])))
    mean = jnp.einsum("cba,cbd,dc->ac", inverse, inverse, linear)
    log_factors = _log_determinant(inverse) + _log_determinant(jnp.broadcast_to(kept.inverse_factors, inverse.shape))
    return Held(zeta, free, kept, jnp.swapaxes(inverse, -1, -2), mean, log_factors + target.log_scale())


def _log_determinant(factors: Float[Array, "C M M"]) -> Float[Array, ""]:
    return jnp.sum(jnp.log(jnp.diagonal(factors, axis1=-2, axis2=-1)))


def _whitened(target: SiteCoordinates, held: Held, z: Float[Array, " Z"]) -> Float[Array, "M C"]:
    """``R^-1 u`` of each mixed function."""
    standard = target.z_location + target.z_scale * z.reshape(target.z_scale.shape)
    return each(held.kept.inverse_factors, held.mean + each(held.spread, standard))


def log_density(target: SiteCoordinates, held: Held, z: Float[Array, " Z"]) -> Float[Array, ""]:
    """The target's log density at z and the parameters held; O(N M), and so is its gradient in z."""
    model = target.model
    whitened = _whitened(target, held, z)
    weights = each(jnp.swapaxes(held.kept.inverse_factors, -1, -2), whitened) @ target.mixing
    data = kept_data_term(held.kept, from_free(model, held.free).likelihood, weights, target.y, model.block_size)
    prior = -0.5 * jnp.sum(jnp.square(whitened)) - 0.5 * whitened.size * jnp.log(2.0 * jnp.pi)
    return data + prior + log_prior(model, held.free) + log_jacobian(model, held.free) + held.log_volume


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
    if zeta.size == 0:
        return AlternatingState(moved.position, moved.log_density, state.held), info
    state, slice_info = move_parameters(key_parameters, moved.position, moved.log_density, state.held, target)
    num_tries, is_nonfinite = slice_info
    return state, info._replace(num_gradients=info.num_gradients + num_tries, is_nonfinite=info.is_nonfinite | is_nonfinite)


class _Slice(NamedTuple):
    """A slice being narrowed: its ends, the angle tried, the state there, and whether it is on the slice."""

    low: Float[Array, ""]
    high: Float[Array, ""]
    angle: Float[Array, ""]
    held: Held
    log_density: Float[Array, ""]
    is_on_slice: Bool[Array, ""]
    is_nonfinite: Bool[Array, ""]
    num_tries: Int[Array, ""]


def move_parameters(
    key: PRNGKeyArray, z: Float[Array, " Z"], start: Float[Array, ""], held: Held, target: SiteCoordinates
) -> tuple[AlternatingState, tuple[Int[Array, ""], Bool[Array, ""]]]:
    """An elliptical slice of zeta, z being held, from a point of log density ``start``.

    Along the ellipse ``zeta cos a + nu sin a``, nu ~ N(0, I), angles are drawn from a bracket that every failure narrows towards
    a = 0, the present place, until one is as likely, beside N(0, I), as a level drawn below the present. Also returns the
    number of values and whether any was not a number.
    """
    key_ellipse, key_level, key_angle = jax.random.split(key, 3)
    nu = jax.random.normal(key_ellipse, held.zeta.shape)
    level = start + 0.5 * jnp.sum(jnp.square(held.zeta)) + jnp.log(jax.random.uniform(key_level))

    def attempt(slice_: _Slice) -> _Slice:
        low, high, number = slice_.low, slice_.high, slice_.num_tries
        angle = jax.random.uniform(jax.random.fold_in(key_angle, number), minval=low, maxval=high)
        angle = jnp.where(number < MOST_TRIES, angle, 0.0)
        there = hold(target, held.zeta * jnp.cos(angle) + nu * jnp.sin(angle))
        value = log_density(target, there, z)
        is_on_slice = (value + 0.5 * jnp.sum(jnp.square(there.zeta)) > level) | (number >= MOST_TRIES)
        ends = jnp.where(angle < 0.0, angle, low), jnp.where(angle < 0.0, high, angle)
        return _Slice(*ends, angle, there, value, is_on_slice, slice_.is_nonfinite | ~jnp.isfinite(value), number + 1)

    first = jax.random.uniform(jax.random.fold_in(key_angle, MOST_TRIES + 1), maxval=2.0 * jnp.pi)
    no = jnp.asarray(False)
    whole = _Slice(first - 2.0 * jnp.pi, first, first, held, start, no, no, jnp.asarray(0))
    end = jax.lax.while_loop(lambda slice_: ~slice_.is_on_slice, attempt, whole)
    state = AlternatingState(jnp.concatenate([z, end.held.zeta]), end.log_density, end.held)
    return state, (end.num_tries, end.is_nonfinite)
