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

from freegp.inducing import HilbertFeatures
from freegp.kernels import Kernel
from freegp.model import SparseGP
from freegp.numerics.stacks import Stack, whitening
from freegp.parameters import from_free
from freegp.target.blocks import per_datum_part, streamed_map
from freegp.target.projection import Projection, covariances, marginals, project_whitened

FEW_NATS = 1.0
"""A loss of this many nats is let pass."""
SMALL_SHIFT = 0.25
"""So is a shift of a parameter by this much of its standard deviation."""
MOST_ROWS = 1500
"""How many of the data the search for a better number looks at."""


GROWTHS = (1.2, 1.5, 2.0, 3.0)
"""How many times higher frequencies are looked at when features are too few."""


class Sparsity(NamedTuple):
    """What M inducing variables lose.

    Attributes
    ----------
    nats_lost
        About how much of the log likelihood, averaged over draws.
    shift
        About how far that moves the parameter it moves most, in its posterior standard deviations: the covariance of parameter
        and loss over draws, to first order the shift of its mean if nothing were lost.
    num_inducing, suggested_inducing
        M, and about how many would lose little; None where these do, or where none (of points: none short of all the data) would.
    what
        Points, or features.
    """

    nats_lost: float
    shift: float
    num_inducing: int
    suggested_inducing: int | None
    what: str = "points"

    @property
    def matters(self) -> bool:
        """Whether it is too much."""
        return self.nats_lost > FEW_NATS or self.shift > SMALL_SHIFT


def judge(
    model: SparseGP,
    X: Float[np.ndarray, "N D"],
    free: Float[np.ndarray, "S T"],
    losses: Float[np.ndarray, " S"],
    curvature: Float[np.ndarray, "N P"],
) -> Sparsity:
    """What is lost, from the nats lost by each draw and the mean curvature of each datum.

    The number suggested is for parameters where they would be without the loss: their mean with weights ``exp(loss)``. Where
    every distinct row is an inducing input already it is their number: what is lost then is the jitter's doing.
    """
    nats_lost, spread = float(np.mean(losses)), np.std(free, axis=0)
    centred = (free - np.mean(free, axis=0)) / np.where(spread > 0.0, spread, 1.0)
    shift = float(np.max(np.abs(centred.T @ (losses - nats_lost)) / len(losses), initial=0.0))
    found = Sparsity(nats_lost, shift, model.num_inducing, None, model.placed.what)
    if not found.matters:
        return found
    if found.what == "points" and model.num_inducing >= len(np.unique(X, axis=0)):
        return found._replace(suggested_inducing=model.num_inducing)
    weights = np.exp(np.minimum(losses - losses.max(), 0.0))
    unbiased = from_free(model, jnp.asarray(weights @ free / weights.sum()))
    if isinstance(model.placed, HilbertFeatures):
        return found._replace(suggested_inducing=suggested_features(unbiased, model.placed, X, curvature))
    return found._replace(suggested_inducing=suggested_size(unbiased, X, curvature))


@eqx.filter_jit
def curvature_and_loss(
    model: SparseGP, inverse_factors: Stack, projection: Projection, X: Float[Array, "N D"], y: Float[Array, " N"]
) -> tuple[Float[Array, "N P"], Float[Array, "N P"]]:
    """``w`` and ``w gamma / 2`` of each datum and latent function, for whatever is said of the inducing values."""
    conditional = project_whitened(inverse_factors, jnp.zeros((inverse_factors.shape[-1], projection.weights.shape[1])))

    def block(rows: PyTree) -> tuple[Array, Array]:
        X_block, y_block, per_datum = rows
        likelihood = eqx.combine(per_datum, model.likelihood)
        mean, variance = marginals(model, projection, X_block)
        slope = jax.grad(lambda var: jnp.sum(likelihood.expected_log_prob(mean, var, y_block)))(variance)
        return -2.0 * slope, -slope * marginals(model, conditional, X_block)[1]

    return streamed_map(block, (X, y, per_datum_part(model.likelihood)), model.rows_at_once)


def suggested_size(model: SparseGP, X: Float[np.ndarray, "N D"], curvature: Float[np.ndarray, "N P"]) -> int | None:
    """About how many inducing points would lose few nats at the model's parameters; None where only all the data would do.

    Points are taken from the data greedily, each where most is still lost (Burt, Rasmussen & van der Wilk 2020), which gives the
    loss for every number of them at once.
    """
    rows = np.linspace(0, len(X) - 1, min(len(X), MOST_ROWS)).astype(int)
    weights = np.maximum(curvature[rows], 0.0) * (len(X) / len(rows))
    parts = [weights.sum(axis=1)] if len(model.kernels) == 1 else list(weights.T)
    curves = [np.fromiter(_greedy_losses(k, X[rows], w), float) for k, w in zip(model.kernels, parts, strict=True)]
    enough = np.flatnonzero(np.sum(curves, axis=0) <= 0.5 * FEW_NATS)
    size = max(int(enough[0]) if enough.size else len(rows), round(1.3 * model.num_inducing))
    return size if size < 0.9 * len(rows) else None


def suggested_features(
    model: SparseGP, features: HilbertFeatures, X: Float[np.ndarray, "N D"], curvature: Float[np.ndarray, "N P"]
) -> int | None:
    """About how many features on the same box would lose few nats at the model's parameters; None where too many would not."""
    rows = np.linspace(0, len(X) - 1, min(len(X), MOST_ROWS)).astype(int)
    weights = jnp.asarray(np.maximum(curvature[rows], 0.0) * (len(X) / len(rows)))
    for growth in GROWTHS:
        more = features.grown(growth)
        conditional = project_whitened(
            whitening(covariances(model.with_inducing(more))), jnp.zeros((more.num_inducing, weights.shape[1]))
        )
        _, variance = marginals(model.with_inducing(more), conditional, jnp.asarray(X[rows]))
        if 0.5 * float(jnp.sum(weights * variance)) <= 0.5 * FEW_NATS:
            return more.num_inducing
    return None


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
