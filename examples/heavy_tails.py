"""Noise with heavy tails: one number in ten is wrong.

The same simulated data, with a known curve and gross errors in a tenth of them, learnt twice: as if noise were Gaussian, and with
Student's t. Gaussian approximations keep the example short; without ``method`` the estimators average over draws.
"""

import numpy as np

import freegp as fg

rng = np.random.default_rng(1)
x = np.sort(rng.uniform(0.0, 10.0, 120))
curve = np.sin(x) + 0.2 * x
y = curve + 0.1 * rng.normal(size=120)
wrong = rng.choice(120, 12, replace=False)
y[wrong] += rng.choice([-1.0, 1.0], 12) * rng.uniform(2.0, 6.0, 12)

error = {}
for noise in ("gaussian", "student"):
    regressor = fg.GPRegressor(noise, inducing=20, method="gaussian").fit(x[:, None], y)
    error[noise] = np.sqrt(np.mean((regressor.predict(x[:, None]) - curve) ** 2))
    low, _, high = regressor.predict_quantiles([[5.0]])[:, 0]
    print(f"{noise}: the curve is missed by {error[noise]:.3f} (root mean square)")
    print(f"  90 % of new numbers at 5.0 between {low:.2f} and {high:.2f}")

print(f"Student's t is nearer to the true curve by a factor of {error['gaussian'] / error['student']:.1f}")
