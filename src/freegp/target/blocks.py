"""Sums over data, a block at a time: memory is O(M block) and not O(M N), for the value and for its gradient.

A term's gradient is taken block by block, in the same pass as its value, and added up; reverse-mode differentiation of the whole
sum would keep every block's intermediates instead.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from freegp.fields import per_datum_fields
from freegp.likelihoods import Likelihood
from freegp.numerics.distances import FEW_COLUMNS

Term = Callable[[PyTree, PyTree], Float[Array, " block"]]
"""``term(parameters, rows)``: one number for each row of a block."""


def streamed_sum(term: Term, parameters: PyTree, rows: PyTree, block_size: int) -> Float[Array, ""]:
    """Sum of a term over the rows of the data (arrays alike in their first axis); differentiable in the parameters alone."""
    rows = jax.lax.stop_gradient(rows)
    num_rows = jax.tree.leaves(rows)[0].shape[0]
    if num_rows <= block_size:
        return jnp.sum(term(parameters, rows))
    return _sum_blocks(parameters, term, *_cut(rows, num_rows, block_size))


def streamed_map(term: Callable[[PyTree], PyTree], rows: PyTree, block_size: int) -> PyTree:
    """A function of blocks of rows, put together again; for predictions."""
    num_rows = jax.tree.leaves(rows)[0].shape[0]
    if num_rows <= block_size:
        return term(rows)
    blocks, mask = _cut(rows, num_rows, block_size)
    results = jax.lax.map(lambda number: term(_block(blocks, number)), jnp.arange(mask.shape[0]))
    return jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1).reshape(-1, *x.shape[2:])[:num_rows], results)


def per_datum_part(likelihood: Likelihood) -> PyTree:
    """The likelihood with only the fields that hold one number a datum; `eqx.combine` lays it over the whole again."""
    names = per_datum_fields(likelihood)
    spec = jax.tree.map(lambda _: False, likelihood)
    if names:
        spec = eqx.tree_at(lambda s: [getattr(s, name) for name in names], spec, [True] * len(names))
    return eqx.filter(likelihood, spec)


class _Blocks(eqx.Module):
    """An array's rows in blocks: where they lie, ``[size, blocks, ...]``, or each in one piece, ``[blocks, ..., size]``.

    Vector instructions want the latter. It takes no time to lay out few columns so; many are not worth moving.
    """

    values: Array
    is_narrow: bool = eqx.field(static=True)

    def block(self, number: Int[Array, ""]) -> Array:
        """That of this number, ``[size, ...]``."""
        if self.is_narrow:
            return jnp.moveaxis(self.values[number], -1, 0)
        return jax.lax.dynamic_index_in_dim(self.values, number, axis=1, keepdims=False)


def _cut(rows: PyTree, num_rows: int, block_size: int) -> tuple[PyTree, Bool[Array, "blocks block"]]:
    """Rows in equal blocks, filled up with copies of the first row, and a mask that leaves the copies out.

    A block takes every so-manieth row, and so a part of every device's, where the rows are spread over several. Blocks are a
    little smaller where no copies are needed then.
    """
    least = -(-num_rows // block_size)
    even = (count for count in range(least, least + least // 4 + 1) if num_rows % count == 0)
    num_blocks = next(even, least)
    size = -(-num_rows // num_blocks)
    padding = num_blocks * size - num_rows

    def cut(x: Array) -> _Blocks:
        padded = jnp.concatenate([x, jnp.broadcast_to(x[:1], (padding, *x.shape[1:]))]) if padding else x
        values = padded.reshape(size, num_blocks, *x.shape[1:])
        is_narrow = x.ndim == 1 or (x.ndim == 2 and x.shape[1] <= FEW_COLUMNS)
        return _Blocks(jnp.moveaxis(values, 0, -1) if is_narrow else values, is_narrow)

    return jax.tree.map(cut, rows), (jnp.arange(num_blocks * size) < num_rows).reshape(size, num_blocks).T


def _block(blocks: PyTree, number: Int[Array, ""]) -> PyTree:
    """The block of this number."""
    return jax.tree.map(lambda x: x.block(number), blocks, is_leaf=lambda x: isinstance(x, _Blocks))


@eqx.filter_custom_vjp
def _sum_blocks(parameters: PyTree, term: Term, blocks: PyTree, mask: Array) -> Array:
    def add(total: Array, number: Array) -> tuple[Array, None]:
        rows, keep = _block(blocks, number), mask[number]
        return total + jnp.sum(jnp.where(keep, term(parameters, rows), 0.0)), None

    return jax.lax.scan(add, jnp.zeros(()), jnp.arange(mask.shape[0]))[0]


@_sum_blocks.def_fwd
def _sum_blocks_forward(perturbed: PyTree, parameters: PyTree, term: Term, blocks: PyTree, mask: Array) -> tuple[Array, PyTree]:
    moving, still = eqx.partition(parameters, perturbed)

    @jax.value_and_grad
    def block_sum(moving: PyTree, rows: PyTree, keep: Array) -> Array:
        return jnp.sum(jnp.where(keep, term(eqx.combine(moving, still), rows), 0.0))

    def add(carry: Any, number: Array) -> tuple[Any, None]:
        return jax.tree.map(jnp.add, carry, block_sum(moving, _block(blocks, number), mask[number])), None

    start = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, moving))
    value, gradient = jax.lax.scan(add, start, jnp.arange(mask.shape[0]))[0]
    return value, gradient


@_sum_blocks.def_bwd
def _sum_blocks_backward(gradient: PyTree, cotangent: Array, *_: Any) -> PyTree:
    return jax.tree.map(lambda g: cotangent * g, gradient)
