"""A run that outlives its process: kept on disk as it goes, looked at, cut short, resumed to the very same draws.

The interruption is played by taking away the last chunks, which is what a power cut leaves: every chunk is whole or not there.
"""

import shutil
from pathlib import Path

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
whole = fg.sample(model, X, counts, fit=fit, num_samples=200, run_dir="run")
print(f"the folder holds {', '.join(sorted(path.name for path in Path('run').glob('*.npz')))}")

shutil.copytree("run", "cut")
for number in (3, 4):
    Path("cut", f"chunk-{number:05d}.npz").unlink()
print(f"cut short, it holds {fg.read_run('cut').num_draws} draws a chain")

resumed = fg.resume("cut")
same = all(np.array_equal(whole.draws[name], resumed.draws[name]) for name in whole.draws)
print(f"resumed, it holds {resumed.num_draws} draws a chain, {'the very same' if same else 'not the same'} as without a cut")

resumed.save("posterior.npz")
again = fg.load("posterior.npz")
print(f"saved and loaded: {again.num_chains} chains of {again.num_draws} draws of {', '.join(again.draws)}")
