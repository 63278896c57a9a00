"""The command line, for people who do not write Python."""

import contextlib
import signal
from importlib.metadata import version
from typing import Annotated

import typer

from freegp.cli import demo, diagnose, fit, predict, report, resume, sweep
from freegp.cli.words import Commands, say
from freegp.experiments.command import reproduce

app = typer.Typer(
    cls=Commands,
    help="Free-form Bayesian inference in sparse Gaussian process models.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(is_asked: bool) -> None:
    if is_asked:
        say(f"freegp {version('freegp')}")
        raise typer.Exit


@app.callback()
def main(
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which version this is, and leave.")
    ] = False,
) -> None:
    """Free-form Bayesian inference in sparse Gaussian process models."""
    with contextlib.suppress(ValueError):  # not the main thread
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # who ends a job by it gets what Ctrl-C gives


for command in (fit.fit, predict.predict, diagnose.diagnose, report.report, resume.resume, sweep.sweep, demo.demo, reproduce):
    app.command()(command)

__all__ = ["app"]
