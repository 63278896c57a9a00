"""The single numbers among the parameters, by name."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from freegp.diagnostics import entry_names
from freegp.parameters import Parameter, free_parameters
from freegp.plots.style import check_draws
from freegp.posterior import Posterior


class Entry(NamedTuple):
    """One number of a parameter: its name, its parameter, and which of its numbers it is."""

    name: str
    parameter: Parameter
    position: int


def entries(posterior: Posterior, names: Sequence[str] | None = None) -> list[Entry]:
    """The inferred numbers, or those named; a parameter's name stands for all its entries."""
    check_draws(posterior, "this picture")
    found = [
        Entry(name, p, position)
        for p in free_parameters(posterior.model)
        for position, name in enumerate(entry_names(p.path, p.shape))
    ]
    if not found:
        raise ValueError("every parameter of this model is fixed, so there is none to draw; look at the latent function instead")
    if names is None:
        return found
    known = {each.name for each in found} | {each.parameter.path for each in found}
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        listed = ", ".join(each.name for each in found)
        raise ValueError(
            f"no inferred parameter is named {', '.join(map(repr, unknown)) or 'by an empty list'}; there are {listed}"
        )
    return [each for name in names for each in found if name in (each.name, each.parameter.path)]


def scalar_draws(posterior: Posterior, names: Sequence[str] | None = None) -> dict[str, np.ndarray]:
    """Draws ``[chain, draw]`` in natural units by name."""
    wanted = entries(posterior, names)
    flat = {path: draws.reshape(*draws.shape[:2], -1) for path, draws in posterior.draws.items()}
    return {each.name: flat[each.parameter.path][:, :, each.position] for each in wanted}
