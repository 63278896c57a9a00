"""The log density of whitened inducing values v and parameters theta (paper eq. 7)."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PyTree

from freegp.fields import is_traced
from freegp.inducing import Inducing, Inputs, lattice_of
from freegp.model import SparseGP
from freegp.parameters import from_free, log_jacobian, log_prior
from freegp.target.blocks import per_datum_part, streamed_sum
from freegp.target.projection import Projection, covariances, marginals, project_prior
from freegp.validation import check_inputs, check_targets, check_whitened


def expected_log_likelihood(model: SparseGP, X: ArrayLike, y: ArrayLike, whitened: ArrayLike) -> Float[Array, ""]:
    """``sum_n E[log p(y_n | f_n)]`` with f_n ~ N(mu_n, gamma_n) given u = R v, at the model's own parameter values.

    It can be traced: `jax.jit`, and `jax.grad` in the whitened values, the parameters and the inducing inputs. It is not
    differentiable in X and y.
    """
    if not is_traced(X) and not is_traced(y):
        X = check_inputs(X)
        y = check_targets(y, X.shape[0])
        model.likelihood.check_targets(y)
        model = model if isinstance(model.inducing, Inducing) else model.prepared(X)
    whitened = check_whitened(model, whitened)
    return _expected_log_likelihood(model, jnp.asarray(X), jnp.asarray(y), whitened)


@eqx.filter_jit
def _expected_log_likelihood(model: SparseGP, X: Array, y: Array, whitened: Array) -> Array:
    return data_term(model, project_prior(covariances(model), whitened), X, y)


def data_term(
    model: SparseGP, projection: Projection, X: Float[Array, "N D"] | Inputs, y: Float[Array, " N"], concave: bool = False
) -> Float[Array, ""]:
    """The expected log likelihood under any projection of the inducing variables, streamed over the data.

    With ``concave`` its slopes in the variances are zero where they would be positive, as they never are for a log-concave
    likelihood.
    """

    def term(parameters: tuple[SparseGP, Projection], rows: PyTree) -> Array:
        block_model, block_projection = parameters
        X_block, y_block, per_datum_block = rows
        mean, variance = marginals(block_model, block_projection, X_block)
        variance = _never_gaining(variance) if concave else variance
        likelihood = eqx.combine(per_datum_block, block_model.likelihood)
        return likelihood.expected_log_prob(mean, variance, y_block)

    rows = (X, y, per_datum_part(model.likelihood))
    whole = lattice_of(X) is not None
    return streamed_sum(term, (model, projection), rows, X.shape[0] if whole else model.rows_at_once)


@jax.custom_vjp
def _never_gaining(variance: Float[Array, "B P"]) -> Float[Array, "B P"]:
    """The variance itself, through which no positive slope passes."""
    return variance


_never_gaining.defvjp(lambda variance: (variance, None), lambda _, slope: (jnp.minimum(slope, 0.0),))


def log_density(
    model: SparseGP,
    X: Float[Array, "N D"] | Inputs,
    y: Float[Array, " N"],
    free: Float[Array, " T"],
    whitened: Float[Array, "M P"],
) -> Float[Array, ""]:
    """``log q(v, theta)`` up to a constant, for theta in free coordinates and a prepared model.

    Where there are many columns and one lengthscale, ``model.with_known(X)`` in the place of X spares the work on them.
    """
    at = from_free(model, free)
    data = data_term(at, project_prior(covariances(at), whitened), X, y)
    prior_v = -0.5 * jnp.sum(jnp.square(whitened)) - 0.5 * whitened.size * jnp.log(2.0 * jnp.pi)
    return data + prior_v + log_prior(model, free) + log_jacobian(model, free)
