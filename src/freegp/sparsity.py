"""What sparsity costs: how many nats the inducing variables lose, and how many of them would lose few.

A datum's expected log likelihood falls by about ``w_n gamma_n / 2`` when its latent keeps a variance ``gamma_n`` that the
inducing variables do not explain, with ``w_n = -2 dE_n/dvariance_n`` the curvature there. Summed over data it is what the bound,
and the target, lose against the full Gaussian process; it pulls the parameters towards functions that M points can carry.
"""

from collections.abc import Iterator
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from freegp.kernels import Kernel
from freegp.model import SparseGP
from freegp.target.blocks import per_datum_part, streamed_map
from freegp.target.projection import Projection, marginals, project_whitened

FEW_NATS = 1.0
"""A loss of this many nats is let pass."""
MOST_ROWS = 1500
"""How many of the data the search for a better number looks at."""


class Sparsity(NamedTuple):
    """About how many nats M inducing points lose, and about how many points would lose few (None: only all the data would)."""

    nats_lost: float
    num_inducing: int
    suggested_inducing: int | None


@eqx.filter_jit
def curvature_and_loss(
    model: SparseGP, inverse_factors: Float[Array, "K M M"], projection: Projection, X: Float[Array, "N D"], y: Float[Array, " N"]
) -> tuple[Float[Array, "N P"], Float[Array, "N P"]]:
    """``w`` and ``w gamma / 2`` of each datum and latent function, for whatever is said of the inducing values."""
    conditional = project_whitened(inverse_factors, jnp.zeros((inverse_factors.shape[-1], projection.weights.shape[1])))

    def block(rows: PyTree) -> tuple[Array, Array]:
        X_block, y_block, per_datum = rows
        likelihood = eqx.combine(per_datum, model.likelihood)
        mean, variance = marginals(model, projection, X_block)
        slope = jax.grad(lambda var: jnp.sum(likelihood.expected_log_prob(mean, var, y_block)))(variance)
        return -2.0 * slope, -slope * marginals(model, conditional, X_block)[1]

    return streamed_map(block, (X, y, per_datum_part(model.likelihood)), model.block_size)


def suggested_size(
    model: SparseGP, X: Float[np.ndarray, "N D"], curvature: Float[np.ndarray, "N P"], nats_lost: float
) -> int | None:
    """About how many inducing points would lose few nats at the model's parameters; None where only all the data would do.

    Points are taken from the data greedily, each where most is still lost (Burt, Rasmussen & van der Wilk 2020), which gives the
    loss for every number of them at once. Points that were optimised do better than greedy ones; the ratio between what is lost
    and what as many greedy points would lose is taken to stay as it is.
    """
    rows = np.linspace(0, len(X) - 1, min(len(X), MOST_ROWS)).astype(int)
    weights = np.maximum(curvature[rows], 0.0) * (len(X) / len(rows))
    shared = len(model.kernels) == 1
    parts = [weights.sum(axis=1)] if shared else list(weights.T)
    M = model.num_inducing
    curves = [np.fromiter(_greedy_losses(k, X[rows], w), float) for k, w in zip(model.kernels, parts, strict=True)]
    total = np.sum(curves, axis=0)
    if total.size <= M or total[M] <= 0.0:
        return None
    enough = np.flatnonzero(total <= FEW_NATS * max(total[M] / nats_lost, 1.0))
    return int(enough[0]) if enough.size and enough[0] < 0.9 * len(rows) else None


def _greedy_losses(kernel: Kernel, X: Float[np.ndarray, "R D"], weights: Float[np.ndarray, " R"]) -> Iterator[float]:
    """``sum_n w_n gamma_n / 2`` with 0, 1, 2, ... greedily chosen points: a Cholesky factorisation pivoted on what is lost."""
    K = np.asarray(kernel(X))
    residual = np.diag(K).copy()
    columns = np.zeros((len(X), len(X)))
    for chosen in range(len(X)):
        yield 0.5 * float(weights @ residual)
        at = int(np.argmax(weights * residual))
        if residual[at] <= 1e-12 * K[at, at]:
            residual[:] = 0.0
            continue
        column = (K[:, at] - columns[:, :chosen] @ columns[at, :chosen]) / np.sqrt(residual[at])
        columns[:, chosen] = column
        residual = np.maximum(residual - np.square(column), 0.0)
