"""What has to be settled before JAX starts: 64-bit numbers, and one CPU device a core, so that chains can run side by side."""

import contextlib
import functools
import os
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import jax
from threadpoolctl import threadpool_limits

MOST_DEVICES = 8
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def configure() -> None:
    """Set up JAX for this package. The devices are left alone if the program has chosen them or JAX has started already."""
    jax.config.update("jax_enable_x64", True)
    chosen = jax.config.jax_num_cpu_devices > 0  # type: ignore[attr-defined]
    if chosen or "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", ""):
        return
    with contextlib.suppress(RuntimeError):  # it has started: chains will run one after another
        jax.config.update("jax_num_cpu_devices", min(len(os.sched_getaffinity(0)), MOST_DEVICES))


def one_blas_thread(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """The function, with BLAS, which XLA calls for factorisations, kept to one thread until its result is there.

    BLAS's threads fight XLA's own: on a busy machine a factorisation then takes fifty times as long.
    """

    @functools.wraps(function)
    def quiet(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        with threadpool_limits(1, "blas"):
            return jax.block_until_ready(function(*args, **kwargs))

    return quiet
