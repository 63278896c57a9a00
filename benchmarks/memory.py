"""Peak resident memory of one value and gradient at N = 10^6, D = 2, M = 100: the data are streamed, so it does not grow as M N.

Run with ``make bench``. The budget is 2 GiB; M N alone would be 0.8 GB for each matrix of that size that is kept.
"""

import resource
import time

import jax
import jax.numpy as jnp
import numpy as np

import freegp as fg

BUDGET = 2.0


def peak_gib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 10.0, (1_000_000, 2))
    y = rng.poisson(1.0, 1_000_000).astype(float)
    model = fg.SparseGP(fg.kernels.RBF(1.0, [1.0, 1.0]), fg.likelihoods.Poisson(), inducing=fg.Grid(10)).prepared(X)
    X, y = jnp.asarray(X), jnp.asarray(y)
    gradient = jax.jit(
        jax.value_and_grad(lambda free, v, Z: fg.log_density(model.with_inducing_inputs(Z), X, y, free, v), argnums=(0, 1, 2))
    )
    arguments = jnp.zeros(3), jnp.asarray(rng.normal(size=(100, 1))), model.inducing_inputs
    before = peak_gib()
    jax.block_until_ready(gradient(*arguments))
    begun = time.perf_counter()
    jax.block_until_ready(gradient(*arguments))
    seconds = time.perf_counter() - begun
    print(
        f"N = 1 000 000, M = 100, D = 2: peak {peak_gib():.2f} GiB (before the gradient {before:.2f}), {seconds:.2f} s a gradient"
    )
    if peak_gib() > BUDGET:
        raise SystemExit(f"over the budget of {BUDGET} GiB")


if __name__ == "__main__":
    main()
