"""How many inducing points are enough? What too few of them cost, and where to see it.

The coal data with 5 and 15 inducing points side by side, and then sampled with 15.
"""

import numpy as np

import freegp as fg

dates = fg.datasets.load_coal()
X, counts, width = fg.datasets.binned_counts(dates, 1851.0, 1963.0, num_bins=56)
model = fg.SparseGP(
    kernel=fg.kernels.RBF(variance=1.0, lengthscales=20.0),
    likelihood=fg.likelihoods.Poisson(exposure=np.full(56, width)),
    inducing=fg.Grid(15),
    priors={"kernel.lengthscales": fg.priors.LogNormal(3.0, 0.4)},
)

sweep = fg.sweep_inducing(model, X, counts, sizes=[fg.Grid(5), fg.Grid(15)], train_inducing=False)
print(sweep)
print(f"with 5: {sweep.results[0]}")

fit = fg.fit_gaussian(model, X, counts, train_inducing=False)
post = fg.sample(model, X, counts, fit=fit)
print(f"15 points, sampled: {post.diagnostics.verdict}")
print(f"  lost: {post.sparsity.nats_lost:.2g} nats; the parameter moved most, by {post.sparsity.shift:.2f} standard deviations")
