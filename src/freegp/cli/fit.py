"""``freegp fit``: from a table to a run."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import jax.numpy as jnp
import typer

from freegp.approximation import GaussianFit, fit_gaussian
from freegp.approximation.words import loss_in_words
from freegp.cli.options import (
    Config,
    Data,
    ExposureOption,
    Inputs,
    KernelName,
    KernelOption,
    LikelihoodOption,
    Seed,
    Target,
    question_of,
)
from freegp.cli.problem import Problem, model_of, overview, problem_of
from freegp.cli.runs import begin, check_new_folder, go_on, keep_fit
from freegp.cli.words import NOT_CONVERGED, STOPPED, explained, judge, parameter_table, say, show
from freegp.sampling.runner import Plan
from freegp.sampling.samplers import as_sampler
from freegp.tables import read_table

SamplerName = StrEnum("SamplerName", "sites nuts paper gibbs")
Method = StrEnum("Method", "sample gaussian")


def fit(
    data: Data,
    target: Target,
    out: Annotated[Path, typer.Option(help="A new folder, which will hold the run.", metavar="FOLDER")],
    inputs: Inputs = None,
    likelihood: LikelihoodOption = None,
    exposure: ExposureOption = None,
    kernel: KernelOption = KernelName.rbf,
    inducing: Annotated[
        str | None,
        typer.Option(
            help="How many inducing points carry the function, or auto: as many as it takes, which takes longer.",
            metavar="NUMBER",
            show_default="from the number of rows",
        ),
    ] = None,
    method: Annotated[
        Method,
        typer.Option(help="sample the posterior, or keep the gaussian approximation alone (faster, less exact).", metavar="NAME"),
    ] = Method.sample,
    samples: Annotated[int, typer.Option(min=1, help="Draws to keep of each chain.", metavar="NUMBER")] = 500,
    warmup: Annotated[int, typer.Option(min=0, help="Draws of each chain spent on tuning.", metavar="NUMBER")] = 300,
    chains: Annotated[int, typer.Option(min=1, help="Chains; one alone cannot be judged.", metavar="NUMBER")] = 4,
    sampler: Annotated[
        SamplerName, typer.Option(help=f"Which Markov chain: {', '.join(SamplerName)}.", metavar="NAME")
    ] = SamplerName.sites,
    seed: Seed = 0,
    config: Config = None,
) -> None:
    """Learn one column of a table from others, and keep the run in a folder.

    Inputs are standardised. Text in the target makes it a class. Ctrl-C stops a run, and freegp resume takes it up again.

    Ends with 0 if all is well, 1 on bad input, 2 if the diagnostics say that the draws should not be trusted.

    Example: freegp fit trees.csv --target alive --out run
    """
    with explained():
        question = question_of(target, inputs, likelihood, exposure)
        problem = problem_of(read_table(data), question, data, say)
        model, is_held = model_of(problem, kernel.value, inducing)
        check_new_folder(out)
        say(overview(problem, data))
        approximation = fit_gaussian(model, problem.X, problem.y, train_inducing=not is_held, seed=seed)
        _judge_fit(approximation)
        if method is Method.gaussian:
            _finish_gaussian(out, approximation, problem)
            return
        settings = (as_sampler(sampler.value), samples, warmup, chains, seed)
        begin(out, Plan(approximation, jnp.asarray(problem.X), jnp.asarray(problem.y), *settings), problem.description)
        say(f"sampling {chains} chains of {samples} draws into {out}; Ctrl-C stops, freegp resume {out} goes on")
        posterior = go_on(out)
        show(parameter_table(posterior, problem.description))
        say(f"next: freegp predict {out} NEW.csv, freegp diagnose {out}, freegp report {out}")
        judge(posterior.diagnostics)


def _judge_fit(approximation: GaussianFit) -> None:
    """Say how the approximation ended, and stop if it is of no use."""
    if approximation.status == "diverged":
        raise FloatingPointError(f"the Gaussian approximation {approximation.message}")
    if approximation.message.startswith("was interrupted"):
        say("stopped while the Gaussian approximation was made; nothing is kept of it, so run freegp fit again")
        raise typer.Exit(STOPPED)
    inducing = f"{approximation.model.num_inducing} inducing points"
    seconds = f"{approximation.seconds:.0f} s"
    lost = f"; {loss_in_words(approximation.sparsity)}" if approximation.sparsity is not None else ""
    say(f"Gaussian approximation with {inducing} {approximation.message}: bound {approximation.elbo:.2f} ({seconds}){lost}")


def _finish_gaussian(out: Path, approximation: GaussianFit, problem: Problem) -> None:
    keep_fit(out, approximation, problem.description)
    say(f"next: freegp predict {out} NEW.csv")
    if approximation.status != "converged":
        raise typer.Exit(NOT_CONVERGED)
