"""Quantities by name and group, the worst of them, and what an effective sample of it costs."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Literal

import numpy as np
from jaxtyping import ArrayLike

from freegp.diagnostics.estimates import Statistics, as_draws, entry_names, statistics

Column = Literal["r_hat", "ess_bulk", "ess_tail"]


@dataclass(frozen=True, eq=False)
class Quantities:
    """Scalars by name with their statistics, each a flat array."""

    names: tuple[str, ...]
    found: Statistics

    @property
    def varies(self) -> bool:
        """Whether any of them does."""
        return not self.found.constant.all()

    def worst(self, column: Column) -> tuple[float, str]:
        """The worst value among the quantities that vary, a NaN before any number, and whose it is."""
        varying = np.flatnonzero(~self.found.constant)
        if varying.size == 0:
            return math.nan, ""
        values = getattr(self.found, column)[varying]
        index = int(np.argmax(values) if column == "r_hat" else np.argmin(values))
        return float(values[index]), self.names[varying[index]]


def quantities_of(arrays: Mapping[str, np.ndarray], labels: Mapping[str, Sequence[str]]) -> dict[str, Quantities]:
    """Each group's scalars."""
    quantities = {}
    for name, array in arrays.items():
        names = tuple(labels.get(name, entry_names(name, array.shape[2:])))
        size = math.prod(array.shape[2:])
        if len(names) != size:
            raise ValueError(f"{name} has {size} entries, but {len(names)} labels; give one label for each entry")
        quantities[name] = Quantities(names, statistics(array.reshape(*array.shape[:2], size)))
    return quantities


def joined(groups: Mapping[str, Quantities]) -> Quantities:
    """The scalars of all groups."""
    columns = (field.name for field in fields(Statistics))
    joined = {column: np.concatenate([getattr(group.found, column) for group in groups.values()]) for column in columns}
    return Quantities(tuple(name for group in groups.values() for name in group.names), Statistics(**joined))


def as_groups(groups: Mapping[str, ArrayLike]) -> dict[str, np.ndarray]:
    """Draws by group, checked to be of the same chains and draws."""
    if not groups:
        raise ValueError('there are no draws to judge; give at least one group, for example {"theta": draws}')
    arrays = {name: as_draws(draws, name) for name, draws in groups.items()}
    sizes = {name: array.shape[:2] for name, array in arrays.items()}
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name} {size}" for name, size in sizes.items())
        raise ValueError(f"numbers of chains and draws differ ({listed}); give every group the same draws")
    return arrays


@dataclass(frozen=True)
class Efficiency:
    """Effective samples of the slowest quantity, and what one costs; NaN where nothing was spent.

    Attributes
    ----------
    ess
        The fewest bulk effective samples of any quantity, all chains together.
    tn_ess, tn_ess_total
        The same a second of sampling, and a second end to end (fit, compilation and warm-up included).
    ess_per_1000_gradients
        The same for 1000 gradients of the target.
    """

    ess: float
    tn_ess: float
    tn_ess_total: float
    ess_per_1000_gradients: float


def tn_ess(groups: Mapping[str, ArrayLike], *, seconds_sampling: float, seconds_total: float, gradients: int) -> Efficiency:
    """Time-normalised effective sample size: that of the slowest of all quantities given, divided by seconds (paper, section 4).

    The paper's variables are the whitened values and the parameters; give these two groups alone to compare with it.
    """
    quantities = joined(quantities_of(as_groups(groups), {}))
    return efficiency_of(quantities.worst("ess_bulk")[0], seconds_sampling, seconds_total, gradients)


def efficiency_of(ess: float, seconds_sampling: float, seconds_total: float, gradients: int) -> Efficiency:
    """Effective samples of the slowest quantity over what they cost."""
    spent = (seconds_sampling, seconds_total, gradients / 1000)
    return Efficiency(ess, *(ess / amount if amount > 0 else math.nan for amount in spent))
