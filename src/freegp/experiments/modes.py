"""The mode of a posterior depends on the units it is sought in."""

import numpy as np

import freegp as fg

SMALLEST_SHAPE = 1e-9


def with_natural_mode(model: fg.SparseGP) -> fg.SparseGP:
    """A prepared model, with priors whose mode in logarithms, where freegp looks for it, is the mode of its own in natural units.

    The density of the logarithm of x has another factor x, and so the shape of a Gamma prior is one less.
    """
    priors = {}
    for path, prior in model.priors:
        if prior.name != "Gamma":
            raise ValueError(f"the prior of {path} is not a Gamma but a {prior.name}; give it a Gamma prior")
        shape, rate = prior.arguments
        priors[path] = fg.priors.Gamma(max(shape - 1.0, SMALLEST_SHAPE), rate)
    inducing = np.asarray(model.inducing_inputs)
    return fg.SparseGP(model.kernel, model.likelihood, inducing=inducing, priors=priors, fixed=model.fixed)
