"""Counts with an exposure: cases of a disease in towns of very different size, by distance from a source.

56 simulated towns with a known rate; the exposure is how many thousand people live there. What comes out is compared with the
truth, in one data set and then in eight, because one proves little: neighbouring distances err together.
"""

import numpy as np

import freegp as fg


def rate(distance: np.ndarray) -> np.ndarray:
    """True cases a thousand people: more of them within some forty kilometres."""
    return 1.0 + 4.0 * np.exp(-0.5 * (distance / 20.0) ** 2)


def posterior(seed: int, num_samples: int) -> fg.Posterior:
    """Simulated towns, and what is learnt from them."""
    rng = np.random.default_rng(seed)
    distance = rng.uniform(0.0, 100.0, 56)
    thousands = np.exp(rng.normal(1.0, 1.0, 56))
    cases = rng.poisson(thousands * rate(distance))
    model = fg.SparseGP(
        kernel=fg.kernels.RBF(variance=1.0, lengthscales=20.0),
        likelihood=fg.likelihoods.Poisson(exposure=thousands),
        inducing=fg.Grid(15),
        priors={"kernel.lengthscales": fg.priors.LogNormal(3.0, 0.4)},
    )
    fit = fg.fit_gaussian(model, distance[:, None], cases, train_inducing=False)
    return fg.sample(model, distance[:, None], cases, fit=fit, num_samples=num_samples)


post = posterior(seed=0, num_samples=1000)
print(f"{post.y.sum():.0f} cases; {post.diagnostics.verdict}")

at = np.array([5.0, 30.0, 80.0])
low, median, high = np.exp(post.quantiles_f(at[:, None]))[..., 0]
print("kilometres   true rate   median   90 %")
for row in zip(at, rate(at), median, low, high, strict=True):
    print("{:10.0f}   {:9.2f}   {:6.2f}   {:.2f} to {:.2f}".format(*row))

mean, _ = post.predict_y(at[:, None], exposure=10.0)
few, _, many = post.quantiles_y(at[:, None], exposure=10.0)
for place, cases, least, most in zip(at, mean, few, many, strict=True):
    print(f"a new town of 10 000 people at {place:.0f} km: {cases:.0f} cases, 90 % between {least:.0f} and {most:.0f}")

shares = []
for seed in range(8):
    low, _, high = np.exp(posterior(seed, num_samples=100).quantiles_f(np.arange(2.5, 100.0, 5.0)[:, None]))[..., 0]
    truth = rate(np.arange(2.5, 100.0, 5.0))
    shares.append(np.mean((low < truth) & (truth < high)))
print(f"the 90 % interval holds the truth at {', '.join(f'{share:.0%}' for share in shares)} of the distances")
print(f"over the eight data sets: {np.mean(shares):.0%}")
