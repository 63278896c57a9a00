"""What has to be settled before JAX starts: 64-bit numbers, CPU devices and threads, and where compiled programs are kept."""

import contextlib
import functools
import hashlib
import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
if "jaxlib" not in sys.modules and os.environ.get(LOG_LEVEL) in (None, "1"):  # JAX's own choice, handed down to child processes
    os.environ[LOG_LEVEL] = "3"
SILENCED = "jaxlib" not in sys.modules or os.environ.get(LOG_LEVEL) in ("2", "3")
"""XLA warns of every program it reads back, unless told not to before it is loaded. On newer processors it calls it an error that
the program was compiled for a machine that would rather not gather, which the same machine does not say of itself. What really
goes wrong comes as an exception."""

import jax  # noqa: E402
from threadpoolctl import threadpool_limits  # noqa: E402

FLAGS, WIDTH = "XLA_FLAGS", "xla_cpu_prefer_vector_width"
MOST_DEVICES = 8
MOST_MAPS = 40_000
"""Of the 65 530 that Linux grants."""
MOST_BYTES_KEPT = 2**29
SECONDS_WORTH_KEEPING = 0.1
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def configure() -> None:
    """Set up JAX for this package. What the program has chosen for itself, or settled by starting JAX, is left alone."""
    jax.config.update("jax_enable_x64", True)
    _use_whole_registers()
    _make_devices()
    _run_at_once()
    _keep_compiled_programs()


def _use_whole_registers() -> None:
    """Let programs use vectors of 512 bits where the processor has them, with which exponentials take less time.

    XLA would rather use half of each, and reads what it is told of this from the environment, once. So it is made to read now,
    and the environment is put back as it was: another library's XLA, in a child process, may not know the word.
    """
    flags = os.environ.get(FLAGS, "")
    if WIDTH in flags:
        return
    os.environ[FLAGS] = f"{flags} --{WIDTH}=512".strip()
    try:
        with contextlib.suppress(ImportError, AttributeError):  # not JAX's public face; without it programs are as XLA makes them
            from jax._src.lib import xla_client

            xla_client.CompileOptions()  # reads them
    finally:
        if flags:
            os.environ[FLAGS] = flags
        else:
            del os.environ[FLAGS]


def _make_devices() -> None:
    chosen = jax.config.jax_num_cpu_devices > 0  # type: ignore[attr-defined]
    if chosen or "xla_force_host_platform_device_count" in os.environ.get(FLAGS, ""):
        return
    with contextlib.suppress(RuntimeError):  # it has started: chains will run one after another
        jax.config.update("jax_num_cpu_devices", min(len(os.sched_getaffinity(0)), MOST_DEVICES))


def _run_at_once() -> None:
    """One program on one device runs in the thread that asks for it: handing a small one to another takes as long as itself.

    Chains on several devices run side by side as before.
    """
    if "JAX_CPU_ENABLE_ASYNC_DISPATCH" not in os.environ:
        jax.config.update("jax_cpu_enable_async_dispatch", False)


def _keep_compiled_programs() -> None:
    """Compiling takes longer than most fits, so what was compiled once is read back by the next process that needs it."""
    if jax.config.jax_compilation_cache_dir is not None or not SILENCED:  # type: ignore[attr-defined]
        return
    folder = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "freegp" / f"compiled-{_processor()}"
    with contextlib.suppress(OSError, RuntimeError):  # no home, or one that cannot be written to: compile anew each time
        folder = folder.expanduser()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            return
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_compilation_cache_max_size", MOST_BYTES_KEPT)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", SECONDS_WORTH_KEEPING)


def _processor() -> str:
    """A short name for what the processor can do: a program compiled for one kind may not run on another."""
    description = {platform.machine(), platform.processor(), f"{WIDTH}=512"}
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        description.update(line for line in lines if line.startswith(("model name", "flags", "Features")))
    return hashlib.sha256("\n".join(sorted(description)).encode()).hexdigest()[:12]


def make_room() -> None:
    """Forget compiled programs before the memory maps run out that the system grants a process: XLA would crash without them.

    A long session with data of many shapes can get there. What is forgotten is read back, or compiled again, when it is needed.
    """
    with contextlib.suppress(OSError), Path("/proc/self/maps").open("rb") as maps:
        if sum(1 for _ in maps) > MOST_MAPS:
            jax.clear_caches()


def one_blas_thread(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """The function, with BLAS, which XLA calls for factorisations, kept to one thread until its result is there.

    BLAS's threads fight XLA's own: on a busy machine a factorisation then takes fifty times as long.
    """

    @functools.wraps(function)
    def quiet(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        with threadpool_limits(1, "blas"):
            return jax.block_until_ready(function(*args, **kwargs))

    return quiet
