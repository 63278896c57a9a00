"""Reading the diagnostics: a run to trust, and one not to.

The coal data, sampled as it should be, and then far too briefly and without a warm-up. Writes traces.png.
"""

import matplotlib.pyplot as plt
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
fit = fg.fit_gaussian(model, X, counts, train_inducing=False)

good = fg.sample(model, X, counts, fit=fit)
bad = fg.sample(model, X, counts, fit=fit, num_samples=20, num_warmup=0)
for name, post in (("good", good), ("bad", bad)):
    found = post.diagnostics
    print(f"{name}: {found.verdict}")
    print(f"  acceptance {found.acceptance:.2f}, diverged {found.divergences}, not finite {found.nonfinite}")
    for group, (r_hat, ess) in found.groups.items():
        print(f"  {group:12s} R-hat {r_hat:.3f}, {ess:.0f} effective samples")

print(good.summary().round(3).to_string())
loo = good.loo()
print(f"leave-one-out: {loo.elpd:.1f} nats, standard error {loo.se:.1f}; {loo.verdict}")
fg.plots.traces(good)
plt.savefig("traces.png", dpi=80)
