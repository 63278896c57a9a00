"""NumPyro: a Hilbert-space Gaussian process sampled by NUTS, chains side by side on the devices that freegp uses."""

import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from chains import Chains
from numpyro import distributions
from numpyro.contrib.hsgp.approximation import hsgp_squared_exponential
from numpyro.infer import NUTS
from problems import Problem

from freegp.sampling.chains import chain_mesh, over_chains


def sample(problem: Problem, basis: int, box: float, num_draws: int, num_chains: int) -> Chains:
    """Draws for Poisson counts, after as many of warm-up: ``basis`` functions a column, on a box so much wider than the window.

    NUTS is moved as `numpyro.infer.MCMC` moves it, but by one compiled program for warm-up and for draws: `MCMC.run` compiles
    again at every call when its chains are on several devices, and its time could not be told from that of the draws.
    """
    kernel, data = NUTS(_model(problem, basis, box)), (jnp.asarray(problem.X - problem.X.mean(axis=0)), jnp.asarray(problem.y))
    begun = time.perf_counter()
    states = [kernel.init(jax.random.key(chain), num_draws, model_args=data) for chain in range(num_chains)]

    @jax.jit
    def advance(states: tuple) -> tuple:
        def chain(data: tuple, state: tuple) -> tuple:
            def step(state: tuple, _: None) -> tuple:
                state = kernel.sample(state, data, {})
                return state, state.z

            return jax.lax.scan(step, state, length=num_draws)

        return over_chains(chain, chain_mesh(num_chains), data, states)

    warm, _ = jax.block_until_ready(advance(jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)))
    warm, _ = jax.block_until_ready(advance(warm))  # the states are on their devices now, and the program is compiled for that
    middle = time.perf_counter()
    _, draws = jax.block_until_ready(advance(warm))
    seconds = time.perf_counter() - middle
    natural = jax.vmap(jax.vmap(kernel.postprocess_fn(data, {})))(draws)
    parts = (np.asarray(natural[name]) for name in ("beta", "variance", "lengthscale"))
    return Chains(*parts, seconds=seconds, seconds_warmup=middle - begun)


def _model(problem: Problem, basis: int, box: float) -> Callable[[jax.Array, jax.Array], None]:
    ell = [box * float(half) for half in _half_width(problem.X)]

    def model(X: jax.Array, y: jax.Array) -> None:
        variance = numpyro.sample("variance", distributions.Gamma(*problem.variance_prior))
        lengthscale = numpyro.sample("lengthscale", distributions.Gamma(*problem.lengthscales_prior))
        # NumPyro's alpha multiplies the spectral density: it is the variance and not its root
        f = hsgp_squared_exponential(X, alpha=variance, length=lengthscale, ell=ell, m=[basis] * len(ell))
        numpyro.sample("y", distributions.Poisson(problem.exposure * jnp.exp(f)), obs=y)

    return model


def _half_width(X: np.ndarray) -> np.ndarray:
    """Half the window's width in each column; X are middles of cells, so half a cell lies beyond the outermost on each side."""
    cells = np.array([len(np.unique(column)) for column in X.T])
    return 0.5 * np.ptp(X, axis=0) * cells / (cells - 1)
