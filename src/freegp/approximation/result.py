"""What a fit gives back."""

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtri
from jaxtyping import Array, ArrayLike, Float

from freegp.approximation.gaussian import Sites
from freegp.approximation.problem import Status
from freegp.approximation.words import loss_in_words
from freegp.devices import one_blas_thread
from freegp.likelihoods import Likelihood
from freegp.model import SparseGP
from freegp.numerics.stacks import whitening
from freegp.observations import NUM_OBSERVATIONS, check_levels, draw_around, observation_quantiles
from freegp.saving import registered, save
from freegp.sparsity import Sparsity
from freegp.target.blocks import streamed_map
from freegp.target.projection import covariances, marginals, project_gaussian
from freegp.validation import check_prediction_inputs, check_targets


@registered
@dataclass(frozen=True)
class GaussianFit:
    """A Gaussian approximation q(v) = N(mean, covariance) with point estimates of the parameters and of Z.

    Attributes
    ----------
    model
        The model at the fitted parameters and inducing inputs.
    mean, covariance
        Of the whitened inducing values of each latent function, ``[M, P]`` and ``[P, M, M]``.
    sites
        The same Gaussian as factors of u, which the samplers use.
    elbo
        The bound on log p(y | theta) at the end, on all data.
    trace
        The objective (bound plus log prior) after each step.
    status, message
        "converged", "ran out" or "diverged", and the same in a sentence.
    method, seconds
        What was run and how long it took.
    sparsity
        What the inducing points lose, and about how many would lose little; None where that is not a number. The parameters are
        taken to be Gaussian around their estimates; a fit on minibatches, one of more than 20 parameters, or one that has not
        converged looks at the estimates alone and knows no shift.
    """

    model: SparseGP
    mean: Float[Array, "M P"]
    covariance: Float[Array, "P M M"]
    sites: Sites
    elbo: float
    trace: np.ndarray
    status: Status
    message: str
    method: str
    seconds: float
    sparsity: Sparsity | None = None

    def __post_init__(self) -> None:
        if self.sparsity is not None:  # a file keeps it as a plain tuple
            object.__setattr__(self, "sparsity", Sparsity(*self.sparsity))

    @one_blas_thread
    def predict_f(self, Xs: ArrayLike) -> tuple[Float[Array, "N P"], Float[Array, "N P"]]:
        """Mean and variance of the latent functions at new inputs."""
        Xs = check_prediction_inputs(self.model, Xs)
        return _predict_f(self.model, self.mean, self.covariance, jnp.asarray(Xs))

    @one_blas_thread
    def predict_y(self, Xs: ArrayLike, exposure: ArrayLike | None = None) -> tuple[Array, Array]:
        """Mean and variance of observations; for classes their probabilities ``[N, K]`` and p (1 - p)."""
        mean, variance = self.predict_f(Xs)
        return self.model.likelihood.for_prediction(mean.shape[0], exposure).predict_y(mean, variance)

    @one_blas_thread
    def predict_log_density(self, Xs: ArrayLike, ys: ArrayLike, exposure: ArrayLike | None = None) -> Float[Array, " N"]:
        """Log predictive density of each observation."""
        mean, variance = self.predict_f(Xs)
        ys = check_targets(ys, mean.shape[0], "ys")
        likelihood = self.model.likelihood.for_prediction(mean.shape[0], exposure)
        likelihood.check_targets(ys)
        return likelihood.predict_log_density(mean, variance, ys)

    @one_blas_thread
    def quantiles_f(self, Xs: ArrayLike, probabilities: Sequence[float] = (0.05, 0.5, 0.95)) -> Float[Array, "Q N P"]:
        """Quantiles of the latent functions at each input; for bands."""
        mean, variance = self.predict_f(Xs)
        return mean + jnp.sqrt(variance) * ndtri(check_levels(probabilities))[:, None, None]

    @one_blas_thread
    def quantiles_y(
        self,
        Xs: ArrayLike,
        probabilities: Sequence[float] = (0.05, 0.5, 0.95),
        exposure: ArrayLike | None = None,
        seed: int = 0,
    ) -> Float[Array, "Q N"]:
        """Quantiles of new observations at each input, noise included, from 10 000 simulated.

        They are good to about 2 % of the observations' standard deviation; of counts they are counts.
        """
        Xs = check_prediction_inputs(self.model, Xs)

        def draw(likelihood: Likelihood, X: Array) -> Array:
            moments = _predict_f(self.model, self.mean, self.covariance, X)
            return draw_around(likelihood, *moments, jax.random.key(seed), NUM_OBSERVATIONS)

        likelihood = self.model.likelihood.for_prediction(Xs.shape[0], exposure)
        return observation_quantiles(draw, likelihood, Xs, probabilities)

    def save(self, path: str | PathLike[str]) -> None:
        """Write to one file, without pickle; `fg.load` reads it back."""
        save(self, path)

    def __str__(self) -> str:
        values = ", ".join(f"{path} = {np.round(value, 4)}" for path, value in self.model.parameter_values().items())
        lost = f"; {loss_in_words(self.sparsity)}" if self.sparsity is not None else ""
        return f"Gaussian approximation by {self.method!r}: {self.message}; bound {self.elbo:.3f}; {values}{lost}"


@eqx.filter_jit
def _predict_f(model: SparseGP, mean: Array, covariance: Array, Xs: Array) -> tuple[Array, Array]:
    projection = project_gaussian(whitening(covariances(model)), mean, covariance)
    return streamed_map(lambda rows: marginals(model, projection, rows), Xs, model.rows_at_once)
