"""A run killed again and again, at any moment and in the middle of a write, and what it comes to in the end."""

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import freegp as fg

NUM_SAMPLES, NUM_CHAINS = 1000, 2
SCRIPT = """
import os, signal, sys
import numpy as np
import freegp as fg

folder, fatal_write = sys.argv[1], int(sys.argv[2])
if fatal_write:  # die in the middle of this write
    sync, left = os.fsync, [fatal_write]
    def fsync(descriptor):
        left[0] -= 1
        if left[0] == 0:
            os.ftruncate(descriptor, os.fstat(descriptor).st_size // 2)
            os.kill(os.getpid(), signal.SIGKILL)
        sync(descriptor)
    os.fsync = fsync
print("begun", flush=True)
if os.path.exists(os.path.join(folder, "manifest.npz")):
    fg.resume(folder, progress=False)
else:
    X = np.linspace(0.0, 5.0, 1000)[:, None]
    y = np.random.default_rng(0).poisson(np.exp(np.sin(X[:, 0]))).astype(float)
    model = fg.SparseGP(fg.kernels.RBF(), fg.likelihoods.Poisson(), inducing=fg.Grid(40))
    fg.sample(model, X, y, num_samples=int(sys.argv[3]), num_chains=int(sys.argv[4]), run_dir=folder, progress=False)
print("done", flush=True)
"""


@dataclass(frozen=True)
class Killed:
    """How often runs were killed, how often of it in a write, how many, and whether their draws are those of one left alone."""

    num_kills: int
    num_in_writes: int
    num_runs: int
    is_identical: bool


def killed_and_resumed(folder: Path, num_kills: int, num_in_writes: int, seed: int = 0) -> Killed:
    """Kill a run at random moments, resume it each time, begin anew when it is done; compare all with one never killed."""
    for name in ("whole", "again"):  # the second time compiled programs are read back, as they are from then on
        begun = time.monotonic()
        _start(folder / name, 0).communicate()
        longest = time.monotonic() - begun
    rng = random.Random(seed)
    is_in_write = [True] * num_in_writes + [False] * (num_kills - num_in_writes)
    rng.shuffle(is_in_write)
    torn = [folder / "torn-0"]
    for in_write in is_in_write:
        while not _killed(
            _start(torn[-1], rng.randint(1, 6) if in_write else 0), None if in_write else rng.uniform(0.0, longest)
        ):
            torn.append(folder / f"torn-{len(torn)}")  # it was done before it could be killed
    _start(torn[-1], 0).communicate()
    whole = fg.read_run(folder / "whole")
    return Killed(num_kills, num_in_writes, len(torn), all(_is_same(whole, fg.read_run(path)) for path in torn))


def _is_same(one: fg.Posterior, other: fg.Posterior) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in ("free", "whitened"))


def _start(folder: Path, fatal_write: int) -> subprocess.Popen:
    arguments = [str(folder), str(fatal_write), str(NUM_SAMPLES), str(NUM_CHAINS)]
    return subprocess.Popen([sys.executable, "-c", SCRIPT, *arguments], stdout=subprocess.PIPE, text=True, env=dict(os.environ))


def _killed(process: subprocess.Popen, moment: float | None) -> bool:
    """Kill it so long after it began, if it does not kill itself; whether it died of it."""
    assert process.stdout is not None
    process.stdout.readline()
    if moment is not None:
        time.sleep(moment)
        process.kill()
    process.communicate()
    return process.returncode == -signal.SIGKILL
