"""What the estimators share: checked and standardised inputs, a default model and a fit."""

import math
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from freegp import priors
from freegp.approximation import GaussianFit, fit_gaussian
from freegp.inducing import Inducing, Placement, as_inducing
from freegp.kernels import RBF, Kernel
from freegp.likelihoods import Likelihood
from freegp.model import SparseGP
from freegp.posterior import Posterior
from freegp.priors import Prior
from freegp.sampling import sample

MOST_ARD_COLUMNS = 20
FULL_SIZE = 100
LARGEST_SIZE = 400


class GaussianProcess(BaseEstimator):
    """The parameters and fitted attributes that all estimators have.

    Parameters
    ----------
    kernel
        One of `freegp.kernels`, for the standardised inputs. None is an RBF kernel with one lengthscale for each column, or
        one for all if there are more than 20; columns that are the same in every row are then left out.
    priors
        Priors by parameter name, such as ``{"kernel.lengthscales": fg.priors.Gamma(2.0, 1.0)}``, for standardised data. Those
        not named keep their default. With ``kernel=None`` the lengthscales have a log-normal prior with median sqrt(D) and
        scale 1 (95 % within a factor of 7) and the variance one with median 1 and scale 1.5 (a factor of 19); with a kernel of
        yours each parameter has one with its value as median and scale 1.5.
    inducing
        None (every distinct row up to 100, then slowly more, up to 100 a column and 400 in all), "auto" (as many as it takes, up
        to 1000: the fit is repeated with more until what they lose does not matter, which takes longer), a number (at most the
        number of distinct rows is used), an (M, D) array in the units of X, which are held, or a placement such as
        `freegp.Grid`. The fit moves them from where they were placed, unless they are an array or all the distinct rows.
    standardize
        Whether to centre the columns of X and divide them by their standard deviations in the training data.
    method
        "sample" (Markov chains, predictions averaged over the draws) or "gaussian" (the Gaussian approximation alone: faster,
        with point estimates of the parameters).
    sampler, num_samples, num_warmup, num_chains
        As in `freegp.sample`.
    random_state
        A number, a ``RandomState`` or None, as scikit-learn has it. A number gives the same answer each time.
    progress
        Whether to show bars while it fits.

    Attributes
    ----------
    approximation_
        The Gaussian approximation.
    posterior_, diagnostics_
        The draws, and whether to trust them; None with ``method="gaussian"``.
    model_
        The model, with its inducing inputs placed.
    n_features_in_, feature_names_in_
        The columns of X, and their names if it was a table with names.
    """

    def __init__(
        self,
        kernel: Kernel | Sequence[Kernel] | None = None,
        priors: dict[str, Prior] | None = None,
        inducing: Any = None,
        standardize: bool = True,
        method: str = "sample",
        sampler: Any = "sites",
        num_samples: int = 1000,
        num_warmup: int = 300,
        num_chains: int = 4,
        random_state: Any = 0,
        progress: bool = False,
    ):
        self.kernel = kernel
        self.priors = priors
        self.inducing = inducing
        self.standardize = standardize
        self.method = method
        self.sampler = sampler
        self.num_samples = num_samples
        self.num_warmup = num_warmup
        self.num_chains = num_chains
        self.random_state = random_state
        self.progress = progress

    def _training_data(self, X: Any, y: Any, numeric: bool) -> tuple[np.ndarray, np.ndarray]:
        """X as the model sees it, and y as it came, both checked; the scale of X is kept."""
        check_choice("method", self.method, ("sample", "gaussian"))
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=numeric, ensure_min_samples=2)
        self._input_scaler = StandardScaler(with_mean=self.standardize, with_std=self.standardize).fit(X)
        scaled = self._input_scaler.transform(X)
        varies = np.ptp(scaled, axis=0) > 0.0
        if not varies.any():
            raise ValueError("every row of X is the same, so there is nothing to learn from; give rows that differ")
        if self.kernel is not None and not varies.all():
            raise ValueError(
                f"column {np.flatnonzero(~varies)[0]} of X is the same in every row; drop it, or leave kernel=None, which "
                "leaves such columns out"
            )
        self._columns = np.flatnonzero(varies)
        return scaled[:, self._columns], y

    def _new_inputs(self, X: Any) -> np.ndarray:
        """New rows as the model sees them."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        return self._input_scaler.transform(X)[:, self._columns]

    def _fit_model(
        self, X: np.ndarray, y: np.ndarray, likelihood: Likelihood, beliefs: dict[str, Prior], fixed: Iterable[str] = ()
    ) -> None:
        """Build the model, with these priors of the likelihood unless the user has others, and fit it."""
        given = dict(self.priors or {})
        num_columns = X.shape[1]
        kernel = default_kernel(num_columns) if self.kernel is None else self.kernel
        if self.kernel is None:
            beliefs = beliefs | default_kernel_priors(num_columns)
        inducing, is_held = self._place(X)
        model = SparseGP(kernel, likelihood, inducing, beliefs | given, [name for name in fixed if name not in given])
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        self.approximation_ = fit_gaussian(model, X, y, train_inducing=not is_held, seed=seed, progress=self.progress)
        self.model_ = self.approximation_.model
        self.posterior_ = self._sample(model, X, y, seed) if self.method == "sample" else None
        self.diagnostics_ = None if self.posterior_ is None else self.posterior_.diagnostics
        self._warn_unless_converged()

    def _place(self, X: np.ndarray) -> tuple[Inducing | Placement, bool]:
        """The inducing variables of a model of these inputs, and whether to hold them where they are."""
        num_distinct = len(np.unique(X, axis=0))
        if self.inducing is None:
            size = default_size(num_distinct, X.shape[1])
            return as_inducing(size), size == num_distinct
        if isinstance(self.inducing, str):
            check_choice("inducing", self.inducing, ("auto",))
        if isinstance(self.inducing, int | np.integer) and not isinstance(self.inducing, bool):
            return as_inducing(min(self.inducing, num_distinct)), bool(self.inducing >= num_distinct)
        if isinstance(self.inducing, np.ndarray | list | tuple):
            Z = np.asarray(self.inducing, dtype=np.float64)
            if Z.ndim != 2 or Z.shape[1] != self.n_features_in_:
                raise ValueError(f"inducing has shape {Z.shape}, but must be (M, {self.n_features_in_}), with the columns of X")
            return as_inducing(self._input_scaler.transform(Z)[:, self._columns]), True
        return as_inducing(self.inducing), False

    def _sample(self, model: SparseGP, X: np.ndarray, y: np.ndarray, seed: int) -> Posterior:
        return sample(
            model,
            X,
            y,
            fit=self.approximation_,
            sampler=self.sampler,
            num_samples=self.num_samples,
            num_warmup=self.num_warmup,
            num_chains=self.num_chains,
            seed=seed,
            progress=self.progress,
        )

    def _warn_unless_converged(self) -> None:
        fit, diagnostics = self.approximation_, self.diagnostics_
        if fit.status == "diverged":
            raise FloatingPointError(f"the Gaussian approximation {fit.message}")
        if diagnostics is not None and not diagnostics.converged:
            warnings.warn(f"{type(self).__name__}: {diagnostics.verdict}", ConvergenceWarning, stacklevel=4)
        elif diagnostics is None and fit.status != "converged":
            warnings.warn(f"{type(self).__name__}: the Gaussian approximation {fit.message}", ConvergenceWarning, stacklevel=4)

    @property
    def _fitted(self) -> Posterior | GaussianFit:
        """What predicts."""
        check_is_fitted(self)
        return self.approximation_ if self.posterior_ is None else self.posterior_


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """An option that is one of a few words."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, but is {value!r}")


def default_kernel(num_columns: int) -> Kernel:
    """An RBF kernel for standardised inputs, whose rows are about sqrt(2 D) apart."""
    start = math.sqrt(num_columns)
    return RBF(lengthscales=np.full(num_columns, start) if num_columns <= MOST_ARD_COLUMNS else start)


def default_kernel_priors(num_columns: int) -> dict[str, Prior]:
    """What is believed of the default kernel."""
    return {
        "kernel.lengthscales": priors.LogNormal(0.5 * math.log(num_columns), 1.0),
        "kernel.variance": priors.LogNormal(0.0, 1.5),
    }


def default_size(num_rows: int, num_columns: int) -> int:
    """M for so many distinct rows: all up to 100, then as their fourth root, up to 100 a column and 400 in all.

    >>> [default_size(n, 5) for n in (30, 100, 1000, 10_000, 1_000_000)]
    [30, 100, 178, 316, 400]
    """
    grown = round(FULL_SIZE * (num_rows / FULL_SIZE) ** 0.25)
    return min(num_rows, max(FULL_SIZE, grown), FULL_SIZE * num_columns, LARGEST_SIZE)
