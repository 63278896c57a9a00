import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

import freegp as fg
from freegp.cli import app

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted((ROOT / "examples").glob("*.py"))
PAGES = {path: path.read_text() for path in (ROOT / "docs").rglob("*.md") if "_build" not in path.parts}
VERDICTS = {
    "choose_inducing": r"^M = 15 is enough(.*\n)+with 5: .*raise M to about \d+\n15 points, sampled: converged",
    "classify": r"ill, well: .*\n.*true probability: 0\.0[0-6]\d\n",
    "count": r"over the eight data sets: (7[5-9]|8\d|9\d)%\n",
    "heavy_tails": r"nearer to the true curve by a factor of ([2-9]|\d\d)\.\d\n",
    "many_devices": r"^4 chains of 1000 draws over 2 devices; converged",
    "map_points": r"the whole square: 12\d trees expected(.*\n)+.*the cells are small enough",
    "own_likelihood": r"Laplace: converged .*; the scale is 0\.(1[7-9]|2[0-3]), truly 0\.20\n",
    "quickstart": r"4 chains of 1000 draws: converged(.*\n)+.*above that of 1940 with probability (0\.9[89]\d|1\.000)\n",
    "read_diagnostics": r"^good: converged(.*\n)+bad: not converged(.*\n)+leave-one-out: -1\d\d\.\d nats.*; reliable",
    "resume_run": r"cut short, it holds 100 draws a chain\nresumed, it holds 200 draws a chain, the very same as",
}
"""What each script must come to."""
LONG = ("choose_inducing", "classify", "count", "heavy_tails", "many_devices", "own_likelihood", "quickstart", "read_diagnostics")


@pytest.mark.parametrize(
    "script", [pytest.param(path, id=path.stem, marks=[pytest.mark.slow] if path.stem in LONG else []) for path in SCRIPTS]
)
def test_example_runs_and_comes_to_its_conclusion(script, tmp_path, monkeypatch, capsys):
    """As a user would run it, but compiled for a short life (see conftest) and, if that makes no difference, in this process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    told = _told_apart(script) if "jax.config" in script.read_text() else _told_here(script, capsys)
    assert script.stem in VERDICTS, "a new example needs its conclusion here"
    assert re.search(VERDICTS[script.stem], told), told
    pictures = re.findall(r"Writes (\w+\.png)", script.read_text())
    assert sorted(path.name for path in tmp_path.glob("*.png")) == pictures


def _told_here(script, capsys):
    with plt.rc_context({"backend": "Agg"}):
        runpy.run_path(str(script), run_name="__main__")
        plt.close("all")
    return capsys.readouterr().out


def _told_apart(script):
    """In a process of its own, since it settles something before JAX starts."""
    run = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=600, env=os.environ)
    assert run.returncode == 0, run.stderr
    assert "Warning" not in run.stderr
    return run.stdout


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_example_is_shown_on_a_page(script):
    shown = re.compile(rf"literalinclude}} (\.\./)+examples/{script.name}\n")
    assert any(shown.search(text) for text in PAGES.values())


@pytest.mark.parametrize("module", [fg, fg.kernels, fg.likelihoods, fg.priors, fg.plots, fg.datasets], ids=lambda m: m.__name__)
def test_every_public_name_is_in_the_reference(module):
    reference = "\n".join(text for path, text in PAGES.items() if path.parent.name == "api")
    whole = re.findall(r"automodule:: (\S+)\n +:members:\n", reference)
    modules = ("datasets", "kernels", "likelihoods", "plots", "priors")
    if module.__name__ not in whole:
        names = [name for name in _public(module) if name not in modules]
        assert names
        assert [name for name in names if not re.search(rf"(::|members:.*|,) (\w+\.)*{name}\b", reference)] == []


def test_every_command_is_in_the_reference():
    names = [command.callback.__name__ for command in app.registered_commands]
    page = PAGES[ROOT / "docs" / "api" / "command-line.md"]
    assert [name for name in names if f"help/{name}.txt" not in page] == []


def _public(module):
    own = (name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__)
    return getattr(module, "__all__", [name for name in own if not name.startswith("_") and name[0].isupper()])
