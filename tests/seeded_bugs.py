"""Small mistakes made on purpose in a copy of the package, to show that the tests find every one.

python tests/seeded_bugs.py            all of them, a line each; exit status 1 if one is not found
python tests/seeded_bugs.py accept     those whose name holds the word
"""

import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Bug:
    """A mistake: the line it replaces, in which file, and the tests that should find it."""

    name: str
    file: str
    right: str
    wrong: str
    tests: tuple[str, ...]


EXACT = "tests/test_sampling.py::TestExactAnswers"
SECOND = "tests/test_sampling.py::TestIntegrator::test_second_attempts_leave_the_target_as_it_is"
SLICES = "tests/test_sampling.py::TestCoordinates::test_slices_draw_the_parameter_given_what_is_held"
BUGS = (
    Bug(
        "always accept",
        "sampling/rotation.py",
        "    accepted = chance < acceptance\n",
        "    accepted = chance < 2.0\n",
        (EXACT, SECOND),
    ),
    Bug(
        "Jacobian of the free parameters left out",
        "sampling/coordinates.py",
        "        theta = log_prior(self.model, free) + log_jacobian(self.model, free)\n",
        "        theta = log_prior(self.model, free)\n",
        ("tests/test_sampling.py::TestCoordinates::test_change_of_variables",),
    ),
    Bug(
        "Jacobian of the site transform left out",
        "sampling/coordinates.py",
        "        return data + prior + theta + log_volume + self.log_scale()\n",
        "        return data + prior + theta + self.log_scale()\n",
        ("tests/test_sampling.py::TestCoordinates::test_change_of_variables",),
    ),
    Bug(
        "stale gradient after a rejection",
        "sampling/rotation.py",
        "    finite = _is_finite(error, end.state)\n    energy",
        "    state = state._replace(gradient=end.state.gradient)\n    finite = _is_finite(error, end.state)\n    energy",
        (EXACT, SECOND),
    ),
    Bug(
        "last half-kick missing",
        "sampling/rotation.py",
        "        return state, p + (angle - before) * (state.gradient + x)\n",
        "        return state, p\n",
        ("tests/test_sampling.py::TestIntegrator",),
    ),
    Bug(
        "second attempts without their correction",
        "sampling/rotation.py",
        "    correction = jnp.log1p(-jnp.minimum(first.acceptance, BAD_ACCEPTANCE)) - may_come\n",
        "    correction = 0.0\n",
        (SECOND,),
    ),
    Bug(
        "ellipses of another width than the slices",
        "sampling/alternating.py",
        "    nu = WIDTH * jax.random.normal(key_ellipse, zeta.shape)\n",
        "    nu = jax.random.normal(key_ellipse, zeta.shape)\n",
        (EXACT,),
    ),
    Bug(
        "a slice's level that forgets the ellipses' Gaussian",
        "sampling/alternating.py",
        "    level = log_density + 0.5 * jnp.sum(jnp.square(zeta / WIDTH)) + jnp.log(jax.random.uniform(key_level))\n",
        "    level = log_density + jnp.log(jax.random.uniform(key_level))\n",
        (SLICES,),
    ),
    Bug(
        "what moved parameters make of the data not kept",
        "sampling/alternating.py",
        "    return AlternatingState(jnp.concatenate([z, zeta]), value, held), told.and_another(*new)\n",
        "    return AlternatingState(jnp.concatenate([z, zeta]), value, state.held), told.and_another(*new)\n",
        ("tests/test_sampling.py::TestCoordinates",),
    ),
    Bug(
        "moved with v held, and the volume forgotten",
        "sampling/alternating.py",
        "state.log_density - start.log_volume, there",
        "state.log_density, there",
        (SLICES,),
    ),
    Bug(
        "prior counted twice",
        "target/log_density.py",
        "    return data + prior_v + log_prior(model, free) + log_jacobian(model, free)\n",
        "    return data + prior_v + 2.0 * log_prior(model, free) + log_jacobian(model, free)\n",
        ("tests/test_target.py",),
    ),
    Bug(
        "wrong derivative of the quadratic form",
        "numerics/linalg.py",
        "    return columns @ of_linear.T, 2.0 * product * of_quadratic + weights @ of_linear\n",
        "    return columns @ of_linear.T, product * of_quadratic + weights @ of_linear\n",
        ("tests/test_numerics.py",),
    ),
    Bug(
        "wrong sign of the slope that passes an inverse by",
        "numerics/linalg.py",
        "_weighted_gram(residuals[2], -cotangents[1])",
        "_weighted_gram(residuals[2], cotangents[1])",
        ("tests/test_target.py",),
    ),
    Bug(
        "wrong Matern profile",
        "kernels/stationary.py",
        "        return (1.0 + r) * jnp.exp(-r)\n",
        "        return (1.0 + 0.9 * r) * jnp.exp(-r)\n",
        ("tests/test_kernels.py",),
    ),
    Bug(
        "minibatches without N / B",
        "approximation/minibatches.py",
        "    scale = problem.num_data / rows.shape[1]\n",
        "    scale = 1.0\n",
        ("tests/test_approximation.py::test_minibatches_come_near_the_full_batch",),
    ),
    Bug(
        "a step on minibatches that forgets where the mean is",
        "approximation/minibatches.py",
        "    return WeightSites(G, slope.weights + times(G, projection.weights))\n",
        "    return WeightSites(G, slope.weights)\n",
        ("tests/test_minibatches.py",),
    ),
    Bug(
        "sites on minibatches that stay behind where the parameters move",
        "approximation/minibatches.py",
        "    there = jnp.eye(K.shape[-1]) + transposed(product(inverse_and_log_determinant(K)[0], K_moved - K))\n",
        "    there = jnp.broadcast_to(jnp.eye(K.shape[-1]), K.shape)\n",
        ("tests/test_minibatches.py",),
    ),
    Bug(
        "a resumed run goes on from the state before the last",
        "sampling/runner.py",
        "in run.read_state(valid - 1).items()",
        "in run.read_state(max(valid - 2, 0)).items()",
        ("tests/test_sampling.py::TestRuns",),
    ),
    Bug(
        "mean of densities' logarithms for the logarithm of their mean",
        "posterior/posterior.py",
        "            results.append(jax.nn.logsumexp(densities, axis=0) - jnp.log(densities.shape[0]))\n",
        "            results.append(jnp.mean(densities, axis=0))\n",
        ("tests/test_sampling.py::TestPosterior",),
    ),
    Bug(
        "variance of the means left out of predictions",
        "posterior/posterior.py",
        "jnp.mean(variance, axis=0) + jnp.var(mean, axis=0)",
        "jnp.mean(variance, axis=0)",
        ("tests/test_sampling.py::TestPosterior",),
    ),
    Bug(
        "unexplained variance forgotten",
        "target/projection.py",
        "    variance = scale * jnp.maximum(prior - scale * explained, 0.0)\n",
        "    variance = scale * jnp.maximum(0.0 * prior, 0.0)\n",
        ("tests/test_target.py",),
    ),
    Bug(
        "a scale left out of the mean",
        "target/projection.py",
        "in_double(scale * mean.reshape(-1, X.shape[0]), variance)",
        "in_double(mean.reshape(-1, X.shape[0]), variance)",
        ("tests/test_target.py",),
    ),
    Bug(
        "ends of a slice swapped",
        "sampling/alternating.py",
        "        ends = jnp.where(angle < 0.0, angle, low), jnp.where(angle < 0.0, high, angle)\n",
        "        ends = jnp.where(angle > 0.0, angle, low), jnp.where(angle > 0.0, high, angle)\n",
        ("tests/test_sampling.py::TestIntegrator",),
    ),
    Bug(
        "wrong weights of the quadrature",
        "numerics/quadrature.py",
        "    weights = np.exp(-0.5 * nodes**2)\n",
        "    weights = np.exp(-0.49 * nodes**2)\n",
        ("tests/test_likelihoods.py",),
    ),
    Bug(
        "a resumed run forgets its first chunk, and draws with its keys again",
        "sampling/runner.py",
        "    if valid > 1:\n",
        "    if valid > 2:\n",
        ("tests/test_sampling.py::TestRuns",),
    ),
    Bug(
        "mean for median",
        "posterior/per_draw.py",
        "        return 0.5 * (low + high)\n",
        "        return jnp.mean(mean, axis=0)\n",
        ("tests/test_sampling.py::TestPosterior",),
    ),
    Bug(
        "leave-one-out weighted by the predictive density, which is not the target's factor",
        "diagnostics/leave_one_out.py",
        "_smoothed(-expected[:, :, block]",
        "_smoothed(-predictive[:, :, block]",
        ("tests/test_diagnostics.py",),
    ),
)


def is_current(bug: Bug) -> bool:
    """Whether the line to be replaced is in the file once."""
    return (ROOT / "src" / "freegp" / bug.file).read_text().count(bug.right) == 1


def is_found(bug: Bug, folder: Path) -> bool:
    """Whether a test fails on a copy with the mistake."""
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(".venv", ".git", ".peers", "*_cache", "__pycache__", "results"))
    file = folder / "src" / "freegp" / bug.file
    text = file.read_text()
    if not is_current(bug):
        raise SystemExit(f"{bug.name}: the line to be replaced is not there once in {bug.file}; bring the list up to date")
    file.write_text(text.replace(bug.right, bug.wrong))
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *bug.tests]
    environment = {"PYTHONPATH": str(folder / "src"), "PATH": "", "HOME": str(folder)}
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)
    if run.returncode not in (0, 1):
        raise SystemExit(f"{bug.name}: the tests did not run\n{run.stdout[-2000:]}{run.stderr[-2000:]}")
    return run.returncode == 1


def main(word: str) -> int:
    """Make each mistake and tell; how many were not found."""
    missed = 0
    for bug in (bug for bug in BUGS if word in bug.name):
        begun = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            found = is_found(bug, Path(folder) / "copy")
        missed += not found
        print(f"{'found ' if found else 'MISSED'} {time.perf_counter() - begun:5.0f} s  {bug.name}", flush=True)
    return missed


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1] if len(sys.argv) > 1 else ""), 1))
