"""What a person sees while chains run."""

from collections.abc import Sequence
from types import TracebackType

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from freegp.diagnostics import statistics


class SampleProgress:
    """A bar on standard error that moves once a chunk: acceptance, divergences, R-hat so far, time left."""

    def __init__(self, num_warmup: int, num_samples: int, enabled: bool):
        console = Console(stderr=True)
        columns = (TextColumn("{task.fields[phase]}"), BarColumn(), TextColumn("{task.completed}/{task.total}"))
        self._progress = Progress(
            *columns,
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.description}"),
            console=console,
            disable=not (enabled and console.is_terminal),
            transient=True,
        )
        self._warmup = self._progress.add_task("compiling", total=num_warmup, phase="warm-up ")
        self._sampling = self._progress.add_task("", total=num_samples, phase="sampling", start=False)

    def __enter__(self) -> "SampleProgress":
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._progress.stop()

    def warmed(self, completed: int, acceptance: float) -> None:
        """A window of the warm-up is done."""
        self._progress.update(self._warmup, completed=completed, description=f"acceptance {acceptance:.2f}")

    def sampled(self, completed: int, chunks: Sequence[dict[str, np.ndarray]]) -> None:
        """A chunk of draws is done."""
        if self._progress.disable:
            return
        self._progress.start_task(self._sampling)
        acceptance = np.mean([chunk["acceptance"].mean() for chunk in chunks])
        diverged = int(sum(chunk["is_divergent"].sum() for chunk in chunks))
        watched = [np.concatenate([c["free"], c["log_density"][..., None]], axis=-1) for c in chunks]
        r_hat = np.nanmax(statistics(np.concatenate(watched, axis=1)).r_hat)
        words = f"acceptance {acceptance:.2f}, {diverged} diverged, R-hat {r_hat:.3f}"
        self._progress.update(self._sampling, completed=completed, description=words)
