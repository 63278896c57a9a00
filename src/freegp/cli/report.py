"""``freegp report``: a run as a page to read."""

from pathlib import Path
from typing import Annotated

import typer

from freegp.approximation import GaussianFit
from freegp.cli.runs import read_run
from freegp.cli.words import explained, say


def report(
    run: Annotated[Path, typer.Argument(help="The folder of a sampling run, finished or not.")],
    out: Annotated[
        Path | None,
        typer.Option(help="The .html file to write, or a folder for it.", show_default="report.html in the run's folder"),
    ] = None,
) -> None:
    """Write a page about a run, with pictures: what was learnt, and whether to trust it."""
    from freegp.report import write_report

    with explained():
        found = read_run(run)
        if isinstance(found.fitted, GaussianFit):
            raise ValueError(
                f"{run} holds a Gaussian approximation; a report needs draws, which freegp fit --method sample makes"
            )
        title = f"{run}: {found.description.target}" if found.description else str(run)
        page = write_report(found.fitted, run / "report.html" if out is None else out, title=title)
        say(f"report: {page}")
