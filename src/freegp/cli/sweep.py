"""``freegp sweep``: how many inducing points a table needs."""

from pathlib import Path
from typing import Annotated

import matplotlib.pyplot as plt
import typer

from freegp.cli.options import (
    Config,
    Data,
    ExposureOption,
    Inputs,
    KernelName,
    KernelOption,
    LikelihoodOption,
    Seed,
    Target,
    question_of,
)
from freegp.cli.problem import model_of, overview, problem_of, size_of
from freegp.cli.runs import check_new_folder
from freegp.cli.words import explained, say
from freegp.sweep import InducingSweep, sweep_inducing
from freegp.tables import read_table, write_table

TABLE, PICTURE = "sweep.csv", "sweep.png"


def sweep(
    data: Data,
    target: Target,
    out: Annotated[Path, typer.Option(help="A new folder for the table and the picture.", metavar="FOLDER")],
    sizes: Annotated[
        str | None,
        typer.Option(
            help="Numbers of inducing points, as 20,40,80.",
            metavar="NUMBERS",
            show_default="16, 32, 64, ... until nothing is lost",
        ),
    ] = None,
    inputs: Inputs = None,
    likelihood: LikelihoodOption = None,
    exposure: ExposureOption = None,
    kernel: KernelOption = KernelName.rbf,
    seed: Seed = 0,
    config: Config = None,
) -> None:
    """Say how many inducing points a table needs, by Gaussian approximations with more and more of them.

    The bound, the nats lost, the parameters and the largest change of the function go to sweep.csv and, as pictures, sweep.png.

    Example: freegp sweep trees.csv --target alive --out sweep
    """
    with explained():
        problem = problem_of(read_table(data), question_of(target, inputs, likelihood, exposure), data, say)
        model = model_of(problem, kernel.value, None)[0]
        numbers = sorted({size_of(part.strip(), "--sizes") for part in sizes.split(",")}) if sizes else None
        check_new_folder(out)
        say(overview(problem, data))
        found = sweep_inducing(model, problem.X, problem.y, numbers, seed=seed)
        _write(found, out)
        say(str(found))
        say(f"table: {out / TABLE}\npicture: {out / PICTURE}")
        if found.recommended is not None:
            given = {"inputs": inputs, "likelihood": likelihood, "exposure": exposure}
            same = "".join(f" --{name} {value}" for name, value in given.items() if value)
            say(f"next: freegp fit {data} --target {target}{same} --inducing {found.recommended} --out RUN")


def _write(found: InducingSweep, out: Path) -> None:
    write_table(found.table.reset_index(), out / TABLE)
    with plt.rc_context({"backend": "Agg"}):
        figure = found.plot()[0].figure
        figure.savefig(out / PICTURE, dpi=150)
        plt.close(figure)
