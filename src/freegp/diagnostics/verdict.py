"""What a person should know of a run before using it, with a verdict in plain words."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import ArrayLike

from freegp.approximation.words import loss_in_words, two_digits_up
from freegp.diagnostics.estimates import FEWEST_DRAWS, energy_bfmi
from freegp.diagnostics.quantities import Quantities, as_groups, efficiency_of, joined, quantities_of
from freegp.sparsity import Sparsity


@dataclass(frozen=True)
class Thresholds:
    """When draws count as good enough.

    Attributes
    ----------
    r_hat
        The largest R-hat of any quantity.
    ess_per_chain
        The fewest effective samples, in the bulk and in the tails, of any quantity, times the number of chains.
    ebfmi
        The lowest energy fraction (E-BFMI) of any chain.
    divergences
        How many draws may have diverged.
    nonfinite_share
        The share of draws whose proposal may have had no finite density. Fewer are mentioned and let pass, as they were rejected.
    """

    r_hat: float = 1.01
    ess_per_chain: float = 100.0
    ebfmi: float = 0.3
    divergences: int = 0
    nonfinite_share: float = 0.01


DEFAULT_THRESHOLDS = Thresholds()


@dataclass(frozen=True)
class Diagnostics:
    """What a person should know of a run before using it.

    Worst means over all quantities that vary; a quantity with NaN or infinite draws makes the worst NaN.

    Attributes
    ----------
    verdict, converged
        One sentence: that all is well, or what is wrong and what to do about it.
    r_hat, ess, ess_tail
        The highest R-hat, the fewest effective samples (bulk) and the fewest in the tails.
    groups
        R-hat and effective samples of the worst quantity in each group; groups without one that varies are left out.
    tn_ess, tn_ess_total, ess_per_1000_gradients
        Effective samples a second of sampling, a second end to end, and a thousand gradients.
    divergences, nonfinite
        Draws that diverged; proposals without a finite density, which were rejected.
    acceptance
        Mean acceptance probability.
    ebfmi
        E-BFMI of each chain; empty for a sampler without energies.
    sparsity
        What the inducing points lose, and about how many would lose little.
    """

    verdict: str
    converged: bool
    r_hat: float
    ess: float
    ess_tail: float
    groups: dict[str, tuple[float, float]]
    tn_ess: float
    tn_ess_total: float
    ess_per_1000_gradients: float
    divergences: int
    nonfinite: int
    acceptance: float
    ebfmi: tuple[float, ...]
    seconds_sampling: float
    seconds_total: float
    gradients: int
    num_chains: int
    num_draws: int
    sparsity: Sparsity | None

    @property
    def seconds(self) -> float:
        """Time in all: fit, compilation, warm-up and sampling."""
        return self.seconds_total


def diagnose(
    groups: Mapping[str, ArrayLike],
    *,
    acceptance: ArrayLike,
    divergences: ArrayLike,
    nonfinite: ArrayLike,
    energy: ArrayLike | None,
    seconds_sampling: float,
    seconds_total: float,
    gradients: int,
    sparsity: Sparsity | None = None,
    labels: Mapping[str, Sequence[str]] | None = None,
    thresholds: Thresholds = DEFAULT_THRESHOLDS,
) -> Diagnostics:
    """Diagnostics of draws by group, such as theta, whitened, log_density and f, with the verdict.

    Divergences and nonfinite are counts, or one flag a draw; energy is ``[chain, draw]`` or None; labels name the entries of a
    group, for example ``{"theta": ["kernel.variance", "kernel.lengthscales[0]"]}``.
    """
    arrays = as_groups(groups)
    by_group = quantities_of(arrays, labels or {})
    quantities = joined(by_group)
    efficiency = efficiency_of(quantities.worst("ess_bulk")[0], seconds_sampling, seconds_total, gradients)
    num_chains, num_draws = next(iter(arrays.values())).shape[:2]
    energies = np.empty((0, num_draws)) if energy is None else _as_energy(energy, (num_chains, num_draws))
    run = Run(
        num_chains=num_chains,
        num_draws=num_draws,
        divergences=int(np.sum(divergences)),
        nonfinite=int(np.sum(nonfinite)),
        ebfmi=() if energy is None else tuple(float(fraction) for fraction in energy_bfmi(energies)),
        broken_energies=int(np.sum(~np.isfinite(energies))),
    )
    verdict, converged = verdict_of(quantities, run, thresholds)
    return Diagnostics(
        verdict=verdict + _sparsity_note(sparsity, converged),
        converged=converged,
        r_hat=quantities.worst("r_hat")[0],
        ess=efficiency.ess,
        ess_tail=quantities.worst("ess_tail")[0],
        groups={name: (group.worst("r_hat")[0], group.worst("ess_bulk")[0]) for name, group in by_group.items() if group.varies},
        tn_ess=efficiency.tn_ess,
        tn_ess_total=efficiency.tn_ess_total,
        ess_per_1000_gradients=efficiency.ess_per_1000_gradients,
        divergences=run.divergences,
        nonfinite=run.nonfinite,
        acceptance=float(np.mean(acceptance)),
        ebfmi=run.ebfmi,
        seconds_sampling=float(seconds_sampling),
        seconds_total=float(seconds_total),
        gradients=int(gradients),
        num_chains=num_chains,
        num_draws=num_draws,
        sparsity=sparsity,
    )


@dataclass(frozen=True)
class Run:
    """What the verdict needs besides the draws."""

    num_chains: int
    num_draws: int
    divergences: int
    nonfinite: int
    ebfmi: tuple[float, ...]
    broken_energies: int


def _as_energy(energy: ArrayLike, size: tuple[int, int]) -> np.ndarray:
    if np.shape(energy) != size:
        raise ValueError(
            f"energy must have shape (chain, draw) = {size}, but has shape {np.shape(energy)}; give one for each draw"
        )
    return np.asarray(energy, dtype=np.float64)


def verdict_of(quantities: Quantities, run: Run, thresholds: Thresholds) -> tuple[str, bool]:
    """The sentence, and whether it is a good one."""
    unusable = _unusable(quantities, run)
    if unusable:
        return f"cannot be judged: {unusable}", False
    faults = _mixing_faults(quantities, run, thresholds) + _sampler_faults(run, thresholds)
    alone = ["one chain only, so R-hat compares its halves and not chains; run num_chains=4"] if run.num_chains == 1 else []
    if faults or alone:
        return f"{'not converged' if faults else 'cannot be judged'}: {'; '.join(faults + alone)}", False
    r_hat = math.ceil(1000 * quantities.worst("r_hat")[0]) / 1000
    ess = math.floor(min(quantities.worst("ess_bulk")[0], quantities.worst("ess_tail")[0]))
    note = f"; non-finite proposals, all rejected: {run.nonfinite}" if run.nonfinite else ""
    return f"converged: R-hat at most {r_hat:.3f}, at least {ess} effective samples{note}", True


def _unusable(quantities: Quantities, run: Run) -> str:
    """Why these draws cannot be judged at all, or nothing."""
    counts = [*zip(quantities.names, quantities.found.num_broken.tolist(), strict=True), ("the energy", run.broken_energies)]
    broken = [(name, count) for name, count in counts if count]
    if broken:
        name, count = broken[0]
        others = f" (and of {len(broken) - 1} more)" if len(broken) > 1 else ""
        which = f"{_counted(count, 'draw')} of {name}{others} {'is' if count == 1 else 'are'} NaN or infinite"
        return f"{which}; use no draws and find where the density breaks"
    if run.num_draws < FEWEST_DRAWS:
        return f"{_counted(run.num_draws, 'draw')} a chain; draw at least {FEWEST_DRAWS}, better 1000"
    if quantities.found.constant.all():
        return "no quantity moves; see that proposals are accepted, with a smaller step if they are not"
    return ""


def _mixing_faults(quantities: Quantities, run: Run, thresholds: Thresholds) -> list[str]:
    """What R-hat and effective samples say against the draws; of chains that disagree the latter say nothing."""
    r_hat, name = quantities.worst("r_hat")
    if r_hat > thresholds.r_hat:
        remedy = "run a longer warm-up and more draws, or another sampler"
        shown = f"{r_hat:.3f}" if r_hat < 100.0 else "above 100"
        return [f"R-hat is {shown} for {name}, at most {thresholds.r_hat:g} wanted; {remedy}"]
    wanted = thresholds.ess_per_chain * run.num_chains
    ess, name, where = min((*quantities.worst("ess_bulk"), ""), (*quantities.worst("ess_tail"), " in the tails"))
    if ess >= wanted:
        return []
    remedy = f"draw {two_digits_up(run.num_draws * wanted / ess)} a chain instead of {run.num_draws}"
    return [f"{_counted(math.floor(ess), 'effective sample')} of {name}{where}, {wanted:g} wanted; {remedy}"]


def _sampler_faults(run: Run, thresholds: Thresholds) -> list[str]:
    """What the sampler itself counted against the draws."""
    faults, total = [], run.num_chains * run.num_draws
    if run.divergences > thresholds.divergences:
        faults.append(f"{run.divergences} of {total} draws diverged; use a smaller step or a higher target acceptance")
    if run.nonfinite > thresholds.nonfinite_share * total:
        faults.append(f"{run.nonfinite} of {total} proposals were not finite; use a smaller step, tighter priors or more jitter")
    if run.ebfmi and not np.isnan(run.ebfmi).all() and np.nanmin(run.ebfmi) < thresholds.ebfmi:
        low = f"E-BFMI is {np.nanmin(run.ebfmi):.2f} in chain {np.nanargmin(run.ebfmi)}, at least {thresholds.ebfmi:g} wanted"
        faults.append(f"{low}; the energy is explored too slowly, so run a longer warm-up or another sampler")
    return faults


def _sparsity_note(sparsity: Sparsity | None, converged: bool) -> str:
    """What to do where the inducing points lose too much; nothing where they do not."""
    if sparsity is None or not sparsity.matters:
        return ""
    return f"; {'but' if converged else 'besides,'} {loss_in_words(sparsity)}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
