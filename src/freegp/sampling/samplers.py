"""The samplers by name, with their settings.

What a sampler is to the runner (`Sampler`): it makes the target from a fit, warms its chains up, and moves one chain by one draw.
What the next move needs is its state, what a person reads is `Info`, what warm-up settles is its tuning: three types, of arrays.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import jax
from jaxtyping import Array, Float, PRNGKeyArray

from freegp.approximation import GaussianFit
from freegp.sampling import nuts, rotation
from freegp.sampling.chains import Report, Warm
from freegp.sampling.coordinates import SiteCoordinates
from freegp.sampling.gibbs import Gibbs
from freegp.sampling.paper import PaperHMC
from freegp.sampling.rotation import Info, State
from freegp.sampling.start import site_coordinates
from freegp.sampling.warm_up import StepSize, warm_up
from freegp.saving import registered


class Sampler(Protocol):
    """What the runner needs; each is a frozen, registered dataclass, so that a run can be saved and compiled programs kept."""

    state_type: ClassVar[Any]
    tuning_type: ClassVar[Any]

    def prepare(self, fit: GaussianFit, X: Float[Array, "N D"], y: Float[Array, " N"]) -> Any:
        """The target: a module of arrays with ``log_density(x)``, ``place(position, key)``, ``tuned()`` and ``with_tuned()``."""

    def warm_up(self, mesh: jax.sharding.Mesh, target: Any, keys: PRNGKeyArray, num_draws: int, report: Report) -> Warm:
        """Start the chains (one key each), tune, and say how it goes."""

    def __call__(self, key: PRNGKeyArray, state: Any, target: Any, tuning: Any) -> tuple[Any, Info]:
        """One draw of one chain."""

    def adapted(self, tuning: Any, info: Info) -> Any:
        """The tuning after a draw; it changes during warm-up alone."""


class InSiteCoordinates:
    """What the samplers in site coordinates share: where they move, and how they are warmed up."""

    state_type: ClassVar[Any] = State
    tuning_type: ClassVar[Any] = StepSize
    longest_step: ClassVar[float]
    target_acceptance: float

    def prepare(self, fit: GaussianFit, X: Float[Array, "N D"], y: Float[Array, " N"]) -> SiteCoordinates:
        """Coordinates around the fit."""
        return site_coordinates(fit, X, y)

    def warm_up(
        self, mesh: jax.sharding.Mesh, target: SiteCoordinates, keys: PRNGKeyArray, num_draws: int, report: Report
    ) -> Warm:
        """Dispersed starts, step size and scales."""
        return warm_up(self, mesh, target, keys, num_draws, report)

    def adapted(self, tuning: StepSize, info: Info) -> StepSize:
        """Towards the acceptance that is wanted."""
        return tuning.adapted(self.target_acceptance - info.acceptance, self.longest_step)

    def __call__(self, key: PRNGKeyArray, state: State, target: SiteCoordinates, tuning: StepSize) -> tuple[State, Info]:
        """One draw."""
        raise NotImplementedError


@registered
@dataclass(frozen=True)
class RotationHMC(InSiteCoordinates):
    """``"sites"``: rotation HMC in site coordinates; trajectories of about ``turn`` radians, the step tuned to the acceptance."""

    target_acceptance: float = 0.8
    turn: float = 0.5 * math.pi
    jitter: float = 0.25

    longest_step: ClassVar[float] = 0.5 * math.pi

    def __call__(self, key: PRNGKeyArray, state: State, target: SiteCoordinates, tuning: StepSize) -> tuple[State, Info]:
        """One draw."""
        return rotation.transition(key, state, target.log_density, tuning.step_size, self.turn, self.jitter)


@registered
@dataclass(frozen=True)
class NUTS(InSiteCoordinates):
    """``"nuts"``: blackjax's no-U-turn sampler in site coordinates, the step tuned to the acceptance."""

    target_acceptance: float = 0.8

    longest_step: ClassVar[float] = 2.0

    def __call__(self, key: PRNGKeyArray, state: State, target: SiteCoordinates, tuning: StepSize) -> tuple[State, Info]:
        """One draw."""
        return nuts.transition(key, state, target.log_density, tuning.step_size)


SAMPLERS: dict[str, Callable[[], Sampler]] = {"sites": RotationHMC, "nuts": NUTS, "paper": PaperHMC, "gibbs": Gibbs}


def as_sampler(value: str | Sampler) -> Sampler:
    """A sampler by its name, or as it is."""
    if not isinstance(value, str):
        return value
    if value not in SAMPLERS:
        raise ValueError(f"sampler must be one of {', '.join(SAMPLERS)} or a settings object, but is {value!r}")
    return SAMPLERS[value]()
