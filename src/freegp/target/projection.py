"""From inducing variables to the latent functions at the data.

Whatever is said of the inducing values, a Gaussian conditional or a Gaussian approximation, the latents at an input x, where the
basis is ``b`` (``k(Z, x)`` of points, ``phi(x)`` of features), have

    mean = b^T weights          variance = k(x, x) - b^T precision b

so everything of size N needs only the weights and the precision, and everything of size M is done once.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from freegp.inducing import Inducing, Inputs, lattice_of, rows_of
from freegp.kernels import Kernel
from freegp.model import SparseGP
from freegp.numerics.linalg import forms, inverse_and_weights, inverse_forms, raise_diagonal
from freegp.numerics.stacks import Stack, around, gram, is_diagonal, times, transposed, whitening


class Projection(eqx.Module):
    """Weights ``[M, P]`` and precisions, matrices or diagonals (one where the latent functions share it).

    Where there is an ``inverse_of``, the precision is its inverse, and slopes go to it and not to the precision.
    """

    weights: Float[Array, "M P"]
    precision: Stack
    inverse_of: Stack | None = None


def for_data(model: SparseGP, tree: PyTree) -> PyTree:
    """Anything in the precision in which the model works on data."""
    if not model.single_precision:
        return tree
    return jax.tree.map(lambda x: x.astype(jnp.float32) if eqx.is_inexact_array(x) else x, tree)


def in_double(*arrays: Array) -> tuple[Array, ...]:
    """Arrays in 64-bit numbers."""
    return tuple(array.astype(jnp.float64) for array in arrays)


def covariances(model: SparseGP) -> Stack:
    """Kuu of each distinct kernel, with the jitter on its diagonal where it is a matrix."""
    return jnp.stack([_with_jitter(model.placed, kernel, model.jitter) for kernel in model.kernels])


def _with_jitter(inducing: Inducing, kernel: Kernel, jitter: float) -> Float[Array, "M M"] | Float[Array, " M"]:
    scale, kernel = inducing.without_scale(kernel)
    Kuu = inducing.Kuu(kernel)
    if Kuu.ndim == 1:
        return Kuu
    return scale * raise_diagonal(Kuu, jitter * jnp.mean(inducing.variances(kernel)))


def project_whitened(inverse_factors: Stack, whitened: Float[Array, "M P"]) -> Projection:
    """The conditional of the latents given u = R v (paper eq. 8): mean ``Kuf^T R^-T v``, variance what A leaves unexplained."""
    return Projection(unwhiten(inverse_factors, whitened), gram(transposed(to_weights(inverse_factors))))


def project_prior(Kuu: Stack, whitened: Float[Array, "M P"]) -> Projection:
    """The same from Kuu, with the cheapest slopes in it."""
    if is_diagonal(Kuu):
        return project_whitened(whitening(Kuu), whitened)
    if Kuu.shape[0] == 1:
        precision, weights = inverse_and_weights(Kuu[0], whitened)
        return Projection(weights, precision[None], Kuu)
    precision, weights = jax.vmap(inverse_and_weights, in_axes=(0, 1), out_axes=(0, 1))(Kuu, whitened[:, :, None])
    return Projection(weights[:, :, 0], precision, Kuu)


def project_gaussian(inverse_factors: Stack, mean: Float[Array, "M P"], covariance: Float[Array, "P M M"]) -> Projection:
    """The latents under q(v) = N(mean, covariance): precision ``R^-T (I - S) R^-1``."""
    rest = jnp.eye(mean.shape[0]) - covariance
    return Projection(unwhiten(inverse_factors, mean), around(to_weights(inverse_factors), rest))


def to_weights(inverse_factors: Stack) -> Stack:
    """What takes v to the weights of the basis: ``R^-T`` of points; of features, whose weights are u itself, R."""
    return 1.0 / inverse_factors if is_diagonal(inverse_factors) else transposed(inverse_factors)


def unwhiten(inverse_factors: Stack, whitened: Float[Array, "M P"]) -> Float[Array, "M P"]:
    """The weights of the basis where the whitened values are v."""
    return times(to_weights(inverse_factors), whitened)


def in_basis(projection: Projection, Kuu: Stack) -> Projection:
    """A projection for Kuf, as one for the basis: the same for points; of features, ``Kuf = Kuu phi``."""
    if not is_diagonal(Kuu):
        return projection
    weights, precision = projection.weights, projection.precision
    return Projection(times(Kuu, weights), jnp.square(Kuu) * precision if is_diagonal(precision) else around(Kuu, precision))


def conditional(
    model: SparseGP, kernel: Kernel, inverse_factor: Float[Array, "M M"] | Float[Array, " M"], X: Float[Array, "N D"]
) -> tuple[Float[Array, "M N"], Float[Array, "N N"]]:
    """``A = R^-1 Kuf``, and the covariance that inducing values leave, with the model's jitter so that it has a factor.

    Without it that would be singular where X meets Z. Features make the kernel but nearly, and may explain more than there is.
    """
    A, K = times(inverse_factor[None], model.placed.Kuf(kernel, X)), kernel(X)
    rest = K - A.T @ A
    if inverse_factor.ndim == 1:
        values, vectors = jnp.linalg.eigh(rest)
        rest = (vectors * jnp.maximum(values, 0.0)) @ vectors.T
    return A, rest + model.jitter * jnp.mean(jnp.diag(K)) * jnp.eye(K.shape[0])


def marginals(
    model: SparseGP, projection: Projection, X: Float[Array, "N D"] | Inputs
) -> tuple[Float[Array, "N P"], Float[Array, "N P"]]:
    """Mean and variance of each latent at each input."""
    model, projection, X = (for_data(model, part) for part in (model, projection, X))
    scales, kernels = zip(*(model.placed.without_scale(kernel) for kernel in model.kernels), strict=True)
    prior = jnp.stack([kernel.diagonal(rows_of(X)) for kernel in kernels])
    weights, precision, inverse_of = projection.weights, projection.precision, projection.inverse_of
    lattice = lattice_of(X)
    if lattice is not None and is_diagonal(precision):
        variance = jnp.maximum(prior - lattice.sum_of_squares(precision.T).T, 0.0)
        mean, variance = in_double(lattice.sum(weights), variance)
        return mean, jnp.broadcast_to(variance.T, mean.shape)
    basis = jnp.stack([model.placed.basis(kernel, X) for kernel in kernels])
    if is_diagonal(precision):
        mean = weights.T @ basis[0] if basis.shape[0] == 1 else jnp.einsum("mp,pmn->pn", weights, basis)
        explained = jnp.einsum("km,kmn->kn", precision, jnp.square(basis))
    elif precision.shape[0] == 1:
        mean, explained = _forms(weights, precision[0], None if inverse_of is None else inverse_of[0], basis[0])
    else:
        of_each = jax.vmap(_forms, in_axes=(1, 0, 0, None if basis.shape[0] == 1 else 0))
        mean, explained = of_each(weights[:, :, None], precision, inverse_of, basis[0] if basis.shape[0] == 1 else basis)
    scale = jnp.broadcast_to(jnp.stack(scales).astype(prior.dtype)[:, None], prior.shape)  # one sum over the data in its gradient
    variance = scale * jnp.maximum(prior - scale * explained, 0.0)
    mean, variance = in_double(scale * mean.reshape(-1, X.shape[0]), variance)
    return mean.T, jnp.broadcast_to(variance.T, mean.T.shape)


def _forms(weights: Array, precision: Array, inverse_of: Array | None, basis: Array) -> tuple[Array, Array]:
    if inverse_of is None:
        return forms(weights, precision, basis)
    return inverse_forms(weights, inverse_of, precision, basis)
