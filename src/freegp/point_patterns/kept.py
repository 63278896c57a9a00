"""A Cox process as it is written to disk: its settings, the events it saw, and what was learnt of them."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from freegp.approximation import GaussianFit
from freegp.inducing import Inducing, Placement, as_inducing
from freegp.kernels import Kernel
from freegp.point_patterns.window import Window, as_window
from freegp.posterior import Posterior
from freegp.priors import Prior, as_prior
from freegp.saving import registered

FILE = "process.npz"
"""Its name in the folder of a run, where the draws stand beside it."""


@registered
@dataclass(frozen=True)
class KeptProcess:
    """The settings of a `CoxProcess` by their names (windows, placements and priors as objects), and the rest of it.

    Attributes
    ----------
    events
        The events ``[E, D]``.
    approximation, posterior
        What was learnt; None in the folder of a run, and the posterior where there are no draws.
    """

    window: Window
    grid: int | tuple[int, ...] | None
    kernel: Kernel | None
    priors: tuple[tuple[str, Prior], ...] | None
    inducing: int | str | Inducing | Placement | None
    method: str
    num_samples: int
    num_warmup: int
    num_chains: int
    seed: int
    progress: bool
    events: np.ndarray
    approximation: GaussianFit | None
    posterior: Posterior | None

    def settings(self) -> dict[str, Any]:
        """The arguments of the process it was."""
        rest = ("events", "approximation", "posterior")
        given = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in rest}
        return given | {"priors": None if self.priors is None else dict(self.priors)}


def kept(
    settings: Mapping[str, Any], events: np.ndarray, approximation: GaussianFit | None = None, posterior: Posterior | None = None
) -> KeptProcess:
    """A process with these arguments, as it is to be kept; where its run was is left out."""
    given = {name: value for name, value in settings.items() if name != "run_dir"}
    grid, inducing, priors = given["grid"], given["inducing"], given["priors"]
    plain = {
        "window": as_window(given["window"]),
        "grid": grid if grid is None else int(grid) if np.ndim(grid) == 0 else tuple(int(number) for number in grid),
        "inducing": inducing if inducing is None or isinstance(inducing, str) else as_inducing(inducing),
        "priors": tuple((path, as_prior(prior)) for path, prior in priors.items()) if priors else None,
    }
    return KeptProcess(**(given | plain), events=events, approximation=approximation, posterior=posterior)
