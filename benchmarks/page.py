"""The page: every section's tables from what was last kept of it."""

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import records
from settings import Settings

INTRODUCTION = """# Benchmarks

Written by `make bench`; `python benchmarks/run.py --only SECTION` redoes one section. Ratios are of contestants that took turns
in one run on one machine, the fastest turn of each; above 1, freegp is faster. Times are this machine's; ratios travel better.
"""


def write(settings: Settings, sections: Mapping[str, ModuleType]) -> str:
    """Write the page, and return where it went."""
    parts = [INTRODUCTION]
    for name, section in sections.items():
        parts.append(f"## {section.TITLE}\n")
        record = records.kept(settings, name)
        parts.append(f"Not run yet: `python benchmarks/run.py --only {name}`.\n" if record is None else _section(section, record))
    path = settings.out / "benchmarks.md"
    path.write_text("\n".join(parts))
    return str(path)


def _section(section: ModuleType, record: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in record["versions"].items())
    peers = "".join(f", {name} {number}" for name, number in record["result"].get("peer_versions", {}).items())
    quick = " **A quick trial of the suite itself: these numbers mean nothing.**" if record["quick"] else ""
    circumstances = (
        f"<sub>{record['date']}, {record['seconds']:.0f} s; {record['machine']}, load {record['load']:.1f} at the start; "
        f"{versions}{peers}.{quick}</sub>"
    )
    return f"{section.text(record['result'])}\n{circumstances}\n"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table, the first column to the left and numbers to the right."""
    rule = ["---", *("---:" for _ in header[1:])]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (header, rule, *rows))


def milliseconds(seconds: float | None) -> str:
    """A time to three digits."""
    return "not run" if seconds is None else f"{digits(1e3 * seconds)} ms"


def digits(value: float) -> str:
    """Three significant digits, without an exponent where it can be done without.

    >>> digits(1234.5), digits(0.05678), digits(3.14159)
    ('1234', '0.0568', '3.14')
    """
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def ratio(value: float | None, target: float | None = None) -> str:
    """A ratio, with the aim and whether it was met."""
    if value is None:
        return ""
    if target is None:
        return f"{digits(value)}x"
    return f"{digits(value)}x (aim {target:g}x{'' if value >= target else ', **missed**'})"
