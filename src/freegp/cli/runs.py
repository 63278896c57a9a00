"""Folders of runs: making them, going on with them, and reading what they hold."""

import os
from dataclasses import dataclass
from pathlib import Path

import typer

from freegp import sampling
from freegp.approximation import GaussianFit
from freegp.cli.description import FILE, Description, read_description, write_description
from freegp.cli.words import STOPPED, say
from freegp.posterior import Posterior
from freegp.sampling.run_directory import RunDirectory
from freegp.sampling.runner import Plan
from freegp.saving import load

FIT_FILE = "fit.npz"
LOCK = ".lock"


@dataclass(frozen=True)
class Run:
    """What a folder holds: draws or a Gaussian approximation, its columns if they are known, and how many draws were wanted."""

    folder: Path
    fitted: Posterior | GaussianFit
    description: Description | None
    num_samples: int


def check_new_folder(folder: Path) -> None:
    """Asked before anything is computed, so that nothing is computed in vain."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; choose another folder with --out")
    if folder.exists() and set(os.listdir(folder)) - {LOCK}:
        is_run = (folder / FILE).is_file()
        raise ValueError(
            f"{folder} is not empty; choose a new folder with --out"
            + (f", or go on with the run in it by freegp resume {folder}" if is_run else "")
        )
    folder.mkdir(parents=True, exist_ok=True)


def keep_fit(folder: Path, fit: GaussianFit, description: Description) -> None:
    """Write a Gaussian approximation and its columns."""
    write_description(folder, description)
    fit.save(folder / FIT_FILE)


def begin(folder: Path, plan: Plan, description: Description) -> None:
    """Write what is to be sampled and its columns, so that `go_on` does the rest, now or after an interruption."""
    with RunDirectory.create(folder, plan):
        write_description(folder, description)


def is_complete(folder: Path) -> bool:
    """Whether a run has all the draws it was to have."""
    try:
        return sampling.read_run(folder).num_draws == sampling.read_plan(folder).num_samples
    except (ValueError, OSError):
        return False  # taking it up says what is wrong


def go_on(folder: Path) -> Posterior:
    """Sample what is still to be sampled; Ctrl-C ends the program with a word on how to go on."""
    if (folder / FIT_FILE).is_file():
        raise ValueError(f"{folder} holds a Gaussian approximation, which is complete; there is nothing to resume")
    try:
        posterior = sampling.resume(folder)
    except KeyboardInterrupt:
        say(f"stopped before the first draws were kept; freegp resume {folder} takes the run up")
        raise typer.Exit(STOPPED) from None
    asked = sampling.read_plan(folder).num_samples
    if posterior.num_draws < asked:
        say(f"stopped after {posterior.num_draws} of {asked} draws a chain; freegp resume {folder} goes on")
        raise typer.Exit(STOPPED)
    return posterior


def read_run(folder: Path) -> Run:
    """What there is so far; nothing is written, so a run can be looked at while it goes on."""
    description = read_description(folder)
    if (folder / FIT_FILE).is_file():
        fit = load(folder / FIT_FILE)
        if not isinstance(fit, GaussianFit):
            raise ValueError(f"{folder / FIT_FILE} holds a {type(fit).__name__} and no fit; restore it from a copy")
        run = Run(folder, fit, description, 0)
    else:
        run = Run(folder, sampling.read_run(folder), description, sampling.read_plan(folder).num_samples)
    if description is not None:
        description.check_model(run.fitted.model, folder)
    return run


def known_columns(run: Run) -> Description:
    """The description, for what cannot do without it."""
    if run.description is None:
        raise ValueError(f"{run.folder} has no {FILE}, which freegp fit writes; predict from Python with fg.resume instead")
    return run.description
