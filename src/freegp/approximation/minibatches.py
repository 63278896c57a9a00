"""Natural gradients on minibatches, in the space of the weights of the basis.

The mean of a latent function is linear in its inducing values: ``b(x)^T w``, with weights ``w`` of the basis ``b`` that have the
prior N(0, K^-1), where K is Kuu of inducing points (``w = Kuu^-1 u``) and Kuu^-1 of features (``w = u``). Here

    q(w) ∝ N(w; 0, K^-1) exp(h^T w - w^T G w / 2),      G ≈ sum_n c_n b(x_n) b(x_n)^T

with c_n the curvature of datum n: G is a running mean of what the data say, as they say it. A step needs one factor a latent
function and no change of coordinates, a third of what it would need in whitened ones; where minibatches are small that is most
of it. Where parameters and inducing inputs move, the factors of u are held, as in Adam, Chang, Khan & Solin (2021): in them are
``K^-1 b(x)``, which move less than the ``b(x)`` in G and h.
"""

from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from freegp.approximation.gaussian import Sites, held_as_factors, no_nudge, sites_at
from freegp.approximation.problem import DIVERGED, Outcome, Problem
from freegp.approximation.progress import FitProgress
from freegp.model import SparseGP
from freegp.numerics.linalg import symmetrize
from freegp.numerics.stacks import (
    Stack,
    around,
    inverse_and_log_determinant,
    is_diagonal,
    plus,
    product,
    times,
    transposed,
    whitening,
)
from freegp.target.log_density import data_term
from freegp.target.projection import Projection, covariances, to_weights

if TYPE_CHECKING:
    from freegp.approximation.natural import NaturalGradient

CHUNK = 50
WIDEST = 10.0
"""How many times wider than its prior q(w) may become in a direction."""


class WeightSites(eqx.Module):
    """G and h of each latent function."""

    precision: Float[Array, "P M M"]
    linear: Float[Array, "M P"]

    def blended(self, other: "WeightSites", rate: Float[Array, ""]) -> "WeightSites":
        """A step towards others."""
        return jax.tree.map(lambda one, two: (1.0 - rate) * one + rate * two, self, other)


def prior_precision(model: SparseGP) -> Stack:
    """K of each distinct kernel."""
    Kuu = covariances(model)
    return 1.0 / Kuu if is_diagonal(Kuu) else Kuu


def from_whitened(model: SparseGP, sites: Sites) -> WeightSites:
    """Sites as factors of the weights; ``v = T^-1 w``, and so ``G = T^-T W T^-1``."""
    sites = sites_at(model, sites)
    inverse = sites.inverse_factors  # T^-T is R of points and R^-1 of features
    back = inverse if is_diagonal(inverse) else product(covariances(model), transposed(inverse))
    return WeightSites(symmetrize(around(back, sites.precision)), times(back, sites.linear))


def to_whitened(model: SparseGP, sites: WeightSites) -> Sites:
    """The same as factors of v, in the model's own coordinates."""
    inverse_factors = whitening(covariances(model))
    there = transposed(to_weights(inverse_factors))
    return Sites(inverse_factors, symmetrize(around(there, sites.precision)), times(there, sites.linear))


def carried(sites: WeightSites, K: Stack, K_moved: Stack) -> WeightSites:
    """The same factors of u where K has moved: ``w = K^-1 K' w' = [I + K^-1 (K' - K)] w'``, which rounds what moved alone."""
    if is_diagonal(K):
        return sites
    there = jnp.eye(K.shape[-1]) + transposed(product(inverse_and_log_determinant(K)[0], K_moved - K))
    return WeightSites(symmetrize(around(there, sites.precision)), times(there, sites.linear))


def under(K: Stack, sites: WeightSites) -> tuple[Projection, Float[Array, ""]]:
    """What q(w) makes of the latents, and its divergence from the prior."""
    return _under(K, sites) if is_diagonal(K) else _under_points(K, sites)


def _under(K: Stack, sites: WeightSites) -> tuple[Projection, Float[Array, ""]]:
    """What q(w) makes of the latents, and its divergence from the prior.

    With ``D = (K + G)^-1`` the weights are ``w = D h``, the precision is ``K^-1 - D``, and the divergence
    ``[w^T K w - tr(G D) + log |K + G| - log |K|] / 2``, since ``tr(K D) = M - tr(G D)``.
    """
    G, num_latents = sites.precision, sites.linear.shape[1]
    K_inverse, of_K = inverse_and_log_determinant(K)
    D, of_sum = inverse_and_log_determinant(plus(K, G))
    w = times(D, sites.linear)
    determinants = jnp.sum(of_sum) - (num_latents / K.shape[0]) * jnp.sum(of_K)
    return Projection(w, plus(K_inverse, -D)), 0.5 * (jnp.sum(w * times(K, w)) - jnp.sum(G * D) + determinants)


_under_points = held_as_factors(_under)


def nudged_bound(
    batch: Problem, position: Float[Array, " T"], sites: WeightSites, nudge: Projection, scale: float
) -> tuple[Float[Array, ""], Projection]:
    """The bound on a minibatch under the projection of the sites and a nudge to it, and the projection."""
    model = batch.at(position)
    projection, divergence = under(prior_precision(model), sites)
    projection = jax.tree.map(jnp.add, projection, nudge)
    value = scale * data_term(model, projection, batch.X, batch.y) - divergence
    return value + batch.log_prior(position), projection


def concave_slope(batch: Problem, position: Float[Array, " T"], projection: Projection, scale: float) -> Projection:
    """The data term's slope in the projection as if no datum's curvature were negative.

    G is positive semi-definite then, and the mean where steps come to rest is the same.
    """
    model = batch.at(position)
    return jax.grad(lambda projection: scale * data_term(model, projection, batch.X, batch.y, concave=True))(projection)


def proposed(projection: Projection, slope: Projection) -> WeightSites:
    """Where a full natural-gradient step leads, given the bound's slope in the nudge.

    With ``g_n = dE_n/dmean_n`` and ``c_n = -2 dE_n/dvariance_n`` it is ``G = sum_n c_n b_n b_n^T`` and
    ``h = sum_n (g_n + c_n mu_n) b_n``.
    """
    G = 2.0 * symmetrize(slope.precision)
    return WeightSites(G, slope.weights + times(G, projection.weights))


def is_within_reach(K: Stack, sites: WeightSites) -> Bool[Array, ""]:
    """Whether q(w) is a Gaussian, and in no direction far wider than its prior: whether ``K + G`` is above ``K / WIDEST``.

    It may not be after a step where the likelihood is not log-concave and a minibatch's curvature is negative, or where the
    parameters or inducing inputs moved far.
    """
    rest = plus((1.0 - 1.0 / WIDEST) * K, sites.precision)
    return jnp.all(jnp.isfinite(jnp.linalg.cholesky(rest)))


def run_minibatches(
    settings: "NaturalGradient", problem: Problem, outcome: Outcome, size: int, key: PRNGKeyArray, progress: FitProgress
) -> None:
    """Steps in chunks, each of which the outcome has when it is done."""
    decay = optax.cosine_decay_schedule(1.0, settings.num_steps, alpha=settings.falling)
    gentle = max(1, settings.num_steps // 10)  # Adam's first steps go as far in every coordinate, after one minibatch's noise
    optimizer = optax.adam(lambda count: settings.learning_rate * decay(count) * jnp.minimum(1.0, (count + 1) / gentle))
    state = optimizer.init(outcome.position)
    frozen_steps = 0 if jnp.any(outcome.sites.precision) else settings.num_steps // 10
    for start in range(0, settings.num_steps, CHUNK):
        steps = range(start, min(start + CHUNK, settings.num_steps))
        counts, rows = jnp.array(steps), problem.minibatches(key, size, steps)
        position, sites, state, values = _steps(
            settings, optimizer, problem, outcome.position, outcome.sites, state, rows, counts, counts >= frozen_steps
        )
        if not bool(jnp.all(jnp.isfinite(values))):
            return outcome.end("diverged", f"{DIVERGED}, or smaller rates")
        outcome.record(position, sites, float(jnp.mean(values)))
        progress.update(steps[-1] + 1, outcome.trace[-1])
    outcome.end_noisy(settings.num_steps)


@eqx.filter_jit
def _steps(
    settings: "NaturalGradient",
    optimizer: optax.GradientTransformation,
    problem: Problem,
    position: Array,
    sites: Sites,
    state: optax.OptState,
    rows: Int[Array, "steps B"],
    counts: Int[Array, " steps"],
    moves: Bool[Array, " steps"],
) -> tuple[Array, Sites, optax.OptState, Array]:
    scale = problem.num_data / rows.shape[1]
    decay = optax.cosine_decay_schedule(1.0, settings.num_steps, alpha=settings.falling)
    nothing = no_nudge(sites)

    Carry = tuple[Array, WeightSites, optax.OptState]

    def step(carry: Carry, number: tuple[Array, Array, Array]) -> tuple[Carry, Array]:
        (position, sites, state), (rows, count, is_moving) = carry, number
        batch = problem.on(rows)
        rate = settings.site_rate * decay(count)
        slopes = jax.value_and_grad(nudged_bound, argnums=(1, 3), has_aux=True)
        (value, projection), (slope, of_nudge) = slopes(batch, position, sites, nothing, scale)
        updates, new_state = optimizer.update(-slope, state, position)
        moved = jnp.where(is_moving, position + updates, position)
        K, K_moved = prior_precision(batch.at(position)), prior_precision(batch.at(moved))

        def as_proposed(ahead: WeightSites) -> tuple[Array, WeightSites]:
            return moved, ahead

        def as_if_concave(_: WeightSites) -> tuple[Array, WeightSites]:
            here = sites.blended(proposed(projection, concave_slope(batch, position, projection, scale)), rate)
            ahead = carried(here, K, K_moved)
            return jax.lax.cond(is_within_reach(K_moved, ahead), lambda: (moved, ahead), lambda: (position, here))

        ahead = carried(sites.blended(proposed(projection, of_nudge), rate), K, K_moved)
        position, sites = jax.lax.cond(is_within_reach(K_moved, ahead), as_proposed, as_if_concave, ahead)
        state = jax.tree.map(lambda new, old: jnp.where(is_moving, new, old), new_state, state)
        return (position, sites, state), jnp.where(jnp.all(jnp.isfinite(slope)), value, jnp.nan)

    first = from_whitened(problem.at(position), sites)
    (position, last, state), values = jax.lax.scan(step, (position, first, state), (rows, counts, moves))
    return position, to_whitened(problem.at(position), last), state, values
