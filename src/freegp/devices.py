"""What has to be settled before JAX starts: 64-bit numbers, and one CPU device a core, so that chains can run side by side."""

import contextlib
import os

import jax

MOST_DEVICES = 8


def configure() -> None:
    """Set up JAX for this package. The devices are left alone if the program has chosen them or JAX has started already."""
    jax.config.update("jax_enable_x64", True)
    chosen = jax.config.jax_num_cpu_devices > 0  # type: ignore[attr-defined]
    if chosen or "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", ""):
        return
    with contextlib.suppress(RuntimeError):  # it has started: chains will run one after another
        jax.config.update("jax_num_cpu_devices", min(len(os.sched_getaffinity(0)), MOST_DEVICES))
