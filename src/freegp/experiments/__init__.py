"""The paper's experiments, done with the public interface: settings, data, pictures, and a page of its figures beside ours."""

from collections.abc import Callable
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from types import ModuleType

from freegp.experiments import coal, convergence, image, mnist, pines, toy
from freegp.experiments.data import MissingDataError, data_folder
from freegp.experiments.tables import Report, Row, as_record, write_page
from freegp.experiments.workplace import Workplace, write_json

EXPERIMENTS: dict[str, ModuleType] = {
    "coal": coal,
    "pines": pines,
    "image": image,
    "toy": toy,
    "mnist": mnist,
    "convergence": convergence,
}

__all__ = ["EXPERIMENTS", "MissingDataError", "Report", "Row", "run"]


def run(
    name: str,
    quick: bool = False,
    data: str | PathLike[str] | None = None,
    out: str | PathLike[str] = "results",
    say: Callable[[str], None] = print,
) -> Report:
    """Do one experiment, or go on with it, and write its numbers, its pictures and the page.

    Parameters
    ----------
    name
        One of `EXPERIMENTS`.
    quick
        A small run of a minute or two, in a folder ``quick`` of its own.
    data
        The folder of the data that do not ship with the package; the environment variable FREEGP_DATA names it otherwise.
    out
        The folder for the results: ``out/NAME`` and the page ``out/paper.md``.
    say
        Takes a line on how far it is.
    """
    if name not in EXPERIMENTS:
        raise ValueError(f"there is no experiment {name!r}; choose one of {', '.join(EXPERIMENTS)}")
    experiment = EXPERIMENTS[name]
    folder = Path(out) / "quick" if quick else Path(out)
    settings = experiment.QUICK if quick else experiment.FULL

    def publish(report: Report) -> None:
        write_json(work.folder / "numbers.json", as_record(report, asdict(settings), *work.history()))
        write_page(folder, EXPERIMENTS, quick)

    work = Workplace(folder / name, data_folder(data), lambda line: say(f"{name}: {line}"), publish)
    work.settle(asdict(settings))
    report: Report = experiment.run(work, settings)
    publish(report)
    return report
