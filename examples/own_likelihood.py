"""A likelihood of your own: from one function, and as a class with a parameter to learn.

Of ten seeds in a dish, how many come up, by temperature? Simulated with a known probability. Then noise with Laplace's density,
whose scale is learnt. Gaussian approximations keep the example short; `fg.sample` takes the same models.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln

import freegp as fg
from freegp.fields import Value, parameter, positive

rng = np.random.default_rng(0)
SEEDS = 10


def binomial(f: jax.Array, y: jax.Array) -> jax.Array:
    """``log p(y of ten seeds | f)``, the probability of a seed being the logistic function of f."""
    ways = gammaln(SEEDS + 1.0) - gammaln(y + 1.0) - gammaln(SEEDS - y + 1.0)
    return ways - y * jax.nn.softplus(-f) - (SEEDS - y) * jax.nn.softplus(f)


def germination(temperature: np.ndarray) -> np.ndarray:
    """The true probability."""
    return 0.9 * np.exp(-0.5 * ((temperature - 22.0) / 6.0) ** 2)


temperature = rng.uniform(5.0, 40.0, 80)
seeds = rng.binomial(SEEDS, germination(temperature))
model = fg.SparseGP(
    kernel=fg.kernels.RBF(variance=4.0, lengthscales=8.0),
    likelihood=fg.likelihoods.Custom(binomial, support=range(SEEDS + 1)),
    inducing=12,
)
fit = fg.fit_gaussian(model, temperature[:, None], seeds)
print(f"binomial: {fit.message}")
at = np.array([10.0, 22.0, 34.0])
mean, variance = fit.predict_y(at[:, None])
for degrees, true, one, spread in zip(at, SEEDS * germination(at), mean, np.sqrt(variance), strict=True):
    print(f"  {degrees:.0f} degrees: {one:.1f} of ten seeds, standard deviation {spread:.1f}; truly {true:.1f}")


class Laplace(fg.likelihoods.Likelihood):
    """``y = f + Laplace(scale)``. The density is what is learnt from; mean, variance and samples are for predictions."""

    scale: Value = parameter(positive, default=1.0)

    def _log_prob(self, f: jax.Array, y: jax.Array) -> jax.Array:
        return -jnp.abs(y - f) / self.scale - jnp.log(2.0 * self.scale)

    def _conditional_mean(self, f: jax.Array) -> jax.Array:
        return f

    def _conditional_variance(self, f: jax.Array) -> jax.Array:
        return jnp.broadcast_to(2.0 * jnp.square(self.scale), f.shape)

    def _sample(self, key: jax.Array, f: jax.Array) -> jax.Array:
        return f + self.scale * jax.random.laplace(key, f.shape)


x = np.linspace(0.0, 6.0, 200)[:, None]
y = np.sin(x[:, 0]) + rng.laplace(scale=0.2, size=200)
fit = fg.fit_gaussian(fg.SparseGP(fg.kernels.RBF(), Laplace(0.5), inducing=10), x, y)
fit.save("laplace.npz")
print(f"Laplace: {fit.message}; the scale is {fg.load('laplace.npz').model.likelihood.scale:.2f}, truly 0.20")
