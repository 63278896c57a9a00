"""What a report can be of."""

from os import PathLike
from pathlib import Path

from freegp.posterior import Posterior
from freegp.sampling import resume
from freegp.sampling.run_directory import RunDirectory
from freegp.sampling.runner import Plan
from freegp.saving import load


def as_posterior(source: Posterior | str | PathLike[str]) -> Posterior:
    """Draws as they are, from the file they were saved in, or from the folder of a finished run."""
    if isinstance(source, Posterior):
        return source
    if not isinstance(source, str | PathLike):
        raise TypeError(
            f"a report is of a Posterior, the file of a saved one or the folder of a run, not of a {type(source).__name__}; "
            "give what fg.sample returned"
        )
    if Path(source).is_dir():
        _check_finished(Path(source))
        return resume(source, progress=False)
    found = load(source)
    if not isinstance(found, Posterior):
        raise ValueError(
            f"{source} holds a {type(found).__name__}, but a report needs draws; sample first, and save the posterior"
        )
    return found


def _check_finished(folder: Path) -> None:
    """A report reads; it must not go on sampling for hours."""
    run = RunDirectory.open(folder, read_only=True)
    if not isinstance(run.manifest, Plan):
        raise ValueError(f"{folder} holds something else than a sampling run; give the folder named as run_dir")
    draws = run.read_draws(run.valid_chunks())
    done = draws["log_density"].shape[1] if draws else 0
    if done < run.manifest.num_samples:
        wanted = run.manifest.num_samples
        raise ValueError(
            f"the run in {folder} has {done} of {wanted} draws a chain; finish it first, with fg.resume({str(folder)!r})"
        )
