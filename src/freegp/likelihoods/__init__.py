"""Observation models: how a datum depends on the latent functions at its input."""

from freegp.likelihoods.base import Likelihood
from freegp.likelihoods.bernoulli import Bernoulli
from freegp.likelihoods.beta import Beta
from freegp.likelihoods.counts import Count, NegativeBinomial, Poisson
from freegp.likelihoods.custom import Custom
from freegp.likelihoods.gaussian import Gaussian, StudentT
from freegp.likelihoods.multiclass import Multiclass, RobustMax, Softmax
from freegp.likelihoods.ordinal import Ordinal
from freegp.likelihoods.positive import Exponential, Gamma

__all__ = [
    "Bernoulli",
    "Beta",
    "Count",
    "Custom",
    "Exponential",
    "Gamma",
    "Gaussian",
    "Likelihood",
    "Multiclass",
    "NegativeBinomial",
    "Ordinal",
    "Poisson",
    "RobustMax",
    "Softmax",
    "StudentT",
]
