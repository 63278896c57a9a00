"""New observations, by simulation: what their quantiles are where the likelihood has no closed form for them."""

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from freegp.likelihoods import Likelihood, Multiclass
from freegp.numerics.quadrature import positive_sqrt

NUM_OBSERVATIONS = 10_000
ROWS_AT_ONCE = 512
Draw = Callable[[Likelihood, Float[Array, "N D"]], Float[Array, "... N"]]
"""``draw(likelihood, X)``: many observations at each row."""


def observation_quantiles(
    draw: Draw, likelihood: Likelihood, X: Float[np.ndarray, "N D"], probabilities: Sequence[float]
) -> Float[Array, "Q N"]:
    """Quantiles of observations at each row, of the smallest value that is not too small: for counts a count."""
    levels = check_levels(probabilities)
    if isinstance(likelihood, Multiclass):
        raise ValueError(f"the classes of {type(likelihood).__name__} have no order and so no quantiles; use predict_y instead")
    blocks = []
    for start in range(0, X.shape[0], ROWS_AT_ONCE):
        block = jnp.asarray(X[start : start + ROWS_AT_ONCE])
        drawn = np.asarray(draw(likelihood.take(start + jnp.arange(len(block))), block)).reshape(-1, len(block))
        blocks.append(np.quantile(drawn, levels, axis=0, method="inverted_cdf"))
    return jnp.concatenate(blocks, axis=1)


def check_levels(probabilities: Sequence[float]) -> Float[np.ndarray, " Q"]:
    """Probabilities of quantiles, between 0 and 1."""
    levels = np.asarray(probabilities, dtype=np.float64)
    if levels.ndim != 1 or not ((levels > 0.0) & (levels < 1.0)).all():
        raise ValueError(
            f"probabilities must be a list of numbers between 0 and 1, but are {probabilities}; give (0.05, 0.95), say"
        )
    return levels


@eqx.filter_jit
def draw_around(
    likelihood: Likelihood, mean: Float[Array, "N P"], variance: Float[Array, "N P"], key: PRNGKeyArray, each: int
) -> Float[Array, "R N"]:
    """So many observations at latents from N(mean, variance).

    All rows share their random numbers, so that the answer at a row does not depend on the others and changes smoothly.
    """
    key_latent, key_target = jax.random.split(key)
    noise = jax.random.normal(key_latent, (each, 1, mean.shape[1]))

    def at_row(row: Array) -> Array:
        f = mean[row] + positive_sqrt(variance[row]) * noise
        return likelihood.take(row[None]).sample(key_target, f)[:, 0]

    return jax.vmap(at_row, out_axes=1)(jnp.arange(mean.shape[0]))
