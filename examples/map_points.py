"""Where do pine saplings stand densely? A map of a point pattern.

126 trees in a square of ten metres, from a Finnish forest. The Gaussian approximation and a coarse grid keep the example short;
without ``method``, ``grid`` and ``inducing`` the process is sampled on about a thousand cells. Writes pines.png.
"""

import matplotlib.pyplot as plt

import freegp as fg

pines = fg.datasets.load_pines()
process = fg.CoxProcess(window=pines.window, grid=16, inducing=fg.Grid(8), method="gaussian").fit(pines.events)
print(process)

corner = ((-5.0, 0.0), (-8.0, -3.0))
for name, region in (("the whole square", None), ("its lower left quarter", corner)):
    count = process.expected_count(region)
    low, _, high = count.quantiles
    print(f"{name}: {count.mean:.0f} trees expected, 90 % between {low:.0f} and {high:.0f}")

print(process.refinement_check())

axes = process.plot()
axes.set(xlabel="metres", ylabel="metres")
plt.savefig("pines.png", dpi=80)
