"""Leave-one-out predictive density from the draws of one run."""

import math
import warnings
from dataclasses import dataclass
from types import ModuleType

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from freegp.diagnostics.estimates import BLOCK, FEWEST_DRAWS, as_draws, statistics


@dataclass(frozen=True, eq=False, repr=False)
class LeaveOneOut:
    """Expected log predictive density of each datum given the others.

    Attributes
    ----------
    elpd, se
        Its sum over data and the standard error of that sum.
    pointwise, pareto_k
        The density and the reliability of its estimate for each datum, ``[N]``.
    threshold
        The largest k to be trusted, ``min(1 - 1 / log10(S), 0.7)`` for S draws: 0.7 from 2155 draws on.
    verdict
        One sentence on whether the estimate can be used.
    """

    elpd: float
    se: float
    pointwise: np.ndarray
    pareto_k: np.ndarray
    threshold: float
    verdict: str

    def __repr__(self) -> str:
        return f"LeaveOneOut(elpd {self.elpd:.2f} +- {self.se:.2f} over {len(self.pointwise)} data: {self.verdict})"


def psis_loo(
    expected_log_lik: Float[np.ndarray, "chain draw N"], log_predictive: Float[np.ndarray, "chain draw N"]
) -> LeaveOneOut:
    """Leave-one-out by Pareto-smoothed importance sampling (Vehtari et al. 2024) for the variational sparse target.

    Datum n enters the sampled target as the factor ``exp(E_n)`` with ``E_n = E[log p(y_n | f_n)]``, so the draws without it have
    weights ``w_s ∝ exp(-E_ns)``, smoothed. They average the predictive density, which is another number:
    ``elpd_n = log sum_s w_s p_ns`` with ``p_ns = E[p(y_n | f_n)]``. Inducing inputs stay where they are.
    """
    expected, predictive = as_draws(expected_log_lik, "expected_log_lik"), as_draws(log_predictive, "log_predictive")
    _check_per_datum(expected, predictive)
    num_samples, num_data = math.prod(expected.shape[:2]), expected.shape[2]
    efficiency = _relative_efficiency(expected)
    pointwise, pareto_k = np.empty(num_data), np.empty(num_data)
    for start in range(0, num_data, BLOCK):
        block = slice(start, start + BLOCK)
        log_weights, pareto_k[block] = _smoothed(-expected[:, :, block].reshape(num_samples, -1).T, efficiency)
        pointwise[block] = logsumexp(log_weights + predictive[:, :, block].reshape(num_samples, -1).T, axis=1)
    threshold = min(1.0 - 1.0 / math.log10(num_samples), 0.7)
    se = math.sqrt(num_data * float(np.var(pointwise)))
    return LeaveOneOut(float(pointwise.sum()), se, pointwise, pareto_k, threshold, _loo_verdict(pareto_k, threshold))


def import_arviz() -> ModuleType:
    """ArviZ, without the notice of a coming rewrite that it gives once a day; not before it is needed, as it takes seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import arviz
    return arviz


def _check_per_datum(expected: np.ndarray, predictive: np.ndarray) -> None:
    if expected.ndim != 3 or expected.shape != predictive.shape or expected.shape[2] == 0:
        shapes = f"{expected.shape} and {predictive.shape}"
        raise ValueError(f"both log-likelihoods must have one shape (chain, draw, N), but have {shapes}; give one value a datum")
    for name, values in (("expected_log_lik", expected), ("log_predictive", predictive)):
        broken = np.flatnonzero(~np.isfinite(values).all(axis=(0, 1)))
        if broken.size:
            raise ValueError(f"{name} is NaN or infinite for {broken.size} data, the first {broken[0]}; leave these data out")
    if math.prod(expected.shape[:2]) < 25:
        raise ValueError(f"leave-one-out needs 25 draws, but there are {math.prod(expected.shape[:2])}; draw more")


def _relative_efficiency(expected: Float[np.ndarray, "chain draw N"]) -> float:
    """Effective samples a draw of the data's factors, averaged over data; it sets how long a tail is smoothed."""
    if expected.shape[1] < FEWEST_DRAWS:
        return 1.0
    found = statistics(np.exp(expected - expected.max(axis=(0, 1))))
    varying = ~found.constant
    if not varying.any():
        return 1.0
    ess = np.square(found.sd[varying] / found.mcse[varying])
    return float(np.mean(ess)) / math.prod(expected.shape[:2])


def _smoothed(log_ratios: Float[np.ndarray, "N S"], efficiency: float) -> tuple[np.ndarray, np.ndarray]:
    """Normalised log weights of each datum and their Pareto k; equal ratios need no smoothing and have k = 0."""
    log_weights, pareto_k = import_arviz().psislw(log_ratios, reff=efficiency)
    equal = np.ptp(log_ratios, axis=1) == 0.0
    return log_weights, np.where(equal, 0.0, pareto_k)


def _loo_verdict(pareto_k: np.ndarray, threshold: float) -> str:
    bad = int(np.sum(pareto_k > threshold))
    if bad == 0:
        return f"reliable: Pareto k at most {pareto_k.max():.2f}"
    found = f"Pareto k is above {threshold:.2f} for {bad} of {pareto_k.size} data"
    worst = f"up to {pareto_k.max():.2f} for datum {int(np.argmax(pareto_k))}"
    return f"not reliable: {found}, {worst}; sample again without these data, or draw more if there are few draws"
