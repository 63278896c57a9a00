"""What the inducing points of a fit lose, judged as it is from draws.

The parameters are taken to be Gaussian around their estimates, with the curvature of the bound at held sites; the loss is looked
at in a few places as far out as draws would be, which have that Gaussian's mean and covariance.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from freegp.approximation.curvature import parameter_factor
from freegp.approximation.gaussian import Sites, sites_at
from freegp.approximation.problem import Problem
from freegp.numerics.stacks import whitening
from freegp.parameters import to_free
from freegp.sparsity import Sparsity, curvature_and_loss, judge
from freegp.target.projection import covariances, project_gaussian

MOST_DIRECTIONS = 20
"""With more parameters than this only their estimates are looked at, and no shift is found."""


def judged(problem: Problem, sites: Sites, around: bool) -> tuple[Sparsity | None, Float[np.ndarray, "N P"]]:
    """What the points lose, and the mean curvature of each datum; at a model that was fitted, its Z held.

    Without ``around`` the parameters' estimates alone are looked at, which is one pass over the data. None stands for a loss that
    is not a number.
    """
    at = np.asarray(to_free(problem.model))
    places = _places(problem, sites, at) if around and 0 < at.size <= MOST_DIRECTIONS else at[None]
    total, losses = (np.asarray(part) for part in _curvature_and_losses(problem, sites, jnp.asarray(places)))
    fine = np.isfinite(losses)
    if not fine.any():
        return None, total
    curvature = total / fine.sum()
    return judge(problem.model, np.asarray(problem.X), places[fine], losses[fine], curvature), curvature


def _places(problem: Problem, sites: Sites, at: Float[np.ndarray, " T"]) -> Float[np.ndarray, "S T"]:
    """Two places for each parameter, opposite each other, in directions that mix the parameters as draws would."""
    factor = parameter_factor(problem, sites)
    directions = np.linalg.qr(np.random.default_rng(0).normal(size=factor.shape))[0]
    steps = np.sqrt(at.size) * (factor @ directions).T
    return at + np.concatenate([steps, -steps])


@eqx.filter_jit
def _curvature_and_losses(problem: Problem, sites: Sites, places: Float[Array, "S T"]) -> tuple[Array, Array]:
    """Curvature of each datum and latent, summed over the places where the loss is a number, and the loss at each place."""

    def add(total: Array, free: Float[Array, " T"]) -> tuple[Array, Array]:
        model = problem.at(free)
        q = sites_at(model, sites).gaussian()
        inverse_factors = whitening(covariances(model))
        projection = project_gaussian(inverse_factors, q.mean, q.covariance)
        curvature, loss = curvature_and_loss(model, inverse_factors, projection, problem.X, problem.y)
        lost = jnp.sum(loss)
        return total + jnp.where(jnp.isfinite(lost), curvature, 0.0), lost

    return jax.lax.scan(add, jnp.zeros((problem.num_data, problem.model.num_latents)), places)
