"""Tables from files: CSV and Parquet. Every complaint is one sentence that names the file, the column or the row.

Rows are counted as a person counts them: the first one under the header is data row 1.
"""

import csv
import re
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

SEPARATORS = {".csv": ",", ".tsv": "\t"}
PARQUET = (".parquet", ".pq")
MOST_LEVELS = 20
"""Of a column of text that is learnt from."""
DECIMAL_COMMA = re.compile(r"(^|;)\s*-?\d+,\d+\s*(;|$)")


def read_table(path: Path) -> pd.DataFrame:
    """The table in a file, which has a row of names and at least one of data."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}; check the path")
    suffix = path.suffix.lower()
    if suffix in PARQUET:
        table = _read_parquet(path)
    elif suffix in SEPARATORS:
        table = _read_text(path, SEPARATORS[suffix])
    else:
        raise ValueError(f"{path} is not a .csv, .tsv or .parquet file; save the table as one of these")
    table.columns = [str(name).strip() for name in table.columns]
    _check_names(list(table.columns), path)
    if len(table) == 0:
        raise ValueError(f"{path} has no row under its header; give a table with data")
    return table


def _check_names(names: Sequence[str], path: Path) -> None:
    named = Counter(name.strip() for name in names if name.strip())
    twice = [name for name, count in named.items() if count > 1]
    if twice:
        raise ValueError(f"{path} has two columns named {twice[0]!r}; rename one of them")


def check_output(path: Path, may_replace: bool) -> None:
    """Whether a table can be written there; asked before anything is computed, so that nothing is computed in vain."""
    if path.suffix.lower() not in (*SEPARATORS, *PARQUET):
        raise ValueError(f"{path} does not end in .csv, .tsv or .parquet; name one of these")
    if not path.parent.is_dir():
        raise ValueError(f"there is no folder {path.parent} to write {path.name} into; make it first")
    if path.is_dir():
        raise ValueError(f"{path} is a folder; name a file")
    if path.exists() and not may_replace:
        raise ValueError(f"{path} exists already; name another file, or add --overwrite")


def write_table(table: pd.DataFrame, path: Path) -> None:
    """Write a table in the format that the file's name ends in."""
    if path.suffix.lower() in PARQUET:
        table.to_parquet(path, engine="pyarrow", index=False)
    else:
        table.to_csv(path, sep=SEPARATORS[path.suffix.lower()], index=False)


def check_columns(table: pd.DataFrame, names: Sequence[str], path: Path) -> None:
    """These columns are there."""
    for name in names:
        if name not in table.columns:
            there = ", ".join(table.columns[:10]) + (", ..." if table.shape[1] > 10 else "")
            raise ValueError(f"{path} has no column {name!r}; it has {there}")


def levels_of(column: pd.Series) -> tuple[str, ...]:
    """The different texts in a column, in order; none if it holds numbers."""
    return () if is_numeric(column) else tuple(sorted(set(_texts(column.dropna()))))


def why_not_learnt_from(column: pd.Series) -> str:
    """Why a column cannot be an input, for there are too many texts in it, or nothing."""
    levels = levels_of(column)
    return f"{len(levels)} different texts" if len(levels) > min(MOST_LEVELS, len(column) // 2) else ""


def indicators(column: pd.Series, levels: Sequence[str], path: Path) -> np.ndarray:
    """A column of text as ``[N, L]`` zeros and ones: a column for each level, or, of two, one for the second."""
    missing = column.isna().to_numpy()
    if missing.any():
        raise ValueError(f"column {column.name!r} of {path} is missing in {_rows(missing)}; drop these rows or fill them in")
    values = np.asarray(_texts(column), dtype=object)
    new = ~np.isin(values, np.asarray(levels, dtype=object))
    if new.any():
        there = f"{column.name!r} of {path} is {values[new][0]!r} in {_rows(new)}"
        raise ValueError(f"{there}, which the fit has not seen; it knows {', '.join(levels)}")
    return (values[:, None] == np.asarray(shown_levels(levels), dtype=object)).astype(np.float64)


def shown_levels(levels: Sequence[str]) -> tuple[str, ...]:
    """The levels that have an indicator of their own: of two, one says all."""
    return tuple(levels[1:] if len(levels) == 2 else levels)


def is_numeric(column: pd.Series) -> bool:
    """Whether a column holds real numbers (or false and true, which are 0 and 1)."""
    return bool(pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_complex_dtype(column))


def numbers(table: pd.DataFrame, names: Sequence[str], path: Path) -> np.ndarray:
    """Columns as a matrix of finite numbers."""
    check_columns(table, names, path)
    return np.stack([_column_of_numbers(table[name], name, path) for name in names], axis=1)


def classes(column: pd.Series, path: Path) -> tuple[tuple[str, ...], np.ndarray]:
    """The classes that a column names, in order, and the index ``[N]`` of each row's."""
    missing = column.isna().to_numpy()
    if missing.any():
        raise ValueError(f"{column.name!r} is missing in {_rows(missing)} of {path}; drop these rows or fill them in")
    values = column.to_numpy() if is_numeric(column) else np.asarray(_texts(column), dtype=object)
    found, index = np.unique(values, return_inverse=True)
    if len(found) == 1:
        raise ValueError(f"{column.name!r} is {_label(found[0])!r} in every row of {path}; a classifier needs two classes")
    if len(found) > max(2, len(column) // 2):
        there = f"{len(found)} different values in {len(column)} rows"
        raise ValueError(f"{column.name!r} holds {there} of {path}, too many for classes; choose another --likelihood")
    return tuple(_label(value) for value in found), index.astype(np.float64)


def _read_text(path: Path, separator: str) -> pd.DataFrame:
    """A table with commas, or with semicolons and perhaps decimal commas, as spreadsheets write it in half of the world."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            header = file.readline()
            outside_quotes = re.sub(r'"[^"]*"', "", header)
            if separator == "," and outside_quotes.count(";") > outside_quotes.count(","):
                separator = ";"
            decimal = "," if separator == ";" and any(DECIMAL_COMMA.search(line) for line in file) else "."
        _check_names(next(csv.reader([header], delimiter=separator), []), path)
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            return pd.read_csv(path, sep=separator, decimal=decimal, skipinitialspace=True, encoding="utf-8-sig", index_col=False)
    except pd.errors.EmptyDataError:
        raise ValueError(f"{path} is empty; give a table with a header and data") from None
    except (pd.errors.ParserError, pd.errors.ParserWarning, UnicodeDecodeError, csv.Error) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{path} cannot be read as a table ({reason}); save it as plain CSV in UTF-8") from None


def _read_parquet(path: Path) -> pd.DataFrame:
    try:
        return pd.read_parquet(path, engine="pyarrow")
    except (ValueError, OSError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{path} cannot be read as a Parquet file ({reason}); save it again") from None


def _column_of_numbers(column: pd.Series, name: str, path: Path) -> np.ndarray:
    if not is_numeric(column):
        text = pd.to_numeric(column, errors="coerce").isna().to_numpy() & column.notna().to_numpy()
        at = f" ({column[text].iloc[0]!r} in {_rows(text)})" if text.any() else ""
        raise ValueError(f"column {name!r} of {path} is not numeric{at}; encode it as numbers or leave it out")
    values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    bad = ~np.isfinite(values)
    if bad.any():
        raise ValueError(f"column {name!r} of {path} is missing or infinite in {_rows(bad)}; drop these rows or fill them in")
    return values


def _texts(column: pd.Series) -> list[str]:
    return [str(value).strip() for value in column]


def _label(value: object) -> str:
    """A class as a person writes it: 2, not 2.0."""
    return str(int(value)) if isinstance(value, float | np.floating) and float(value).is_integer() else str(value)


def _rows(bad: np.ndarray) -> str:
    index = np.flatnonzero(bad) + 1
    listed = ", ".join(str(i) for i in index[:5])
    return f"data row{'s' if index.size > 1 else ''} {listed}" + (f" and {index.size - 5} more" if index.size > 5 else "")
