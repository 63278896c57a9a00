"""From a table to a model of it: the target, the inputs, a likelihood and the defaults that the estimators have."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from freegp import kernels, likelihoods, priors
from freegp.cli.description import CLASSIFIERS, COUNTS, NUMBERS, Description, column_names, encoded, exposure_of
from freegp.estimators.base import default_kernel, default_kernel_priors, default_size
from freegp.inducing import Automatic, KMeans, Placement
from freegp.model import SparseGP
from freegp.tables import check_columns, classes, is_numeric, levels_of, numbers, why_not_learnt_from

Say = Callable[[str], None]
KERNELS: dict[str, Callable[..., kernels.Kernel]] = {
    "rbf": kernels.RBF,
    "matern12": kernels.Matern12,
    "matern32": kernels.Matern32,
    "matern52": kernels.Matern52,
}


@dataclass(frozen=True)
class Question:
    """What was asked of a table: which column is learnt from which, and how it is distributed.

    Attributes
    ----------
    target, inputs, exposure
        Columns; no inputs means all others that hold numbers or few different texts.
    likelihood
        By name; None is a guess.
    """

    target: str
    inputs: tuple[str, ...] = ()
    likelihood: str | None = None
    exposure: str | None = None


@dataclass(frozen=True)
class Problem:
    """A description of the columns, and the data as the model sees them: ``[N, D]``, ``[N]``, exposures of counts."""

    description: Description
    X: np.ndarray
    y: np.ndarray
    exposure: np.ndarray | float | None


def problem_of(table: pd.DataFrame, question: Question, path: Path, say: Say) -> Problem:
    """Check the columns, choose what was left open (and say so), and standardise as the estimators do."""
    check_columns(table, [question.target] + ([question.exposure] if question.exposure else []), path)
    likelihood = question.likelihood or _guessed(table[question.target], question, path, say)
    if question.exposure and likelihood not in COUNTS:
        raise ValueError(f"--exposure is for counts, but the likelihood is {likelihood}; leave it out or use poisson")
    inputs, levels = _inputs(table, question, path, say)
    X = encoded(table, inputs, levels, path)
    labels, y = _target(table, question.target, likelihood, path)
    mean, scale = (float(y.mean()), float(y.std()) or 1.0) if likelihood in NUMBERS else (0.0, 1.0)
    rate = _rate(table, question, y, path) if likelihood in COUNTS else 1.0
    means, scales = (tuple(moments.tolist()) for moments in (X.mean(axis=0), X.std(axis=0)))
    asked = (question.target, mean, scale, likelihood, labels, question.exposure, rate)
    description = Description(path.name, inputs, levels, means, scales, *asked)
    exposure = description.exposures(table, path)
    return Problem(description, description.standardised(table, path), (y - mean) / scale, exposure)


def model_of(problem: Problem, kernel: str, inducing: str | None) -> tuple[SparseGP, bool]:
    """The model, and whether its inducing points are all the distinct rows, which the fit need not move."""
    num_columns = problem.X.shape[1]
    placement, is_held = _placement(inducing, len(np.unique(problem.X, axis=0)), num_columns)
    likelihood, beliefs, fixed = _likelihood(problem)
    chosen = KERNELS[kernel](lengthscales=default_kernel(num_columns).lengthscales)  # type: ignore[attr-defined]
    return SparseGP(chosen, likelihood, placement, beliefs | default_kernel_priors(num_columns), fixed), is_held


def overview(problem: Problem, data: Path) -> str:
    """What is learnt from what, in a line."""
    described = problem.description
    labels = f" ({_some(described.classes)})" if described.classes else ""
    rows = f"{len(problem.y)} rows of {data}"
    return f"{rows}: {described.target}{labels} from {_some(described.inputs)}; likelihood {described.likelihood}"


def _guessed(column: pd.Series, question: Question, path: Path, say: Say) -> str:
    """A likelihood from the look of the target, with a sentence about it."""
    name = question.target
    if question.exposure:
        likelihood, reason = "poisson", "there is an exposure"
    elif not is_numeric(column) or column.dtype == bool:
        likelihood = "bernoulli" if column.nunique() <= 2 else "softmax"
        reason = f"{name!r} names {column.nunique()} classes"
    else:
        likelihood, reason = _guessed_from_numbers(numbers(column.to_frame(), [name], path)[:, 0], name)
    say(f"likelihood: {likelihood}, because {reason}; choose another with --likelihood")
    return likelihood


def _guessed_from_numbers(y: np.ndarray, name: str) -> tuple[str, str]:
    if np.isin(y, (0.0, 1.0)).all():
        return "bernoulli", f"{name!r} is 0 or 1"
    if (y >= 0.0).all() and (y == np.round(y)).all():
        return "poisson", f"{name!r} holds whole numbers from {y.min():g} to {y.max():g}, taken as counts"
    return "gaussian", f"{name!r} holds numbers that are not all counts"


def _inputs(table: pd.DataFrame, question: Question, path: Path, say: Say) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """The input columns, and the texts in each. Columns that say nothing are left out, with a word."""
    taken = (question.target, question.exposure)
    names = list(question.inputs) or [name for name in table.columns if name not in taken]
    _check_inputs(names, question, path)
    check_columns(table, names, path)
    left_out = {name: why_not_learnt_from(table[name]) for name in names}
    unusable = next((name for name in question.inputs if left_out[name]), None)
    if unusable is not None:
        numbers(table, [unusable], path)  # says which cell of a column of numbers is none
    for name in names:
        if not left_out[name] and table[name].nunique(dropna=False) == 1:
            left_out[name] = "the same in every row"
    if any(left_out.values()):
        say("left out: " + "; ".join(f"{name} ({reason})" for name, reason in left_out.items() if reason))
    kept = [name for name in names if not left_out[name]]
    if not kept:
        raise ValueError(f"no column of {path} is left to learn from; give at least one input that varies")
    levels = tuple(levels_of(table[name]) for name in kept)
    texts = {name: each for name, each in zip(kept, levels, strict=True) if each}
    if texts:
        say(f"taken as categories, 0 or 1 each: {_some(column_names(list(texts), list(texts.values())))}")
    return tuple(kept), levels


def _some(names: tuple[str, ...]) -> str:
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")


def _check_inputs(names: list[str], question: Question, path: Path) -> None:
    if not names:
        raise ValueError(f"{path} has no column besides the target; give at least one input")
    for name in names:
        if name in (question.target, question.exposure):
            role = "target" if name == question.target else "exposure"
            raise ValueError(f"{name!r} is the {role} and cannot be an input too; take it out of --inputs")
        if names.count(name) > 1:
            raise ValueError(f"--inputs names {name!r} twice; name it once")


def _target(table: pd.DataFrame, name: str, likelihood: str, path: Path) -> tuple[tuple[str, ...], np.ndarray]:
    """The classes, if it is a class, and the target as numbers."""
    if likelihood not in CLASSIFIERS:
        if levels_of(table[name]) and not why_not_learnt_from(table[name]):
            raise ValueError(f"{name!r} holds text, which {likelihood} does not take; use --likelihood bernoulli or softmax")
        y = numbers(table, [name], path)[:, 0]
        bad = (y < 0.0) | (y != np.round(y)) if likelihood in COUNTS else np.zeros(len(y), dtype=bool)
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            there = f"{likelihood} takes counts 0, 1, 2, ..., but {name!r} is {y[row]:g} in data row {row + 1} of {path}"
            raise ValueError(f"{there}; choose another --likelihood")
        return (), y
    labels, y = classes(table[name], path)
    if likelihood == "bernoulli" and len(labels) > 2:
        raise ValueError(f"{name!r} holds {len(labels)} classes, but bernoulli takes 2; use --likelihood softmax")
    return labels, y


def _rate(table: pd.DataFrame, question: Question, y: np.ndarray, path: Path) -> float:
    """The average count for one unit of exposure."""
    total = float(np.sum(exposure_of(table, question.exposure, path))) if question.exposure else float(len(y))
    return max(float(np.sum(y)), 1.0) / total


def _placement(inducing: str | None, num_distinct: int, num_columns: int) -> tuple[Placement, bool]:
    """How the inducing points are placed, and whether they are all the distinct rows."""
    if inducing == "auto":
        return Automatic(), False
    size = default_size(num_distinct, num_columns) if inducing is None else min(size_of(inducing), num_distinct)
    return KMeans(size), size == num_distinct


def size_of(text: str, option: str = "--inducing") -> int:
    """A number of inducing points, as it was typed."""
    if not text.isdecimal() or int(text) < 1:
        wanted = "a number of points or auto" if option == "--inducing" else "numbers of points with commas between them"
        raise ValueError(f"{option} must be {wanted}, but is {text!r}")
    return int(text)


def _likelihood(problem: Problem) -> tuple[likelihoods.Likelihood, dict[str, priors.Prior], list[str]]:
    """The likelihood, with what the estimators believe of its parameters and which of them they hold."""
    name, num_classes = problem.description.likelihood, len(problem.description.classes)
    if name == "gaussian":
        return likelihoods.Gaussian(variance=0.1), {"likelihood.variance": priors.LogNormal(math.log(0.1), 2.0)}, []
    if name == "student":
        beliefs: dict[str, priors.Prior] = {"likelihood.scale": priors.LogNormal(math.log(0.3), 1.0)}
        return likelihoods.StudentT(scale=0.3, df=4.0), beliefs, ["likelihood.df"]
    if name in COUNTS:
        family = likelihoods.Poisson if name == "poisson" else likelihoods.NegativeBinomial
        return family(exposure=problem.exposure), {}, []
    if name == "bernoulli":
        return likelihoods.Bernoulli(), {}, []
    return (likelihoods.Softmax if name == "softmax" else likelihoods.RobustMax)(num_classes), {}, []
