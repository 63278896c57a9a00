"""How the time of a gradient grows with the number of data and of inducing points."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from gradient import compiled
from page import milliseconds, table
from problems import synthetic
from settings import Settings
from threadpoolctl import threadpool_limits
from timing import seconds_a_call, take_turns

TITLE = "Growth with N and M"
PICTURE = "growth.png"
DATA = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
INDUCING = (50, 100, 200, 400, 700, 1000)
SERIES = {"N": "N, with M = 100", "M": "M, with N = 10 000"}


def run(settings: Settings) -> dict[str, Any]:
    """Both series, all sizes of one taking turns, and a picture."""
    data, inducing = (DATA[:3], INDUCING[:3]) if settings.quick else (DATA, INDUCING)
    result = {
        "N": _series([(N, 100) for N in data], data, settings),
        "M": _series([(10_000, M) for M in inducing], inducing, settings),
    }
    _draw(result, settings)
    return result


def _series(sizes: list[tuple[int, int]], labels: tuple[int, ...], settings: Settings) -> dict[str, Any]:
    with threadpool_limits(1, "blas"):
        calls = {}
        for (N, M), label in zip(sizes, labels, strict=True):
            calls[str(label)] = compiled(synthetic(N, M, 2, "poisson"), np.random.default_rng(1).normal(size=(M, 1)))
        contestants = {label: lambda call=call: seconds_a_call(call) for label, call in calls.items()}
        seconds = list(take_turns(contestants, rounds=2 if settings.quick else 5).values())
    for label, time in zip(labels, seconds, strict=True):
        print(f"  {label}: {milliseconds(time)}", flush=True)
    return {
        "sizes": list(labels),
        "seconds": seconds,
        "exponent": _exponent(labels, seconds),
        "last": _exponent(labels[-3:], seconds[-3:]),
    }


def _exponent(sizes: tuple[int, ...], seconds: list[float]) -> float:
    """Slope of a straight line through the logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def _draw(result: dict[str, Any], settings: Settings) -> None:
    with plt.rc_context({"backend": "Agg"}):
        figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, constrained_layout=True)
        for axis, (name, label) in zip(axes, SERIES.items(), strict=True):
            sizes, seconds = np.array(result[name]["sizes"]), np.array(result[name]["seconds"])
            slope = 1 if name == "N" else 2
            axis.loglog(sizes, seconds, "o-", label=f"measured, exponent {result[name]['last']:.2f} at the end")
            axis.loglog(sizes, seconds[-1] * (sizes / sizes[-1]) ** slope, "--", color="grey", label=f"exponent {slope}")
            axis.set(xlabel=label, title=f"Growth with {name}")
            axis.grid(which="major", alpha=0.3)
            axis.legend(frameon=False)
        axes[0].set_ylabel("seconds a gradient")
        folder = settings.out / "benchmarks"
        folder.mkdir(parents=True, exist_ok=True)
        figure.savefig(folder / PICTURE, dpi=150)
        plt.close(figure)


def text(result: dict[str, Any]) -> str:
    """A table a series, and the picture."""
    parts = []
    for name, label in SERIES.items():
        series = result[name]
        rows = [[str(size), milliseconds(time)] for size, time in zip(series["sizes"], series["seconds"], strict=True)]
        fitted = f"Exponent {series['exponent']:.2f} over all sizes, {series['last']:.2f} over the last three."
        parts.append(f"{table((label, 'a gradient'), rows)}\n{fitted}\n")
    return "\n".join([*parts, f"![seconds a gradient against N and M](benchmarks/{PICTURE})\n"])
