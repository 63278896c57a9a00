"""The folder an experiment works in: fits, runs and finished parts are kept there, so that a run that was stopped goes on."""

import json
import os
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import numpy as np
from matplotlib.figure import Figure

import freegp as fg
from freegp.diagnostics import Efficiency, tn_ess
from freegp.experiments.tables import Report

Values = dict[str, Any]


@dataclass(frozen=True)
class Workplace:
    """Where one experiment keeps what it has done.

    Attributes
    ----------
    folder
        Of this experiment alone. It holds ``settings.json``, ``fits``, ``runs``, ``parts`` and, at the end, the pictures.
    data
        The data folder, if there is one.
    say
        Takes a line on how far it is.
    publish
        Takes a report of what there is so far, for the page, where an experiment is long.
    """

    folder: Path
    data: Path | None
    say: Callable[[str], None]
    publish: Callable[[Report], None]

    def settle(self, settings: Values) -> None:
        """Note the settings, or see that they are those of what is here already."""
        path, plain = self.folder / "settings.json", json.loads(json.dumps(settings))
        if not path.is_file():
            write_json(path, plain)
        elif json.loads(path.read_text()) != plain:
            raise ValueError(f"{self.folder} holds a run with other settings; remove that folder, or choose another with --out")

    def part(self, name: str, compute: Callable[[], Values]) -> Values:
        """Numbers under a name: read if they are there, else computed and written."""
        path = self.folder / "parts" / f"{name}.json"
        if not path.is_file():
            begun = time.perf_counter()
            values = compute()
            write_json(path, {"values": values, "date": today(), "versions": versions()})
            self.say(f"{name} ({time.perf_counter() - begun:.0f} s)")
        return dict(json.loads(path.read_text())["values"])

    def fit(self, name: str, model: fg.SparseGP, X: np.ndarray, y: np.ndarray, **options: Any) -> fg.GaussianFit:
        """A Gaussian approximation under a name: read if it is there, else made and kept. Options are `fg.fit_gaussian`'s."""
        path = self.folder / "fits" / f"{name}.npz"
        if path.is_file():
            kept: fg.GaussianFit = fg.load(path)
            return kept
        fit = fg.fit_gaussian(model, X, y, **options)
        if "interrupted" in fit.message:
            raise KeyboardInterrupt
        if fit.status == "diverged":
            raise FloatingPointError(f"the Gaussian approximation {name} {fit.message}")
        path.parent.mkdir(parents=True, exist_ok=True)
        fit.save(path)
        return fit

    def sample(self, name: str, fit: fg.GaussianFit, X: np.ndarray, y: np.ndarray, **options: Any) -> fg.Posterior:
        """Draws under a name: a run that is there is taken up where it stopped. Options are `fg.sample`'s."""
        path = self.folder / "runs" / name
        if (path / "manifest.npz").is_file():
            posterior = fg.resume(path)
        else:
            posterior = fg.sample(fit.model, X, y, fit=fit, run_dir=path, **options)
        if posterior.num_draws < options["num_samples"]:
            raise KeyboardInterrupt
        return posterior

    def draw(self, name: str, figure: Figure) -> None:
        """Keep a picture."""
        figure.savefig(self.folder / f"{name}.png", dpi=110)

    def history(self) -> tuple[str, str]:
        """The day the last part was finished, and the versions that made the parts."""
        parts = [json.loads(path.read_text()) for path in sorted((self.folder / "parts").glob("*.json"))]
        return max(part["date"] for part in parts), "; ".join(sorted({part["versions"] for part in parts}))


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a file that is there whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.part")
    temporary.write_text(json.dumps(content, indent=1) + "\n")
    os.replace(temporary, path)


def today() -> str:
    """The date."""
    return datetime.now(UTC).date().isoformat()


def versions() -> str:
    """What the numbers were made with."""
    cores = f"{len(os.sched_getaffinity(0))} cores, {jax.default_backend()}"
    return f"freegp {version('freegp')}, jax {version('jax')}, Python {platform.python_version()}, {platform.machine()}, {cores}"


def efficiency(posterior: fg.Posterior) -> Efficiency:
    """Effective samples of the slowest of the paper's variables, v and theta, and what one costs."""
    return tn_ess(
        {"whitened": posterior.whitened, "theta": posterior.free},
        seconds_sampling=posterior.seconds_sampling,
        seconds_total=posterior.seconds_total,
        gradients=int(dict(posterior.statistics)["num_gradients"].sum()),
    )


def mean_and_deviation(draws: np.ndarray) -> str:
    """For a table."""
    return f"{np.mean(draws):.3g} ± {np.std(draws):.2g}"
