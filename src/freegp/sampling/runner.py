"""`sample` and `resume`: chains in chunks, on disk as they go."""

import time
import warnings
from dataclasses import dataclass, field
from os import PathLike

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from freegp.approximation import GaussianFit, fit_gaussian
from freegp.devices import make_room, one_blas_thread
from freegp.model import SparseGP
from freegp.posterior import Posterior
from freegp.sampling.chains import CHUNK, Draw, advance, chain_keys, chain_mesh
from freegp.sampling.progress import SampleProgress
from freegp.sampling.run_directory import RunDirectory
from freegp.sampling.samplers import Sampler, Warm, as_sampler
from freegp.saving import registered
from freegp.validation import check_training_data


@registered
@dataclass(frozen=True)
class Plan:
    """What is to be sampled: everything a run needs besides its draws."""

    fit: GaussianFit
    X: Float[Array, "N D"]
    y: Float[Array, " N"]
    sampler: Sampler
    num_samples: int
    num_warmup: int
    num_chains: int
    seed: int


@dataclass
class Standing:
    """How far a run has come: where the chains are and the draws so far."""

    warm: Warm
    seconds: float
    seconds_warmup: float
    chunks: list[dict[str, np.ndarray]] = field(default_factory=list)

    @property
    def num_draws(self) -> int:
        """Draws a chain, so far."""
        return sum(chunk["log_density"].shape[1] for chunk in self.chunks)


def sample(
    model: SparseGP,
    X: ArrayLike,
    y: ArrayLike,
    fit: GaussianFit | None = None,
    sampler: str | Sampler = "sites",
    num_samples: int = 1000,
    num_warmup: int = 300,
    num_chains: int = 4,
    seed: int = 0,
    run_dir: str | PathLike[str] | None = None,
    progress: bool = True,
) -> Posterior:
    """Draw whitened inducing values and parameters from the target, and return them as a posterior.

    Parameters
    ----------
    model, X, y
        The model and its data, ``[N, D]`` and ``[N]``.
    fit
        A Gaussian approximation to start from; one is made if none is given. Its inducing inputs are kept.
    sampler
        "sites" (rotation HMC in site coordinates, the default), "nuts", "paper" (the paper's tuned HMC) or "gibbs" (its
        comparator), or a settings object: `RotationHMC`, `NUTS`, `PaperHMC`, `Gibbs`.
    num_samples, num_warmup, num_chains
        Draws kept of each chain, draws spent on tuning, and chains. Chains are spread over the devices there are.
    seed
        The same seed on the same machine gives the same draws.
    run_dir
        A new folder in which to keep the run as it goes; `resume` takes it up after an interruption.
    progress
        Whether to show a bar.

    Ctrl-C ends the run and returns what there is.
    """
    sampler = as_sampler(sampler)
    X, y = check_training_data(model, X, y)
    _check_numbers(num_samples, num_warmup, num_chains)
    fit = fit_gaussian(model, X, y, seed=seed, progress=progress) if fit is None else fit
    if fit.status == "diverged":
        raise FloatingPointError(f"the Gaussian approximation {fit.message}")
    plan = Plan(fit, jnp.asarray(X), jnp.asarray(y), sampler, num_samples, num_warmup, num_chains, seed)
    if run_dir is None:
        return _run(plan, None, progress)
    with RunDirectory.create(run_dir, plan) as run:
        return _run(plan, run, progress)


def resume(path: str | PathLike[str], progress: bool = True) -> Posterior:
    """Take up a run where it stopped; its draws are those of a run that never did."""
    with RunDirectory.open(path) as run:
        return _run(_plan_of(run), run, progress)


def read_run(path: str | PathLike[str]) -> Posterior:
    """The draws a run directory holds so far. Nothing is sampled or written, so a run can be looked at while it goes on."""
    run = RunDirectory.open(path, read_only=True)
    plan = _plan_of(run)
    valid, problem = run.check()
    if problem is not None:
        warnings.warn(problem, stacklevel=2)
    draws = run.read_draws(valid)
    if not draws:
        raise ValueError(f"{path} holds no draws yet; fg.resume, or freegp resume, makes them")
    state = run.read_state(valid - 1)
    return _posterior(plan, draws, float(state["seconds"]), float(state["seconds_warmup"]))


def read_plan(path: str | PathLike[str]) -> Plan:
    """What a run directory is to hold in the end."""
    return _plan_of(RunDirectory.open(path, read_only=True))


def _plan_of(run: RunDirectory) -> Plan:
    if not isinstance(run.manifest, Plan):
        raise ValueError(f"{run.path} holds something else than a sampling run; give the folder named as run_dir")
    return run.manifest


def _check_numbers(num_samples: int, num_warmup: int, num_chains: int) -> None:
    for name, value, least in (("num_samples", num_samples, 1), ("num_warmup", num_warmup, 0), ("num_chains", num_chains, 1)):
        if value < least:
            raise ValueError(f"{name} must be {least} or more, but is {value}")


@one_blas_thread
def _run(plan: Plan, run: RunDirectory | None, show: bool) -> Posterior:
    make_room()
    mesh = chain_mesh(plan.num_chains)
    keys = chain_keys(plan.num_chains, jax.random.key(plan.seed))
    with SampleProgress(plan.num_warmup, plan.num_samples, show) as bar:
        done = _taken_up(plan, run) if run is not None else None
        if done is None:
            done = _warmed_up(plan, mesh, keys, bar)
            if run is not None:
                run.write_chunk(0, {}, _as_arrays(done))
        advance(plan.sampler, mesh, done.warm, keys, 0, 0)  # so that the seconds of sampling are those of sampling
        try:
            while done.num_draws < plan.num_samples:
                _advance(plan, mesh, keys, done)
                bar.sampled(done.num_draws, done.chunks)
                if run is not None:
                    run.write_chunk(len(done.chunks), done.chunks[-1], _as_arrays(done))
        except KeyboardInterrupt:
            if not done.chunks:
                raise
            hint = f"; fg.resume({str(run.path)!r}) goes on" if run is not None else ""
            warnings.warn(f"interrupted after {done.num_draws} of {plan.num_samples} draws a chain{hint}", stacklevel=3)
    joined = {name: np.concatenate([chunk[name] for chunk in done.chunks], axis=1) for name in done.chunks[0]}
    return _posterior(plan, joined, done.seconds, done.seconds_warmup)


def _warmed_up(plan: Plan, mesh: jax.sharding.Mesh, keys: Array, bar: SampleProgress) -> Standing:
    begun = time.perf_counter()
    target = plan.sampler.prepare(plan.fit, plan.X, plan.y)
    warm = plan.sampler.warm_up(mesh, target, keys, plan.num_warmup, bar.warmed)
    return Standing(warm, 0.0, time.perf_counter() - begun)


def _advance(plan: Plan, mesh: jax.sharding.Mesh, keys: Array, done: Standing) -> None:
    """The next chunk."""
    count = min(CHUNK, plan.num_samples - done.num_draws)
    begun = time.perf_counter()
    done.warm, draws = jax.block_until_ready(advance(plan.sampler, mesh, done.warm, keys, done.num_draws, count))
    done.seconds += time.perf_counter() - begun
    done.chunks.append(_chunk_arrays(draws))


def _chunk_arrays(draws: Draw) -> dict[str, np.ndarray]:
    arrays = {"free": draws.place.free, "whitened": draws.place.whitened, "log_density": draws.log_density}
    return {name: np.asarray(array) for name, array in (arrays | draws.info._asdict()).items()}


def _as_arrays(done: Standing) -> dict[str, np.ndarray]:
    """The state after a chunk: enough to go on bit for bit."""
    groups = {"tuning": done.warm.tunings._asdict(), "target": done.warm.target.tuned()}
    arrays = {f"{group}.{name}": np.asarray(array) for group, part in groups.items() for name, array in part.items()}
    arrays["position"] = np.asarray(done.warm.positions)
    return arrays | {"seconds": np.asarray(done.seconds), "seconds_warmup": np.asarray(done.seconds_warmup)}


def _taken_up(plan: Plan, run: RunDirectory) -> Standing | None:
    """What a run directory holds, or nothing if it had not finished its warm-up."""
    valid, problem = run.check()
    if problem is not None:
        warnings.warn(problem, stacklevel=4)
    if valid == 0:
        return None
    saved = {name: jnp.asarray(array) for name, array in run.read_state(valid - 1).items()}

    def group(prefix: str) -> dict[str, Array]:
        return {name.removeprefix(prefix): array for name, array in saved.items() if name.startswith(prefix)}

    sampler = plan.sampler
    target = sampler.prepare(plan.fit, plan.X, plan.y).with_tuned(group("target."))
    warm = Warm(target, saved["position"], sampler.tuning_type(**group("tuning.")))
    done = Standing(warm, float(saved["seconds"]), float(saved["seconds_warmup"]))
    if valid > 1:
        done.chunks = _cut(run.read_draws(valid))
    return done


def _cut(draws: dict[str, np.ndarray]) -> list[dict[str, np.ndarray]]:
    """Draws in the chunks in which they were made."""
    total = draws["log_density"].shape[1]
    return [{name: array[:, i : i + CHUNK] for name, array in draws.items()} for i in range(0, total, CHUNK)]


def _posterior(plan: Plan, draws: dict[str, np.ndarray], seconds: float, seconds_warmup: float) -> Posterior:
    return Posterior(
        model=plan.fit.model,
        X=np.asarray(plan.X),
        y=np.asarray(plan.y),
        free=draws["free"],
        whitened=draws["whitened"],
        statistics=tuple((name, array) for name, array in draws.items() if name not in ("free", "whitened")),
        seconds_sampling=seconds,
        seconds_total=seconds + seconds_warmup + plan.fit.seconds,
    )
