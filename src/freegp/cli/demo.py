"""``freegp demo``: from data that ship with the package to a picture."""

import time
from pathlib import Path
from typing import Annotated, NoReturn

import matplotlib.pyplot as plt
import numpy as np
import typer
from rich.console import Console
from rich.table import Table

import freegp as fg
from freegp import plots
from freegp.cli.words import BAD_INPUT, parameter_table
from freegp.datasets import binned_counts, load_coal


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the picture and the draws.")] = Path("freegp-demo"),
) -> None:
    """How often did British coal mines explode, 1851-1962? A Cox process on data that ship with the package."""
    console = Console()
    _make_folder(out, console)
    events = load_coal()
    X, counts, width = binned_counts(events, 1851.0, 1963.0, num_bins=100)
    model = fg.SparseGP(
        kernel=fg.kernels.RBF(variance=1.0, lengthscales=10.0),
        likelihood=fg.likelihoods.Poisson(exposure=width),
        inducing=fg.Grid(30),
        priors={"kernel.lengthscales": fg.priors.Gamma(1.1, 0.1), "kernel.variance": fg.priors.Gamma(1.0, 0.3)},
    )
    console.print(f"{len(events)} explosions, {len(counts)} bins of {width:.2f} years, 30 inducing points")
    begun = time.perf_counter()
    fit = fg.fit_gaussian(model, X, counts, train_inducing=False)
    console.print(f"Gaussian approximation {fit.message}: bound {fit.elbo:.2f} ({fit.seconds:.0f} s)")
    posterior = fg.sample(model, X, counts, fit=fit)
    years = np.linspace(1851.0, 1963.0, 225)
    bands = np.exp(np.asarray(posterior.quantiles_f(years[:, None], (0.05, 0.5, 0.95)))[..., 0])
    console.print(_rate_table(events, years, bands))
    console.print(parameter_table(posterior))
    seconds = time.perf_counter() - begun
    found = posterior.diagnostics
    console.print(f"{found.num_chains} chains of {found.num_draws} draws, {seconds:.0f} s in all; [bold]{found.verdict}[/bold]")
    _write(out, events, years, bands, posterior, console)


def _make_folder(out: Path, console: Console) -> None:
    """Made before anything is computed, so that nothing is computed in vain."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        _cannot_write(out, error, console)


def _cannot_write(out: Path, error: OSError, console: Console) -> NoReturn:
    console.print(f"cannot write to {out} ({error.strerror}); choose another folder with --out")
    raise typer.Exit(BAD_INPUT) from None


def _rate_table(events: np.ndarray, years: np.ndarray, bands: np.ndarray) -> Table:
    table = Table(title="Explosions a year")
    for column in ("year", "observed around it", "5 %", "median rate", "95 %"):
        table.add_column(column, justify="right")
    for year in range(1855, 1961, 15):
        at = int(np.argmin(np.abs(years - year)))
        near = np.mean(np.abs(events - year) < 5.0) * len(events) / 10.0
        table.add_row(str(year), f"{near:.2f}", *(f"{rate:.2f}" for rate in bands[:, at]))
    return table


def _write(
    out: Path, events: np.ndarray, years: np.ndarray, bands: np.ndarray, posterior: fg.Posterior, console: Console
) -> None:
    try:
        with plt.rc_context({"backend": "Agg"}):
            axes = plots.intensity_curve(years, bands, events)
            axes.set(xlabel="year", ylabel="explosions a year", title="Explosions in British coal mines")
            plt.savefig(out / "coal.png", dpi=150)
        posterior.save(out / "posterior.npz")
    except OSError as error:
        _cannot_write(out, error, console)
    console.print(f"picture:   {out / 'coal.png'}\nposterior: {out / 'posterior.npz'}  (fg.load reads it)")
