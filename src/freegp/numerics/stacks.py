"""Stacks of symmetric or triangular matrices ``[K, M, M]``, or of the diagonals ``[K, M]`` of diagonal ones.

There is one matrix for all latent functions, or one for each. Inducing points have matrices; features that are independent of
each other have diagonals, with which everything costs O(M) that costs O(M^2) or O(M^3) with a matrix.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from freegp.numerics import linalg

Stack = Float[Array, "K M M"] | Float[Array, "K M"]


def is_diagonal(stack: Stack) -> bool:
    """Whether it holds diagonals."""
    return stack.ndim == 2


def whitening(stack: Stack) -> Stack:
    """R^-1 of each, where R R^T is the given one."""
    return jax.lax.rsqrt(stack) if is_diagonal(stack) else jax.vmap(linalg.inverse_cholesky)(stack)


def gram(stack: Stack) -> Stack:
    """``A^T A`` of each."""
    return jnp.square(stack) if is_diagonal(stack) else jax.vmap(linalg.gram)(stack)


def inverse_and_log_determinant(stack: Stack) -> tuple[Stack, Float[Array, " K"]]:
    """Of each."""
    if is_diagonal(stack):
        return 1.0 / stack, jnp.sum(jnp.log(stack), axis=1)
    inverse, log_determinant = jax.vmap(linalg.inverse_and_log_determinant)(stack)
    return inverse, log_determinant


def log_determinant(stack: Stack) -> Float[Array, " K"]:
    """Of each, the matrices being triangular."""
    diagonals = stack if is_diagonal(stack) else jnp.diagonal(stack, axis1=-2, axis2=-1)
    return jnp.sum(jnp.log(diagonals), axis=-1)


def transposed(stack: Stack) -> Stack:
    """Each of them."""
    return stack if is_diagonal(stack) else linalg.turned(stack)


def product(one: Stack, two: Stack) -> Stack:
    """Of each with its fellow, of the same kind."""
    return one * two if is_diagonal(one) else one @ two


def times(stack: Stack, columns: Float[Array, "M C"]) -> Float[Array, "M C"]:
    """The one for all columns, or the one of each, applied to them."""
    if is_diagonal(stack):
        return stack.T * columns
    return stack[0] @ columns if stack.shape[0] == 1 else jnp.einsum("cab,bc->ac", stack, columns)


def around(stack: Stack, matrices: Float[Array, "P M M"]) -> Float[Array, "P M M"]:
    """``A S A^T``."""
    if is_diagonal(stack):
        return stack[:, :, None] * matrices * stack[:, None, :]
    return stack @ matrices @ jnp.swapaxes(stack, -1, -2)


def plus(stack: Stack, matrices: Float[Array, "P M M"]) -> Float[Array, "P M M"]:
    """Their sum with matrices."""
    return (jax.vmap(jnp.diag)(stack) if is_diagonal(stack) else stack) + matrices


def squared_norms(stack: Stack, columns: Float[Array, "K M N"]) -> Float[Array, "K N"]:
    """``|A c|^2`` of the columns that belong to each."""
    if is_diagonal(stack):
        return jnp.einsum("km,kmn->kn", jnp.square(stack), jnp.square(columns))
    return jnp.sum(jnp.square(stack @ columns), axis=1)
