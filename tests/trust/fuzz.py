"""Every kind of file that freegp reads, damaged in every way: it is read, or refused in one sentence, and nothing else."""

import io
import json
import shutil
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import typer
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import freegp as fg
from freegp.cli import app
from freegp.cli.description import read_description, write_description
from freegp.cli.problem import Question, problem_of
from freegp.sampling.runner import read_run
from freegp.tables import read_table

OURS = (ValueError, TypeError, FileNotFoundError, OSError, FloatingPointError)
"""What a refusal may be, with a sentence; a class of its own is no better to whoever reads it."""
LONGEST = 2000
BATCH = 1000

edits = st.lists(
    st.tuples(
        st.sampled_from(["flip", "cut", "drop", "insert", "repeat"]), st.floats(0.0, 1.0), st.binary(min_size=1, max_size=8)
    ),
    min_size=1,
    max_size=4,
)
numbers = st.one_of(st.integers(-(2**70), 2**70), st.floats(), st.booleans(), st.none())
words = st.one_of(
    st.text(max_size=8), st.sampled_from(["class", "array", "array0", "SparseGP", "Posterior", "Softmax", "os.system"])
)
values = st.recursive(
    numbers | words, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3), max_leaves=6
)
nodes = st.lists(st.tuples(st.integers(0, 10**6), values), min_size=1, max_size=3)


@dataclass
class Outcome:
    """How many cases of each kind were tried, were read all the same, and what went wrong in others."""

    tried: Counter = field(default_factory=Counter)
    read: Counter = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def try_one(self, kind: str, reader: Callable[[], Any]) -> None:
        """Read it, and judge what came of it."""
        self.tried[kind] += 1
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a warning is a sentence too
                reader()
            self.read[kind] += 1
        except OURS as error:
            text = str(error)
            if not text.strip() or len(text) > LONGEST or "\n" in text.strip():
                self.failures.append(f"{kind}: {type(error).__name__}: {text[:200]!r}")
        except Exception as error:
            self.failures.append(f"{kind}: {type(error).__name__}: {str(error)[:200]!r}")


def edited(content: bytes, changes: list[tuple[str, float, bytes]]) -> bytes:
    """The bytes with each change made where it says."""
    for kind, where, new in changes:
        at = int(where * len(content))
        if kind == "flip":
            content = (
                content[:at]
                + bytes(a ^ b for a, b in zip(content[at : at + len(new)], new, strict=False))
                + content[at + len(new) :]
            )
        elif kind == "cut":
            content = content[:at]
        elif kind == "drop":
            content = content[:at] + content[at + len(new) :]
        elif kind == "insert":
            content = content[:at] + new + content[at:]
        else:
            content = content[:at] + content[max(0, at - 100) : at] * new[0] + content[at:]
    return content


def renoted(content: bytes, changes: list[tuple[int, Any]]) -> bytes:
    """A saved file whose description says something else, with checksums that are right again, as ill will makes it."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {entry.filename: archive.read(entry) for entry in archive.infolist()}
    manifest = json.loads(np.lib.format.read_array(io.BytesIO(members["manifest.npy"])).tobytes())
    for where, value in changes:
        places = list(_places(manifest))
        holder, key = places[where % len(places)]
        holder[key] = value
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.frombuffer(json.dumps(manifest).encode(), dtype=np.uint8))
    members["manifest.npy"] = buffer.getvalue()
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        for name, member in members.items():
            archive.writestr(name, member)
    return whole.getvalue()


def _places(node: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a JSON document that can hold another value."""
    for key in list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ():
        yield node, key
        yield from _places(node[key])


@dataclass(frozen=True)
class Kind:
    """A kind of file: one that is whole, how it is damaged, what reads it, and its share of all cases."""

    name: str
    original: Path
    examples: st.SearchStrategy
    damaged: Callable[[bytes, Any], bytes]
    reader: Callable[[Path], Any]
    share: float


def fuzz(folder: Path, num_cases: int, first_seed: int = 0) -> Outcome:
    """So many cases in all, spread over the kinds of files."""
    outcome, whole = Outcome(), _whole_files(folder / "whole")
    for number, kind in enumerate(_kinds(whole)):
        scratch = folder / f"scratch-{number}"
        shutil.copytree(whole["run"], scratch)
        path, content = scratch / kind.original.name, kind.original.read_bytes()

        def check(changes: Any, kind: Kind = kind, path: Path = path, content: bytes = content) -> None:
            path.write_bytes(kind.damaged(content, changes))
            outcome.try_one(kind.name, lambda: kind.reader(path))

        _drive(kind.examples, check, round(kind.share * num_cases), first_seed + number)
    return outcome


def _kinds(whole: dict[str, Path]) -> list[Kind]:
    def of_run(path: Path) -> Any:
        return read_run(path.parent)

    run = whole["run"]
    return [
        Kind("saved fit", whole["fit"], edits, edited, fg.load, 0.3),
        Kind("saved posterior", whole["posterior"], edits, edited, fg.load, 0.1),
        Kind("saved fit, described otherwise", whole["fit"], nodes, renoted, fg.load, 0.05),
        Kind("saved posterior, described otherwise", whole["posterior"], nodes, renoted, fg.load, 0.05),
        Kind("manifest of a run", run / "manifest.npz", edits, edited, of_run, 0.05),
        Kind("chunk of a run", run / "chunk-00001.npz", edits, edited, of_run, 0.05),
        Kind("CSV", whole["table"], edits, edited, _as_problem, 0.2),
        Kind("Parquet", whole["parquet"], edits, edited, _as_problem, 0.1),
        Kind("columns of a run", whole["columns"], edits, edited, lambda path: read_description(path.parent), 0.05),
        Kind("options", whole["options"], edits, edited, _as_options, 0.05),
    ]


def _drive(strategy: st.SearchStrategy, check: Callable[[Any], None], number: int, with_seed: int) -> None:
    """So many examples of a strategy; failures are noted by the check itself, so nothing is shrunk.

    They come in batches, since hypothesis remembers all examples of one and is the slower the more there are.
    """
    for batch in range(0, max(number, 1), BATCH):
        wanted = settings(
            max_examples=max(min(BATCH, number - batch), 1),
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )

        @seed(1000 * batch + with_seed)
        @wanted
        @given(strategy)
        def each(example: Any) -> None:
            check(example)

        each()


def _as_problem(path: Path) -> Any:
    return problem_of(read_table(path), Question("y"), path, lambda sentence: None)


def _as_options(path: Path) -> Any:
    command = typer.main.get_command(app).commands["fit"]
    try:
        return command.make_context("fit", ["nowhere.csv", "--target", "y", "--out", "nowhere", "--config", str(path)])
    except typer.BadParameter as error:
        raise ValueError(error.format_message()) from None


def _whole_files(folder: Path) -> dict[str, Path]:
    """One of each kind, undamaged."""
    folder.mkdir(parents=True)
    X = np.linspace(0.0, 3.0, 20)[:, None]
    y = np.random.default_rng(0).poisson(2.0, 20).astype(float)
    model = fg.SparseGP(fg.kernels.RBF() + fg.kernels.White(0.1), fg.likelihoods.Poisson(), inducing=fg.Grid(4))
    fit = fg.fit_gaussian(model, X, y, progress=False, train_inducing=False)
    posterior = fg.sample(
        model, X, y, fit=fit, num_samples=60, num_warmup=60, num_chains=2, run_dir=folder / "run", progress=False
    )
    paths = {name: folder / file for name, file in _FILES.items()}
    fit.save(paths["fit"])
    posterior.save(paths["posterior"])
    table = pd.DataFrame({"x": X[:, 0], "kind": ["a", "b"] * 10, "y": y})
    table.to_csv(paths["table"], index=False)
    table.to_parquet(paths["parquet"])
    write_description(folder, _as_problem(paths["table"]).description)
    paths["options"].write_text('likelihood = "poisson"\nsamples = 200\ninputs = ["x"]\n')
    return paths


_FILES = {
    "fit": "fit.npz",
    "posterior": "posterior.npz",
    "run": "run",
    "table": "table.csv",
    "parquet": "table.parquet",
    "columns": "data.json",
    "options": "options.toml",
}
