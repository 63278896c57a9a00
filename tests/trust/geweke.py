"""Geweke's joint test (2004): data and draws renewed in turn must keep the model's own joint distribution.

One chain moves parameters and values by the sampler under test, given data, and then draws new data given them. If the sampler
leaves the posterior as it is, parameters stay distributed as their prior says, whatever the coordinates the sampler moves in:
these are fixed beforehand, at the fit to one data set.
"""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import freegp as fg
from freegp.diagnostics import import_arviz
from freegp.parameters import free_parameters
from freegp.sampling.coordinates import Place
from freegp.sampling.samplers import as_sampler
from freegp.sampling.warm_up import adapting
from trust.simulation import draw_data, draw_free, draw_truth, full_model

X = np.linspace(0.0, 3.0, 6)[:, None]
NUM_FROM_PRIOR = 20_000
STEP = 0.4


@dataclass(frozen=True)
class Differences:
    """Of each quantity's mean, the chain's from the model's, in standard errors."""

    likelihood: str
    z_scores: dict[str, float]
    num_rounds: int

    @property
    def largest(self) -> float:
        """The worst of them."""
        return max(abs(z) for z in self.z_scores.values())


def joint_test(name: str, num_rounds: int, seed: int = 0, sampler_name: str = "sites") -> Differences:
    """Rounds of draw and data in eight chains, against as many independent draws from the model as are cheap."""
    model = full_model(name, X)
    fit = fg.fit_gaussian(model, X, draw_truth(model, X, seed).y, train_inducing=False, progress=False)
    sampler = as_sampler(sampler_name)
    target = sampler.prepare(fit, jnp.asarray(X), jnp.asarray(draw_truth(model, X, seed).y))
    tuning = jax.tree.map(lambda leaf: leaf[0], adapting(jnp.full(1, STEP), is_adapting=False))
    keys = jax.random.split(jax.random.key(seed), 8)
    chains = _chain(model, sampler, target, tuning, keys, num_rounds)
    prior = _from_model(model, jax.random.split(jax.random.key(seed + 1), NUM_FROM_PRIOR))
    z_scores = {}
    for number, quantity in enumerate(_names(model)):
        chain, drawn = np.asarray(chains[..., number]), np.asarray(prior[:, number])
        error = np.hypot(float(import_arviz().mcse(chain)), drawn.std() / np.sqrt(len(drawn)))
        z_scores[quantity] = float((chain.mean() - drawn.mean()) / error)
    return Differences(name, z_scores, num_rounds)


def _names(model: fg.SparseGP) -> list[str]:
    paths, ends = [p.path for p in free_parameters(model)], ["v[0]", f"v[{len(X) - 1}]"]
    squares = [[f"{name}^2" for name in names] for names in (paths, ends)]
    return [*paths, *squares[0], *ends, *squares[1], "tanh(y)"]


def _quantities(free: jax.Array, whitened: jax.Array, y: jax.Array) -> jax.Array:
    ends = whitened[jnp.array([0, -1]), 0]
    return jnp.concatenate([free, jnp.square(free), ends, jnp.square(ends), jnp.mean(jnp.tanh(y))[None]])


@eqx.filter_jit
def _from_model(model: fg.SparseGP, keys: jax.Array) -> jax.Array:
    def one(key: jax.Array) -> jax.Array:
        key_free, key_values, key_data = jax.random.split(key, 3)
        free = draw_free(model, key_free)
        whitened = jax.random.normal(key_values, (len(X), 1))
        return _quantities(free, whitened, draw_data(model, jnp.asarray(X), free, whitened, key_data))

    return jax.lax.map(one, keys, batch_size=500)


@eqx.filter_jit
def _chain(model: fg.SparseGP, sampler: object, target: object, tuning: object, keys: jax.Array, num_rounds: int) -> jax.Array:
    """Quantities after each round, ``[chain, round, quantity]``; each chain starts in the model's joint distribution."""

    def round_(carry: tuple, key: jax.Array) -> tuple:
        position, y = carry
        key_move, key_place, key_data = jax.random.split(key, 3)
        given = eqx.tree_at(lambda t: t.y, target, y)
        state, _ = sampler(key_move, sampler.initial_state(given, position), given, tuning)
        place = sampler.place(given, state, key_place)
        y = draw_data(model, given.X, place.free, place.whitened, key_data)
        return (state.position, y), _quantities(place.free, place.whitened, y)

    def one(key: jax.Array) -> jax.Array:
        key_free, key_values, key_data, key_rounds = jax.random.split(key, 4)
        free, whitened = draw_free(model, key_free), jax.random.normal(key_values, (len(X), 1))
        y = draw_data(model, target.X, free, whitened, key_data)
        start = target.position(Place(free, whitened, jnp.zeros(())))
        return jax.lax.scan(round_, (start, y), jax.random.split(key_rounds, num_rounds))[1]

    return jax.lax.map(one, keys)
