"""``freegp report``: a run as a page to read."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from freegp.approximation import GaussianFit
from freegp.cli.description import COUNTS, Description
from freegp.cli.runs import read_run
from freegp.cli.words import explained, say

if TYPE_CHECKING:
    from freegp.report import Units


def report(
    run: Annotated[Path, typer.Argument(help="The folder of a sampling run, finished or not.")],
    out: Annotated[
        Path | None,
        typer.Option(help="The .html file to write, or a folder for it.", show_default="report.html in the run's folder"),
    ] = None,
) -> None:
    """Write a page about a run, with pictures: what was learnt, and whether to trust it."""
    from freegp.report import write_report  # late: pictures take long to import

    with explained():
        found = read_run(run)
        if isinstance(found.fitted, GaussianFit):
            raise ValueError(
                f"{run} holds a Gaussian approximation; a report needs draws, which freegp fit --method sample makes"
            )
        title = f"{run}: {found.description.target}" if found.description else str(run)
        units = None if found.description is None else _units(found.description)
        page = write_report(found.fitted, run / "report.html" if out is None else out, title=title, units=units)
        say(f"report: {page}")


def _units(description: Description) -> "Units":
    """The names and scales of the table's columns, for the pictures."""
    from freegp.report import Scale, Units

    moments = zip(description.columns, description.means, description.scales, strict=True)
    inputs = tuple(Scale(name, mean, scale) for name, mean, scale in moments)
    name, rate = description.target, None
    target = latent = Scale(f"mean of {name}", description.target_mean, description.target_scale)
    if description.likelihood in COUNTS:
        unit = f" a unit of {description.exposure}" if description.exposure else ""
        rate, target = description.rate, Scale(f"mean of {name}{unit}")
        latent = Scale(f"log of {name}{unit}", math.log(description.rate))
    elif description.classes:
        target, latent = Scale(f"probability of {description.classes[-1]}"), Scale("latent function")
    return Units(inputs, target, latent, description.classes, rate, description.units())
