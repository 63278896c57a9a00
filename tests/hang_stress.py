"""Thousands of gradients with several latent functions, the program on which XLA's CPU pool has been seen to stop for ever.

Run by `test_hang.py` under a watchdog, and by hand against other versions of jaxlib: ``python tests/hang_stress.py 5000``.
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np

import freegp as fg


def main(num_gradients: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(750, 2))
    y = rng.integers(0, 3, 750).astype(float)
    for kernel in (fg.kernels.RBF(), [fg.kernels.RBF(1.0, length) for length in (0.8, 1.0, 1.2)]):
        model = fg.SparseGP(kernel, fg.likelihoods.RobustMax(3, step=1.0), inducing=X[:50]).prepared(X)

        def value(free: jax.Array, v: jax.Array, model: fg.SparseGP = model) -> jax.Array:
            return fg.log_density(model, jnp.asarray(X), jnp.asarray(y), free, v)

        gradient = jax.jit(jax.value_and_grad(value, argnums=(0, 1)))
        free, v = jnp.zeros(2 * len(model.kernels)), jnp.zeros((50, 3))
        for _ in range(num_gradients // 2):
            _, (_, slope) = gradient(free, v)
            v = jax.block_until_ready(v + 1e-9 * slope)
    print(f"jaxlib {jax.__version__}: {num_gradients} gradients", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
