"""``freegp resume``: go on with a run."""

from pathlib import Path
from typing import Annotated

import typer

from freegp.cli.description import read_description
from freegp.cli.runs import go_on, is_complete
from freegp.cli.words import explained, judge, parameter_table, say, show


def resume(run: Annotated[Path, typer.Argument(help="The folder that freegp fit wrote.")]) -> None:
    """Take up a sampling run where it stopped, and say how it came out.

    The draws are those of a run that was never stopped. Ends with 0 if they have converged, 2 if they have not.
    """
    with explained():
        if is_complete(run):
            say(f"{run} is complete; its draws came out as follows")
        posterior = go_on(run)
        show(parameter_table(posterior, read_description(run)))
        judge(posterior.diagnostics)
