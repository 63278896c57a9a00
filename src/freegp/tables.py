"""Tables from files: CSV and Parquet. Every complaint is one sentence that names the file, the column or the row.

Rows are counted as a person counts them: the first one under the header is row 1.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

SEPARATORS = {".csv": ",", ".tsv": "\t"}
PARQUET = (".parquet", ".pq")


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
    if len(table) == 0:
        raise ValueError(f"{path} has no row under its header; give a table with data")
    twice = table.columns[table.columns.duplicated()]
    if len(twice):
        raise ValueError(f"{path} has two columns named {twice[0]!r}; rename one of them")
    return table


def write_table(table: pd.DataFrame, path: Path) -> None:
    """Write a table in the format that the file's name ends in; CSV if it ends in none that is known."""
    if path.suffix.lower() in PARQUET:
        table.to_parquet(path, engine="pyarrow", index=False)
    else:
        table.to_csv(path, sep=SEPARATORS.get(path.suffix.lower(), ","), index=False)


def check_columns(table: pd.DataFrame, names: Sequence[str], path: Path) -> None:
    """These columns are there."""
    for name in names:
        if name not in table.columns:
            there = ", ".join(table.columns[:10]) + (", ..." if table.shape[1] > 10 else "")
            raise ValueError(f"{path} has no column {name!r}; it has {there}")


def numeric_names(table: pd.DataFrame) -> list[str]:
    """The columns that hold numbers."""
    return [name for name in table.columns if is_numeric(table[name])]


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
        raise ValueError(f"{column.name!r} is missing in {_rows(missing)} of {path}; drop them or fill them in")
    values = column.to_numpy() if is_numeric(column) else column.astype(str).to_numpy(dtype=object)
    found, index = np.unique(values, return_inverse=True)
    if len(found) == 1:
        raise ValueError(f"{column.name!r} is {_label(found[0])!r} in every row of {path}; a classifier needs two classes")
    if len(found) > max(2, len(column) // 2):
        there = f"{len(found)} different values in {len(column)} rows"
        raise ValueError(f"{column.name!r} holds {there} of {path}, too many for classes; choose another --likelihood")
    return tuple(_label(value) for value in found), index.astype(np.float64)


def _read_text(path: Path, separator: str) -> pd.DataFrame:
    try:
        return pd.read_csv(path, sep=separator, skipinitialspace=True, encoding="utf-8-sig", index_col=False)
    except pd.errors.EmptyDataError:
        raise ValueError(f"{path} is empty; give a table with a header and data") from None
    except (pd.errors.ParserError, pd.errors.ParserWarning, UnicodeDecodeError) as error:
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
        raise ValueError(f"column {name!r} of {path} is missing or infinite in {_rows(bad)}; drop them or fill them in")
    return values


def _label(value: object) -> str:
    """A class as a person writes it: 2, not 2.0."""
    return str(int(value)) if isinstance(value, float | np.floating) and float(value).is_integer() else str(value)


def _rows(bad: np.ndarray) -> str:
    index = np.flatnonzero(bad) + 1
    listed = ", ".join(str(i) for i in index[:5])
    return f"row{'s' if index.size > 1 else ''} {listed}" + (f" and {index.size - 5} more" if index.size > 5 else "")
