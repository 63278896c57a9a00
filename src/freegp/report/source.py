"""What a report can be of."""

from os import PathLike
from pathlib import Path

from freegp.posterior import Posterior
from freegp.sampling import read_plan, read_run
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
        return _finished(source)
    found = load(source)
    if not isinstance(found, Posterior):
        raise ValueError(
            f"{source} holds a {type(found).__name__}, but a report needs draws; sample first, and save the posterior"
        )
    return found


def _finished(folder: str | PathLike[str]) -> Posterior:
    """The draws of a run that has all of them."""
    posterior, wanted = read_run(folder), read_plan(folder).num_samples
    if posterior.num_draws < wanted:
        raise ValueError(
            f"the run in {folder} has {posterior.num_draws} of {wanted} draws a chain; finish it first, "
            f"with fg.resume({str(folder)!r})"
        )
    return posterior
