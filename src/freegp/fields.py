"""How kernels and likelihoods declare what they are made of.

A parameter is a field with a constraint; everything that needs to know of parameters (priors, free coordinates, saving) reads
the declaration from the class.
"""

from collections.abc import Iterator
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike
from numpyro.distributions import constraints
from numpyro.distributions.constraints import Constraint

from freegp.saving import registered

positive = constraints.positive
unit_interval = constraints.unit_interval
real = constraints.real
ordered = constraints.ordered_vector

_WORDS = ((positive, "positive"), (unit_interval, "between 0 and 1"), (ordered, "increasing"), (real, "finite"))


MOST_SHOWN = 10
"""Numbers of an array that are written out."""

Value: TypeAlias = Any
"""The type of a parameter: a number or an array when it is given, a float64 array once it is stored."""


def as_float(value: ArrayLike) -> Array:
    """A float64 array; traced values pass through."""
    return jnp.asarray(value, dtype=jnp.float64)


def parameter(constraint: Constraint, *, held: bool = False, **kwargs: Any) -> Any:
    """A field that can have a prior. A held one keeps its value unless a prior is given for it."""
    return eqx.field(converter=as_float, metadata={"constraint": constraint, "held": held}, **kwargs)


def per_datum(**kwargs: Any) -> Any:
    """A known number for all data or one for each, cut into blocks along with the data."""
    return eqx.field(converter=as_float, metadata={"per_datum": True}, **kwargs)


def is_traced(value: Any) -> bool:
    """Whether the value is being traced by JAX, so that it has a shape but no numbers yet."""
    return isinstance(value, jax.core.Tracer)


def declared_parameters(module: eqx.Module) -> Iterator[tuple[str, Constraint, bool]]:
    """Name, constraint and heldness of each parameter of this module, not of those within it."""
    for name, field in module.__dataclass_fields__.items():
        if "constraint" in field.metadata:
            yield name, field.metadata["constraint"], field.metadata["held"]


def per_datum_fields(module: eqx.Module) -> tuple[str, ...]:
    """Names of the fields that hold one number a datum."""
    fields = module.__dataclass_fields__.items()
    return tuple(name for name, field in fields if field.metadata.get("per_datum") and getattr(module, name).ndim == 1)


class Declared(eqx.Module):
    """A module that checks its parameters against their constraints when it is made, and can be saved."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        registered(cls)

    def __repr__(self) -> str:
        values = ((name, getattr(self, name)) for name in self.__dataclass_fields__)
        return f"{type(self).__name__}({', '.join(f'{name}={_shown(value)}' for name, value in values if value is not None)})"

    def __check_init__(self) -> None:
        for name, constraint, _ in declared_parameters(self):
            value = getattr(self, name)
            if is_traced(value) or not isinstance(value, jax.Array | np.ndarray):
                continue
            if not bool(jnp.all(jnp.isfinite(value)) & jnp.all(constraint(value))):
                word = next(word for known, word in _WORDS if known is constraint)
                raise ValueError(f"{type(self).__name__}: {name} must be {word}, but is {np.asarray(value).tolist()}")


def _shown(value: Any) -> str:
    """A value as one would type it; of a long array its shape."""
    if is_traced(value) or not isinstance(value, jax.Array | np.ndarray):
        return repr(value)
    if value.size > MOST_SHOWN:
        return f"array of shape {value.shape}"
    numbers = [f"{number:.6g}" for number in np.asarray(value).ravel().tolist()]
    return numbers[0] if value.ndim == 0 else f"[{', '.join(numbers)}]"
