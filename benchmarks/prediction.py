"""Predictions averaged over draws, against GPflow's loop."""

import tempfile
from pathlib import Path
from typing import Any

import jax
import numpy as np
from page import digits, ratio, table
from peers.environment import PeerError, gpflow_workers
from problems import Problem, synthetic
from settings import Settings
from timing import seconds_a_call, take_turns

import freegp as fg
from freegp.parameters import to_free

TITLE = "Prediction, averaged over draws"
NUM_POINTS = 200


def run(settings: Settings) -> dict[str, Any]:
    """Draws around the problem's values (how they came about makes no difference), 200 new inputs."""
    num_draws = 50 if settings.quick else 500
    problem = synthetic(1024, 225, 2, "poisson")
    posterior = _posterior(problem, num_draws)
    inputs = np.random.default_rng(1).uniform(0.0, 10.0, (NUM_POINTS, 2))
    mean = np.asarray(posterior.predict_y(inputs)[0])
    contestants = {"freegp": lambda: seconds_a_call(lambda: jax.block_until_ready(posterior.predict_y(inputs)))}
    result: dict[str, Any] = {"num_draws": num_draws}
    try:
        with gpflow_workers(1) as (worker,), tempfile.TemporaryDirectory() as folder:
            result["peer_versions"] = worker.ask("versions")
            path = str(Path(folder) / "problem.npz")
            problem.save(path, inputs=inputs, **_for_peer(posterior))
            theirs = np.array(worker.ask("predict", path=path, compiled=True)["mean"])
            result["disagreement"] = float(np.max(np.abs(theirs / mean.ravel() - 1.0)))
            contestants["gpflow"] = lambda: worker.ask("predict", path=path, compiled=False)["seconds"]
            contestants["gpflow_compiled"] = lambda: worker.ask("predict", path=path, compiled=True)["seconds"]
            result |= take_turns(contestants, rounds=1 if settings.quick else 3)
    except PeerError as error:
        print(f"  {error}", flush=True)
        result |= {"peer_problem": str(error)} | take_turns({"freegp": contestants["freegp"]}, rounds=3)
    return result


def _posterior(problem: Problem, num_draws: int) -> fg.Posterior:
    rng = np.random.default_rng(0)
    model = problem.model().prepared(problem.X)
    free = np.asarray(to_free(model)) + 0.1 * rng.normal(size=(1, num_draws, 2))
    whitened = 0.3 * rng.normal(size=(1, num_draws, len(problem.Z), 1))
    return fg.Posterior(model, problem.X, problem.y, free, whitened, (), seconds_sampling=0.0, seconds_total=0.0)


def _for_peer(posterior: fg.Posterior) -> dict[str, np.ndarray]:
    draws = posterior.draws
    return {
        "whitened": draws["whitened"][0, 0],
        "draws_whitened": draws["whitened"][0],
        "draws_variance": draws["kernel.variance"][0],
        "draws_lengthscales": draws["kernel.lengthscales"][0],
    }


def text(result: dict[str, Any]) -> str:
    """The section's table."""
    names = {
        "freegp": "freegp `predict_y`",
        "gpflow": "GPflow, assign and `predict_y`",
        "gpflow_compiled": "the same under `tf.function`",
    }
    rows = [
        [label, f"{digits(result[name])} s", "" if name == "freegp" else ratio(result[name] / result["freegp"])]
        for name, label in names.items()
        if name in result
    ]
    remark = f"{result['num_draws']} draws, {NUM_POINTS} new inputs, M = 225."
    if "disagreement" in result:
        remark += f" The means differ by {result['disagreement']:.0e} at most, relatively."
    return f"{table(('', 'seconds', 'ratio'), rows)}\n{remark} {result.get('peer_problem', '')}\n"
