"""Free-form Bayesian inference in sparse Gaussian process models.

Importing it turns on JAX's 64-bit numbers (the Cholesky factor of a kernel matrix does not exist in single precision) and,
unless JAX has started already, makes one CPU device for each core.
"""

from freegp.devices import configure

configure()

from freegp import datasets, kernels, likelihoods, plots, priors  # noqa: E402
from freegp.approximation import LBFGS, AdaDelta, GaussianFit, NaturalGradient, fit_gaussian  # noqa: E402
from freegp.estimators import GPClassifier, GPCountRegressor, GPRegressor  # noqa: E402
from freegp.inducing import Automatic, Grid, InducingPoints, KMeans, Subset  # noqa: E402
from freegp.loading import load  # noqa: E402
from freegp.model import SparseGP  # noqa: E402
from freegp.point_patterns import CoxProcess, Mask  # noqa: E402
from freegp.posterior import Posterior  # noqa: E402
from freegp.sampling import NUTS, Gibbs, PaperHMC, RotationHMC, read_run, resume, sample  # noqa: E402
from freegp.sweep import InducingSweep, sweep_inducing  # noqa: E402
from freegp.target import expected_log_likelihood, log_density  # noqa: E402

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
