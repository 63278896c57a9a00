"""Seconds for one effective sample of the slowest coordinate, and what each sampler says of the parameters."""

import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import problems
import records
from chains import Chains
from page import digits, ratio, table
from peers import hsgp
from peers.environment import PeerError, gpflow_workers
from problems import Problem
from settings import Settings

import freegp as fg

TITLE = "Seconds for an effective sample"
NUM_CHAINS = 2
OURS = "freegp sites"
GPFLOW = "GPflow SGPMC + HMC"
HSGP = "NumPyro HSGP + NUTS"
FULL = "full, Z = X (freegp sites)"
FEATURES = "freegp sites, HilbertSpace"
SINGLE = "freegp sites, single precision"
LABELS = {
    "coal": "Coal, N = 100, M = 30",
    "pines": "Pines 32 x 32, N = 1024, M = 225 on a fixed 15 x 15 grid",
    "image": "Image, ARD, N = 1000, D = 18, M = 100 k-means centres",
}
# Draws a chain, so that a problem takes minutes on two cores; a method that is not named cannot do it in that time, or at all.
DRAWS = {
    "coal": {OURS: 4000, FEATURES: 4000, "freegp paper": 4000, "freegp gibbs": 4000, GPFLOW: 2000, HSGP: 2000, FULL: 1000},
    "pines": {OURS: 500, FEATURES: 2000, "freegp paper": 300, "freegp gibbs": 500, GPFLOW: 200, HSGP: 500, FULL: 60},
    "image": {OURS: 500, SINGLE: 500, "freegp paper": 500, "freegp gibbs": 500, GPFLOW: 600},
}
# Waves along a column, and the width of their box in units of the window's: HSGP's, and ours.
BASIS = {"coal": (30, 1.5), "pines": (20, 1.2)}
WAVES = {"coal": (60, 3.0), "pines": (30, 1.2)}
FEWER_ROUNDS = {"num_rounds": 15, "draws_per_round": 20, "most_steps": 50}


def run(settings: Settings) -> dict[str, Any]:
    """Every sampler on the problems asked for; of the others, what was found before."""
    makers = {"coal": problems.coal, "pines": problems.pines, "image": partial(problems.image, settings.data)}
    before = (records.kept(settings, "effective") or {"result": {"problems": {}, "dates": {}}})["result"]
    found, dates = before["problems"], before["dates"]
    for name in settings.problems[: 1 if settings.quick else None]:
        print(f"  {LABELS[name]}", flush=True)
        try:
            found[name] = _problem(name, makers[name](), settings)
        except FileNotFoundError as error:
            found[name] = {"missing": str(error)}
        dates[name] = records.now()
    return {"problems": found, "dates": dates, "peer_versions": _peer_versions()}


def _peer_versions() -> dict[str, str]:
    try:
        with gpflow_workers(1) as (worker,):
            return worker.ask("versions")
    except PeerError:
        return {}


def _problem(name: str, problem: Problem, settings: Settings) -> dict[str, Any]:
    """Rows by method; a sentence in the place of one that could not be had."""
    fit = fg.fit_gaussian(problem.model(), problem.X, problem.y, train_inducing=False, progress=False)
    tuning = {} if name == "coal" and not settings.quick else FEWER_ROUNDS
    methods: dict[str, Callable[[int], Chains]] = {
        OURS: partial(_ours, problem, fit, "sites"),
        FEATURES: partial(_features, problem, name),
        SINGLE: partial(_single, problem),
        "freegp paper": partial(_ours, problem, fit, fg.PaperHMC(**tuning)),
        "freegp gibbs": partial(_ours, problem, fit, fg.Gibbs(**tuning)),
        GPFLOW: partial(_gpflow, problem, fit),
        HSGP: lambda draws: hsgp.sample(problem, *BASIS[name], draws, NUM_CHAINS),
        FULL: partial(_full, problem, fit),
    }
    rows: dict[str, Any] = {}
    for method, draws in DRAWS[name].items():
        try:
            rows[method] = methods[method](100 if settings.quick else draws).judged()
            print("    " + "  ".join(_cells(method, rows)), flush=True)
        except PeerError as error:
            rows[method] = {"problem": str(error)}
            print(f"    {method}: {error}", flush=True)
    return rows


def _ours(problem: Problem, fit: fg.GaussianFit, sampler: Any, num_draws: int) -> Chains:
    data, numbers = (problem.X, problem.y), {"num_samples": num_draws, "num_chains": NUM_CHAINS}
    posterior = fg.sample(fit.model, *data, fit, sampler, num_warmup=min(300, max(60, num_draws)), progress=False, **numbers)
    parts = (posterior.draws[name] for name in ("whitened", "kernel.variance", "kernel.lengthscales"))
    seconds_before = fit.seconds + posterior.seconds_total - posterior.seconds_sampling
    return Chains(*parts, seconds=posterior.seconds_sampling, seconds_warmup=seconds_before)


def _single(problem: Problem, num_draws: int) -> Chains:
    """The same with the work on the data in 32-bit numbers: what that changes in the posterior, and gains."""
    fit = fg.fit_gaussian(problem.model(single_precision=True), problem.X, problem.y, train_inducing=False, progress=False)
    return _ours(problem, fit, "sites", num_draws)


def _features(problem: Problem, name: str, num_draws: int) -> Chains:
    """More waves than HSGP has: ours cost less, and are charged for what they do not carry."""
    waves = problem.model(fg.HilbertSpace(*WAVES[name]))
    fit = fg.fit_gaussian(waves, problem.X, problem.y, progress=False)
    return _ours(problem, fit, "sites", num_draws)


def _full(problem: Problem, fit: fg.GaussianFit, num_draws: int) -> Chains:
    """The full Gaussian process by the same code: every data input is an inducing input. Its fit starts from the sparse one's."""
    at = fit.model.parameter_values()
    start = replace(problem, variance=at["kernel.variance"], lengthscales=at["kernel.lengthscales"])
    settings = fg.NaturalGradient(max_steps=10, site_steps=10, tolerance=1e-2)
    full = fg.fit_gaussian(start.model(problem.X), problem.X, problem.y, settings, train_inducing=False, progress=False)
    return _ours(problem, full, "sites", num_draws)


def _gpflow(problem: Problem, fit: fg.GaussianFit, num_draws: int) -> Chains:
    """A chain in each of two processes with one thread each; started in the bulk, at the mean and the parameters of our fit."""
    at = fit.model.parameter_values()
    start = replace(problem, variance=at["kernel.variance"], lengthscales=np.array(at["kernel.lengthscales"]))
    with tempfile.TemporaryDirectory() as folder, gpflow_workers(NUM_CHAINS, threads=1) as workers:
        path, outs = Path(folder) / "problem.npz", [Path(folder) / f"chain{chain}.npz" for chain in range(NUM_CHAINS)]
        start.save(path, whitened=np.asarray(fit.mean))
        for chain, (worker, out) in enumerate(zip(workers, outs, strict=True)):
            worker.send("sample", path=str(path), out=str(out), seed=chain, num_warmup=num_draws // 2, num_samples=num_draws)
        answers = [worker.receive() for worker in workers]
        draws = [dict(np.load(out)) for out in outs]
    parts = (np.stack([draw[name] for draw in draws]) for name in ("whitened", "variance", "lengthscales"))
    return Chains(*parts, *(max(answer[name] for answer in answers) for name in ("seconds", "seconds_warmup")))


def text(result: dict[str, Any]) -> str:
    """One table a problem, and what is to be known of them."""
    parts = []
    for name in (name for name in LABELS if name in result["problems"]):
        rows = result["problems"][name]
        parts.append(f"**{LABELS[name]}** ({result['dates'][name]})\n")
        parts.append(f"Not run: {rows['missing']}.\n" if "missing" in rows else table(HEADER, [_cells(m, rows) for m in rows]))
    return "\n".join([*parts, REMARKS])


HEADER = (
    "sampler",
    "s / effective sample",
    "ratio",
    "effective samples",
    "R-hat",
    "chains x draws",
    "sampling",
    "before it",
    "lengthscale",
    "variance",
)
REMARKS = f"""The slowest coordinate over v (or basis weights) and theta, by the same estimator for all; seconds are of the draws
kept. "Before it" is fit, compilation and warm-up. All have {NUM_CHAINS} chains side by side: on two devices (freegp, NumPyro), or
in two processes of one thread (GPflow: 20 leapfrog steps, dual averaging to 0.8, started at the mean and the parameters of our
Gaussian fit). An R-hat far from 1 says that the effective samples of that row are a guess.

Lengthscale and variance are means +- standard deviations, the Monte-Carlo error of the mean in brackets; for image the
lengthscale is the geometric mean of 18. HSGP and our `HilbertSpace` approximate the full process and not that of the points.
On coal HSGP has {BASIS["coal"][0]} waves in a box {BASIS["coal"][1]} times as wide as the window; ours are {WAVES["coal"][0]}
in a box of {WAVES["coal"][1]:g} times, since the posterior holds long lengthscales. On the pines HSGP has
{BASIS["pines"][0]} x {BASIS["pines"][0]} and ours are up to {WAVES["pines"][0]} x {WAVES["pines"][0]}, less those in the corner
of high frequencies, both in a box of {WAVES["pines"][1]} times. HSGP leaves out what its waves do not carry; ours keeps its
variance in the model, and so needs more of them. In 18 columns neither can be used.

"paper" and "gibbs" tune as the paper does on coal; elsewhere with {FEWER_ROUNDS["num_rounds"]} rounds of
{FEWER_ROUNDS["draws_per_round"]} draws and Lmax up to {FEWER_ROUNDS["most_steps"]}, to save time.
"""


def _cells(method: str, rows: dict[str, Any]) -> list[str]:
    row = rows[method]
    if "problem" in row:
        return [method, row["problem"], *("" for _ in HEADER[2:])]
    ours = rows[OURS]["seconds_per_ess"]
    chains, draws = row["draws"]
    return [
        method,
        digits(row["seconds_per_ess"]),
        "" if method == OURS else ratio(row["seconds_per_ess"] / ours),
        f"{row['ess']:.0f}",
        f"{row['r_hat']:.2f}",
        f"{chains} x {draws}",
        f"{row['seconds']:.1f} s",
        f"{row['seconds_warmup']:.0f} s",
        _plus_minus(row["lengthscale"]),
        _plus_minus(row["variance"]),
    ]


def _plus_minus(moments: list[float]) -> str:
    mean, sd, error = moments
    return f"{digits(mean)} +- {digits(sd)} ({error:.1g})"
