"""Does this jaxlib hang? Runs a plain JAX program, and our stress test, several times and watches their processor time.

    python benchmarks/xla_hang.py [interpreter] [runs]

Give the interpreter of an environment with another jaxlib (the plain program needs nothing else). A process that uses no
processor time for half a minute has hung; one that is slow has not. `docs/xla-hang.md` holds what was seen.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

PLAIN = """
import jax, jax.numpy as jnp
from jax.scipy.linalg import solve_triangular

jax.config.update("jax_enable_x64", True)
X = jax.random.normal(jax.random.key(0), (750, 2))
Z = X[:50]


def kernel(a, b, length):
    return jnp.exp(-0.5 * jnp.sum((a[:, None] - b[None]) ** 2, -1) / length**2)


def latent(length, v):
    R = jnp.linalg.cholesky(kernel(Z, Z, length) + 1e-6 * jnp.eye(50))
    A = solve_triangular(R, kernel(Z, X, length), lower=True)
    return A.T @ v, 1 - jnp.sum(A * A, axis=0)


def value(lengths, v):
    mean, variance = jax.vmap(latent)(lengths, v)
    return jnp.sum(jnp.exp(mean + variance / 2)) - jnp.sum(mean)


gradient = jax.jit(jax.value_and_grad(value, argnums=(0, 1)))
lengths, v = jnp.ones(3), 0.1 * jnp.ones((3, 50))
for _ in range(3000):
    _, (slope, _) = gradient(lengths, v)
    lengths = jax.block_until_ready(lengths + 1e-9 * slope)
"""
STRESS = Path(__file__).parent.parent / "tests" / "hang_stress.py"
PATIENCE = 30


def ticks(process: int) -> int:
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def watch(command: list[str]) -> str:
    begun, last, idle = time.time(), 0, 0
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None:
        time.sleep(1.0)
        if process.poll() is not None:
            break
        now = ticks(process.pid)
        idle, last = (idle + 1 if now - last <= 2 else 0), now
        if idle > PATIENCE:
            process.kill()
            return f"HUNG after {time.time() - begun:.0f} s, {last / os.sysconf('SC_CLK_TCK'):.0f} s of processor time"
    return f"{'done' if process.returncode == 0 else 'failed'} in {time.time() - begun:.0f} s"


def main() -> None:
    interpreter = sys.argv[1] if len(sys.argv) > 1 else sys.executable
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    for run in range(runs):
        print(f"run {run}: plain program {watch([interpreter, '-c', PLAIN])}", flush=True)
        print(f"run {run}: stress test {watch([interpreter, str(STRESS), '3000'])}", flush=True)


if __name__ == "__main__":
    main()
