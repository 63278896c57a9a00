"""A user's own likelihood, from one function."""

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from freegp.likelihoods.base import Likelihood, first_bad

_INTERVALS = {"real": (-np.inf, np.inf), "positive": (0.0, np.inf), "unit": (0.0, 1.0)}
_NUM_POINTS = 513
_NUM_ZOOMS = 40


def _check_function(log_prob: Callable[[Array, Array], Array]) -> None:
    """Tried on three data without numbers, which finds the usual mistakes at once."""
    data = jax.ShapeDtypeStruct((3,), jnp.float64)
    try:
        found = jax.eval_shape(log_prob, data, data)
    except jax.errors.TracerArrayConversionError:
        raise TypeError("log_prob uses numpy, which JAX cannot differentiate; write it with jax.numpy") from None
    except jax.errors.ConcretizationTypeError:
        raise TypeError("log_prob asks for the value of f or y, in an if perhaps; use jax.numpy.where instead") from None
    shape = getattr(found, "shape", None)
    if shape != (3,):
        raise ValueError(f"log_prob must give one number a datum, but gave shape {shape} for 3 data; let it work elementwise")


class Custom(Likelihood):
    """A likelihood given by ``log_prob(f, y)``, written with `jax.numpy` and working elementwise.

    The support of y is "real", "positive", "unit" (the open interval from 0 to 1), or a list of the values y can take; mean,
    variance and samples of y are found from the function on that support. A density must have a single peak. The expected
    log density is a quadrature with error below 1e-6 for |mean| <= 5, variance <= 10, where the function varies over
    distances in f of 3 or more as the logistic function does; sharper ones want a check of their own.
    A likelihood with parameters to learn, or one to be saved, is a subclass of `Likelihood` instead.

    >>> import jax
    >>> coin = Custom(lambda f, y: -jax.nn.softplus(-(2 * y - 1) * f), support=[0, 1])
    >>> mean, variance = coin.predict_y(jnp.zeros(1), jnp.ones(1))
    >>> float(mean[0].round(6)), float(variance[0].round(6))
    (0.5, 0.25)
    """

    function: Callable[[Array, Array], Array] = eqx.field(static=True)
    support: str | tuple[float, ...] = eqx.field(static=True)

    def __init__(self, log_prob: Callable[[Array, Array], Array], support: str | Sequence[float] = "real"):
        if isinstance(support, str) and support not in _INTERVALS:
            raise ValueError(f'support must be "real", "positive", "unit" or a list of values, but is {support!r}')
        _check_function(log_prob)
        self.function = log_prob
        self.support = support if isinstance(support, str) else tuple(float(value) for value in support)

    def check_targets(self, y: np.ndarray) -> None:  # noqa: D102
        if isinstance(self.support, str):
            low, high = _INTERVALS[self.support]
            bad = (y <= low) | (y >= high)
        else:
            bad = ~np.isin(y, self.support)
        if bad.any():
            raise ValueError(f"{first_bad(y, bad)}, outside the support {self.support!r} that this likelihood was given")

    def _log_prob(self, f: Array, y: Array) -> Array:
        return self.function(f, y)

    def _table(self, f: Array) -> tuple[Array, Array]:
        """Values of y ``[..., points]`` and their probabilities given f ``[...]``."""
        if not isinstance(self.support, str):
            values = jnp.broadcast_to(jnp.asarray(self.support), (*f.shape, len(self.support)))
            return values, jax.nn.softmax(self._log_prob(f[..., None], values), axis=-1)
        return self._zoom(f)

    def _zoom(self, f: Array) -> tuple[Array, Array]:
        """Points that cover the density: from everything, narrowed again and again to where it is not negligible."""
        to_support, log_slope = _coordinates(str(self.support))

        def log_density(t: Array) -> Array:
            value = self._log_prob(f[..., None], to_support(t)) + log_slope(t)
            return jnp.where(jnp.isfinite(value), value, -1e300)

        unit = jnp.linspace(0.0, 1.0, _NUM_POINTS)

        def narrow(_: int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
            low, high = ends
            t = low[..., None] + (high - low)[..., None] * unit
            value = log_density(t)
            worth = value > jnp.max(value, axis=-1, keepdims=True) - 40.0
            step = (high - low) / (_NUM_POINTS - 1)
            new_low = jnp.min(jnp.where(worth, t, jnp.inf), axis=-1) - step
            new_high = jnp.max(jnp.where(worth, t, -jnp.inf), axis=-1) + step
            return jnp.maximum(low, new_low), jnp.minimum(high, new_high)

        reach = jnp.full(f.shape, 60.0)
        low, high = jax.lax.fori_loop(0, _NUM_ZOOMS, narrow, (-reach, reach))
        t = low[..., None] + (high - low)[..., None] * unit
        return to_support(t), jax.nn.softmax(log_density(t), axis=-1)

    def _conditional_mean(self, f: Array) -> Array:
        values, p = self._table(f)
        return jnp.sum(values * p, axis=-1)

    def _conditional_variance(self, f: Array) -> Array:
        values, p = self._table(f)
        mean = jnp.sum(values * p, axis=-1, keepdims=True)
        return jnp.sum(jnp.square(values - mean) * p, axis=-1)

    def _sample(self, key: PRNGKeyArray, f: Array) -> Array:
        values, p = self._table(f)
        cumulative = jnp.cumsum(p, axis=-1)
        u = jax.random.uniform(key, f.shape)[..., None] * cumulative[..., -1:]
        if not isinstance(self.support, str):
            index = jnp.sum(cumulative < u, axis=-1, keepdims=True)
            return jnp.take_along_axis(values, index, axis=-1)[..., 0]
        middle = cumulative - 0.5 * p
        flat = jax.vmap(jnp.interp)(u.reshape(-1), middle.reshape(-1, p.shape[-1]), values.reshape(-1, p.shape[-1]))
        return flat.reshape(f.shape)


def _coordinates(support: str) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
    """A map from t in (-60, 60) onto the support, and the logarithm of its slope."""
    if support == "real":
        return jnp.sinh, lambda t: jnp.logaddexp(t, -t) - jnp.log(2.0)
    if support == "positive":
        return jnp.exp, lambda t: t
    return jax.nn.sigmoid, lambda t: jax.nn.log_sigmoid(t) + jax.nn.log_sigmoid(-t)
