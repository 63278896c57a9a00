"""The paper's comparator: v and theta in turn, v by Hamiltonian Monte Carlo and theta by Metropolis-Hastings.

Given theta, ``Kuf``, ``R`` and ``gamma`` are constants, and with ``mu = Kuf^T R^-T v`` the gradient in v,

    R^-1 Kuf dE/dmu - v        E = sum_n E_{N(f_n; mu_n, gamma_n)}[log p(y_n | f_n)],

costs O(N M). They are kept from sweep to sweep, and replaced, in O(N M^2), by those of an accepted proposal of theta.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from freegp.approximation import GaussianFit
from freegp.model import SparseGP
from freegp.parameters import from_free, log_jacobian, log_prior
from freegp.sampling import paper
from freegp.sampling.chains import WARM_UP, Report, Warm, advance
from freegp.sampling.coordinates import Place
from freegp.sampling.paper import Leapfrog
from freegp.sampling.plain import PlainCoordinates, plain_coordinates
from freegp.sampling.rotation import Info, initial_state
from freegp.sampling.tuning import LeapfrogSearch, Search, grid_of, log_axis, record_all, squared_jumps
from freegp.saving import registered
from freegp.target.kept import Kept, keep, kept_data_term
from freegp.target.projection import unwhiten


class GibbsState(NamedTuple):
    """What the next sweep needs: where the chain is, and what theta makes of the data."""

    position: Float[Array, " X"]
    log_density: Float[Array, ""]
    kept: Kept


class GibbsTuning(NamedTuple):
    """Step size and largest number of steps of the HMC on v; standard deviation of the proposals of theta."""

    step_size: Float[Array, ""]
    max_steps: Int[Array, ""]
    proposal_scale: Float[Array, ""]


class GivenParameters(eqx.Module):
    """The target as a density of v (flat) alone, theta being held."""

    model: SparseGP
    y: Float[Array, " N"]
    free: Float[Array, " T"]
    kept: Kept

    def log_density(self, x: Float[Array, " V"]) -> Float[Array, ""]:
        """``log q(v, theta)`` up to a constant, in O(N M), and so is its gradient."""
        v = x.reshape(self.model.num_inducing, -1)
        likelihood = from_free(self.model, self.free).likelihood
        data = kept_data_term(self.kept, likelihood, unwhiten(self.kept.inverse_factors, v), self.y, self.model.rows_at_once)
        prior_v = -0.5 * jnp.sum(jnp.square(v)) - 0.5 * v.size * jnp.log(2.0 * jnp.pi)
        return data + prior_v + log_prior(self.model, self.free) + log_jacobian(self.model, self.free)


@registered
@dataclass(frozen=True)
class Gibbs(LeapfrogSearch):
    """``"gibbs"``: sweeps of HMC on v given theta, with the projection kept, and Metropolis-Hastings on theta given v.

    HMC has unit mass and ``L ~ U{1..Lmax}`` steps; theta moves by ``num_updates`` random-walk proposals a sweep, isotropic in
    free coordinates, with v held. Chains start as those of `PaperHMC`, and each is tuned on its own by as many rounds of Bayesian
    optimisation: step size and Lmax by the ESJD of v, without a penalty on Lmax since the steps are cheap, and at the same time
    the proposals' scale, from ``shortest_proposal`` to ``longest_proposal``, by the ESJD of theta. How many warm-up draws are
    asked for makes no difference, but 0 asks for no tuning.

    ``num_gradients`` counts O(N M^2) evaluations of the target: one for each proposal of theta, and 1/M for each of the O(N M)
    gradients of v. (A proposal of theta needs no gradient, and so is cheaper than a
    gradient of the whole target, by a factor of about 3: seconds are the fairer measure.) ``acceptance`` is the mean over the
    proposals of a sweep, ``energy`` and divergences are those of the HMC.
    """

    num_updates: int = 10
    shortest_proposal: float = 1e-3
    longest_proposal: float = 3.0
    untuned_proposal: float = 0.1

    tuning_type: ClassVar[Any] = GibbsTuning

    def prepare(self, fit: GaussianFit, X: Float[Array, "N D"], y: Float[Array, " N"]) -> PlainCoordinates:
        """The target as it is."""
        return plain_coordinates(fit, X, y)

    def warm_up(
        self, mesh: jax.sharding.Mesh, target: PlainCoordinates, keys: PRNGKeyArray, num_draws: int, report: Report
    ) -> Warm:
        """Start and tune; chains move together, each with the settings it tries; progress is told as a share of num_draws."""
        positions = paper.checked_starts(self, mesh, target, keys)
        chains = range(keys.shape[0])
        if num_draws == 0:
            untuned = [(self.untuned_step, self.untuned_max_steps) for _ in chains], [(self.untuned_proposal,) for _ in chains]
            return Warm(target, positions, _tunings(*untuned))
        values = [Search(self.leapfrog_grid(), chain, self.spread_rounds) for chain in chains]
        parameters = [Search(self._proposal_grid(), chain, self.spread_rounds) for chain in chains]
        for number in range(self.num_rounds):
            tunings = _tunings([s.propose() for s in values], [s.propose() for s in parameters])
            start, first = jax.vmap(target.split)(positions), WARM_UP + number * self.draws_per_round
            (_, positions, _), trail = advance(self, mesh, Warm(target, positions, tunings), keys, first, self.draws_per_round)
            for searches, at, draws in zip((values, parameters), start, (trail.place.whitened, trail.place.free), strict=True):
                record_all(searches, squared_jumps(at, draws))
            report(round(num_draws * (number + 1) / self.num_rounds), float(jnp.mean(trail.info.acceptance)))
        return Warm(target, positions, _tunings([s.best() for s in values], [s.best() for s in parameters]))

    def initial_state(self, target: PlainCoordinates, position: Float[Array, " X"]) -> GibbsState:
        """A state from a position."""
        return state_at(target, *target.split(position))

    def place(self, target: PlainCoordinates, state: GibbsState, key: PRNGKeyArray) -> Place:
        """What a state means."""
        return target.place(state.position)

    def __call__(
        self, key: PRNGKeyArray, state: GibbsState, target: PlainCoordinates, tuning: GibbsTuning
    ) -> tuple[GibbsState, Info]:
        """One sweep: v, then theta."""
        key_values, key_parameters = jax.random.split(key)
        state, info = move_values(key_values, state, target, Leapfrog(tuning.step_size, tuning.max_steps))
        cheap = (info.num_gradients + 1.0) / target.model.num_inducing  # and the one it starts with
        if target.split(state.position)[1].size == 0:
            return state, info._replace(num_gradients=cheap)

        def update(state: GibbsState, key: PRNGKeyArray) -> tuple[GibbsState, tuple[Array, Array]]:
            return move_parameters(key, state, target, tuning.proposal_scale)

        state, (acceptance, nonfinite) = jax.lax.scan(update, state, jax.random.split(key_parameters, self.num_updates))
        return state, info._replace(
            acceptance=(info.acceptance + jnp.sum(acceptance)) / (1 + self.num_updates),
            num_gradients=cheap + self.num_updates,
            is_nonfinite=info.is_nonfinite | jnp.any(nonfinite),
        )

    def adapted(self, tuning: GibbsTuning, info: Info) -> GibbsTuning:
        """As it was: tuning is by rounds."""
        return tuning

    def _proposal_grid(self) -> Float[np.ndarray, "G 1"]:
        return grid_of(log_axis(self.shortest_proposal, self.longest_proposal))


def move_values(key: PRNGKeyArray, state: GibbsState, target: PlainCoordinates, tuning: Leapfrog) -> tuple[GibbsState, Info]:
    """HMC on v given theta."""
    v, free = target.split(state.position)
    given = GivenParameters(target.model, target.y, free, state.kept)
    moved, info = paper.transition(key, initial_state(v.ravel(), given.log_density), given.log_density, tuning)
    return state._replace(position=jnp.concatenate([moved.position, free]), log_density=moved.log_density), info


def move_parameters(
    key: PRNGKeyArray, state: GibbsState, target: PlainCoordinates, scale: Float[Array, ""]
) -> tuple[GibbsState, tuple[Float[Array, ""], Bool[Array, ""]]]:
    """Metropolis-Hastings on theta given v: a proposal ``theta + scale N(0, I)``; its projection is kept if it is accepted.

    Also returns the acceptance probability, and whether the proposal's density was not a number.
    """
    key_proposal, key_accept = jax.random.split(key)
    v, free = target.split(state.position)
    proposal = state_at(target, v, free + scale * jax.random.normal(key_proposal, free.shape))
    finite = jnp.isfinite(proposal.log_density)
    acceptance = jnp.where(finite, jnp.minimum(1.0, jnp.exp(proposal.log_density - state.log_density)), 0.0)
    accepted = jax.random.uniform(key_accept) < acceptance
    return jax.tree.map(lambda new, old: jnp.where(accepted, new, old), proposal, state), (acceptance, ~finite)


def state_at(target: PlainCoordinates, v: Float[Array, "M P"], free: Float[Array, " T"]) -> GibbsState:
    """The state at v and theta, its projection made afresh."""
    kept = keep(from_free(target.model, free), target.X)
    given = GivenParameters(target.model, target.y, free, kept)
    return GibbsState(jnp.concatenate([v.ravel(), free]), given.log_density(v.ravel()), kept)


def _tunings(leapfrogs: Sequence[Sequence[float] | np.ndarray], proposals: Sequence[Sequence[float] | np.ndarray]) -> GibbsTuning:
    """The tuning of each chain, stacked."""
    return GibbsTuning(*paper.leapfrog_tunings(leapfrogs), jnp.asarray(np.array(proposals, dtype=float)[:, 0]))
