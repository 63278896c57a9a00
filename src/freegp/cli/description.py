"""What the columns of a run mean: one small JSON file beside its draws, checked when it is read."""

import dataclasses
import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from freegp.model import SparseGP
from freegp.saving import sync_folder
from freegp.tables import check_columns, indicators, numbers, shown_levels

FILE = "data.json"
FORMAT = 2

FAMILIES = {
    "gaussian": "Gaussian",
    "student": "StudentT",
    "bernoulli": "Bernoulli",
    "poisson": "Poisson",
    "negative_binomial": "NegativeBinomial",
    "softmax": "Softmax",
    "robustmax": "RobustMax",
}
"""The class of each likelihood that the command line knows."""
CLASSIFIERS = ("bernoulli", "softmax", "robustmax")
COUNTS = ("poisson", "negative_binomial")
NUMBERS = ("gaussian", "student")
MOST_NAMED = 20
"""Columns that are listed with their units."""


@dataclass(frozen=True)
class Description:
    """How a table becomes what the model sees, and predictions what a person reads.

    Attributes
    ----------
    source
        The name of the file the run was fitted to.
    inputs, levels
        The input columns, and the texts each may hold; none where it holds numbers.
    means, scales
        What is subtracted from each column that the model sees, and what it is divided by (`columns`).
    target, target_mean, target_scale
        The column that is learnt, and the same of it (0 and 1 unless it is a number on the real line).
    likelihood
        One of `FAMILIES`.
    classes
        The classes in the order of the labels 0, 1, ...; none for numbers and counts.
    exposure, rate
        The column of exposures, if counts have one, and the average count for one unit of exposure.
    """

    source: str
    inputs: tuple[str, ...]
    levels: tuple[tuple[str, ...], ...]
    means: tuple[float, ...]
    scales: tuple[float, ...]
    target: str
    target_mean: float
    target_scale: float
    likelihood: str
    classes: tuple[str, ...]
    exposure: str | None
    rate: float

    @property
    def columns(self) -> tuple[str, ...]:
        """What the model sees, by name: a column of numbers, or whether a column holds a text, as ``sex=female``."""
        return column_names(self.inputs, self.levels)

    def standardised(self, table: pd.DataFrame, path: Path) -> np.ndarray:
        """The inputs ``[N, D]`` of a table as the model sees them."""
        return (encoded(table, self.inputs, self.levels, path) - np.asarray(self.means)) / np.asarray(self.scales)

    def units(self) -> str:
        """What the model's parameters are measured in."""
        if len(self.columns) > MOST_NAMED:
            parts = ["lengthscales are in standard deviations of the inputs"]
        else:
            columns = enumerate(zip(self.columns, self.scales, strict=True))
            listed = "; ".join(f"[{i}] {name}, sd {scale:.4g}" for i, (name, scale) in columns)
            parts = [f"lengthscales are in standard deviations of the inputs: {listed}"]
        if self.likelihood in NUMBERS:
            standard = f"the mean of {self.target}, {self.target_mean:.4g}, was subtracted"
            parts.append(f"{standard}, and variances and noise are in units of its sd, {self.target_scale:.4g}")
        if self.likelihood in COUNTS:
            unit = f"a unit of {self.exposure}" if self.exposure else "a row"
            parts.append(f"the function is the log of the rate over its average, {self.rate:.4g} {self.target} {unit}")
        return "\n".join(parts)

    def exposures(self, table: pd.DataFrame, path: Path) -> np.ndarray | float | None:
        """The exposures of a table in units of the average rate; None for what is not a count."""
        if self.likelihood not in COUNTS:
            return None
        return self.rate if self.exposure is None else exposure_of(table, self.exposure, path) * self.rate

    def check_model(self, model: SparseGP, folder: Path) -> None:
        """Whether this is the description of that model."""
        family, num_columns = type(model.likelihood).__name__, model.placed.num_columns
        of_classes = self.likelihood == "bernoulli" or len(self.classes) in (0, model.num_latents)
        if FAMILIES[self.likelihood] != family or len(self.columns) != num_columns or not of_classes:
            raise ValueError(f"{folder / FILE} describes another run than the one in {folder}; restore it from a copy")


def column_names(inputs: Sequence[str], levels: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """The columns that the model sees, from those of the table."""
    each = (
        [f"{name}={level}" for level in shown_levels(texts)] if texts else [name]
        for name, texts in zip(inputs, levels, strict=True)
    )
    return tuple(name for names in each for name in names)


def encoded(table: pd.DataFrame, inputs: Sequence[str], levels: Sequence[Sequence[str]], path: Path) -> np.ndarray:
    """Columns of a table as ``[N, D]`` numbers: those of text as zeros and ones."""
    check_columns(table, inputs, path)
    parts = [
        indicators(table[name], texts, path) if texts else numbers(table, [name], path)
        for name, texts in zip(inputs, levels, strict=True)
    ]
    return np.concatenate(parts, axis=1)


def exposure_of(table: pd.DataFrame, name: str, path: Path) -> np.ndarray:
    """A column of exposures, which are positive."""
    exposure = numbers(table, [name], path)[:, 0]
    bad = exposure <= 0.0
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        there = f"the exposure {name!r} is {exposure[row]:g} in data row {row + 1} of {path}"
        raise ValueError(f"{there}, but must be positive; drop the rows that have none")
    return exposure


def write_description(folder: Path, description: Description) -> None:
    """Write the file, whole or not at all."""
    temporary = folder / f".{FILE}.new"
    text = json.dumps({"format": FORMAT, **dataclasses.asdict(description)}, indent=2, allow_nan=False)
    with open(temporary, "w", encoding="utf-8") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, folder / FILE)
    sync_folder(folder)


def read_description(folder: Path) -> Description | None:
    """The description of a run; None for a run that was made from Python and has none."""
    path = folder / FILE
    if not path.is_file():
        return None
    try:
        return _decode(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged ({error}); restore it from a copy, or fit again") from None


def _decode(raw: Any) -> Description:
    if not isinstance(raw, dict) or raw.get("format") != FORMAT:
        raise ValueError(f"it is not a description of format {FORMAT}")
    names = {field.name for field in dataclasses.fields(Description)}
    if set(raw) != names | {"format"}:
        odd = sorted(set(raw) ^ (names | {"format"}))
        raise ValueError(f"{', '.join(odd)} is missing or unknown")
    description = Description(
        source=_text(raw["source"], "source"),
        inputs=_texts(raw["inputs"], "inputs"),
        levels=tuple(_texts(texts, "levels") for texts in _list(raw["levels"], "levels")),
        means=tuple(_number(value, "means") for value in _list(raw["means"], "means")),
        scales=tuple(_number(value, "scales", 0.0) for value in _list(raw["scales"], "scales")),
        target=_text(raw["target"], "target"),
        target_mean=_number(raw["target_mean"], "target_mean"),
        target_scale=_number(raw["target_scale"], "target_scale", 0.0),
        likelihood=_text(raw["likelihood"], "likelihood"),
        classes=_texts(raw["classes"], "classes"),
        exposure=None if raw["exposure"] is None else _text(raw["exposure"], "exposure"),
        rate=_number(raw["rate"], "rate", 0.0),
    )
    _check_together(description)
    return description


def _check_together(description: Description) -> None:
    if description.likelihood not in FAMILIES:
        raise ValueError(f"there is no likelihood {description.likelihood!r}")
    if not 0 < len(description.inputs) == len(description.levels) or any(len(texts) == 1 for texts in description.levels):
        raise ValueError("inputs and levels do not go together")
    if not len(description.columns) == len(description.means) == len(description.scales):
        raise ValueError("inputs, means and scales are not equally many")
    if (description.likelihood in CLASSIFIERS) != (len(description.classes) >= 2):
        raise ValueError("classes do not go with the likelihood")


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{name} is not text")
    return value


def _list(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{name} is not a list")
    return value


def _texts(value: Any, name: str) -> tuple[str, ...]:
    return tuple(_text(entry, name) for entry in _list(value, name))


def _number(value: Any, name: str, above: float = -math.inf) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= above:
        raise ValueError(f"{name} is not a number as expected")
    return float(value)
