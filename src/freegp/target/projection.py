"""From inducing variables to the latent functions at the data.

Whatever is said of the inducing values, a Gaussian conditional or a Gaussian approximation, the latents at an input x with
``k = k(Z, x)`` have

    mean = k^T weights          variance = k(x, x) - k^T precision k

so everything of size N needs only the weights and the precision, and everything of size M is done once.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from freegp.inducing import Inputs, rows_of
from freegp.model import SparseGP
from freegp.numerics.linalg import forms, gram, inverse_cholesky


class Projection(eqx.Module):
    """Weights ``[M, P]`` and precision ``[1 or P, M, M]`` (one where the latent functions share it)."""

    weights: Float[Array, "M P"]
    precision: Float[Array, "S M M"]


def covariances(model: SparseGP) -> Float[Array, "K M M"]:
    """Kuu of each distinct kernel, with the jitter on its diagonal."""
    return jnp.stack([_with_jitter(model.placed.Kuu(kernel), model.jitter) for kernel in model.kernels])


def _with_jitter(Kuu: Float[Array, "M M"], jitter: float) -> Float[Array, "M M"]:
    size = Kuu.shape[0]
    return Kuu + jitter * (jnp.trace(Kuu) / size) * jnp.eye(size)


def whitening(Kuu: Float[Array, "K M M"]) -> Float[Array, "K M M"]:
    """R^-1 of each, where R R^T = Kuu."""
    return jax.vmap(inverse_cholesky)(Kuu)


def project_whitened(inverse_factors: Float[Array, "K M M"], whitened: Float[Array, "M P"]) -> Projection:
    """The conditional of the latents given u = R v (paper eq. 8): mean ``Kuf^T R^-T v``, variance what A leaves unexplained."""
    return Projection(unwhiten(inverse_factors, whitened), jax.vmap(gram)(inverse_factors))


def project_gaussian(
    inverse_factors: Float[Array, "K M M"], mean: Float[Array, "M P"], covariance: Float[Array, "P M M"]
) -> Projection:
    """The latents under q(v) = N(mean, covariance): precision ``R^-T (I - S) R^-1``."""
    rest = jnp.eye(mean.shape[0]) - covariance
    precision = jnp.swapaxes(inverse_factors, -1, -2) @ rest @ inverse_factors
    return Projection(unwhiten(inverse_factors, mean), precision)


def unwhiten(inverse_factors: Float[Array, "K M M"], whitened: Float[Array, "M P"]) -> Float[Array, "M P"]:
    """``R^-T v``, the weights of the kernel functions at Z."""
    if inverse_factors.shape[0] == 1:
        return inverse_factors[0].T @ whitened
    return jnp.einsum("pab,ap->bp", inverse_factors, whitened)


def marginals(
    model: SparseGP, projection: Projection, X: Float[Array, "N D"] | Inputs
) -> tuple[Float[Array, "N P"], Float[Array, "N P"]]:
    """Mean and variance of each latent at each input."""
    Kuf = jnp.stack([model.placed.Kuf(kernel, X) for kernel in model.kernels])
    prior = jnp.stack([kernel.diagonal(rows_of(X)) for kernel in model.kernels])
    weights, precision = projection.weights, projection.precision
    if precision.shape[0] == 1:
        mean, explained = forms(weights, precision[0], Kuf[0])
    else:
        of_each = jax.vmap(forms, in_axes=(1, 0, None if Kuf.shape[0] == 1 else 0))
        mean, explained = of_each(weights[:, :, None], precision, Kuf[0] if Kuf.shape[0] == 1 else Kuf)
    variance = jnp.maximum(prior - explained, 0.0)
    shape = (X.shape[0], weights.shape[1])
    return mean.reshape(shape[::-1]).T, jnp.broadcast_to(variance.T, shape)
