"""Set before JAX starts: the suite is thousands of small programs, so compiling them fast matters more than fast code."""

import atexit
import os
import sys
from pathlib import Path

FLAGS = (
    "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
    " --xla_cpu_multi_thread_eigen=false"  # two workers have a core each
)
os.environ["XLA_FLAGS"] = f"{FLAGS} {os.environ.get('XLA_FLAGS', '')}"

WORKER = os.environ.get("PYTEST_XDIST_WORKER", "alone")
os.environ["JAX_COMPILATION_CACHE_DIR"] = str(Path(__file__).parents[1] / ".pytest_cache" / "compiled" / WORKER)
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"  # it tells of every program read back

import pytest  # noqa: E402

from freegp.devices import make_room  # noqa: E402


def _leave_at_once() -> None:
    """XLA takes half a minute to give back, one by one, what the system takes back anyway when a worker has told its results."""
    sys.stdout.flush()
    os._exit(0)


if WORKER != "alone":
    atexit.register(_leave_at_once)


@pytest.fixture(autouse=True)
def _room_for_compiled_programs():
    """The suite compiles more programs than one process can map."""
    make_room()
