"""Priors of parameters: numpyro's distributions by name, as small frozen values that compare, hash and save.

>>> Gamma(2.0, 0.5).log_prob(1.0).round(6).item()
-1.886294
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, ArrayLike
from numpyro.distributions.constraints import Constraint

from freegp.saving import registered

_DISTRIBUTIONS: dict[str, type[dist.Distribution]] = {
    "Gamma": dist.Gamma,
    "InverseGamma": dist.InverseGamma,
    "LogNormal": dist.LogNormal,
    "HalfNormal": dist.HalfNormal,
    "HalfCauchy": dist.HalfCauchy,
    "Exponential": dist.Exponential,
    "Normal": dist.Normal,
    "StudentT": dist.StudentT,
    "Beta": dist.Beta,
    "Uniform": dist.Uniform,
}


@registered
@dataclass(frozen=True)
class Prior:
    """A distribution by its registered name and its arguments; nested tuples stand for one argument for each entry."""

    name: str
    arguments: tuple[Any, ...]

    def __post_init__(self) -> None:
        if self.name not in _DISTRIBUTIONS:
            raise ValueError(f"no prior is named {self.name!r}; there are {', '.join(sorted(_DISTRIBUTIONS))}")
        try:
            self.distribution()
        except ValueError as error:
            raise ValueError(f"{self}: {error}") from None

    def distribution(self) -> dist.Distribution:
        """The numpyro distribution."""
        arguments = [np.asarray(argument, dtype=float) for argument in self.arguments]
        return _DISTRIBUTIONS[self.name](*arguments, validate_args=True)

    @property
    def support(self) -> Constraint:
        """Where the density is not zero."""
        return self.distribution().support

    def log_prob(self, value: ArrayLike) -> Array:
        """Log density of each entry."""
        arguments = [np.asarray(argument, dtype=float) for argument in self.arguments]
        return _DISTRIBUTIONS[self.name](*arguments).log_prob(value)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(str(argument) for argument in self.arguments)})"


def _prior(name: str, *arguments: ArrayLike) -> Prior:
    return Prior(name, tuple(_as_tuple(np.asarray(argument, dtype=float).tolist()) for argument in arguments))


def _as_tuple(value: Any) -> Any:
    return tuple(_as_tuple(item) for item in value) if isinstance(value, list) else value


def as_prior(value: Any) -> Prior:
    """A prior from one of ours or from a numpyro distribution of a registered family."""
    if isinstance(value, Prior):
        return value
    for name, family in _DISTRIBUTIONS.items():
        if type(value) is family:
            if name == "StudentT":
                return _prior(name, value.df, value.loc, value.scale)
            return _prior(name, *(getattr(value, argument) for argument in family.arg_constraints))
    raise TypeError(f"a prior is made with fg.priors, for example fg.priors.Gamma(2.0, 1.0), but {value!r} was given")


def Gamma(shape: ArrayLike, rate: ArrayLike) -> Prior:
    """Density ``x^(shape-1) e^(-rate x)``; mean shape / rate."""
    return _prior("Gamma", shape, rate)


def InverseGamma(shape: ArrayLike, scale: ArrayLike) -> Prior:
    """Density ``x^(-shape-1) e^(-scale / x)``: keeps a lengthscale away from zero."""
    return _prior("InverseGamma", shape, scale)


def LogNormal(location: ArrayLike, scale: ArrayLike) -> Prior:
    """The logarithm is normal; median e^location."""
    return _prior("LogNormal", location, scale)


def HalfNormal(scale: ArrayLike) -> Prior:
    """The absolute value of a centred normal."""
    return _prior("HalfNormal", scale)


def HalfCauchy(scale: ArrayLike) -> Prior:
    """The absolute value of a centred Cauchy."""
    return _prior("HalfCauchy", scale)


def Exponential(rate: ArrayLike) -> Prior:
    """Density ``rate e^(-rate x)``."""
    return _prior("Exponential", rate)


def Normal(location: ArrayLike, scale: ArrayLike) -> Prior:
    """Normal; on a parameter with bounds it is cut off there."""
    return _prior("Normal", location, scale)


def StudentT(df: ArrayLike, location: ArrayLike, scale: ArrayLike) -> Prior:
    """Student's t; on a parameter with bounds it is cut off there."""
    return _prior("StudentT", df, location, scale)


def Beta(a: ArrayLike, b: ArrayLike) -> Prior:
    """Density ``x^(a-1) (1-x)^(b-1)`` between 0 and 1."""
    return _prior("Beta", a, b)


def Uniform(low: ArrayLike, high: ArrayLike) -> Prior:
    """The same density everywhere between low and high; the parameter is kept between them."""
    return _prior("Uniform", low, high)


def default_positive(value: np.ndarray) -> Prior:
    """The prior of a positive parameter that was given none: log-normal, its median the value in the model.

    Its scale of 1.5 says that the value is the right order of magnitude: 95 % lies within a factor of 19.
    """
    return LogNormal(np.log(value), 1.5)


def default_real(value: np.ndarray) -> Prior:
    """The prior of a real or ordered parameter that was given none: normal around the value in the model."""
    return Normal(value, max(2.0, 2.0 * math.sqrt(float(np.mean(np.square(value))))))


def default_unit() -> Prior:
    """The prior of a parameter between 0 and 1 that was given none: uniform."""
    return Beta(1.0, 1.0)
