"""From nothing to a first result in a fresh process: import, compile, fit, draw; with and without JAX's compilation cache."""

import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any

from page import table
from settings import BENCHMARKS, Settings

TITLE = "Cold start"
STAGES = ("import", "first gradient", "fit", "first draws", "prediction")
WAYS = {"none": "no cache", "empty": "cache on, still empty", "filled": "cache filled by a run before"}


def run(settings: Settings) -> dict[str, Any]:
    """The same program three times, each in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        cache = {
            "JAX_COMPILATION_CACHE_DIR": folder,
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        }
        result = {}
        for way in WAYS:
            result[way] = _fresh_process({} if way == "none" else cache)
            print(f"  {WAYS[way]}: {result[way]['all']:.1f} s", flush=True)
    return result


def _fresh_process(environment: dict[str, str]) -> dict[str, float]:
    begun = time.perf_counter()
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "XLA_"))}
    command = [sys.executable, "-c", "import json, cold_start; print(json.dumps(cold_start.first_result()))"]
    done = subprocess.run(command, cwd=BENCHMARKS, env=clean | environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout) | {"all": time.perf_counter() - begun}


def text(result: dict[str, Any]) -> str:
    """The section's table."""
    rows = [[WAYS[way], *(f"{result[way][stage]:.1f} s" for stage in (*STAGES, "all"))] for way in WAYS]
    remark = (
        "Coal, N = 100, M = 30: one gradient, a Gaussian fit, 2 chains with 100 draws of warm-up and 100 kept, the rate at 200 "
        "times; all is the whole process."
    )
    return f"{table(('', *STAGES, 'all'), rows)}\n{remark}\n"


def first_result() -> dict[str, float]:
    """Seconds of each stage, each begun where the last one ended."""
    marks = [time.perf_counter()]

    def mark() -> None:
        marks.append(time.perf_counter())

    import numpy as np

    import freegp as fg

    mark()
    from gradient import compiled
    from problems import coal

    problem = coal()
    compiled(problem, np.zeros((30, 1)))
    mark()
    fit = fg.fit_gaussian(problem.model(), problem.X, problem.y, train_inducing=False, progress=False)
    mark()
    posterior = fg.sample(fit.model, problem.X, problem.y, fit, num_samples=100, num_warmup=100, num_chains=2, progress=False)
    mark()
    np.asarray(posterior.predict_y(np.linspace(1851.0, 1963.0, 200)[:, None], exposure=1.0)[0])
    mark()
    return dict(zip(STAGES, np.diff(marks).tolist(), strict=True))
