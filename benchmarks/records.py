"""Results of sections, kept as JSON with the machine, the versions and the date, so that one can be redone alone."""

import json
import os
import platform
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from settings import Settings

PACKAGES = ("freegp", "jax", "jaxlib", "numpy", "numpyro", "blackjax")


def keep(settings: Settings, section: str, result: dict[str, Any], seconds: float, load: float) -> None:
    """Write a section's result and the circumstances under which it was found."""
    record = {
        "result": result,
        "date": now(),
        "quick": settings.quick,
        "seconds": seconds,
        "load": load,
        "machine": machine(),
        "versions": {name: version(name) for name in PACKAGES} | {"python": platform.python_version()},
    }
    path = _path(settings, section)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".tmp")
    unfinished.write_text(json.dumps(record, indent=1) + "\n")
    unfinished.replace(path)


def kept(settings: Settings, section: str) -> dict[str, Any] | None:
    """A section's record, if it has ever been run."""
    path = _path(settings, section)
    return json.loads(path.read_text()) if path.exists() else None


def now() -> str:
    """Date and time."""
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())


def machine() -> str:
    """Processor, cores we may use, memory, system."""
    gibibytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{_processor()}, {len(os.sched_getaffinity(0))} cores, {gibibytes:.0f} GiB, {platform.system()}"


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.exists() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def _path(settings: Settings, section: str) -> Path:
    return settings.out / "benchmarks" / f"{section}.json"
