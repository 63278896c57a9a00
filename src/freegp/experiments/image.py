"""Image segments: two classes, 18 inputs (paper, section 4.2, and the supplement's first figure)."""

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import freegp as fg
from freegp.experiments.data import Labelled, load_image, split_image
from freegp.experiments.modes import with_natural_mode
from freegp.experiments.tables import Report, Row
from freegp.experiments.workplace import Values, Workplace

KERNELS = {"ARD": "one lengthscale a column", "isotropic": "a single lengthscale"}
PLACES = {"k-means": "k-means", "optimised": "optimised"}
READINGS = (
    "Of the 2086 distinct rows 1000 are trained on, which leaves 1086 to test on; the paper says 1019.",
    "Inputs are standardised by the training set; lengthscales start at the square root of 18.",
    "A Gaussian fit has at most as many steps as the settings say, to save time; with Z optimised more would gain some nats yet.",
    "Free-form is compared with two Gaussian approximations with the same Z: at the mode of the parameters in natural units, "
    "which is probably the paper's, and at the mode of their logarithms, where freegp's fits end. The first comparison was added "
    "when the second came out otherwise than the paper's.",
    "Performance is the mean log predictive density on the test set; the left box plots show it for free-form inference.",
    "The paper kept 9000 draws of one chain of its HMC; ours are several chains of the default sampler.",
)


@dataclass(frozen=True)
class Settings:
    """How much of it to do."""

    num_splits: int = 10
    num_train: int = 1000
    num_inducing: tuple[int, ...] = (5, 10, 20, 50, 100)
    most_steps: int = 150
    num_samples: int = 150
    num_warmup: int = 150
    num_chains: int = 2


FULL = Settings()
QUICK = Settings(num_splits=2, num_train=250, num_inducing=(4, 8), num_samples=75, num_warmup=75, num_chains=2)


def model_of(num_inducing: int, kernel: str, columns: int = 18) -> fg.SparseGP:
    """The paper's model, with one lengthscale for all columns or one for each."""
    start = np.sqrt(columns) * np.ones(columns if kernel == "ARD" else ())
    return fg.SparseGP(
        kernel=fg.kernels.RBF(variance=1.0, lengthscales=start) + fg.kernels.White(variance=1e-6),
        likelihood=fg.likelihoods.Bernoulli(link="probit"),
        inducing=num_inducing,
        priors={
            "kernel.members.0.lengthscales": fg.priors.Gamma(1.1, 1.0),
            "kernel.members.0.variance": fg.priors.Gamma(1.1, 1.0),
        },
        fixed=["kernel.members.1"],
    )


def run(work: Workplace, settings: Settings) -> Report:
    """Every split, number of inducing points, kernel and placement; then the box plots."""
    X, y = load_image(work.data)
    if len(y) <= settings.num_train:
        raise ValueError(
            f"the image data have {len(y)} distinct rows, but {settings.num_train} are to be trained on; fetch them anew"
        )
    found: dict[tuple[str, str, int], list[Values]] = {}
    for seed in range(settings.num_splits):
        split = split_image(X, y, settings.num_train, seed)
        for kernel, place, M in product(KERNELS, PLACES, settings.num_inducing):
            found.setdefault((kernel, place, M), []).append(_scores(work, settings, split, seed, kernel, place, M))
    for kernel in KERNELS:
        work.draw(f"box-plots-{kernel}", _boxes(settings, kernel, found))
    return _report(settings, found)


def _scores(work: Workplace, settings: Settings, split: Labelled, seed: int, kernel: str, place: str, M: int) -> Values:
    """Test scores of the Gaussian approximation and of the draws, in one setting."""
    name = f"{kernel}-{place}-{M}-split-{seed}"
    options = {"num_samples": settings.num_samples, "num_warmup": settings.num_warmup, "num_chains": settings.num_chains}

    def fitted() -> fg.GaussianFit:
        model, method = model_of(M, kernel, split.X.shape[1]), fg.NaturalGradient(max_steps=settings.most_steps)
        return work.fit(name, model, split.X, split.y, method=method, train_inducing=place == "optimised", seed=seed)

    def compute() -> Values:
        fit = fitted()
        posterior = work.sample(name, fit, split.X, split.y, seed=seed, **options)
        return {
            "Gaussian": _score(fit, split),
            "free-form": _score(posterior, split),
            "seconds": fit.seconds + posterior.seconds_total,
            "R-hat": posterior.diagnostics.r_hat,
            "ESS": posterior.diagnostics.ess,
        }

    def natural() -> Values:
        there = work.fit(f"{name}-natural", with_natural_mode(fitted().model), split.X, split.y, train_inducing=False)
        return {"Gaussian, natural": _score(there, split)}

    scores = work.part(name, compute)
    return scores if place == "k-means" else scores | work.part(f"{name}-natural", natural)


def _score(result: Any, split: Labelled) -> float:
    return float(np.mean(result.predict_log_density(split.X_test, split.y_test)))


def _boxes(settings: Settings, kernel: str, found: dict[tuple[str, str, int], list[Values]]) -> Figure:
    """The paper's figure: performance by placement, and gain over the Gaussian approximation."""
    figure = Figure(figsize=(10.0, 4.0), layout="constrained")
    left, right = figure.subplots(1, 2)
    Ms = settings.num_inducing
    for offset, (place, colour) in zip((-0.19, 0.19), (("k-means", "#b3501b"), ("optimised", "#1f5a94")), strict=True):
        scores = [[values["free-form"] for values in found[kernel, place, M]] for M in Ms]
        _box(left, np.arange(len(Ms)) + offset, scores, colour, place)
    modes = (
        ("Gaussian, natural", "MAP in natural units", "#1f5a94"),
        ("Gaussian", "MAP in logarithms", "#3a7d44"),
    )
    for offset, (which, label, colour) in zip((-0.19, 0.19), modes, strict=True):
        gains = [[values["free-form"] - values[which] for values in found[kernel, "optimised", M]] for M in Ms]
        _box(right, np.arange(len(Ms)) + offset, gains, colour, label)
    right.axhline(0.0, color="0.4", lw=0.8)
    left.set(ylabel="mean log predictive density on the test set", title=f"free-form, {KERNELS[kernel]}")
    right.set(ylabel="gain of free-form over Gaussian", title="optimised Z, the same for both")
    for axes in (left, right):
        axes.set(xticks=range(len(Ms)), xticklabels=[str(M) for M in Ms], xlabel="inducing points")
        axes.legend(frameon=False, loc="best")
    return figure


def _box(axes: Axes, places: np.ndarray, values: list[list[float]], colour: str, label: str) -> None:
    drawn = axes.boxplot(values, positions=places, widths=0.32, patch_artist=True, manage_ticks=False, medianprops={"color": "k"})
    for box in drawn["boxes"]:
        box.set(facecolor=colour, alpha=0.6)
    drawn["boxes"][0].set_label(label)


def _largest_r_hat(splits: list[Values]) -> str:
    return f"{max(values['R-hat'] for values in splits):.2f}"


def _report(settings: Settings, found: dict[tuple[str, str, int], list[Values]]) -> Report:
    rows = []

    def gain(of: list[Values], over: list[Values], which: str = "free-form") -> str:
        differences = np.array([one["free-form"] - two[which] for one, two in zip(of, over, strict=True)])
        return f"{differences.mean():.4f} ({(differences > 0).sum()} of {settings.num_splits})"

    for kernel, M in product(KERNELS, settings.num_inducing):
        fixed, moved = found[kernel, "k-means", M], found[kernel, "optimised", M]
        mean = {name: np.mean([values[name] for values in moved]) for name in ("Gaussian", "free-form")}
        seconds, label = sum(values["seconds"] for values in moved + fixed), f"{kernel}, M = {M}"
        rows += [
            Row(f"{label}: Gaussian, free-form", "", f"{mean['Gaussian']:.4f}, {mean['free-form']:.4f}", seconds),
            Row(f"{label}: gain by optimising Z", "positive", gain(moved, fixed)),
            Row(
                f"{label}: gain of free-form over Gaussian, MAP in natural units",
                "about 0 at small M, positive at large",
                gain(moved, moved, "Gaussian, natural"),
            ),
            Row(f"{label}: the same, MAP in logarithms", "", gain(moved, moved, "Gaussian")),
            Row(f"{label}: largest R-hat, k-means and optimised", "", ", ".join(_largest_r_hat(each) for each in (fixed, moved))),
        ]
    numbers = {"-".join(map(str, key)): values for key, values in found.items()}
    return Report("image segments, two classes", rows, numbers, READINGS)
