"""``freegp diagnose``: whether to trust a run."""

from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.table import Table

from freegp.approximation import GaussianFit
from freegp.cli.runs import read_run
from freegp.cli.words import NOT_CONVERGED, explained, judge, parameter_table, say, show
from freegp.diagnostics import Diagnostics

GROUPS = {
    "theta": "parameters",
    "whitened": "whitened inducing values",
    "log_density": "log density",
    "f": "function at 50 of the data",
}


def diagnose(run: Annotated[Path, typer.Argument(help="The folder of a run, finished or not.")]) -> None:
    """Say whether the draws of a run can be trusted, with tables of why.

    Ends with 0 if they have converged, 2 if they have not, 1 on bad input. Of a run without draws, made by
    --method gaussian, it is the approximation that is judged.
    """
    with explained():
        found = read_run(run)
        if isinstance(found.fitted, GaussianFit):
            _judge_approximation(found.fitted)
            return
        diagnostics = found.fitted.diagnostics
        show(parameter_table(found.fitted, found.description))
        show(mixing_table(diagnostics))
        show(run_table(diagnostics))
        if diagnostics.num_draws < found.num_samples:
            say(f"{diagnostics.num_draws} of {found.num_samples} draws a chain so far; freegp resume {run} goes on")
        judge(diagnostics)


def mixing_table(diagnostics: Diagnostics) -> Table:
    """R-hat and effective samples of the worst quantity in each group."""
    table = Table(title="Mixing", caption="the worst of each group; R-hat should be at most 1.01", caption_justify="left")
    table.add_column("group")
    for column in ("R-hat", "effective samples"):
        table.add_column(column, justify="right")
    for name, (r_hat, ess) in diagnostics.groups.items():
        table.add_row(GROUPS.get(name, name), f"{r_hat:.3f}", f"{ess:.0f}")
    return table


def run_table(diagnostics: Diagnostics) -> Table:
    """What the sampler noted, and what it cost."""
    table = Table(title="Run", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    energies = [fraction for fraction in diagnostics.ebfmi if not np.isnan(fraction)]
    rows = {
        "chains, draws of each": f"{diagnostics.num_chains}, {diagnostics.num_draws}",
        "mean acceptance": f"{diagnostics.acceptance:.2f}",
        "draws that diverged": str(diagnostics.divergences),
        "non-finite proposals": str(diagnostics.nonfinite),
        "lowest E-BFMI": f"{min(energies):.2f}" if energies else "-",
        "effective samples a second": f"{diagnostics.tn_ess:.1f}",
        "effective samples a thousand gradients": f"{diagnostics.ess_per_1000_gradients:.1f}",
        "seconds sampling, in all": f"{diagnostics.seconds_sampling:.0f}, {diagnostics.seconds_total:.0f}",
    }
    if diagnostics.sparsity is not None:
        lost = f"{diagnostics.sparsity.num_inducing} inducing points lose, in nats"
        rows[lost] = f"{diagnostics.sparsity.nats_lost:.2g}"
    for name, value in rows.items():
        table.add_row(name, value)
    return table


def _judge_approximation(fit: GaussianFit) -> None:
    say(str(fit))
    say("a Gaussian approximation has no draws to judge; freegp fit without --method gaussian makes some")
    if fit.status != "converged":
        raise typer.Exit(NOT_CONVERGED)
