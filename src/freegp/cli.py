"""The command line."""

from pathlib import Path
from typing import Annotated

import matplotlib.pyplot as plt
import numpy as np
import typer
from rich.console import Console
from rich.table import Table
from scipy.stats import norm

import freegp as fg
from freegp import plots
from freegp.datasets import binned_counts, load_coal

app = typer.Typer(
    help="Free-form Bayesian inference in sparse Gaussian process models.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def main() -> None:
    """Free-form Bayesian inference in sparse Gaussian process models."""


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the picture and the fit; made if it is not there.")] = Path("freegp-demo"),
) -> None:
    """How often did British coal mines explode, 1851-1962? A Cox process on data that ship with the package."""
    console = Console()
    events = load_coal()
    X, counts, width = binned_counts(events, 1851.0, 1963.0, num_bins=100)
    model = fg.SparseGP(
        kernel=fg.kernels.RBF(variance=1.0, lengthscales=10.0),
        likelihood=fg.likelihoods.Poisson(exposure=width),
        inducing=fg.Grid(30),
        priors={"kernel.lengthscales": fg.priors.Gamma(1.1, 0.1), "kernel.variance": fg.priors.Gamma(1.0, 0.3)},
    )
    console.print(f"{len(events)} explosions, {len(counts)} bins of {width:.2f} years, 30 inducing points")
    fit = fg.fit_gaussian(model, X, counts, train_inducing=False)
    years = np.linspace(1851.0, 1963.0, 225)[:, None]
    mean, variance = (np.asarray(a[:, 0]) for a in fit.predict_f(years))
    console.print(_rate_table(events, years[:, 0], mean, variance))
    values = fit.model.parameter_values()
    console.print(
        f"Gaussian approximation {fit.message} ({fit.seconds:.1f} s): bound {fit.elbo:.2f}, "
        f"lengthscale {values['kernel.lengthscales']:.1f} years, variance {values['kernel.variance']:.2f}"
    )
    _write(out, events, years[:, 0], mean, variance, fit, console)


def _rate_table(events: np.ndarray, years: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> Table:
    table = Table(title="Explosions a year")
    for column in ("year", "observed around it", "median rate", "5 %", "95 %"):
        table.add_column(column, justify="right")
    reach = norm.ppf(0.95) * np.sqrt(variance)
    for year in range(1855, 1961, 15):
        at = int(np.argmin(np.abs(years - year)))
        near = np.mean(np.abs(events - year) < 5.0) * len(events) / 10.0
        rates = np.exp(mean[at] + np.array([0.0, -reach[at], reach[at]]))
        table.add_row(str(year), f"{near:.2f}", *(f"{rate:.2f}" for rate in rates))
    return table


def _write(
    out: Path,
    events: np.ndarray,
    years: np.ndarray,
    mean: np.ndarray,
    variance: np.ndarray,
    fit: fg.GaussianFit,
    console: Console,
) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        with plt.rc_context({"backend": "Agg"}):
            axes = plots.intensity_curve(years, mean, variance, events)
            axes.set(xlabel="year", ylabel="explosions a year", title="Explosions in British coal mines")
            plt.savefig(out / "coal.png", dpi=150)
        fit.save(out / "fit.npz")
    except OSError as error:
        console.print(f"cannot write to {out} ({error.strerror}); choose another folder with --out")
        raise typer.Exit(1) from None
    console.print(f"picture: {out / 'coal.png'}\nfit:     {out / 'fit.npz'}  (fg.load reads it)")
