"""The samplers by name, with their settings.

What a sampler is to the runner (`Sampler`): it makes the target from a fit, warms its chains up, and moves one chain by one draw.
What the next move needs is its state, what a person reads is `Info`, what warm-up settles is its tuning: three types, of arrays.
Between chunks, and on disk, a chain is its position alone, from which the sampler makes its state.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import jax
from jaxtyping import Array, Float, PRNGKeyArray

from freegp.approximation import GaussianFit
from freegp.sampling import alternating, nuts, rotation
from freegp.sampling.chains import Report, Warm
from freegp.sampling.coordinates import Place, SiteCoordinates
from freegp.sampling.gibbs import Gibbs
from freegp.sampling.paper import PaperHMC
from freegp.sampling.rotation import Info, State
from freegp.sampling.start import site_coordinates
from freegp.sampling.warm_up import StepSize, warm_up
from freegp.saving import registered

MOST_WANDERED = 2**20
"""Largest N x M for which a draw may take a hundred gradients without being asked for."""


class Sampler(Protocol):
    """What the runner needs; each is a frozen, registered dataclass, so that a run can be saved and compiled programs kept."""

    tuning_type: ClassVar[Any]

    def prepare(self, fit: GaussianFit, X: Float[Array, "N D"], y: Float[Array, " N"]) -> Any:
        """The target: a module of arrays with ``log_density(x)``, ``tuned()`` and ``with_tuned()``."""

    def warm_up(self, mesh: jax.sharding.Mesh, target: Any, keys: PRNGKeyArray, num_draws: int, report: Report) -> Warm:
        """Start the chains (one key each), tune, and say how it goes."""

    def initial_state(self, target: Any, position: Float[Array, " X"]) -> Any:
        """The state of a chain at a position, of which it has a field, and one of the log density."""

    def place(self, target: Any, state: Any, key: PRNGKeyArray) -> Place:
        """What a state means in terms of the model."""

    def __call__(self, key: PRNGKeyArray, state: Any, target: Any, tuning: Any) -> tuple[Any, Info]:
        """One draw of one chain."""

    def adapted(self, tuning: Any, info: Info) -> Any:
        """The tuning after a draw; it changes during warm-up alone."""


class InSiteCoordinates:
    """What the samplers in site coordinates share: where they move, and how they are warmed up."""

    tuning_type: ClassVar[Any] = StepSize
    longest_step: ClassVar[float]
    target_acceptance: float

    def if_far(self, target: SiteCoordinates) -> str:
        """What to do where the target is far from the Gaussian approximation."""
        return "draw more"

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

    def initial_state(self, target: SiteCoordinates, position: Float[Array, " X"]) -> Any:
        """A state from a position."""
        return rotation.initial_state(position, target.log_density)

    def place(self, target: SiteCoordinates, state: Any, key: PRNGKeyArray) -> Place:
        """What a state means; the key is for what is drawn afresh."""
        return target.place(state.position, key)

    def __call__(self, key: PRNGKeyArray, state: Any, target: SiteCoordinates, tuning: StepSize) -> tuple[Any, Info]:
        """One draw."""
        raise NotImplementedError


@registered
@dataclass(frozen=True)
class RotationHMC(InSiteCoordinates):
    """``"sites"``: rotation HMC in site coordinates; trajectories of about ``turn`` radians, the step tuned to the acceptance.

    Up to ``most_sliced`` parameters are moved apart from the values, by elliptical slices, which costs far less: a value of the
    target counts as a gradient, a gradient in the values alone as 1/M of one. More of them, or more data than can be kept, move
    with the values. Where warm-up finds that hardly anything is left of the sites, as it does with hard edges (`RobustMax`), and
    the problem is not large, all move together by NUTS, of at most ``2 ** max_doublings - 1`` steps.
    """

    target_acceptance: float = 0.8
    turn: float = 0.6 * math.pi
    jitter: float = 0.25
    most_sliced: int = 5
    max_doublings: int = 7

    longest_step: ClassVar[float] = 0.5 * math.pi

    def if_far(self, target: SiteCoordinates) -> str:
        """What to do where the target is far from the Gaussian approximation."""
        return super().if_far(target) if self._wanders(target) else 'draw more, try sampler="nuts"'

    def _wanders(self, target: SiteCoordinates) -> bool:
        """Whether there are no coordinates to speak of, and NUTS can be afforded."""
        return target.is_weak and target.X.shape[0] * target.model.num_inducing <= MOST_WANDERED

    def _alternates(self, target: SiteCoordinates) -> bool:
        few = target.location.size <= self.most_sliced
        return few and alternating.is_possible(target) and not self._wanders(target)

    def initial_state(self, target: SiteCoordinates, position: Float[Array, " X"]) -> Any:
        """A state from a position."""
        return (
            alternating.initial_state(target, position) if self._alternates(target) else super().initial_state(target, position)
        )

    def place(self, target: SiteCoordinates, state: Any, key: PRNGKeyArray) -> Place:
        """What a state means; the key is for what is drawn afresh."""
        return alternating.place(target, state, key) if self._alternates(target) else super().place(target, state, key)

    def __call__(self, key: PRNGKeyArray, state: Any, target: SiteCoordinates, tuning: StepSize) -> tuple[Any, Info]:
        """One draw."""
        if self._alternates(target):
            return alternating.transition(key, state, target, tuning.step_size, self.turn, self.jitter)
        if self._wanders(target):
            return nuts.transition(key, state, target.log_density, tuning.step_size, self.max_doublings)
        return rotation.transition(key, state, target.log_density, tuning.step_size, self.turn, self.jitter)


@registered
@dataclass(frozen=True)
class NUTS(InSiteCoordinates):
    """``"nuts"``: blackjax's no-U-turn sampler in site coordinates, the step tuned to the acceptance.

    A trajectory has at most ``2 ** max_doublings - 1`` steps.
    """

    target_acceptance: float = 0.8
    max_doublings: int = 10

    longest_step: ClassVar[float] = 2.0

    def __call__(self, key: PRNGKeyArray, state: State, target: SiteCoordinates, tuning: StepSize) -> tuple[State, Info]:
        """One draw."""
        return nuts.transition(key, state, target.log_density, tuning.step_size, self.max_doublings)


SAMPLERS: dict[str, Callable[[], Sampler]] = {"sites": RotationHMC, "nuts": NUTS, "paper": PaperHMC, "gibbs": Gibbs}


def as_sampler(value: str | Sampler) -> Sampler:
    """A sampler by its name, or as it is."""
    if not isinstance(value, str):
        return value
    if value not in SAMPLERS:
        raise ValueError(f"sampler must be one of {', '.join(SAMPLERS)} or a settings object, but is {value!r}")
    return SAMPLERS[value]()
