"""`fit_gaussian`: from a model and data to a Gaussian approximation."""

import dataclasses
import math
import time
import warnings
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike

from freegp.approximation.direct import LBFGS, AdaDelta
from freegp.approximation.gaussian import Sites, bound, prior_sites, sites_at
from freegp.approximation.growth import with_more_points
from freegp.approximation.judgement import judged
from freegp.approximation.natural import NaturalGradient
from freegp.approximation.problem import Outcome, Problem
from freegp.approximation.progress import announce
from freegp.approximation.result import GaussianFit
from freegp.approximation.words import loss_in_words
from freegp.devices import make_room, one_blas_thread
from freegp.inducing import Automatic, InducingPoints, KMeans
from freegp.model import SparseGP
from freegp.parameters import free_parameters
from freegp.sparsity import Sparsity
from freegp.validation import check_training_data

METHODS: dict[str, type[NaturalGradient] | type[LBFGS] | type[AdaDelta]] = {
    "sites": NaturalGradient,
    "lbfgs": LBFGS,
    "adadelta": AdaDelta,
}
INTERRUPTED = "was interrupted"
MOST_ROUNDS = 6
"""How many numbers of inducing points are tried where the fit finds their number."""
GROWTH = 0.5
"""Their number grows by this share at least, by twice it the second time, and so on."""
MOST_LOST_TO_ROUNDING = 1e-3
"""Largest error of the bound, as a share of it, that single precision may make unsaid."""


@one_blas_thread
def fit_gaussian(
    model: SparseGP,
    X: ArrayLike,
    y: ArrayLike,
    method: str | NaturalGradient | LBFGS | AdaDelta = "sites",
    train_inducing: bool = True,
    seed: int = 0,
    progress: bool = True,
    start: GaussianFit | None = None,
) -> GaussianFit:
    """Fit q(v) = N(m, S), the parameters (to the mode of bound plus log prior, in free coordinates) and the inducing inputs.

    Parameters
    ----------
    model, X, y
        The model and its data, ``[N, D]`` and ``[N]``. With ``inducing="auto"`` the fit begins with few inducing points and is
        repeated with more, placed where most is lost, until what they lose does not matter.
    method
        "sites" (natural gradients; the default), "lbfgs" or "adadelta" (the paper's, full-batch and on minibatches), or
        a settings object: `NaturalGradient`, `LBFGS`, `AdaDelta`.
    train_inducing
        Whether to move the inducing inputs from where they were placed (with "auto", the first few only).
    seed
        For the placement, the start and the minibatches.
    progress
        Whether to show a bar while it runs.
    start
        A fit of this model to go on from, with its parameters, inducing inputs and q(v). Where the model is given more inducing
        inputs, the first of which are the fit's as they are now, the others are added, and q(f) begins as it was.

    An interruption by Ctrl-C ends the fit where it is, with status "ran out"; given as ``start``, it is taken up from there.
    """
    make_room()
    run = Run(_settings(method), train_inducing, seed, progress)
    sites = None
    if start is not None:
        _check_start(model, start)
        model, sites = _taken_up(model, start)
    X, y = check_training_data(model, X, y)
    begun = time.perf_counter()
    if isinstance(model.inducing, Automatic):
        fit = _fit_growing(model, model.inducing, X, y, run)
    else:
        fit = _fit(model, X, y, run, sites)[0]
    return dataclasses.replace(fit, seconds=time.perf_counter() - begun)


def _check_start(model: SparseGP, start: GaussianFit) -> None:
    ours, theirs = ([p.path for p in free_parameters(each)] for each in (model, start.model))
    if ours != theirs or model.num_latents != start.model.num_latents:
        raise ValueError(
            f"start is a fit of another model: it has the free parameters {', '.join(theirs)} and {start.model.num_latents} "
            f"latent function(s), this one has {', '.join(ours)} and {model.num_latents}; give a fit of this model, or none"
        )


def _taken_up(model: SparseGP, start: GaussianFit) -> tuple[SparseGP, Sites]:
    """The fit's model and sites, with the inducing inputs that the model has more of."""
    before, given = start.model.inducing, model.inducing
    if not isinstance(before, InducingPoints) or not isinstance(given, InducingPoints):
        return start.model, start.sites
    M, num_more = before.num_inducing, given.num_inducing - before.num_inducing
    if num_more == 0:
        return start.model, start.sites
    if num_more < 0 or not np.array_equal(given.Z[:M], before.Z):
        raise ValueError(
            f"the model has {given.num_inducing} inducing inputs and start {M}, which are not the first of them; give "
            "start.model.inducing_inputs followed by those to add, or as many as start has"
        )
    larger = start.model.with_inducing(given)
    return larger, sites_at(larger, start.sites.with_more(num_more))


@dataclass(frozen=True)
class Run:
    """How to fit."""

    settings: NaturalGradient | LBFGS | AdaDelta
    train_inducing: bool
    seed: int
    progress: bool

    def looks_at_all(self, num_data: int) -> bool:
        """Whether every step is on all data."""
        size = None if isinstance(self.settings, LBFGS) else self.settings.batch_size
        return size is None or size >= num_data


def _fit(model: SparseGP, X: np.ndarray, y: np.ndarray, run: Run, sites: Sites | None = None) -> tuple[GaussianFit, np.ndarray]:
    """A fit with the points there are, from these sites or from none, and the curvature of each datum ``[N, P]``."""
    model = model.prepared(X, run.seed)
    problem = Problem(model, jnp.asarray(X), jnp.asarray(y), run.train_inducing and isinstance(model.inducing, InducingPoints))
    outcome = Outcome(problem.start(), prior_sites(problem.model) if sites is None else sites)
    try:
        run.settings.run(problem, outcome, jax.random.key(run.seed), run.progress)
    except KeyboardInterrupt:
        warnings.warn("the fit was interrupted; this is how far it came", stacklevel=4)
        outcome.end("ran out", f"{INTERRUPTED} after {len(outcome.trace)} steps")
    fitted, sites, mean, covariance, elbo = _finish(problem, outcome.position, outcome.sites)
    if model.single_precision:
        _warn_of_rounding(problem, outcome, float(elbo))
    held = Problem(fitted, problem.X, problem.y, False)
    sparsity, curvature = judged(held, sites, run.looks_at_all(len(X)) and outcome.status == "converged")
    fit = GaussianFit(
        model=fitted,
        mean=mean,
        covariance=covariance,
        sites=sites,
        elbo=float(elbo),
        trace=np.asarray(outcome.trace),
        status=outcome.status,
        message=outcome.message,
        method=next(name for name, kind in METHODS.items() if isinstance(run.settings, kind)),
        seconds=0.0,
        sparsity=sparsity,
    )
    return fit, curvature


def _fit_growing(model: SparseGP, automatic: Automatic, X: np.ndarray, y: np.ndarray, run: Run) -> GaussianFit:
    """Fits with more and more points, each from where the last one ended, until what they lose does not matter.

    The first points are moved if points are to be moved; those added stay where they are, as many gain little by moving.
    """
    limit, model = automatic.limit(X), model.prepared(X, run.seed)
    run = dataclasses.replace(run, train_inducing=run.train_inducing and model.num_inducing < limit)
    sizes: list[int] = []
    while True:
        fit, curvature = _fit(model, X, y, run)
        lost, before = fit.sparsity, fit.model.num_inducing
        sizes.append(before)
        if lost is None or _is_final(fit, sizes, limit):
            return dataclasses.replace(fit, message=fit.message + _history(sizes, limit, automatic.most, lost))
        size = min(limit, max(lost.suggested_inducing or limit, math.ceil((1.0 + GROWTH * len(sizes)) * before)))
        announce(f"{loss_in_words(lost)}; trying {size}", run.progress)
        every_row = size == limit < automatic.most
        model = fit.model.with_inducing(KMeans(size)) if every_row else with_more_points(fit.model, X, curvature, size)
        run = dataclasses.replace(run, train_inducing=False)


def _is_final(fit: GaussianFit, sizes: list[int], limit: int) -> bool:
    """Whether more points are not worth trying, or cannot be had."""
    enough = fit.sparsity is None or not fit.sparsity.matters
    ended = enough or fit.status == "diverged" or fit.message.startswith(INTERRUPTED)
    return ended or sizes[-1] >= limit or sizes[-1] in sizes[:-1] or len(sizes) == MOST_ROUNDS


def _history(sizes: list[int], limit: int, most: int, lost: Sparsity | None) -> str:
    """How M was found; what all the distinct rows lose is the jitter's doing."""
    before = f" after {', '.join(map(str, sizes[:-1]))}" if len(sizes) > 1 else ""
    if lost is None or not lost.matters:
        return f"; M = {sizes[-1]}{before}"
    if sizes[-1] < limit:
        return f"; M = {sizes[-1]}{before}, where the search ended, {len(sizes)} numbers having been tried"
    every_row = "all the distinct rows, so that what is lost is lost to the jitter"
    return f"; M = {sizes[-1]}{before}, {every_row if limit < most else 'the most there may be'}"


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
    return model, sites, q.mean, q.covariance, bound(model.in_double_precision(), problem.X, problem.y, q)


@eqx.filter_jit
def _in_own_precision(problem: Problem, position: Array, sites: Sites) -> Array:
    """The bound where work on the data is done as the model does it."""
    model = problem.at(position)
    return bound(model, problem.X, problem.y, sites_at(model, sites).gaussian())


def _warn_of_rounding(problem: Problem, outcome: Outcome, elbo: float) -> None:
    in_single = float(_in_own_precision(problem, outcome.position, outcome.sites))
    if math.isfinite(elbo) and not abs(in_single - elbo) < MOST_LOST_TO_ROUNDING * max(1.0, abs(elbo)):
        warnings.warn(
            f"single precision is too little here: the bound is {elbo:.6g} nats, but {in_single:.6g} where work on the data is "
            "done in it; standardise the inputs, add White to the kernel, or leave single_precision out",
            stacklevel=5,
        )
