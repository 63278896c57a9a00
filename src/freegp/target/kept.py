"""What given parameters make of the data, kept so that other inducing values cost O(N M) and not O(N M^2)."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from freegp.inducing import Inputs, Waves, lattice_of, rows_of
from freegp.likelihoods import Likelihood
from freegp.model import SparseGP
from freegp.numerics.stacks import Stack, squared_norms, transposed, whitening
from freegp.target.blocks import per_datum_part, streamed_map, streamed_sum
from freegp.target.projection import covariances, for_data, in_double, marginals, project_whitened, to_weights


class Kept(eqx.Module):
    """``R^-1`` and the basis of each distinct kernel, and ``gamma``, what inducing values leave of the prior variance."""

    inverse_factors: Stack
    basis: Float[Array, "N K M"] | Waves
    variance: Float[Array, "N P"]


def keep(model: SparseGP, X: Float[Array, "N D"] | Inputs) -> Kept:
    """What the model's own parameters make of the inputs; O(N M^2), or O(N M) where Kuu is diagonal."""
    inverse_factors = whitening(covariances(model))
    lattice = lattice_of(X)
    if lattice is not None:
        return Kept(inverse_factors, lattice, marginals(model, project_whitened(inverse_factors, _nothing(model)), X)[1])

    def block(X: Float[Array, "B D"] | Inputs) -> tuple[Array, Array]:
        at, factors, X = (for_data(model, part) for part in (model, inverse_factors, X))
        basis = jnp.stack([at.placed.basis(kernel, X) for kernel in at.kernels])
        prior = jnp.stack([kernel.diagonal(rows_of(X)) for kernel in at.kernels])
        (gamma,) = in_double(jnp.maximum(prior - squared_norms(transposed(to_weights(factors)), basis), 0.0))
        return jnp.moveaxis(basis, -1, 0), jnp.broadcast_to(gamma.T, (X.shape[0], model.num_latents))

    return Kept(inverse_factors, *streamed_map(block, X, model.rows_at_once))


def _nothing(model: SparseGP) -> Float[Array, "M P"]:
    return jnp.zeros((model.num_inducing, model.num_latents))


def latent_means(basis: Float[Array, "N K M"] | Waves, weights: Float[Array, "M P"]) -> Float[Array, "N P"]:
    """``mu = B^T weights``, with one basis for all latent functions or one for each."""
    if isinstance(basis, Waves):
        return basis.sum(weights)
    weights = weights.astype(basis.dtype)
    (means,) = in_double(basis[:, 0] @ weights if basis.shape[1] == 1 else jnp.einsum("npm,mp->np", basis, weights))
    return means


def kept_data_term(
    kept: Kept, likelihood: Likelihood, weights: Float[Array, "M P"], y: Float[Array, " N"], block_size: int
) -> Float[Array, ""]:
    """``sum_n E[log p(y_n | f_n)]`` for weights of the basis; it and its gradient in the weights cost O(N M)."""
    if isinstance(kept.basis, Waves):
        return jnp.sum(likelihood.expected_log_prob(latent_means(kept.basis, weights), kept.variance, y))
    rows = (kept.basis, kept.variance, y, per_datum_part(likelihood))
    return streamed_sum(_expected, (likelihood, weights), rows, block_size)


def _expected(parameters: tuple[Likelihood, Float[Array, "M P"]], rows: PyTree) -> Float[Array, " B"]:
    (likelihood, weights), (basis, variance, y, per_datum) = parameters, rows
    return eqx.combine(per_datum, likelihood).expected_log_prob(latent_means(basis, weights), variance, y)
