"""A model, its parameters and its faults in plain words."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from freegp.diagnostics import Diagnostics, Thresholds
from freegp.kernels import Kernel, Product, Sum
from freegp.parameters import all_parameters, get_value
from freegp.plots.beliefs import entry_prior
from freegp.plots.scalars import entries, scalar_draws
from freegp.posterior import Posterior
from freegp.priors import Prior
from freegp.report.units import Scale
from freegp.sparsity import FEW_NATS, Sparsity

_KERNELS = {
    "RBF": "squared exponential",
    "Matern12": "Matérn 1/2",
    "Matern32": "Matérn 3/2",
    "Matern52": "Matérn 5/2",
    "RationalQuadratic": "rational quadratic",
    "Periodic": "periodic",
    "Linear": "linear",
    "Constant": "constant",
    "White": "white noise",
}
_LIKELIHOODS = {
    "Gaussian": "real numbers with Gaussian noise",
    "StudentT": "real numbers with heavy-tailed (Student's t) noise",
    "Bernoulli": "labels of two classes (Bernoulli)",
    "Poisson": "counts (Poisson)",
    "NegativeBinomial": "counts with extra spread (negative binomial)",
    "Exponential": "positive numbers (exponential)",
    "Gamma": "positive numbers (gamma)",
    "Beta": "shares between 0 and 1 (beta)",
    "Ordinal": "ordered classes (ordinal)",
    "RobustMax": "labels of several classes (robust-max)",
    "Softmax": "labels of several classes (softmax)",
    "Custom": "data with a likelihood of the user's own",
}


class Estimate(NamedTuple):
    """What is known of one number: its name in words and in the model, its median, and where 90 % of its draws lie."""

    words: str
    name: str
    median: float
    low: float
    high: float
    prior: str

    @property
    def sentence(self) -> str:
        """For example: lengthscale: 0.61, 90 % between 0.49 and 0.75."""
        return f"{self.words}: {number(self.median)}, 90 % between {number(self.low)} and {number(self.high)}"


def number(value: float) -> str:
    """Three digits, with no exponent where none is needed.

    >>> number(0.6149), number(1234.4), number(2.5e-7), number(float("nan"))
    ('0.615', '1234', '2.5e-07', 'unknown')
    """
    if math.isnan(value):
        return "unknown"
    return f"{value:.0f}" if 1000 <= abs(value) < 1e7 else f"{value:.3g}"


def model_in_words(posterior: Posterior) -> str:
    """The model and the size of the data, in two sentences."""
    model, (num_data, num_columns) = posterior.model, posterior.X.shape
    family = type(model.likelihood).__name__
    seen = _LIKELIHOODS.get(family, f"data with the likelihood {family}")
    kernels = "; ".join(dict.fromkeys(kernel_in_words(kernel) for kernel in model.kernels))
    functions = "a latent function" if model.num_latents == 1 else f"{model.num_latents} latent functions"
    return (
        f"A sparse Gaussian process for {seen}: {functions} with the kernel “{kernels}”, "
        f"carried by {_counted(model.num_inducing, 'inducing point')}. "
        f"The data are {_counted(num_data, 'row')} with {_counted(num_columns, 'input column')}."
    )


def kernel_in_words(kernel: Kernel) -> str:
    """A kernel's name; sums and products of several.

    >>> from freegp.kernels import RBF, Linear, Periodic
    >>> kernel_in_words(RBF() * Periodic() + Linear())
    'squared exponential times periodic, plus linear'
    """
    if isinstance(kernel, Sum):
        return ", plus ".join(kernel_in_words(member) for member in kernel.members)
    if isinstance(kernel, Product):
        return " times ".join(f"({kernel_in_words(m)})" if isinstance(m, Sum) else kernel_in_words(m) for m in kernel.members)
    return _KERNELS.get(type(kernel).__name__, type(kernel).__name__)


def fixed_in_words(posterior: Posterior) -> list[str]:
    """The parameters that were held, with their values."""
    held = [p.path for p in all_parameters(posterior.model) if p.prior is None]
    return [f"{path} = {_values(np.asarray(get_value(posterior.model, path)))}" for path in held]


def estimates(posterior: Posterior, columns: Sequence[Scale] = ()) -> list[Estimate]:
    """Every inferred number, in the model's order; lengthscales are called after the columns if these have names."""
    if posterior.free.shape[-1] == 0:
        return []
    draws, found = scalar_draws(posterior), entries(posterior)
    short = [_short(entry.name, columns) for entry in found]
    result = []
    for entry, words in zip(found, short, strict=True):
        low, median, high = (float(q) for q in np.quantile(draws[entry.name], (0.05, 0.5, 0.95)))
        full = f"{words} of {entry.parameter.path.rsplit('.', 1)[0]}" if short.count(words) > 1 else words
        result.append(
            Estimate(full, entry.name, median, low, high, _prior_in_words(entry_prior(entry.parameter, entry.position)))
        )
    return result


def sparsity_in_words(sparsity: Sparsity | None) -> str:
    """What the inducing points lose, and what to do about it."""
    if sparsity is None:
        return "What the inducing points lose was not measured."
    points = _counted(sparsity.num_inducing, "inducing point")
    moved = f", and the parameter that moves most is moved by about {sparsity.shift:.2g} of its standard deviations"
    lost = (
        f"With {points}, about {sparsity.nats_lost:.2g} nats of the log likelihood are lost against a full Gaussian process"
        f"{moved if sparsity.shift > 0.0 else ''}."
    )
    if not sparsity.matters:
        return f"{lost} That is little (up to {FEW_NATS:g} nat is let pass): more points would change nothing that matters."
    if sparsity.suggested_inducing is None:
        return f"{lost} That is too much, and only all the data would lose little: use them as inducing inputs (Z = X)."
    if sparsity.suggested_inducing == sparsity.num_inducing:
        return f"{lost} They are all the data, so it is the jitter's doing: lower it."
    return f"{lost} That is too much: about {sparsity.suggested_inducing} points would lose little."


def diagnostics_rows(found: Diagnostics) -> list[tuple[str, str, str]]:
    """The numbers behind the verdict: what, how much, and how much was wanted."""
    limits = Thresholds()
    wanted = f"at least {limits.ess_per_chain * found.num_chains:.0f}"
    energy = min((e for e in found.ebfmi if not math.isnan(e)), default=math.nan)
    rows = [
        ("R-hat, the worst of all quantities", _fixed(found.r_hat, 3), f"at most {limits.r_hat:g}"),
        ("effective samples, the fewest", _fixed(found.ess, 0), wanted),
        ("effective samples in the tails, the fewest", _fixed(found.ess_tail, 0), wanted),
        ("draws that diverged", str(found.divergences), f"at most {limits.divergences}"),
        ("proposals that were not finite", str(found.nonfinite), f"at most {100 * limits.nonfinite_share:g} % of the draws"),
        ("acceptance, on average", _fixed(found.acceptance, 2), ""),
        ("lowest E-BFMI of a chain", _fixed(energy, 2), f"at least {limits.ebfmi:g}"),
        ("nats lost by the inducing points", _nats(found.sparsity), f"at most {FEW_NATS:g}"),
        ("gradients", str(found.gradients), ""),
        ("effective samples a thousand gradients", number(found.ess_per_1000_gradients), ""),
        ("seconds of sampling", number(found.seconds_sampling), ""),
        ("seconds in all", number(found.seconds_total), ""),
        ("effective samples a second of sampling", number(found.tn_ess), ""),
    ]
    return rows if found.ebfmi else [row for row in rows if "E-BFMI" not in row[0]]


def _nats(sparsity: Sparsity | None) -> str:
    return "unknown" if sparsity is None else number(sparsity.nats_lost)


def _short(name: str, columns: Sequence[Scale]) -> str:
    """The last word of a parameter's name, in the singular: "kernel.lengthscales[0]" is "lengthscale 0", or that of a column."""
    path, _, position = name.partition("[")
    last = path.rsplit(".", 1)[-1].replace("_", " ")
    singular = {"lengthscales": "lengthscale", "cutpoints": "cutpoint"}.get(last, last)
    which = position.removesuffix("]")
    if singular == "lengthscale" and which.isdecimal() and columns:
        return f"lengthscale of {columns[int(which)].name}"
    return f"{singular} {which}".strip()


def _prior_in_words(prior: Prior) -> str:
    return f"{prior.name}({', '.join(number(argument) for argument in prior.arguments)})"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _fixed(value: float, digits: int) -> str:
    return "unknown" if math.isnan(value) else f"{value:.{digits}f}"


def _values(array: np.ndarray) -> str:
    return ", ".join(number(float(value)) for value in array.ravel())
