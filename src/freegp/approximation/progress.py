"""What a person sees while a fit runs."""

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn


class FitProgress:
    """A bar on standard error with the objective so far; silent where there is no terminal or it is not wanted."""

    def __init__(self, title: str, total: int, enabled: bool):
        console = Console(stderr=True)
        columns = (
            TextColumn(title),
            BarColumn(),
            TextColumn("{task.completed}/{task.total}"),
            TextColumn("{task.description}"),
        )
        self._progress = Progress(
            *columns,
            TimeElapsedColumn(),
            console=console,
            disable=not (enabled and console.is_terminal),
            transient=True,
        )
        self._task = self._progress.add_task("compiling", total=total)

    def __enter__(self) -> "FitProgress":
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._progress.stop()

    def update(self, completed: int, objective: float) -> None:
        """Show how far it is and what it has reached."""
        self._progress.update(self._task, completed=completed, description=f"objective {objective:.3f}")


def announce(sentence: str, enabled: bool) -> None:
    """A line on standard error, where a bar would be shown."""
    console = Console(stderr=True, highlight=False)
    if enabled and console.is_terminal:
        console.print(sentence, markup=False)
