"""The one stopwatch of all sections: contestants take turns in one run, and the fastest turn of each counts.

It needs the standard library only, so that peers in environments of their own are timed by the same code.
"""

import time
from collections.abc import Callable, Mapping


def seconds_a_call(call: Callable[[], object], at_least: float = 0.02) -> float:
    """Mean seconds of one call, over as many as fill ``at_least`` seconds. The call must wait for its own result."""
    number = 1
    while True:
        begun = time.perf_counter()
        for _ in range(number):
            call()
        elapsed = time.perf_counter() - begun
        if elapsed >= at_least:
            return elapsed / number
        number = max(2 * number, int(1.2 * number * at_least / max(elapsed, 1e-9)))


def take_turns(contestants: Mapping[str, Callable[[], float]], rounds: int, at_least: float = 0.0) -> dict[str, float]:
    """Let each contestant time itself once a round (A, B, A, B, ...); the least seconds of each.

    Many short rounds, for ``at_least`` so many seconds, find the moments in which nobody else uses the machine.
    """
    turns: dict[str, list[float]] = {name: [] for name in contestants}
    begun = time.perf_counter()
    while min(map(len, turns.values())) < rounds or time.perf_counter() - begun < at_least:
        for name, timed in contestants.items():
            turns[name].append(timed())
    return {name: min(seconds) for name, seconds in turns.items()}
