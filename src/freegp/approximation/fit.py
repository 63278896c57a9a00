"""`fit_gaussian`: from a model and data to a Gaussian approximation."""

import time
import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike

from freegp.approximation.direct import LBFGS, AdaDelta
from freegp.approximation.gaussian import Sites, bound, prior_sites, sites_at
from freegp.approximation.natural import NaturalGradient
from freegp.approximation.problem import Outcome, Problem
from freegp.approximation.result import GaussianFit
from freegp.devices import one_blas_thread
from freegp.model import SparseGP
from freegp.validation import check_training_data

METHODS: dict[str, type[NaturalGradient] | type[LBFGS] | type[AdaDelta]] = {
    "sites": NaturalGradient,
    "lbfgs": LBFGS,
    "adadelta": AdaDelta,
}


@one_blas_thread
def fit_gaussian(
    model: SparseGP,
    X: ArrayLike,
    y: ArrayLike,
    method: str | NaturalGradient | LBFGS | AdaDelta = "sites",
    train_inducing: bool = True,
    seed: int = 0,
    progress: bool = True,
) -> GaussianFit:
    """Fit q(v) = N(m, S), the parameters (to the mode of bound plus log prior, in free coordinates) and the inducing inputs.

    Parameters
    ----------
    model, X, y
        The model and its data, ``[N, D]`` and ``[N]``.
    method
        "sites" (natural gradients; the default), "lbfgs" or "adadelta" (the paper's, full-batch and on minibatches), or
        a settings object: `NaturalGradient`, `LBFGS`, `AdaDelta`.
    train_inducing
        Whether to move the inducing inputs from where they were placed.
    seed
        For the placement, the start and the minibatches.
    progress
        Whether to show a bar while it runs.

    An interruption by Ctrl-C ends the fit where it is, with status "ran out".
    """
    settings = _settings(method)
    X, y = check_training_data(model, X, y)
    begun = time.perf_counter()
    problem = Problem(model.prepared(X, seed), jnp.asarray(X), jnp.asarray(y), train_inducing)
    outcome = Outcome(problem.start(), prior_sites(problem.model))
    try:
        settings.run(problem, outcome, jax.random.key(seed), progress)
    except KeyboardInterrupt:
        warnings.warn("the fit was interrupted; this is how far it came", stacklevel=2)
        outcome.end("ran out", f"was interrupted after {len(outcome.trace)} steps")
    fitted, sites, mean, covariance, elbo = _finish(problem, outcome.position, outcome.sites)
    name = next(name for name, kind in METHODS.items() if isinstance(settings, kind))
    return GaussianFit(
        model=fitted,
        mean=mean,
        covariance=covariance,
        sites=sites,
        elbo=float(elbo),
        trace=np.asarray(outcome.trace),
        status=outcome.status,
        message=outcome.message,
        method=name,
        seconds=time.perf_counter() - begun,
    )


def _settings(method: str | NaturalGradient | LBFGS | AdaDelta) -> NaturalGradient | LBFGS | AdaDelta:
    if isinstance(method, NaturalGradient | LBFGS | AdaDelta):
        return method
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)} or a settings object, but is {method!r}")
    return METHODS[method]()


@eqx.filter_jit
def _finish(problem: Problem, position: Array, sites: Sites) -> tuple[SparseGP, Sites, Array, Array, Array]:
    model = problem.at(position)
    sites = sites_at(model, sites)
    q = sites.gaussian()
    return model, sites, q.mean, q.covariance, bound(model, problem.X, problem.y, q)
