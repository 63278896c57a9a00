"""Options that commands share: which column is learnt from which, and how."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from freegp.cli.config import use_config
from freegp.cli.problem import Question

LikelihoodName = StrEnum("LikelihoodName", "gaussian student bernoulli poisson negative_binomial softmax robustmax")
KernelName = StrEnum("KernelName", "rbf matern12 matern32 matern52")

Data = Annotated[Path, typer.Argument(help="A .csv, .tsv or .parquet file: a header, then one row for each observation.")]
Target = Annotated[str, typer.Option(help="The column to learn.", metavar="COLUMN")]
Inputs = Annotated[
    str | None,
    typer.Option(help="The columns to learn from, as a,b,c.", metavar="COLUMNS", show_default="all others"),
]
LikelihoodOption = Annotated[
    LikelihoodName | None,
    typer.Option(
        help=f"How the target is distributed: {', '.join(LikelihoodName)}.",
        metavar="NAME",
        show_default="guessed from the target",
    ),
]
ExposureOption = Annotated[
    str | None,
    typer.Option(help="For counts: the column of areas, times or populations they were counted in.", metavar="COLUMN"),
]
KernelOption = Annotated[
    KernelName,
    typer.Option(help="How smooth the function is, from rough to smooth: matern12, matern32, matern52, rbf.", metavar="NAME"),
]
Seed = Annotated[int, typer.Option(min=0, help="The same seed on the same machine gives the same draws.", metavar="NUMBER")]
Config = Annotated[
    Path | None,
    typer.Option(
        help="A TOML file with any of these options; the command line wins.",
        metavar="FILE",
        callback=use_config,
        is_eager=True,
    ),
]


def question_of(target: str, inputs: str | None, likelihood: LikelihoodName | None, exposure: str | None) -> Question:
    """What was asked, from what was typed."""
    names = tuple(name.strip() for name in inputs.split(",")) if inputs else ()
    return Question(target, names, likelihood.value if likelihood else None, exposure)
