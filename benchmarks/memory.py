"""Peak resident memory of one value and gradient at N = 10^6, D = 2, M = 100: the data are streamed, so it does not grow as M N.

The budget is 2 GiB; M N alone would be 0.8 GB for each matrix of that size that is kept. Run by itself, it fails over the budget.
"""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from settings import BENCHMARKS, Settings

TITLE = "Peak memory"
BUDGET = 2.0
N, M, D = 1_000_000, 100, 2


def run(settings: Settings) -> dict[str, Any]:
    """In a process of its own, whose peak nothing else has raised."""
    program = "import json, memory; print(json.dumps(memory.measure()))"
    done = subprocess.run([sys.executable, "-c", program], cwd=BENCHMARKS, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def text(result: dict[str, Any]) -> str:
    """The section's sentence."""
    verdict = "within" if result["peak"] <= BUDGET else "**over**"
    return (
        f"N = {N:,}, M = {M}, D = {D}, gradient in v, theta and Z: peak {result['peak']:.2f} GiB "
        f"(before the gradient {result['before']:.2f}), {verdict} the budget of {BUDGET:g} GiB; "
        f"{result['seconds']:.2f} s a gradient.\n"
    )


def peak_gib() -> float:
    """The high-water mark of this program alone: getrusage would count what its parent held when it was started."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 2**20


def measure() -> dict[str, float]:
    import jax
    import jax.numpy as jnp
    import numpy as np

    import freegp as fg

    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 10.0, (N, D))
    y = rng.poisson(1.0, N).astype(float)
    model = fg.SparseGP(fg.kernels.RBF(1.0, [1.0, 1.0]), fg.likelihoods.Poisson(), inducing=fg.Grid(10)).prepared(X)
    X, y = jnp.asarray(X), jnp.asarray(y)
    gradient = jax.jit(
        jax.value_and_grad(lambda free, v, Z: fg.log_density(model.with_inducing_inputs(Z), X, y, free, v), argnums=(0, 1, 2))
    )
    arguments = jnp.zeros(3), jnp.asarray(rng.normal(size=(M, 1))), model.inducing_inputs
    before = peak_gib()
    jax.block_until_ready(gradient(*arguments))
    begun = time.perf_counter()
    jax.block_until_ready(gradient(*arguments))
    return {"peak": peak_gib(), "before": before, "seconds": time.perf_counter() - begun}


if __name__ == "__main__":
    found = measure()
    print(text(found))
    if found["peak"] > BUDGET:
        raise SystemExit(f"over the budget of {BUDGET} GiB")
