"""``freegp predict``: a run and a new table in, the table with predictions out."""

import sys
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import typer

from freegp.approximation import GaussianFit
from freegp.cli.description import CLASSIFIERS, Description
from freegp.cli.runs import Run, known_columns, read_run
from freegp.cli.words import complain, explained, say
from freegp.tables import check_columns, check_output, read_table, write_table

LEVELS = {"5%": 0.05, "50%": 0.5, "95%": 0.95}


def predict(
    run: Annotated[Path, typer.Argument(help="The folder that freegp fit wrote.")],
    new: Annotated[Path, typer.Argument(help="A .csv, .tsv or .parquet file with the input columns (and exposures) of the fit.")],
    out: Annotated[
        Path | None, typer.Option(help="The .csv, .tsv or .parquet file to write.", metavar="FILE", show_default="print it")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file if it exists.")] = False,
) -> None:
    """Predict the target for the rows of another table, averaged over the draws.

    The table comes back with new columns: for a target y of numbers or counts y_mean, y_sd, y_5%, y_50% and y_95% of a new
    observation, noise included; for classes y_predicted and the probability of each class, y_p_NAME.

    Example: freegp predict run new.csv --out predictions.csv
    """
    with explained():
        if out is not None:
            check_output(out, overwrite)
        fitted = read_run(run)
        table = read_table(new)
        added = predictions(fitted, table, new)
        _warn_of(fitted)
        replaced = [name for name in added.columns if name in table.columns]
        if replaced:
            complain("warning", f"{new} has columns {', '.join(replaced)}; the new predictions stand in their place")
        kept = table.drop(columns=replaced)
        result = pd.concat([kept.reset_index(drop=True), added], axis=1)
        if out is None:
            result.to_csv(sys.stdout, index=False)
            return
        write_table(result, out)
        say(f"{len(result)} rows with predictions of {known_columns(fitted).target}: {out}")


def _warn_of(run: Run) -> None:
    """Predictions look the same whether or not the draws can be trusted, so it is said."""
    if isinstance(run.fitted, GaussianFit):
        return
    diagnostics = run.fitted.diagnostics
    if diagnostics.num_draws < run.num_samples:
        complain("warning", f"the run is not finished: {diagnostics.num_draws} of {run.num_samples} draws a chain")
    if not diagnostics.converged:
        complain("warning", f"these draws should not be trusted: {diagnostics.verdict}")


def predictions(run: Run, table: pd.DataFrame, path: Path) -> pd.DataFrame:
    """The columns that are added to a table."""
    description = known_columns(run)
    if description.exposure is not None and description.exposure not in table.columns:
        there = f"{path} has no column {description.exposure!r}, the exposure"
        raise ValueError(f"{there}; add it, with 1 in every row for counts in one unit of exposure")
    check_columns(table, description.inputs, path)
    X = description.standardised(table, path)
    if description.likelihood in CLASSIFIERS:
        return _class_columns(run, description, X)
    return _number_columns(run, description, X, description.exposures(table, path))


def _class_columns(run: Run, description: Description, X: np.ndarray) -> pd.DataFrame:
    mean = np.clip(np.asarray(run.fitted.predict_y(X)[0]), 0.0, 1.0)
    p = np.stack([1.0 - mean, mean], axis=1) if mean.ndim == 1 else mean / mean.sum(axis=1, keepdims=True)
    columns = {f"{description.target}_predicted": np.asarray(description.classes, dtype=object)[np.argmax(p, axis=1)]}
    columns |= {f"{description.target}_p_{label}": _digits(p[:, k]) for k, label in enumerate(description.classes)}
    return pd.DataFrame(columns)


def _number_columns(run: Run, description: Description, X: np.ndarray, exposure: np.ndarray | float | None) -> pd.DataFrame:
    mean, variance = (np.asarray(part) for part in run.fitted.predict_y(X, exposure=exposure))
    quantiles = np.asarray(run.fitted.quantiles_y(X, list(LEVELS.values()), exposure=exposure))
    shift, scale, target = description.target_mean, description.target_scale, description.target
    columns = {f"{target}_mean": _digits(shift + scale * mean), f"{target}_sd": _digits(scale * np.sqrt(variance))}
    columns |= {f"{target}_{name}": _digits(shift + scale * row) for name, row in zip(LEVELS, quantiles, strict=True)}
    return pd.DataFrame(columns)


def _digits(values: np.ndarray) -> np.ndarray:
    """Seven significant digits: more would be noise of the draws, fewer could be missed."""
    return np.array([float(f"{value:.7g}") for value in values])
