"""Gaussian approximations of the posterior, which place the inducing inputs and start the samplers."""

from freegp.approximation.direct import LBFGS, AdaDelta
from freegp.approximation.fit import fit_gaussian
from freegp.approximation.gaussian import Sites
from freegp.approximation.natural import NaturalGradient
from freegp.approximation.result import GaussianFit

__all__ = ["LBFGS", "AdaDelta", "GaussianFit", "NaturalGradient", "Sites", "fit_gaussian"]
