"""Matrices of a dense block and a diagonal after it: what is left of a large matrix whose later rows hardly mix."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from freegp.numerics.linalg import from_standard, inverse_cholesky
from freegp.numerics.stacks import Stack, is_diagonal, times


class Blocks(eqx.Module):
    """C such matrices, symmetric or lower triangular; the diagonal may be empty."""

    block: Float[Array, "C m m"]
    diagonal: Float[Array, "C n"]

    @property
    def size(self) -> int:
        """Of the dense block."""
        return self.block.shape[-1]

    def scaled(self, factor: Float[Array, ""]) -> "Blocks":
        """Times a number."""
        return Blocks(factor * self.block, factor * self.diagonal)

    def plus(self, stack: Stack) -> "Blocks":
        """With the matrices of a stack added, of which nothing may lie outside the block and the diagonal."""
        if is_diagonal(stack):
            return Blocks(self.block + jax.vmap(jnp.diag)(stack[:, : self.size]), self.diagonal + stack[:, self.size :])
        return Blocks(self.block + stack, self.diagonal)

    def times(self, columns: Float[Array, "M C"]) -> Float[Array, "M C"]:
        """Each applied to its column."""
        return self._apply(self.block, columns)

    def transposed_times(self, columns: Float[Array, "M C"]) -> Float[Array, "M C"]:
        """The transpose of each applied to its column."""
        return self._apply(jnp.swapaxes(self.block, -1, -2), columns)

    def _apply(self, block: Float[Array, "C m m"], columns: Float[Array, "M C"]) -> Float[Array, "M C"]:
        return jnp.concatenate([times(block, columns[: self.size]), self.diagonal.T * columns[self.size :]])

    def cholesky(self) -> "Blocks":
        """L of each, ``L L^T`` being the symmetric matrix."""
        return Blocks(jnp.linalg.cholesky(self.block), jnp.sqrt(self.diagonal))

    def inverse_cholesky(self) -> "Blocks":
        """L^-1 of each."""
        return Blocks(jax.vmap(inverse_cholesky)(self.block), jax.lax.rsqrt(self.diagonal))

    def solve_lower(self, columns: Float[Array, "M C"]) -> Float[Array, "M C"]:
        """L^-1 times the column of each, the matrices being lower triangular."""
        solve = jax.vmap(lambda factor, column: solve_triangular(factor, column, lower=True), in_axes=(0, 1), out_axes=1)
        return jnp.concatenate([solve(self.block, columns[: self.size]), columns[self.size :] / self.diagonal.T])

    def log_determinant(self) -> Float[Array, " C"]:
        """Of each, the matrices being triangular."""
        dense = jnp.sum(jnp.log(jnp.diagonal(self.block, axis1=-2, axis2=-1)), axis=-1)
        return dense + jnp.sum(jnp.log(self.diagonal), axis=-1)

    def from_standard(
        self, linear: Float[Array, "M C"], z: Float[Array, "M C"]
    ) -> tuple[Float[Array, "M C"], Float[Array, " C"]]:
        """Draws of the Gaussians with these precisions and linear terms from standard ones, and ``log |H|``."""
        columns = (part[: self.size] for part in (linear, z))
        dense, log_determinants = jax.vmap(from_standard, in_axes=(0, 1, 1), out_axes=(1, 0))(self.block, *columns)
        deviation = jax.lax.rsqrt(self.diagonal).T
        rest = deviation * (deviation * linear[self.size :] + z[self.size :])
        return jnp.concatenate([dense, rest]), log_determinants + jnp.sum(jnp.log(self.diagonal), axis=-1)


def blocks_of(matrices: Float[Array, "C M M"], size: int) -> Blocks:
    """The first rows and columns as they are, and of the rest the diagonal."""
    return Blocks(matrices[:, :size, :size], jnp.diagonal(matrices, axis1=-2, axis2=-1)[:, size:])
