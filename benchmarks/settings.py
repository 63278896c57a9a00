"""What every section is told: how thorough to be, where the data are, where results go."""

from dataclasses import dataclass
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Settings:
    """``quick`` asks for small sizes and few draws, to try the suite itself; its numbers mean nothing.

    ``problems`` are those of the effective samples that are done anew.
    """

    quick: bool
    data: Path | None
    out: Path
    problems: tuple[str, ...]
