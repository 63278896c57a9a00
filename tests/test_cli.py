import numpy as np
import pytest
from matplotlib.image import imread
from typer.testing import CliRunner

import freegp as fg
from freegp.cli import app
from freegp.datasets import binned_counts, load_coal


@pytest.mark.slow
def test_demo_prints_a_table_and_writes_a_picture(tmp_path):
    result = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "new" / "folder")])
    assert result.exit_code == 0, result.output
    assert "Explosions a year" in result.output
    assert "converged: R-hat at most" in " ".join(result.output.split())
    picture = imread(tmp_path / "new" / "folder" / "coal.png")
    assert picture.shape[0] > 300
    assert picture[..., :3].std() > 0.05, "the picture is not blank"
    posterior = fg.load(tmp_path / "new" / "folder" / "posterior.npz")
    assert posterior.diagnostics.r_hat < 1.01
    assert posterior.diagnostics.ess > 400
    assert posterior.draws["kernel.lengthscales"].mean() == pytest.approx(16.2, abs=1.0)


def test_demo_says_so_when_it_cannot_write(tmp_path):
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "file")])
    assert result.exit_code == 1
    assert "choose another folder with --out" in " ".join(result.output.split())


def test_resume_of_nothing_is_one_sentence(tmp_path):
    result = CliRunner().invoke(app, ["resume", str(tmp_path / "nothing")])
    assert result.exit_code == 1
    assert "there is no folder" in " ".join(result.output.split())


def test_help_without_arguments():
    result = CliRunner().invoke(app, [])
    assert "demo" in result.output


def test_coal_data():
    events = load_coal()
    assert events.shape == (191,)
    assert (np.diff(events) >= 0).all()
    X, counts, width = binned_counts(events, 1851.0, 1963.0, 100)
    assert X.shape == (100, 1)
    assert counts.sum() == 191
    assert width == pytest.approx(1.12)
