"""What an experiment hands back, and the page on which the paper's figures stand beside ours."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Row:
    """One quantity: what the paper has, what we have, and how many seconds ours took (nothing where that has no meaning)."""

    quantity: str
    paper: str
    ours: str
    seconds: float | None = None


@dataclass(frozen=True)
class Report:
    """What an experiment found.

    Attributes
    ----------
    title
        What it is about.
    rows
        For the page.
    numbers
        All of it, for programs.
    readings
        How the paper was read where it leaves something open, and where ours differs from it.
    """

    title: str
    rows: list[Row]
    numbers: dict[str, Any]
    readings: tuple[str, ...] = field(default=())


def as_record(report: Report, settings: dict[str, Any], date: str, versions: str) -> dict[str, Any]:
    """The content of an experiment's ``numbers.json``."""
    return asdict(report) | {"settings": settings, "date": date, "versions": versions}


def write_page(out: Path, names: Iterable[str], quick: bool) -> Path:
    """Write ``paper.md`` from the numbers of those experiments that there are under a folder."""
    paths = (out / name / "numbers.json" for name in names)
    records = {path.parent: json.loads(path.read_text()) for path in paths if path.is_file()}
    title = "# The paper's figures and ours"
    note = "Written by `freegp reproduce`; each table has its settings, versions and date below it."
    warning = ["These are quick runs, far smaller than the paper's: they show that everything works, not what it reaches."]
    sections = [title, note, *(warning if quick else []), *(_section(folder, record) for folder, record in records.items())]
    page = out / "paper.md"
    page.write_text("\n\n".join(sections) + "\n")
    return page


def _section(folder: Path, record: dict[str, Any]) -> str:
    lines = [f"## {folder.name}: {record['title']}", "", "| | paper | ours | seconds |", "|---|---|---|---|"]
    lines += [_line(row) for row in record["rows"]]
    settings = ", ".join(f"{name.replace('_', ' ')} {_plain(value)}" for name, value in record["settings"].items())
    lines += ["", f"Settings: {settings}.", *(f"- {reading}" for reading in record["readings"]), ""]
    pictures = [f"[{path.name}]({folder.name}/{path.name})" for path in sorted(folder.glob("*.png"))]
    return "\n".join(
        [*lines, f"{record['date']}; {record['versions']}.", *([f"Pictures: {', '.join(pictures)}."] if pictures else [])]
    )


def _line(row: dict[str, Any]) -> str:
    seconds = "" if row["seconds"] is None else f"{row['seconds']:.0f}"
    return f"| {row['quantity']} | {row['paper']} | {row['ours']} | {seconds} |"


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{entry} ({name})" for name, entry in value.items())
    return ", ".join(str(entry) for entry in value) if isinstance(value, list) else str(value)
