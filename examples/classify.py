"""Are predicted probabilities right? Two classes of which the true ones are known.

200 simulated patients with two measurements; the risk depends on both, and not along a straight line. Predictions for 500 new
ones are compared with the truth. Writes classes.png.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit

import freegp as fg

rng = np.random.default_rng(0)


def risk(X: np.ndarray) -> np.ndarray:
    """The true probability of being ill."""
    return expit(3.0 * np.sin(X[:, 0]) - 1.5 * X[:, 1])


X = rng.normal(0.0, 1.5, (200, 2))
y = np.where(rng.uniform(size=200) < risk(X), "ill", "well")

classifier = fg.GPClassifier(inducing=fg.Grid(4), num_samples=800).fit(X, y)
print(f"{', '.join(classifier.classes_)}: {classifier.diagnostics_.verdict}")

X_new = rng.normal(0.0, 1.5, (500, 2))
truth, predicted = risk(X_new), classifier.predict_proba(X_new)[:, 0]
print(f"mean distance of the predicted from the true probability: {np.mean(np.abs(predicted - truth)):.3f}")
print("predicted   true, on average   patients")
for low in np.arange(0.0, 1.0, 0.25):
    here = (predicted >= low) & (predicted < low + 0.25)
    print(f"{low:.2f}-{low + 0.25:.2f}   {truth[here].mean():16.3f}   {here.sum():8d}")

axes = fg.plots.probability_contours(classifier.posterior_, names=list(classifier.classes_), resolution=30)
axes.set(xlabel="first measurement, standardised", ylabel="second measurement, standardised")
plt.savefig("classes.png", dpi=80)
