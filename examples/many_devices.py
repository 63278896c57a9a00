"""Chains over devices: two CPU devices, four chains, two on each.

The devices are chosen before JAX starts. Without the second line freegp makes one CPU device a core, eight at most.
"""

import jax

jax.config.update("jax_num_cpu_devices", 2)

import numpy as np  # noqa: E402

import freegp as fg  # noqa: E402

dates = fg.datasets.load_coal()
X, counts, width = fg.datasets.binned_counts(dates, 1851.0, 1963.0, num_bins=56)
model = fg.SparseGP(
    kernel=fg.kernels.RBF(variance=1.0, lengthscales=20.0),
    likelihood=fg.likelihoods.Poisson(exposure=np.full(56, width)),
    inducing=fg.Grid(15),
    priors={"kernel.lengthscales": fg.priors.LogNormal(3.0, 0.4)},
)
fit = fg.fit_gaussian(model, X, counts, train_inducing=False)
post = fg.sample(model, X, counts, fit=fit, num_chains=4)
print(f"{post.num_chains} chains of {post.num_draws} draws over {jax.local_device_count()} devices; {post.diagnostics.verdict}")
