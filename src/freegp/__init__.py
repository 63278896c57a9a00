"""Free-form Bayesian inference in sparse Gaussian process models.

Importing it turns on JAX's 64-bit numbers (the Cholesky factor of a kernel matrix does not exist in single precision) and,
unless JAX has started already, makes one CPU device for each core.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from freegp.devices import configure

configure()

from freegp import datasets, kernels, likelihoods, priors  # noqa: E402
from freegp.approximation import LBFGS, AdaDelta, GaussianFit, NaturalGradient, fit_gaussian  # noqa: E402
from freegp.inducing import Automatic, Grid, HilbertFeatures, HilbertSpace, InducingPoints, KMeans, Subset  # noqa: E402
from freegp.model import SparseGP  # noqa: E402
from freegp.posterior import Posterior  # noqa: E402
from freegp.sampling import NUTS, Gibbs, PaperHMC, RotationHMC, read_run, resume, sample  # noqa: E402
from freegp.target import expected_log_likelihood, log_density  # noqa: E402

if TYPE_CHECKING:
    from freegp import plots
    from freegp.estimators import GPClassifier, GPCountRegressor, GPRegressor
    from freegp.loading import load
    from freegp.point_patterns import CoxProcess, Mask
    from freegp.sweep import InducingSweep, sweep_inducing

_LATE = {
    "CoxProcess": "point_patterns",
    "GPClassifier": "estimators",
    "GPCountRegressor": "estimators",
    "GPRegressor": "estimators",
    "InducingSweep": "sweep",
    "Mask": "point_patterns",
    "load": "loading",
    "sweep_inducing": "sweep",
}
"""What brings Matplotlib or scikit-learn along, which take as long to import as all the rest: found when it is asked for."""


def __getattr__(name: str) -> Any:
    if name == "plots":
        return import_module("freegp.plots")
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"freegp.{_LATE[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__all__ = [
    "LBFGS",
    "NUTS",
    "AdaDelta",
    "Automatic",
    "CoxProcess",
    "GPClassifier",
    "GPCountRegressor",
    "GPRegressor",
    "GaussianFit",
    "Gibbs",
    "Grid",
    "HilbertFeatures",
    "HilbertSpace",
    "InducingPoints",
    "InducingSweep",
    "KMeans",
    "Mask",
    "NaturalGradient",
    "PaperHMC",
    "Posterior",
    "RotationHMC",
    "SparseGP",
    "Subset",
    "datasets",
    "expected_log_likelihood",
    "fit_gaussian",
    "kernels",
    "likelihoods",
    "load",
    "log_density",
    "plots",
    "priors",
    "read_run",
    "resume",
    "sample",
    "sweep_inducing",
]
__version__ = "0.1.0"
