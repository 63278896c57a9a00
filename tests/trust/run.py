"""How far freegp can be trusted: every check at its full size, one after another, and a page of what came of them.

    python tests/trust/run.py [section ...]

Each section keeps what it found under ``results/trust/``, and ``results/trust.md`` is written anew from what is kept. The exit
status is 1 if a section that was run found a fault.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from seeded_bugs import BUGS, is_found  # noqa: E402
from trust import bad_numbers, calibration, coverage, faults, fuzz, geweke, soak  # noqa: E402
from trust.simulation import LIKELIHOODS  # noqa: E402

RESULTS = ROOT / "results"
VERDICTS = {True: "all is well", False: "**not well**", None: "could not be found out"}
Found = tuple[bool | None, list[str]]
"""Whether all is well (None where that could not be found out), and what to say of it, in paragraphs of Markdown."""


def ranks() -> Found:
    """Simulation-based calibration."""
    all_ranks = [calibration.simulate(name, 200) for name in LIKELIHOODS]
    calibration.plot(all_ranks, RESULTS / "trust" / "ranks.png")
    rows = [
        f"| {r.likelihood} | {len(next(iter(r.ranks.values())))} | {min(r.p_values().values()):.3f} "
        f"({min(r.p_values(), key=r.p_values().get)}) | {r.p_value():.2f} | {r.num_not_converged} |"
        for r in all_ranks
    ]
    table = [
        "| likelihood | simulations | smallest p-value | of so many quantities | R-hat above 1.05 |",
        "|---|---|---|---|---|",
        *rows,
    ]
    said = (
        "Parameters and function from the prior, data from them, a default run on the data with Z = X, and the rank of the truth "
        "among 99 draws; of every parameter, two of the values, and the log-likelihood. If all is well, ranks are uniform. "
        "The p-values are of chi-squared tests with ten bins, the last ones corrected for the number of quantities."
    )
    return all(r.p_value() > 0.01 for r in all_ranks), [said, "\n".join(table), "![Ranks](trust/ranks.png)"]


def joint() -> Found:
    """Geweke's joint test."""
    all_found = [geweke.joint_test(name, 40_000, seed=1) for name in LIKELIHOODS]
    lines = [
        f"- {d.likelihood}: {8 * d.num_rounds} rounds, {len(d.z_scores)} means, the farthest {d.largest:.1f} standard errors away"
        for d in all_found
    ]
    said = (
        "Draws given data and data given draws, in turn: means of parameters, values, their squares and the data, against the "
        "model's own."
    )
    return all(d.largest < 4.0 for d in all_found), [said, "\n".join(lines)]


def intervals() -> Found:
    """Coverage of predictive intervals, and M towards N."""
    all_covered = [coverage.coverage(name, 40) for name in ("Poisson", "StudentT")]
    lines = [f"- {c.likelihood}: {', '.join(_covered(c, level) for level in c.shares)}" for c in all_covered]
    distances = coverage.distances_to_full(num_samples=2000)
    rows = [f"| {size} | {mean:.3f} | {spread:.3f} |" for size, (mean, spread) in distances.items()]
    table = ["| M | mean, in posterior deviations | log of the deviation |", "|---|---|---|", *rows]
    fine = all(abs(c.shares[level] - level) < max(4.0 * c.errors[level], 0.02) for c in all_covered for level in c.shares)
    said = (
        f"{all_covered[0].num_sets} simulated data sets of {coverage.NUM_DATA} rows, 15 inducing points, "
        f"{coverage.NUM_NEW} new observations each."
    )
    towards = f"Largest difference of f from that of the full Gaussian process, at {coverage.NUM_NEW} inputs:"
    last = distances[max(distances)]
    return fine and max(last) < 0.15, [said, "\n".join(lines), towards, "\n".join(table)]


def _covered(covered: coverage.Covered, level: float) -> str:
    share, error = 100 * covered.shares[level], 100 * covered.errors[level]
    return f"{100 * level:.0f} % intervals hold {share:.1f} % (standard error {error:.1f})"


def bugs() -> Found:
    """Mistakes made on purpose."""
    lines, missed = [], 0
    for bug in BUGS:
        with tempfile.TemporaryDirectory() as folder:
            found = is_found(bug, Path(folder) / "copy")
        missed += not found
        lines.append(f"- {'found' if found else '**missed**'}: {bug.name} (`{bug.file}`)")
    return missed == 0, [
        f"{len(BUGS)} small mistakes, each in a copy of the package; {missed} of them pass the tests.",
        "\n".join(lines),
    ]


def kills() -> Found:
    """Runs killed and resumed."""
    with tempfile.TemporaryDirectory() as folder:
        killed = faults.killed_and_resumed(Path(folder), num_kills=20, num_in_writes=8)
    same = (
        "are those of a run that was left alone, bit for bit"
        if killed.is_identical
        else "**differ from those of a run left alone**"
    )
    said = (
        f"{killed.num_kills} times `kill -9` at random moments, {killed.num_in_writes} of them in the middle of a write, over "
        f"{killed.num_runs} runs, each resumed after it: the draws {same}."
    )
    return killed.is_identical, [said]


FAULTS = (
    (
        "damaged, missing, foreign and future files, full disks, read-only folders, a second process",
        "tests/test_run_directory.py",
    ),
    ("damaged, foreign and future saved files, and what would execute code", "tests/test_saving.py"),
    ("stopped, damaged and killed runs, and a clock that goes backwards", "tests/test_sampling.py::TestRuns"),
    ("Ctrl-C and SIGTERM at the command line", "tests/test_cli.py::test_an_interruption_before_the_first_draws"),
)


def folders() -> Found:
    """Folders and files at fault."""
    rows, fine = [], True
    for tried, tests in FAULTS:
        command = [sys.executable, "-m", "pytest", "--override-ini=addopts=", "--tb=no", "-q", tests]
        run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
        fine &= run.returncode == 0
        rows.append(f"| {tried} | {run.stdout.strip().splitlines()[-1].strip('= ')} |")
    said = "Tests, each of which makes one such fault, wants one clear sentence, and looks that nothing was overwritten."
    return fine, [said, "\n".join(["| faults | tests |", "|---|---|", *rows])]


def numbers() -> Found:
    """Bad numbers."""
    outcome = bad_numbers.sweep(150)
    told = sum(outcome.refusals.values())
    lines = [f"- {text} ({count})" for text, count in outcome.refusals.most_common(12)]
    said = (
        f"{outcome.answered + told + len(outcome.failures)} problems: {outcome.answered} had a finite answer, {told} were "
        f"refused in a sentence, {len(outcome.failures)} went wrong. The commonest sentences:"
    )
    return not outcome.failures, [said, "\n".join(lines), *_faults(outcome.failures)]


def files() -> Found:
    """Damaged files."""
    with tempfile.TemporaryDirectory() as folder:
        outcome = fuzz.fuzz(Path(folder), 100_000)
    rows = [f"| {kind} | {count} | {outcome.read[kind]} |" for kind, count in outcome.tried.items()]
    said = (
        f"{sum(outcome.tried.values())} damaged files, {len(outcome.failures)} of which were met with something else "
        "than a sentence of our own."
    )
    table = ["| file | cases | read all the same |", "|---|---|---|", *rows]
    return not outcome.failures, [said, "\n".join(table), *_faults(outcome.failures)]


def memory() -> Found:
    """A soak, in a process that has done nothing else."""
    code = "from trust import soak; soaked = soak.soak(50); print(soaked.before, soaked.after)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT / "tests").stdout
    soaked = soak.Soaked(50, *map(float, told.split()[-2:]))
    said = (
        f"{soaked.num_rounds} fits, runs and predictions in one process: {soaked.before:.0f} MiB after {soak.NUM_BEFORE}, "
        f"{soaked.after:.0f} MiB in the end ({100 * soaked.growth:+.1f} %)."
    )
    return soaked.growth < 0.05, [said]


def audit() -> Found:
    """Known vulnerabilities of what is installed."""
    command = [sys.executable, "-m", "pip_audit", "--local", "--progress-spinner", "off", "--format", "json"]
    run = subprocess.run(command, capture_output=True, text=True)
    try:
        packages = json.loads(run.stdout)["dependencies"]
    except (ValueError, KeyError):
        last = (run.stdout + run.stderr).strip().splitlines()[-1:]
        return None, ["`pip-audit` could not be run (it needs the advisory database):", f"```\n{''.join(last)}\n```"]
    audited = [package for package in packages if "vulns" in package]
    faults = [f"{package['name']} {package['version']}: {vuln['id']}" for package in audited for vuln in package["vulns"]]
    said = (
        f"`pip-audit` over {len(packages)} packages: {len(audited)} could be looked up, {len(faults)} vulnerabilities are known. "
        "Where an index of its own stands in for PyPI, packages cannot be looked up: run it once where PyPI can be reached."
    )
    return not faults if audited else None, [said, *_faults(faults)]


def _faults(failures: list[str]) -> list[str]:
    return ["\n".join(f"- **{failure}**" for failure in failures[:20])] if failures else []


SECTIONS: dict[str, Callable[[], Found]] = {
    section.__name__: section for section in (ranks, joint, intervals, bugs, kills, folders, numbers, files, memory, audit)
}


def main(chosen: list[str]) -> int:
    """Run the sections, keep what they found, write the page; how many found a fault."""
    (RESULTS / "trust").mkdir(parents=True, exist_ok=True)
    num_faulty = 0
    for name in chosen or list(SECTIONS):
        begun = time.perf_counter()
        is_well, said = SECTIONS[name]()
        num_faulty += is_well is False
        record = {
            "is_well": is_well,
            "said": said,
            "seconds": round(time.perf_counter() - begun),
            "date": time.strftime("%Y-%m-%d", time.gmtime()),
            "versions": {package: version(package) for package in ("freegp", "jax", "hypothesis")},
        }
        (RESULTS / "trust" / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")
        print(f"{name}: {VERDICTS[is_well]} after {record['seconds']} s", flush=True)
    (RESULTS / "trust.md").write_text(_page())
    return num_faulty


def _page() -> str:
    parts = ["# What was tried, and what came of it\n\nWritten by `tests/trust/run.py`."]
    for name, section in SECTIONS.items():
        path = RESULTS / "trust" / f"{name}.json"
        if path.exists():
            record = json.loads(path.read_text())
            title = (section.__doc__ or name).rstrip(".")
            verdict = VERDICTS[record["is_well"]]
            versions = ", ".join(f"{package} {number}" for package, number in record["versions"].items())
            parts += [
                f"## {title}: {verdict}",
                *record["said"],
                f"<sub>{record['date']}, {record['seconds']} s; {versions}</sub>",
            ]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 1))
