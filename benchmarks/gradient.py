"""One value and gradient of the log density, against GPflow and against the arithmetic that cannot be avoided."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from page import milliseconds, ratio, table
from peers.environment import PeerError, Worker, gpflow_workers
from problems import Problem, synthetic
from settings import Settings
from threadpoolctl import threadpool_limits
from timing import seconds_a_call, take_turns

import freegp as fg
from freegp.parameters import to_free

TITLE = "Gradient of the log density"
# N, M, D, likelihood, classes; how many times faster than GPflow it should be; how near the floor
CASES = (
    ((100, 30, 1, "poisson", 1), 8.0, None),
    ((1000, 100, 18, "bernoulli", 1), 2.5, None),
    ((1024, 225, 2, "poisson", 1), 3.0, None),
    ((4096, 225, 2, "poisson", 1), 3.0, 2.5),
    ((20000, 500, 50, "robustmax", 10), 2.5, 2.5),
)
SQUARE = 2000
SECONDS = 20.0
"""Of turns, at least, for each case."""


def run(settings: Settings) -> dict[str, Any]:
    """Every case in turn; a small one or two for a quick trial."""
    cases = CASES[:2] if settings.quick else CASES
    try:
        with gpflow_workers(1) as (worker,):
            peer_versions = worker.ask("versions")
            return {"peer_versions": peer_versions, "rows": [_case(case, worker, settings) for case in cases]}
    except PeerError as error:
        print(error, flush=True)
        return {"peer_problem": str(error), "rows": [_case(case, None, settings) for case in cases]}


def _case(case: tuple[Any, float, float | None], worker: Worker | None, settings: Settings) -> dict[str, Any]:
    size, target, floor_target = case
    problem = synthetic(*size)
    whitened = np.random.default_rng(1).normal(size=(len(problem.Z), problem.num_classes))
    row = {"size": list(size), "target": target, "floor_target": floor_target}
    with tempfile.TemporaryDirectory() as folder, threadpool_limits(1, "blas"):  # as while sampling
        value_and_gradient = compiled(problem, whitened)
        contestants = {"freegp": lambda: seconds_a_call(value_and_gradient), "product": lambda: seconds_a_call(_product())}
        if worker is not None:
            path = str(Path(folder) / "problem.npz")
            problem.save(path, whitened=whitened)
            row["disagreement"] = _disagreement(problem, whitened, value_and_gradient, worker.ask("check_gradient", path=path))
            contestants["gpflow"] = lambda: worker.ask("time_gradient", path=path)["seconds"]
        row |= take_turns(contestants, *((2, 0.0) if settings.quick else (7, SECONDS)))
    row["floor"] = 3.0 * len(problem.Z) ** 2 * len(problem.X) / (2.0 * SQUARE**3 / row["product"])
    print("  " + "  ".join(_cells(row)), flush=True)
    return row


def compiled(problem: Problem, whitened: np.ndarray) -> Callable[[], Any]:
    """The gradient in free parameters and whitened values, compiled; it waits for the value, as GPflow's does."""
    model = problem.model().prepared(problem.X)
    X, y, free, v = (jnp.asarray(array) for array in (problem.X, problem.y, to_free(model), whitened))
    function = jax.jit(jax.value_and_grad(lambda free, v, X, y: fg.log_density(model, X, y, free, v), argnums=(0, 1)))

    def call() -> Any:
        result = function(free, v, X, y)
        result[0].block_until_ready()
        return result

    call()  # compiles
    return call


def _product() -> Callable[[], Any]:
    """A large matrix product, for the rate of the machine."""
    matrix = jnp.ones((SQUARE, SQUARE))
    return lambda: jax.block_until_ready(matrix @ matrix)


def _disagreement(problem: Problem, whitened: np.ndarray, value_and_gradient: Callable[[], Any], theirs: dict[str, Any]) -> float:
    """Largest relative difference from GPflow, in the data term and in the slope in v: both must compute the same thing."""
    data_term = float(fg.expected_log_likelihood(problem.model(), problem.X, problem.y, whitened))
    slope = np.asarray(value_and_gradient()[1][1])
    of_slope = np.max(np.abs(slope - np.array(theirs["slope"]))) / np.max(np.abs(slope))
    return max(float(of_slope), abs(theirs["data_term"] / data_term - 1.0))


def text(result: dict[str, Any]) -> str:
    """The section's table."""
    header = ("N x M x D x P", "likelihood", "freegp", "GPflow SGPMC", "ratio", "floor", "of the floor", "disagreement")
    return f"{table(header, [_cells(row) for row in result['rows']])}\n{_remarks(result)}\n"


def _cells(row: dict[str, Any]) -> list[str]:
    N, M, D, likelihood, P = row["size"]
    theirs, of_floor, aim = row.get("gpflow"), row["freegp"] / row["floor"], row["floor_target"]
    near = f"{of_floor:.2f}x" + ("" if aim is None else f" (aim {aim:g}x or less{'' if of_floor <= aim else ', **missed**'})")
    return [
        f"{N} x {M} x {D} x {P}",
        likelihood,
        milliseconds(row["freegp"]),
        milliseconds(theirs),
        ratio(None if theirs is None else theirs / row["freegp"], row["target"]),
        milliseconds(row["floor"]),
        near,
        f"{row['disagreement']:.0e}" if "disagreement" in row else "",
    ]


def _remarks(result: dict[str, Any]) -> str:
    rate = max(2e-9 * SQUARE**3 / row["product"] for row in result["rows"])
    lines = [
        f"The floor is 3 M^2 N operations at the rate of a {SQUARE} x {SQUARE} product in JAX in double precision, measured in "
        f"the same turns ({rate:.0f} GFlop/s at best). Z is held by all. Disagreement is the largest relative difference "
        "between the two libraries' data terms and slopes in v at the same point: GPflow's "
        "quadrature has 20 points, ours more, and its probit keeps to 0.001 ... 0.999, which is the difference for Bernoulli."
    ]
    return "\n\n".join([*lines, *([result["peer_problem"]] if "peer_problem" in result else [])])
