"""Matrix functions with hand-written adjoints, built from products rather than triangular solves.

XLA runs a matrix product on the CPU four to six times faster than a triangular solve of the same size, so the inverse factor
is formed once, in O(M^3), and multiplied. Plain reverse-mode references stand beside these in the tests.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from freegp.numerics.sums import column_sums

LARGE = 80
"""The size from which on it pays to invert a triangular matrix by quarters."""
MANY_ROWS = 200
"""The size from which on it pays to make a symmetric product from its quarters."""
LARGE_SQUARE = 300
"""The same where there are no data, and so as many columns as rows."""
ROWS_OF_TRIANGLE = 16
"""How many rows are taken together where a triangle of low rank meets a matrix."""


def symmetrize(matrix: Float[Array, "*batch M M"]) -> Float[Array, "*batch M M"]:
    """The symmetric part of a matrix."""
    return 0.5 * (matrix + jnp.swapaxes(matrix, -1, -2))


def turned(matrix: Float[Array, "*batch M N"]) -> Float[Array, "*batch N M"]:
    """The transpose, laid out anew: XLA's products on the CPU take twice as long where they must read the left factor across."""
    return jax.lax.optimization_barrier(jnp.swapaxes(matrix, -1, -2))


@jax.custom_vjp
def raise_diagonal(matrix: Float[Array, "M M"], amount: Float[Array, ""]) -> Float[Array, "M M"]:
    """The matrix with a number added along its diagonal; the slope in the number reads the diagonal alone."""
    return matrix + amount * jnp.eye(matrix.shape[0], dtype=matrix.dtype)


raise_diagonal.defvjp(
    lambda matrix, amount: (raise_diagonal(matrix, amount), None),
    lambda _, cotangent: (cotangent, jnp.sum(jnp.diagonal(cotangent))),
)


def lower_half(matrix: Float[Array, "M M"]) -> Float[Array, "M M"]:
    """Lower triangle with the diagonal halved: the Phi of Cholesky's adjoint."""
    size = matrix.shape[-1]
    return matrix * (jnp.tri(size) - 0.5 * jnp.eye(size))


@jax.custom_vjp
def inverse_cholesky(matrix: Float[Array, "M M"]) -> Float[Array, "M M"]:
    """R^-1, lower triangular, where R R^T is the given symmetric positive-definite matrix.

    The result is NaN where the matrix is not positive definite. Its adjoint: with ``X = R^-1``,
    ``dK = sym(X^T Phi(-dX X^T) X)``.
    """
    return _inverse_of_lower(jax.lax.linalg.cholesky(matrix, symmetrize_input=False))


def _inverse_of_lower(factor: Float[Array, "M M"]) -> Float[Array, "M M"]:
    """Of a triangular matrix; of a large one from its quarters, ``[[A, 0], [-C B A, C]]`` with A and C inverses themselves."""
    size = factor.shape[-1]
    if size < LARGE:
        return solve_triangular(factor, np.eye(size, dtype=factor.dtype), lower=True)  # NumPy's is part of the program
    half = size // 2
    first, last = _inverse_of_lower(factor[:half, :half]), _inverse_of_lower(factor[half:, half:])
    below = -last @ (factor[half:, :half] @ first)
    return jnp.concatenate([jnp.pad(first, ((0, 0), (0, size - half))), jnp.concatenate([below, last], axis=1)])


def _inverse_cholesky_forward(matrix: Array) -> tuple[Array, Array]:
    inverse = inverse_cholesky(matrix)
    return inverse, inverse


def _inverse_cholesky_backward(inverse: Array, cotangent: Array) -> tuple[Array]:
    middle = lower_half(-cotangent @ inverse.T)
    return (symmetrize(turned(inverse) @ (middle @ inverse)),)


def _lower_half_times(a: Float[Array, "M P"], b: Float[Array, "M P"], matrix: Float[Array, "M K"]) -> Float[Array, "M K"]:
    """``Phi(a b^T) X`` for a large X, in O(M^2 P) where the product itself would take O(M^3).

    A few rows at a time: what the rows before them give is a times a running sum of ``b^T X``, and only among themselves is the
    triangle written out.
    """
    size = matrix.shape[0]
    if size < LARGE:
        return lower_half(a @ b.T) @ matrix
    blocks = (jnp.pad(x, ((0, -size % ROWS_OF_TRIANGLE), (0, 0))) for x in (a, b, matrix))
    a, b, rows = (x.reshape(-1, ROWS_OF_TRIANGLE, x.shape[1]) for x in blocks)
    among = jax.vmap(lambda a, b: lower_half(a @ b.T))(a, b)
    sums = jnp.swapaxes(b, 1, 2) @ rows
    before = jnp.tensordot(np.tri(len(sums), k=-1), sums, 1)
    return (among @ rows + a @ before).reshape(-1, matrix.shape[1])[:size]


def _gram_of_lower(lower: Float[Array, "M M"], upper: Float[Array, "M M"]) -> Float[Array, "M M"]:
    """``X^T X`` of a triangular X, given ``X^T`` too; of a large one in half of the work, since a quarter of X is zero."""
    size = upper.shape[-1]
    if size < LARGE_SQUARE:
        return upper @ lower
    half = size // 2
    first, last = upper[:half] @ upper[:half].T, upper[half:, half:] @ upper[:, half:].T
    return jnp.concatenate([jnp.concatenate([first, last[:, :half].T], axis=1), last])


inverse_cholesky.defvjp(_inverse_cholesky_forward, _inverse_cholesky_backward)


@jax.custom_vjp
def gram(matrix: Float[Array, "M M"]) -> Float[Array, "M M"]:
    """``X^T X``, with one product in the gradient too, where automatic differentiation would spend two."""
    upper = turned(matrix)
    return upper @ upper.T


def _gram_forward(matrix: Array) -> tuple[Array, Array]:
    return gram(matrix), matrix


def _gram_backward(matrix: Array, cotangent: Array) -> tuple[Array]:
    return (matrix @ (cotangent + cotangent.T),)


gram.defvjp(_gram_forward, _gram_backward)


@jax.custom_vjp
def forms(
    weights: Float[Array, "M P"], matrix: Float[Array, "M M"], columns: Float[Array, "M N"]
) -> tuple[Float[Array, "P N"], Float[Array, " N"]]:
    """``W^T k`` and ``k^T B k`` for each column k and a symmetric B, with one product in the value and one in the gradient.

    Automatic differentiation would spend two and four, since it does not know that B is symmetric.
    """
    return _forms_forward(weights, matrix, columns)[0]


def _forms_forward(weights: Array, matrix: Array, columns: Array) -> tuple[tuple[Array, Array], tuple[Array, Array, Array]]:
    product = matrix @ columns
    return (weights.T @ columns, column_sums(columns * product)), (weights, columns, product)


def _forms_backward(residuals: tuple[Array, Array, Array], cotangents: tuple[Array, Array]) -> tuple[Array, Array, Array]:
    of_weights, of_columns = _slopes(residuals, cotangents)
    return of_weights, _weighted_gram(residuals[1], cotangents[1]), of_columns


def _slopes(residuals: tuple[Array, Array, Array], cotangents: tuple[Array, Array]) -> tuple[Array, Array]:
    """In the weights and the columns."""
    weights, columns, product = residuals
    of_linear, of_quadratic = cotangents
    return columns @ of_linear.T, 2.0 * product * of_quadratic + weights @ of_linear


def _weighted_gram(columns: Array, weights: Array) -> Array:
    """``K C K^T`` for a diagonal C; of a large one three of the four quarters, and the last by symmetry."""
    size, weighted = columns.shape[0], columns * weights
    if size < MANY_ROWS:
        return weighted @ columns.T
    half = size // 2
    upper, lower = weighted[:half] @ columns[:half].T, weighted[half:] @ columns.T
    return jnp.concatenate([jnp.concatenate([upper, lower[:, :half].T], axis=1), lower])


forms.defvjp(_forms_forward, _forms_backward)


@jax.custom_vjp
def inverse_forms(
    weights: Float[Array, "M P"], matrix: Float[Array, "M M"], inverse: Float[Array, "M M"], columns: Float[Array, "M N"]
) -> tuple[Float[Array, "P N"], Float[Array, " N"]]:
    """``W^T k`` and ``k^T B^-1 k`` for each column k and a symmetric B whose inverse is known.

    Slopes pass the inverse by and go to B itself, ``dB = -(B^-1 K) C (B^-1 K)^T``, which spares the two products that would
    take them there from the inverse: ``B^-1 K`` is known from the value.
    """
    return _forms_forward(weights, inverse, columns)[0]


def _inverse_forms_forward(
    weights: Array, matrix: Array, inverse: Array, columns: Array
) -> tuple[tuple[Array, Array], tuple[Array, Array, Array]]:
    return _forms_forward(weights, inverse, columns)


def _inverse_forms_backward(
    residuals: tuple[Array, Array, Array], cotangents: tuple[Array, Array]
) -> tuple[Array, Array, None, Array]:
    of_weights, of_columns = _slopes(residuals, cotangents)
    return of_weights, _weighted_gram(residuals[2], -cotangents[1]), None, of_columns


inverse_forms.defvjp(_inverse_forms_forward, _inverse_forms_backward)


@jax.custom_vjp
def inverse_and_weights(
    matrix: Float[Array, "M M"], whitened: Float[Array, "M P"]
) -> tuple[Float[Array, "M M"], Float[Array, "M P"]]:
    """``K^-1``, through which no slope passes (see `inverse_forms`), and ``R^-T v`` where R R^T = K.

    With ``X = R^-1``, ``c = X dw``: ``dv = c`` and ``dK = sym(X^T Phi(-v c^T) X)``.
    """
    return _inverse_and_weights_forward(matrix, whitened)[0]


def _inverse_and_weights_forward(matrix: Array, whitened: Array) -> tuple[tuple[Array, Array], tuple[Array, Array, Array]]:
    inverse = inverse_cholesky(matrix)
    upper = turned(inverse)
    return (_gram_of_lower(inverse, upper), upper @ whitened), (inverse, upper, whitened)


def _inverse_and_weights_backward(residuals: tuple[Array, Array, Array], cotangents: tuple[Array, Array]) -> tuple[Array, Array]:
    inverse, upper, whitened = residuals
    c = inverse @ cotangents[1]
    return symmetrize(upper @ _lower_half_times(-whitened, c, inverse)), c


inverse_and_weights.defvjp(_inverse_and_weights_forward, _inverse_and_weights_backward)


@jax.custom_vjp
def inverse_and_log_determinant(matrix: Float[Array, "M M"]) -> tuple[Float[Array, "M M"], Float[Array, ""]]:
    """``K^-1`` and ``log |K|`` of a symmetric positive-definite matrix; NaN where it is not.

    The adjoint needs no factor: ``dK = -K^-1 dP K^-1 + dl K^-1``.
    """
    factor_inverse = inverse_cholesky(matrix)
    return _gram_of_lower(factor_inverse, turned(factor_inverse)), -2.0 * jnp.sum(jnp.log(jnp.diag(factor_inverse)))


def _inverse_and_log_determinant_forward(matrix: Array) -> tuple[tuple[Array, Array], Array]:
    inverse, log_determinant = inverse_and_log_determinant(matrix)
    return (inverse, log_determinant), inverse


def _inverse_and_log_determinant_backward(inverse: Array, cotangents: tuple[Array, Array]) -> tuple[Array]:
    of_inverse, of_log_determinant = cotangents
    return (of_log_determinant * inverse - inverse @ symmetrize(of_inverse) @ inverse,)


inverse_and_log_determinant.defvjp(_inverse_and_log_determinant_forward, _inverse_and_log_determinant_backward)


@jax.custom_vjp
def from_standard(
    precision: Float[Array, "M M"], linear: Float[Array, " M"], z: Float[Array, " M"]
) -> tuple[Float[Array, " M"], Float[Array, ""]]:
    """A draw of the Gaussian ``exp(h^T u - u^T H u / 2)`` from a standard one z, and log |H|.

    ``u = L^-T (L^-1 h + z)`` with L L^T = H. Its adjoint, with ``a = L^-1 h + z`` and ``c = L^-1 du``: ``dz = c``,
    ``dh = L^-T c`` and ``dH = sym(L^-T [Phi(-a c^T - c (L^-1 h)^T) + dl I] L^-1)``.
    """
    return _from_standard_forward(precision, linear, z)[0]


def _from_standard_forward(precision: Array, linear: Array, z: Array) -> tuple[tuple[Array, Array], tuple[Array, Array, Array]]:
    inverse = inverse_cholesky(precision)
    shift = inverse @ linear
    value = turned(inverse) @ (shift + z), -2.0 * jnp.sum(jnp.log(jnp.diag(inverse)))
    return value, (inverse, shift, z)


def _from_standard_backward(residuals: tuple[Array, Array, Array], cotangents: tuple[Array, Array]) -> tuple[Array, Array, Array]:
    inverse, shift, z = residuals
    of_value, of_log_determinant = cotangents
    c = inverse @ of_value
    left, right = (jnp.stack(columns, axis=1) for columns in ((shift + z, c), (c, shift)))
    upper = turned(inverse)
    of_precision = upper @ (_lower_half_times(-left, right, inverse) + of_log_determinant * inverse)
    return symmetrize(of_precision), upper @ c, c


from_standard.defvjp(_from_standard_forward, _from_standard_backward)
