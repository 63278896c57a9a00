"""Parameters by name, and the free coordinates in which they are moved.

A parameter's name is its path in the model: ``kernel.lengthscales``, ``kernel.members.1.variance``, ``likelihood.scale``. What
there is to know of it is declared by its class and by the model's ``priors`` and ``fixed``, so the functions here read a
model and need no other state. Free coordinates are unconstrained: logarithms of positive parameters, logits of bounded ones.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpyro.distributions import biject_to, constraints
from numpyro.distributions.constraints import Constraint
from numpyro.distributions.transforms import Transform

from freegp import priors
from freegp.fields import declared_parameters, ordered, positive, real, unit_interval
from freegp.priors import Prior


class HasParameters(Protocol):
    """What these functions need of a model."""

    @property
    def kernel(self) -> Any: ...  # noqa: D102
    @property
    def likelihood(self) -> Any: ...  # noqa: D102
    @property
    def priors(self) -> tuple[tuple[str, Prior], ...]: ...  # noqa: D102
    @property
    def fixed(self) -> tuple[str, ...]: ...  # noqa: D102


@dataclass(frozen=True)
class Parameter:
    """One parameter: where it is, what values it takes, what is believed of it (nothing, if it is fixed)."""

    path: str
    shape: tuple[int, ...]
    constraint: Constraint
    prior: Prior | None

    @property
    def size(self) -> int:
        """Number of entries."""
        return int(np.prod(self.shape))

    def transform(self) -> Transform:
        """From free to natural. A prior narrower than the constraint (Uniform, say) sets the bounds."""
        if self.prior is None or self.prior.support is constraints.real or self.constraint is ordered:
            return biject_to(self.constraint)
        return biject_to(self.prior.support)


def all_parameters(model: HasParameters) -> tuple[Parameter, ...]:
    """Every parameter of the model in a fixed order; those held at their value have no prior."""
    given = dict(model.priors)
    found = []
    for path, module, name, constraint, held in _walk(model):
        value = getattr(module, name)
        full = f"{path}.{name}"
        prior = given.get(full)
        if _is_fixed(full, model.fixed) or (held and prior is None):
            prior = None
        elif prior is None:
            prior = _default_prior(constraint, np.asarray(value))
        found.append(Parameter(full, value.shape, constraint, prior))
    return tuple(found)


def free_parameters(model: HasParameters) -> tuple[Parameter, ...]:
    """The parameters that are inferred."""
    return tuple(p for p in all_parameters(model) if p.prior is not None)


def get_value(model: HasParameters, path: str) -> Array:
    """The value at a path, in natural units."""
    node: Any = model
    for step in path.split("."):
        node = node[int(step)] if step.isdigit() else getattr(node, step)
    return node


def with_values(model: Any, values: dict[str, Array]) -> Any:
    """The model with other values, in natural units; the one given is left as it was."""
    if not values:
        return model
    return eqx.tree_at(lambda m: [get_value(m, path) for path in values], model, list(values.values()))


def to_free(model: HasParameters) -> Float[Array, " T"]:
    """The inferred parameters as one unconstrained vector."""
    pieces = [jnp.ravel(p.transform().inv(get_value(model, p.path))) for p in free_parameters(model)]
    return jnp.concatenate(pieces) if pieces else jnp.zeros(0)


def from_free(model: Any, free: Float[Array, " T"]) -> Any:
    """The model at the parameters given as a free vector."""
    return with_values(model, {p.path: value for p, value in _natural(model, free)})


def log_prior(model: HasParameters, free: Float[Array, " T"]) -> Float[Array, ""]:
    """Log prior density of the natural parameters, at a free vector."""
    terms = [jnp.sum(_prior_of(p).log_prob(value)) for p, value in _natural(model, free)]
    return jnp.sum(jnp.stack(terms)) if terms else jnp.zeros(())


def log_jacobian(model: HasParameters, free: Float[Array, " T"]) -> Float[Array, ""]:
    """``log |d natural / d free|``: with the log prior, the prior density of the free vector."""
    terms = []
    for p, piece in _pieces(model, free):
        transform = p.transform()
        terms.append(jnp.sum(transform.log_abs_det_jacobian(piece, transform(piece))))
    return jnp.sum(jnp.stack(terms)) if terms else jnp.zeros(())


def check_names(model: HasParameters) -> None:
    """Every name in ``priors`` and ``fixed`` must be a parameter's, and every value inside its prior's support."""
    paths = [f"{path}.{name}" for path, _, name, _, _ in _walk(model)]
    for name in [path for path, _ in model.priors]:
        if name not in paths:
            raise ValueError(_unknown(name, paths))
        if _is_fixed(name, model.fixed):
            raise ValueError(f"{name} is fixed and has a prior; drop one of the two")
    for name in model.fixed:
        if not any(_is_fixed(path, (name,)) for path in paths):
            raise ValueError(_unknown(name, paths))


def check_values(model: HasParameters) -> None:
    """The values must be inside the support of their priors, and the priors must fit the shapes."""
    for p in free_parameters(model):
        value, prior = get_value(model, p.path), _prior_of(p)
        if not bool(jnp.all(p.transform().codomain(value))):
            raise ValueError(f"{p.path} starts at {np.asarray(value).tolist()}, where its prior {prior} is zero; start it inside")
        shape = np.broadcast_shapes(*(np.shape(argument) for argument in prior.arguments))
        if shape not in ((), p.shape):
            raise ValueError(
                f"the prior of {p.path} has shape {shape}, but the parameter has shape {p.shape}; give one, or one each"
            )


def _walk(model: HasParameters) -> Iterator[tuple[str, eqx.Module, str, Constraint, bool]]:
    for root in ("kernel", "likelihood"):
        for path, module in _modules(root, getattr(model, root)):
            for name, constraint, held in declared_parameters(module):
                yield path, module, name, constraint, held


def _modules(path: str, node: Any) -> Iterator[tuple[str, eqx.Module]]:
    if isinstance(node, tuple):
        for index, member in enumerate(node):
            yield from _modules(f"{path}.{index}", member)
    elif isinstance(node, eqx.Module):
        yield path, node
        for name in node.__dataclass_fields__:
            yield from _modules(f"{path}.{name}", getattr(node, name))


def _pieces(model: HasParameters, free: Array) -> Iterator[tuple[Parameter, Array]]:
    start = 0
    for p in free_parameters(model):
        yield p, jnp.reshape(free[start : start + p.size], p.shape)
        start += p.size


def _natural(model: HasParameters, free: Array) -> list[tuple[Parameter, Array]]:
    """The parameters' values, worked out once: XLA would rather do it again in every step that needs them."""
    found = list(_pieces(model, free))
    values = jax.lax.optimization_barrier([p.transform()(piece) for p, piece in found])
    return [(p, value) for (p, _), value in zip(found, values, strict=True)]


def _default_prior(constraint: Constraint, value: np.ndarray) -> Prior:
    if constraint is positive:
        return priors.default_positive(value)
    if constraint is unit_interval:
        return priors.default_unit()
    if constraint is ordered or constraint is real:
        return priors.default_real(value)
    raise NotImplementedError(f"no default prior for {constraint}")


def _prior_of(p: Parameter) -> Prior:
    assert p.prior is not None
    return p.prior


def _is_fixed(path: str, fixed: tuple[str, ...]) -> bool:
    """A name in ``fixed`` covers itself and everything below it: "kernel" fixes the whole kernel."""
    return any(path == name or path.startswith(f"{name}.") for name in fixed)


def _unknown(name: str, paths: list[str]) -> str:
    close = get_close_matches(name, paths, n=1)
    hint = f"did you mean {close[0]!r}?" if close else "it has " + ", ".join(paths)
    return f"the model has no parameter {name!r}; {hint}"
