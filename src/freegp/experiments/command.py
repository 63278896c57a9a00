"""`freegp reproduce`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from freegp.experiments import EXPERIMENTS, Report, run
from freegp.experiments.data import VARIABLE

NAMES = ", ".join(EXPERIMENTS)


def reproduce(
    names: Annotated[list[str], typer.Argument(help=f"Which experiments: {NAMES}; or all.")],
    quick: Annotated[bool, typer.Option("--quick", help="A small run, a minute or two each.")] = False,
    data: Annotated[
        Path | None, typer.Option(envvar=VARIABLE, help="Folder of the data that do not ship with the package.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for numbers, pictures and the page paper.md.")] = Path("results"),
) -> None:
    """The paper's experiments: its figures beside ours. A run that was stopped goes on when it is started again."""
    console, errors = Console(), Console(stderr=True)
    for name in EXPERIMENTS if names == ["all"] else names:
        try:
            report = run(name, quick, data, out, lambda line: errors.print(line, highlight=False))
        except KeyboardInterrupt:
            errors.print("stopped; the same command goes on from here")
            raise typer.Exit(130) from None
        except (ValueError, OSError, FloatingPointError) as error:
            errors.print(f"[red]error[/red]: {error}", highlight=False, soft_wrap=True)
            raise typer.Exit(1) from None
        console.print(_table(report))
    console.print(f"page: {(out / 'quick' if quick else out) / 'paper.md'}")


def _table(report: Report) -> Table:
    table = Table(title=report.title)
    table.add_column("")
    for column in ("paper", "ours", "seconds"):
        table.add_column(column, justify="right")
    for row in report.rows:
        table.add_row(row.quantity, row.paper, row.ours, "" if row.seconds is None else f"{row.seconds:.0f}")
    return table
