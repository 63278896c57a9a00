"""How often did British coal mines explode? Five minutes with freegp.

Explosions in bins of two years, a smooth log rate behind them, and what is known of it after the data. Writes coal.png.
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
    priors={"kernel.lengthscales": fg.priors.LogNormal(3.0, 0.4)},  # about e^3 = 20 years, within a factor of two
)
fit = fg.fit_gaussian(model, X, counts, train_inducing=False)
print(fit)

post = fg.sample(model, X, counts, fit=fit)
print(post)

years = np.array([[1860.0], [1900.0], [1940.0]])
for year, (low, median, high) in zip(years[:, 0], np.exp(post.quantiles_f(years))[..., 0].T, strict=True):
    print(f"{year:.0f}: {median:.2f} explosions a year, 90 % between {low:.2f} and {high:.2f}")

f = np.asarray(post.sample_f(years, 2000))[..., 0]
print(f"the rate of 1860 was above that of 1940 with probability {np.mean(f[:, 0] > f[:, 2]):.3f}")

axes = fg.plots.latent_1d(post, "mean", exposure=1.0)
axes.set(xlabel="year", ylabel="explosions a year")
plt.savefig("coal.png", dpi=90)
