"""L-BFGS for objectives that are sometimes not a number."""

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize

Objective = Callable[[np.ndarray], tuple[float, np.ndarray]]


def ascend(
    objective: Objective, start: np.ndarray, record: Callable[[np.ndarray, float], None], max_steps: int, tolerance: float
) -> bool:
    """Climb from a finite start; whether a fresh start from where it ended gained less than the tolerance.

    SciPy's line search takes a step into the void as a wall, which can end a run early, and the approximation to the curvature
    goes stale; so a run counts as finished only when another one, begun where it ended, comes no further.
    """
    values: dict[bytes, float] = {}
    at, best, steps = start, objective(start)[0], 0

    def negative(x: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = objective(x)
        if not (np.isfinite(value) and np.isfinite(slope).all()):
            return abs(best) + 1e4, np.zeros_like(x)  # worse than anything here, but not so much that steps shrink to nothing
        values[x.tobytes()] = value
        return -value, -slope

    def callback(x: np.ndarray) -> None:
        nonlocal at, best, steps
        at, best, steps = x.copy(), values[x.tobytes()], steps + 1
        values.clear()
        record(at, best)

    while steps < max_steps:
        before = best
        options = {"maxiter": max_steps - steps, "ftol": 0.1 * tolerance / max(1.0, abs(best)), "gtol": 1e-9, "maxcor": 20}
        minimize(negative, at, jac=True, method="L-BFGS-B", callback=callback, options=options)
        if best - before < tolerance:
            return True
    return False
