"""R-hat, effective samples and Monte-Carlo error of many quantities at once.

The estimators are those of Vehtari, Gelman, Simpson, Carpenter & Bürkner (2021), *Rank-normalization, folding, and
localization: an improved R-hat*, and agree with ArviZ's. They are written here for many quantities at once: 2000 coordinates of
4 chains of 1000 draws take ArviZ 9 s and this module 2.4 s.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import ArrayLike, Float
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import ndtri

BLOCK = 128  # quantities taken at once: their work arrays stay in the cache

FEWEST_DRAWS = 4  # the halves of a chain need two draws each


@dataclass(frozen=True, eq=False)
class Statistics:
    """What is known of each quantity; every array has the shape of one draw.

    R-hat and effective samples are NaN for a quantity that is constant, has a draw that is not finite, or has fewer than 4 draws
    a chain.

    Attributes
    ----------
    mean, sd, mcse
        Mean, standard deviation, and Monte-Carlo standard error of the mean.
    r_hat
        Rank-normalised split R-hat, the larger of bulk and folded. Of a single chain it compares the two halves.
    ess_bulk, ess_tail
        Effective samples for the centre of the distribution and for its 5 % and 95 % quantiles.
    constant
        Whether all draws are the same, up to rounding.
    num_broken
        How many draws are NaN or infinite.
    """

    mean: np.ndarray
    sd: np.ndarray
    mcse: np.ndarray
    r_hat: np.ndarray
    ess_bulk: np.ndarray
    ess_tail: np.ndarray
    constant: np.ndarray
    num_broken: np.ndarray


def statistics(draws: ArrayLike) -> Statistics:
    """R-hat, effective samples and Monte-Carlo error of every entry of ``[chain, draw, ...]``."""
    x = as_draws(draws, "draws")
    num_chains, num_draws, *shape = x.shape
    columns = x.reshape(num_chains, num_draws, math.prod(shape))
    judge = _judged if num_draws >= FEWEST_DRAWS else _unjudged
    rows = np.empty((8, columns.shape[2]))
    for start in range(0, columns.shape[2], BLOCK):
        block = slice(start, start + BLOCK)
        rows[:, block] = judge(np.ascontiguousarray(np.moveaxis(columns[:, :, block], 2, 0)))
    mean, sd, mcse, r_hat, bulk, tail, constant, broken = rows.reshape(8, *shape)
    return Statistics(mean, sd, mcse, r_hat, bulk, tail, constant.astype(bool), broken.astype(int))


def summary_table(named: Mapping[str, ArrayLike]) -> pd.DataFrame:
    """Mean, sd, mcse, r_hat, ess_bulk and ess_tail, one row a scalar.

    >>> draws = np.random.default_rng(0).normal(size=(4, 500, 2))
    >>> table = summary_table({"kernel.variance": draws[..., 0], "kernel.lengthscales": draws})
    >>> list(table.index)
    ['kernel.variance', 'kernel.lengthscales[0]', 'kernel.lengthscales[1]']
    """
    columns = ("mean", "sd", "mcse", "r_hat", "ess_bulk", "ess_tail")
    index: list[str] = []
    parts: list[np.ndarray] = [np.empty((0, len(columns)))]
    for name, draws in named.items():
        found = statistics(as_draws(draws, name))
        index += entry_names(name, found.mean.shape)
        parts.append(np.stack([getattr(found, column).ravel() for column in columns], axis=1))
    return pd.DataFrame(np.concatenate(parts), index=pd.Index(index, dtype=object), columns=list(columns))


def entry_names(name: str, shape: Sequence[int]) -> list[str]:
    """Names of the scalars in an array: its own name if it is one.

    >>> entry_names("whitened", (1, 2)), entry_names("kernel.variance", ())
    (['whitened[0, 0]', 'whitened[0, 1]'], ['kernel.variance'])
    """
    if not shape:
        return [name]
    return [f"{name}[{', '.join(map(str, index))}]" for index in itertools.product(*map(range, shape))]


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def energy_bfmi(energy: ArrayLike) -> Float[np.ndarray, " chain"]:
    """Energy fraction E-BFMI of each chain, ``mean (E_t - E_{t-1})^2 / var E`` (Betancourt 2016); NaN if the energy is constant.

    Low values say that fresh momenta change the energy too little to walk through its distribution, as in a funnel.
    """
    e = as_draws(energy, "energy")
    if e.ndim != 2:
        raise ValueError(f"energy must have shape (chain, draw), but has shape {e.shape}; give one energy for each draw")
    if e.shape[1] < 2:
        return np.full(e.shape[0], np.nan)
    fraction = np.mean(np.square(np.diff(e, axis=1)), axis=1) / np.var(e, axis=1, ddof=1)
    return np.where(is_constant(e[:, None, :]), np.nan, fraction)


def as_draws(draws: ArrayLike, name: str) -> np.ndarray:
    """Draws as floats, checked to have chains and draws."""
    x = np.asarray(draws, dtype=np.float64)
    if x.ndim < 2 or 0 in x.shape[:2]:
        remedy = f"; for one chain use {name}[None]" if x.ndim == 1 else ""
        raise ValueError(f"{name} must have shape (chain, draw, ...), but has shape {x.shape}{remedy}")
    return x


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def _judged(x: Float[np.ndarray, "K chain draw"]) -> Float[np.ndarray, "8 K"]:
    """The rows of `Statistics` for K quantities with enough draws."""
    broken = np.sum(~np.isfinite(x), axis=(1, 2))
    x = np.where((broken > 0)[:, None, None], 0.0, x)
    halves = _split(x)
    constant = is_constant(halves)
    ranked = _rank_normalised(halves)
    folded = _rank_normalised(np.abs(halves - np.median(halves, axis=(1, 2), keepdims=True)))
    r_hat = np.fmax(_split_r_hat(ranked), _split_r_hat(folded))  # folded is NaN if there are but two values
    quantiles = np.quantile(x, (0.05, 0.95), axis=(1, 2))[:, :, None, None]
    tail = np.minimum(*(_effective_samples(_split((x <= quantile).astype(float))) for quantile in quantiles))
    sd = np.where(constant, 0.0, np.std(x, axis=(1, 2), ddof=1))
    mcse = np.where(constant, 0.0, sd / np.sqrt(_effective_samples(halves)))
    rows = np.stack([np.mean(x, axis=(1, 2)), sd, mcse, r_hat, _effective_samples(ranked), tail])
    rows[3:, constant] = np.nan
    rows[:, broken > 0] = np.nan
    return np.concatenate([rows, (constant & (broken == 0))[None], broken[None]])


def _unjudged(x: Float[np.ndarray, "K chain draw"]) -> Float[np.ndarray, "8 K"]:
    """The rows of `Statistics` for K quantities with too few draws: their means only."""
    broken = np.sum(~np.isfinite(x), axis=(1, 2))
    means = np.where(broken > 0, np.nan, np.mean(np.where(np.isfinite(x), x, 0.0), axis=(1, 2)))
    unknown = np.full((5, x.shape[0]), np.nan)
    return np.concatenate([means[None], unknown, np.zeros((1, x.shape[0])), broken[None]])


def _split(x: Float[np.ndarray, "K chain draw"]) -> Float[np.ndarray, "K chains half"]:
    """Each chain as two; the middle draw of an odd number is dropped."""
    half = x.shape[2] // 2
    return np.concatenate([x[:, :, :half], x[:, :, -half:]], axis=1)


def is_constant(x: Float[np.ndarray, "K chain draw"]) -> np.ndarray:
    """Whether the draws differ by no more than rounding."""
    return np.ptp(x, axis=(1, 2)) <= 8 * np.finfo(float).eps * np.max(np.abs(x), axis=(1, 2))


def _rank_normalised(x: Float[np.ndarray, "K chain draw"]) -> Float[np.ndarray, "K chain draw"]:
    """Normal scores of the ranks among all chains, ties averaged (Vehtari et al. 2021, eq. 14)."""
    flat = x.reshape(x.shape[0], -1)
    ranks = pd.DataFrame(flat.T).rank().to_numpy().T  # scipy.stats has it too, and takes a second to import
    return ndtri((ranks - 0.375) / (flat.shape[1] + 0.25)).reshape(x.shape)


def _split_r_hat(x: Float[np.ndarray, "K chain draw"]) -> np.ndarray:
    """``sqrt((n - 1) / n + var(chain means) / mean(chain variances))``; huge or infinite if the chains stand still apart."""
    num_draws = x.shape[2]
    between = np.var(np.mean(x, axis=2), axis=1, ddof=1)
    within = np.mean(np.var(x, axis=2, ddof=1), axis=1)
    return np.sqrt((num_draws - 1) / num_draws + between / within)


def _autocorrelation(x: Float[np.ndarray, "K chain draw"]) -> Float[np.ndarray, "K draw"]:
    """Of all chains together, relative to the variance that also counts their disagreement; NaN if there is none."""
    num_draws = x.shape[2]
    means = np.mean(x, axis=2)
    size = next_fast_len(2 * num_draws, real=True)
    spectrum = rfft(x - means[:, :, None], n=size, axis=2)
    power = np.mean(np.square(spectrum.real) + np.square(spectrum.imag), axis=1)
    covariance = irfft(power, n=size, axis=1)[:, :num_draws] / num_draws
    variance = covariance[:, :1]
    total = variance + np.var(means, axis=1, ddof=1)[:, None]
    correlation = 1.0 - (variance * num_draws / (num_draws - 1) - covariance) / total
    correlation[:, 0] = np.where(total[:, 0] > 0.0, 1.0, np.nan)
    return correlation


def _effective_samples(x: Float[np.ndarray, "K chain draw"]) -> np.ndarray:
    """Draws over autocorrelation time, by Geyer's initial monotone sequence; all draws if they are constant.

    The sums of neighbouring autocorrelations are taken up to the first that is not positive, and made to decrease.
    """
    num_samples, num_draws = x.shape[1] * x.shape[2], x.shape[2]
    correlation = _autocorrelation(x)
    pairs = correlation[:, : num_draws - num_draws % 2].reshape(x.shape[0], -1, 2).sum(axis=2)
    longest = max(0, (num_draws - 3) // 2)
    ended = pairs <= 0.0
    num_pairs = np.minimum(np.where(ended.any(axis=1), ended.argmax(axis=1), longest), longest)
    kept = np.arange(pairs.shape[1]) < num_pairs[:, None]
    rows = np.arange(x.shape[0])
    rest = correlation[rows, 2 * num_pairs]
    rest = np.where((pairs[rows, num_pairs] >= 0.0) | (rest > 0.0), rest, 0.0)
    time = -1.0 + 2.0 * np.sum(np.minimum.accumulate(pairs, axis=1), axis=1, where=kept) + rest
    time = np.maximum(time, 1.0 / math.log10(num_samples))  # antithetic chains: no more than S log10(S)
    return np.where(np.isnan(correlation[:, 0]), num_samples, num_samples / time)
