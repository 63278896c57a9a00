"""How fast the samplers converge (paper, section 4.1, and the supplement)."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import freegp as fg
from freegp.diagnostics import psrf_curve
from freegp.experiments import coal, image, toy
from freegp.experiments.data import load_image, load_toy, split_image
from freegp.experiments.tables import Report, Row
from freegp.experiments.workplace import Values, Workplace, efficiency

COLOURS = {"paper": "#1f5a94", "gibbs": "#b3501b", "nuts": "#7a4fa3", "sites": "#3a7d44"}
MAX_DOUBLINGS = 7
"""Of NUTS, whose trajectories on the toy data would be longer than there is time for."""
FROM_THE_PAPER = {
    ("coal", "paper"): ("6.7", "3.1e-2"),
    ("coal", "gibbs"): ("9.7", "1.9e-2"),
    ("image-isotropic", "paper"): ("11", "1.0e-3"),
    ("image-isotropic", "gibbs"): ("53", "5.1e-3"),
    ("image-ARD", "paper"): ("14", "5.1e-3"),
    ("image-ARD", "gibbs"): ("1.6", "1.5e-4"),
    ("toy-isotropic", "paper"): ("1.9", "3.8e-4"),
    ("toy-isotropic", "gibbs"): ("2.5", "3.6e-4"),
    ("toy-ARD", "paper"): ("1.2", "2.8e-3"),
    ("toy-ARD", "gibbs"): ("5.1", "6.8e-4"),
}
READINGS = (
    "Effective samples are those of the slowest of v and theta, for one chain (all chains together, divided by their number), so "
    "that they compare with the paper's; those a second are of all chains together, on the cores named below.",
    "PSRF is Gelman and Rubin's, from the first draw after tuning on, of the 20 variables with the fewest effective samples.",
    "The image and coal data are those of split 0.",
    "The paper's chains have 5000 draws everywhere and are tuned in 30 rounds of 30; ours have fewer draws on the larger "
    "problems and fewer rounds (see the settings), to save time: compare effective samples a second, and in the curves where "
    "they would go.",
    f"A trajectory of NUTS has at most {2**MAX_DOUBLINGS - 1} steps.",
)


@dataclass(frozen=True)
class Settings:
    """How much of it to do: which problems, with how many draws of each chain."""

    num_samples: dict[str, int] = field(
        default_factory=lambda: {"coal": 5000, "image-isotropic": 500, "image-ARD": 500, "toy-isotropic": 300, "toy-ARD": 300}
    )
    coal_inducing: int = 30
    image_inducing: int = 100
    image_train: int = 1000
    toy_inducing: int = 50
    num_rounds: int = 15
    draws_per_round: int = 20
    num_warmup: int = 300
    num_chains: int = 10


FULL = Settings()
QUICK = Settings(
    num_samples={"coal": 200},
    coal_inducing=15,
    num_rounds=8,
    draws_per_round=15,
    num_warmup=100,
    num_chains=4,
)


@dataclass(frozen=True)
class Problem:
    """A model with its data."""

    model: fg.SparseGP
    X: np.ndarray
    y: np.ndarray
    train_inducing: bool


def problem(name: str, settings: Settings, work: Workplace) -> Problem:
    """One of the paper's problems by name."""
    family, _, kernel = name.partition("-")
    if family == "coal":
        X, y, width = coal.binned(coal.halves(0)[0], 100)
        return Problem(coal.split_model(settings.coal_inducing, width), X, y, False)
    if family == "image":
        split = split_image(*load_image(work.data), settings.image_train, 0)
        return Problem(image.model_of(settings.image_inducing, kernel), split.X, split.y, True)
    data = load_toy(work.data)
    return Problem(toy.model_of("robust-max", settings.toy_inducing, kernel), data.X, data.y, True)


def samplers(settings: Settings) -> dict[str, Any]:
    """The four schemes; the paper's two are tuned by rounds of Bayesian optimisation, each chain on its own."""
    rounds = {"num_rounds": settings.num_rounds, "draws_per_round": settings.draws_per_round}
    return {
        "paper": fg.PaperHMC(**rounds),
        "gibbs": fg.Gibbs(**rounds),
        "nuts": fg.NUTS(max_doublings=MAX_DOUBLINGS),
        "sites": fg.RotationHMC(),
    }


def run(work: Workplace, settings: Settings) -> Report:
    """Every problem with every sampler, and a picture of each problem."""
    found: dict[str, dict[str, Values]] = {}
    for name, num_samples in settings.num_samples.items():
        given = problem(name, settings, work)
        found[name] = {
            which: work.part(f"{name}-{which}", _task(work, settings, num_samples, name, which, sampler, given))
            for which, sampler in samplers(settings).items()
        }
        work.draw(f"psrf-{name}", _curves(name, found[name]))
        work.publish(_report(settings, found))
    return _report(settings, found)


def _report(settings: Settings, found: dict[str, dict[str, Values]]) -> Report:
    """Of the problems there are; those that are missing are named."""
    rows = [_row(name, which, values) for name, each in found.items() for which, values in each.items()]
    missing = [name for name in settings.num_samples if name not in found]
    note = (f"Not run to the end: {', '.join(missing)}.",) if missing else ()
    return Report("convergence of the samplers", rows, found, READINGS + note)


def _task(
    work: Workplace, settings: Settings, num_samples: int, name: str, which: str, sampler: Any, given: Problem
) -> Callable[[], Values]:
    def compute() -> Values:
        fit = work.fit(name, given.model, given.X, given.y, train_inducing=given.train_inducing)
        posterior = work.sample(
            f"{name}-{which}",
            fit,
            given.X,
            given.y,
            sampler=sampler,
            num_samples=num_samples,
            num_warmup=settings.num_warmup,
            num_chains=settings.num_chains,
        )
        return _found(posterior)

    return compute


def _found(posterior: fg.Posterior) -> Values:
    chains, draws = posterior.free.shape[:2]
    everything = np.concatenate([posterior.whitened.reshape(chains, draws, -1), posterior.free], axis=2)
    curve, cost = psrf_curve(everything), efficiency(posterior)
    return {
        "ESS of one chain": cost.ess / chains,
        "ESS a second": cost.tn_ess,
        "ESS a 1000 gradients": cost.ess_per_1000_gradients,
        "acceptance": float(np.mean(dict(posterior.statistics)["acceptance"])),
        "seconds": posterior.seconds_total,
        "iterations": curve.iterations.tolist(),
        "psrf": curve.psrf.tolist(),
    }


def _curves(name: str, found: dict[str, Values]) -> Figure:
    """PSRF against iterations: the paper's two schemes in one panel, those in site coordinates in the other."""
    figure = Figure(figsize=(10.0, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for axes, which in ((left, ("paper", "gibbs")), (right, ("nuts", "sites"))):
        for sampler in which:
            _curve(axes, sampler, found[sampler])
        axes.axhline(1.0, color="0.5", lw=0.8)
        axes.set(xlabel="iterations", xlim=(0, None))
        axes.legend(frameon=False)
    tops = [np.nanquantile(np.array(values["psrf"])[1:], 0.98) for values in found.values()]
    left.set(ylabel="PSRF, 20 slowest variables", ylim=(0.95, max(1.5, *tops)), title=f"{name}: on v and theta")
    right.set(title=f"{name}: in site coordinates")
    return figure


def _curve(axes: Axes, sampler: str, values: Values) -> None:
    lines = axes.plot(values["iterations"], values["psrf"], color=COLOURS[sampler], lw=0.8, alpha=0.7)
    lines[0].set_label(f"{sampler}: {values['ESS of one chain']:.3g} effective, {values['ESS a second']:.2g} a second")


def _row(name: str, which: str, values: Values) -> Row:
    paper = " / ".join(FROM_THE_PAPER.get((name, which), ()))
    ours = f"{values['ESS of one chain']:.3g} / {values['ESS a second']:.2g}"
    return Row(f"{name}, {which}: fewest effective samples, and a second", paper, ours, values["seconds"])
