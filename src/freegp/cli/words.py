"""What all commands say alike: sentences, errors, exit codes, and the tables of a run."""

import contextlib
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import typer
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

from freegp.approximation.words import loss_in_words
from freegp.cli.description import Description
from freegp.diagnostics import Diagnostics
from freegp.posterior import Posterior

BAD_INPUT = 1
NOT_CONVERGED = 2
STOPPED = 130
"""By Ctrl-C, as shells have it."""

PIPED_WIDTH = 140
"""Of tables that go to a file, which does not say how wide it is."""
UsageError = typer.BadParameter.__mro__[1]  # typer gives its subclass a public name only


class Commands(TyperGroup):
    """Commands whose wrong use is bad input: the parser's own exit code, 2, means here that a run has not converged."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: D102
        with _usage_as_bad_input():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:  # noqa: D102
        with _usage_as_bad_input():
            return super().invoke(ctx)


@contextlib.contextmanager
def _usage_as_bad_input() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if isinstance(error, UsageError):
            vars(error)["exit_code"] = BAD_INPUT
        raise


def say(sentence: str) -> None:
    """One line, as it is: no markup, no wrapping when it goes to a file."""
    Console(highlight=False).print(Text(sentence), soft_wrap=True)


def show(thing: RenderableType) -> None:
    """A table, or anything else that rich draws."""
    width = None if sys.stdout.isatty() else PIPED_WIDTH
    Console(highlight=False, width=width).print(thing)


def complain(kind: str, sentence: str) -> None:
    """One line on standard error."""
    line = Text.assemble((kind, "red" if kind == "error" else "yellow"), f": {sentence}")
    Console(stderr=True, highlight=False).print(line, soft_wrap=True)


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Bad input and bad files end the program with one sentence on standard error; warnings are one sentence each."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.filterwarnings("ignore", "interrupted after|the fit was interrupted")  # the commands say it in their own words
        warnings.showwarning = lambda message, *_, **__: complain("warning", str(message))
        try:
            yield
        except (ValueError, OSError, FloatingPointError) as error:
            complain("error", str(error))
            raise typer.Exit(BAD_INPUT) from None


def judge(diagnostics: Diagnostics) -> None:
    """Say the verdict and which options change it, and end with its exit code if it is a bad one."""
    say(diagnostics.verdict)
    if not diagnostics.converged:
        say("to do better, run freegp fit into a new folder with more --samples, a longer --warmup or another --sampler")
        raise typer.Exit(NOT_CONVERGED)
    if diagnostics.sparsity is not None and diagnostics.sparsity.matters:
        say("to do better, run freegp fit into a new folder with more --inducing points, or --inducing auto")


def parameter_table(posterior: Posterior, description: Description | None = None) -> Table:
    """The parameters and how well they are known; what is standardised is explained below."""
    table = Table(title="Parameters", caption=_caption(posterior, description), caption_justify="left")
    summary = posterior.summary()
    table.add_column("name", no_wrap=True)
    for column in summary.columns:
        table.add_column(column, justify="right")
    for name, row in summary.iterrows():
        table.add_row(Text(str(name)), *(f"{value:.0f}" if "ess" in column else f"{value:.3f}" for column, value in row.items()))
    return table


def _caption(posterior: Posterior, description: Description | None) -> Text:
    """What the inducing points lose, and the units."""
    lost = loss_in_words(posterior.sparsity)
    return Text(lost if description is None else f"{lost}\n{description.units()}")
