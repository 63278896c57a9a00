"""A virtual environment for GPflow, and workers that run in it: requests go in and answers come out as lines of JSON."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from settings import BENCHMARKS

FOLDER = BENCHMARKS / ".peers" / "gpflow"
REQUIREMENTS = Path(__file__).parent / "requirements.txt"


class PeerError(Exception):
    """A peer could not be installed or could not do what was asked; the sentence goes into its column."""


@cache
def interpreter() -> Path:
    """Python of GPflow's environment, which is made if it is not there."""
    python, stamp = FOLDER / "bin" / "python", FOLDER / "installed.txt"
    if stamp.exists() and stamp.read_text() == REQUIREMENTS.read_text():
        return python
    print(f"installing GPflow into {FOLDER.relative_to(BENCHMARKS.parent)} (once; some minutes)", flush=True)
    _command(sys.executable, "-m", "venv", "--clear", str(FOLDER))
    _command(str(python), "-m", "pip", "install", "--quiet", "--requirement", str(REQUIREMENTS))
    stamp.write_text(REQUIREMENTS.read_text())
    return python


def _command(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()] or ["no message"]
        raise PeerError(f"GPflow could not be installed ({lines[-1].strip()})")


class Worker:
    """GPflow in a process of its own. Requests can be sent to several workers before the answers are waited for."""

    def __init__(self, threads: int | None):
        environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
        if threads is not None:
            names = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
            environment |= dict.fromkeys(names, str(threads))
        self._process = subprocess.Popen(
            [str(interpreter()), "-m", "peers.gpflow_worker"],
            cwd=BENCHMARKS,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def send(self, task: str, **arguments: Any) -> None:
        """Ask for something; `receive` waits for it."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"task": task, "arguments": arguments}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise PeerError("GPflow's process has ended") from None

    def receive(self) -> dict[str, Any]:
        """The answer to the last request."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise PeerError(f"GPflow's process ended with status {self._process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise PeerError(f"GPflow failed: {answer['error']}")
        return answer

    def ask(self, task: str, **arguments: Any) -> dict[str, Any]:
        """Ask and wait."""
        self.send(task, **arguments)
        return self.receive()

    def close(self) -> None:
        """End the process, whatever it is doing."""
        self._process.terminate()
        self._process.communicate()


@contextmanager
def gpflow_workers(count: int, threads: int | None = None) -> Iterator[list[Worker]]:
    """Some workers, ended when the block ends; with TensorFlow's own choice of threads unless a number is given."""
    with ExitStack() as stack:
        workers = []
        for _ in range(count):
            workers.append(Worker(threads))
            stack.callback(workers[-1].close)
        yield workers
