"""`load`: whatever was saved, as it was."""

from os import PathLike
from typing import Any

from freegp import saving
from freegp.point_patterns import CoxProcess
from freegp.point_patterns.kept import KeptProcess


def load(path: str | PathLike[str]) -> Any:
    """Read what a `save` wrote: a fit, a posterior, a Cox process."""
    value = saving.load(path)
    return CoxProcess.restored(value) if isinstance(value, KeptProcess) else value
