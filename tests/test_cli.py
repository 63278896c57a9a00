import dataclasses
import io
import json
import shutil
import signal

import numpy as np
import pandas as pd
import pytest
import typer
from matplotlib.image import imread
from typer.testing import CliRunner

import freegp as fg
from freegp.approximation import NaturalGradient
from freegp.cli import app, words
from freegp.cli.problem import Question, problem_of
from freegp.datasets import binned_counts, load_coal
from freegp.sampling import runner
from freegp.tables import read_table, write_table

NUM_SAMPLES = 60  # one chunk of 50 draws and one of 10


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def plain(result):
    """All that was printed, as one line."""
    return " ".join(result.output.split())


def one_sentence(result, *parts):
    """The command failed on bad input, with one line on standard error and nothing else there."""
    assert result.exit_code == 1, result.output
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("error: ")
    for part in parts:
        assert part in lines[0]


def trees():
    rng = np.random.default_rng(1)
    height, slope = rng.normal(50.0, 10.0, 30), rng.uniform(0.0, 1.0, 30)
    alive = np.where(height + rng.normal(0.0, 5.0, 30) > 50.0, "yes", "no")
    return pd.DataFrame({"height": height, "slope": slope, "site": "[red]", "year": 2020, "alive": alive})


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "trees.csv"
    trees().to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def fitted(table, tmp_path_factory):
    """One run for all, with part of its options from a file."""
    folder = tmp_path_factory.mktemp("fitted")
    config = folder / "options.toml"
    config.write_text(f'target = "alive"\ninducing = 5\nsamples = {NUM_SAMPLES}\nwarmup = 7\nchains = 2\n')
    result = invoke("fit", table, "--config", config, "--warmup", 30, "--out", folder / "run")
    return folder / "run", result


@pytest.fixture
def copy(fitted, tmp_path):
    shutil.copytree(fitted[0], tmp_path / "run")
    return tmp_path / "run"


def draws_in(run, num_chunks=3):
    return runner.RunDirectory.open(run, read_only=True).read_draws(num_chunks)


def test_fit_says_what_it_chose_and_that_so_few_draws_do_not_suffice(fitted):
    run, result = fitted
    assert result.exit_code == 2, result.output
    assert "likelihood: bernoulli, because 'alive' names 2 classes" in plain(result)
    assert "left out: site (the same in every row); year (the same in every row)" in plain(result)
    assert "(no, yes) from height, slope" in plain(result)
    assert "not converged" in plain(result)
    plan = runner.RunDirectory.open(run, read_only=True).manifest
    assert (plan.num_samples, plan.num_chains, plan.fit.model.num_inducing) == (NUM_SAMPLES, 2, 5)
    assert plan.num_warmup == 30, "the command line wins over the file"


def test_the_run_is_what_sample_draws(fitted):
    data = trees()
    X = data[["height", "slope"]].to_numpy()
    plan = runner.RunDirectory.open(fitted[0], read_only=True).manifest
    np.testing.assert_allclose(plan.X, (X - X.mean(axis=0)) / X.std(axis=0), rtol=1e-12)
    posterior = fg.sample(
        plan.fit.model,
        plan.X,
        (data["alive"] == "yes").to_numpy(float),
        fit=plan.fit,
        num_samples=NUM_SAMPLES,
        num_warmup=30,
        num_chains=2,
        progress=False,
    )
    np.testing.assert_array_equal(posterior.free, draws_in(fitted[0])["free"])


def test_predictions_are_those_of_the_posterior(fitted, table, tmp_path):
    new = trees().iloc[:4].assign(alive_p_no=7.0)
    new.to_csv(tmp_path / "new.csv", index=False)
    result = invoke("predict", fitted[0], tmp_path / "new.csv", "--out", tmp_path / "predictions.csv")
    assert result.exit_code == 0, result.output
    found = pd.read_csv(tmp_path / "predictions.csv")
    assert list(found.columns) == [*trees().columns, "alive_predicted", "alive_p_no", "alive_p_yes"]
    X = trees()[["height", "slope"]].to_numpy()
    expected = fg.resume(fitted[0], progress=False).predict_y((X[:4] - X.mean(axis=0)) / X.std(axis=0))[0]
    np.testing.assert_allclose(found["alive_p_yes"], expected, rtol=1e-6)
    np.testing.assert_allclose(found["alive_p_no"], 1.0 - expected, rtol=1e-6)
    assert found["alive_predicted"].tolist() == np.where(expected > 0.5, "yes", "no").tolist()
    np.testing.assert_array_equal(found["height"], new["height"])
    printed = invoke("predict", fitted[0], tmp_path / "new.csv")
    pd.testing.assert_frame_equal(pd.read_csv(io.StringIO(printed.stdout)), found)


def test_an_interrupted_run_goes_on_to_the_same_draws(fitted, copy, monkeypatch):
    for chunk in ("chunk-00001.npz", "chunk-00002.npz"):
        (copy / chunk).unlink()
    nothing = invoke("diagnose", copy)
    one_sentence(nothing, "no draws yet", "freegp resume")
    advance, calls = runner._advance, []

    def interrupted(*arguments):
        calls.append(None)
        if len(calls) == 2:
            raise KeyboardInterrupt
        advance(*arguments)

    monkeypatch.setattr(runner, "_advance", interrupted)
    stopped = invoke("resume", copy)
    assert stopped.exit_code == 130
    assert f"stopped after 50 of {NUM_SAMPLES} draws a chain; freegp resume {copy} goes on" in plain(stopped)
    assert stopped.stderr == ""
    monkeypatch.undo()
    looked_at = invoke("diagnose", copy)
    assert looked_at.exit_code == 2
    assert f"50 of {NUM_SAMPLES} draws a chain so far" in plain(looked_at)
    assert invoke("resume", copy).exit_code == 2
    for name, array in draws_in(fitted[0]).items():
        np.testing.assert_array_equal(array, draws_in(copy)[name], err_msg=name)


@pytest.fixture
def hears_interrupts():
    """Ctrl-C as in a terminal; a suite that was started in the background would ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("hears_interrupts")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_before_the_first_draws(number, copy, monkeypatch):
    for chunk in copy.glob("chunk-*.npz"):
        chunk.unlink()

    def interrupted(*_):
        signal.raise_signal(number)

    monkeypatch.setattr(runner, "_warmed_up", interrupted)
    result = invoke("resume", copy)
    assert result.exit_code == 130
    assert f"freegp resume {copy} takes the run up" in plain(result)


def test_an_interruption_of_the_approximation_keeps_nothing(table, tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(NaturalGradient, "run", interrupted)
    result = invoke("fit", table, "--target", "alive", "--inducing", 5, "--out", tmp_path / "run")
    assert result.exit_code == 130
    assert "run freegp fit again" in plain(result)
    assert list((tmp_path / "run").iterdir()) == []


def test_diagnose_shows_why(fitted):
    result = invoke("diagnose", fitted[0])
    assert result.exit_code == 2, result.output
    for words_in_it in ("Parameters", "kernel.lengthscales[1]", "[1] slope, sd", "Mixing", "E-BFMI", "not converged: "):
        assert words_in_it in plain(result)


def test_a_good_verdict_ends_well_and_a_bad_one_with_2(fitted, capsys):
    found = fg.resume(fitted[0], progress=False).diagnostics
    words.judge(dataclasses.replace(found, converged=True, verdict="converged: [0] of it", sparsity=None))
    assert capsys.readouterr().out == "converged: [0] of it\n"
    with pytest.raises(typer.Exit) as exit_of:
        words.judge(dataclasses.replace(found, converged=False))
    assert exit_of.value.exit_code == 2


def test_report_is_made_of_the_draws_there_are(copy, monkeypatch):
    (copy / "chunk-00002.npz").unlink()
    calls = []

    def write_report(posterior, out, title, units):
        calls.append((posterior, out, title, units))
        return out

    monkeypatch.setattr("freegp.report.write_report", write_report)
    result = invoke("report", copy)
    assert result.exit_code == 0, result.output
    [(posterior, out, title, units)] = calls
    assert title.endswith("run: alive")
    assert f"report: {out}" in result.output
    assert out == copy / "report.html"
    assert [(column.name, column.mean) for column in units.inputs] == [
        (name, trees()[name].mean()) for name in ("height", "slope")
    ]
    assert units.target.name == "probability of yes"
    np.testing.assert_array_equal(posterior.free, draws_in(copy, 2)["free"])


def sine(num_rows):
    x = np.linspace(0.0, 6.0, num_rows)
    return pd.DataFrame({"x": x, "y": 100.0 + 5.0 * np.sin(x) + 0.5 * np.cos(37.0 * x)})


@pytest.mark.slow
def test_gaussian_regression_agrees_with_the_estimator(tmp_path):
    data = sine(20)
    data.to_csv(tmp_path / "sine.csv", index=False)
    run = tmp_path / "run"
    result = invoke("fit", tmp_path / "sine.csv", "--target", "y", "--method", "gaussian", "--out", run)
    assert result.exit_code == 0, result.output
    assert "likelihood: gaussian" in plain(result)
    printed = invoke("predict", run, tmp_path / "sine.csv")
    found = pd.read_csv(io.StringIO(printed.stdout))
    estimator = fg.GPRegressor(method="gaussian").fit(data[["x"]].to_numpy(), data["y"])
    mean, deviation = estimator.predict(data[["x"]].to_numpy(), return_std=True)
    np.testing.assert_allclose(found["y_mean"], mean, rtol=1e-6)
    np.testing.assert_allclose(found["y_sd"], deviation, rtol=1e-5)
    quantiles = estimator.predict_quantiles(data[["x"]].to_numpy())
    np.testing.assert_allclose(found[["y_5%", "y_50%", "y_95%"]].to_numpy().T, quantiles, rtol=1e-6)
    assert invoke("diagnose", run).exit_code == 0
    one_sentence(invoke("resume", run), "nothing to resume")
    one_sentence(invoke("fit", tmp_path / "sine.csv", "--target", "y", "--out", run), "is not empty", "--out")


def test_exposures_are_in_units_of_the_average_rate(tmp_path):
    data = pd.DataFrame({"x": [0.0, 1.0, 2.0], "area": [1.0, 2.0, 1.0], "n": [3, 9, 0]})
    problem = problem_of(data, Question("n", exposure="area"), tmp_path / "data.csv", print)
    assert problem.description.inputs == ("x",)
    np.testing.assert_allclose(problem.exposure, [3.0, 6.0, 3.0])  # 12 counts in 4 units of area
    np.testing.assert_allclose(problem.description.exposures(data.assign(area=5.0), tmp_path), [15.0, 15.0, 15.0])
    without = problem_of(data, Question("n"), tmp_path / "data.csv", print)
    assert without.exposure == pytest.approx(4.0)
    assert without.description.inputs == ("x", "area")


@pytest.mark.slow
def test_counts_with_exposures_agree_with_the_estimator(tmp_path):
    rng = np.random.default_rng(0)
    x, area = np.linspace(0.0, 3.0, 20), rng.uniform(0.5, 2.0, 20)
    data = pd.DataFrame({"x": x, "area": area, "n": rng.poisson(area * 4.0 * np.exp(np.sin(x)))})
    data.to_csv(tmp_path / "counts.csv", index=False)
    options = ("--target", "n", "--exposure", "area", "--method", "gaussian", "--out", tmp_path / "run")
    assert invoke("fit", tmp_path / "counts.csv", *options).exit_code == 0
    new = data.assign(area=3.0)
    new.to_csv(tmp_path / "new.csv", index=False)
    found = pd.read_csv(io.StringIO(invoke("predict", tmp_path / "run", tmp_path / "new.csv").stdout))
    estimator = fg.GPCountRegressor(method="gaussian").fit(x[:, None], data["n"], exposure=area)
    np.testing.assert_allclose(found["n_mean"], estimator.predict(x[:, None], exposure=3.0), rtol=1e-6)
    np.testing.assert_array_equal(found["n_95%"], estimator.predict_quantiles(x[:, None], exposure=3.0)[2])
    data.drop(columns="area").to_csv(tmp_path / "new.csv", index=False)
    one_sentence(invoke("predict", tmp_path / "run", tmp_path / "new.csv"), "no column 'area', the exposure")


@pytest.mark.parametrize(
    ("text", "options", "parts"),
    [
        ("", (), ("is empty",)),
        ("x,y\n", (), ("no row under its header",)),
        ("x,y\n1,2\n3,4,5,6\n", (), ("cannot be read as a table",)),
        ("x;y\n1;2\n2;3\n", ("--inputs", "z"), ("no column 'z'; it has x, y",)),
        ("x,x,y\n1,2,3\n", (), ("two columns named 'x'",)),
        ("x,y\na,1\na,2\nb,3\nb,4\n,5\n", (), ("column 'x'", "is missing in data row 5")),
        ("x,y\n1,a\n2,b\n3,a\n4,b\n", ("--likelihood", "poisson"), ("'y' holds text", "--likelihood bernoulli")),
        ("x,y\n1,2\n,3\n2,inf\n", (), ("column 'y'", "data row 3;")),
        ("x,y\n1,a\n,b\n2,a\n,b\n", (), ("column 'x'", "data rows 2, 4;")),
        ("x,y\n1,a\n2,\n3,b\n", (), ("'y' is missing in data row 2",)),
        ("x,y\n1,a\n2,a\n", (), ("'y' is 'a' in every row",)),
        ("x,y\n1,0\n2,0\n", (), ("'y' is '0' in every row",)),
        ("x,y\n1,a\n2,b\n3,c\n4,d\n", (), ("4 different values in 4 rows", "--likelihood")),
        ("x,y\n1,a\n2,b\n3,c\n1,a\n2,b\n3,c\n", ("--likelihood", "bernoulli"), ("3 classes", "softmax")),
        ("x,y\n1,0.5\n2,2\n", ("--likelihood", "poisson"), ("'y' is 0.5 in data row 1",)),
        ("x,y\n1,1\n2,a\n", ("--likelihood", "gaussian"), ("column 'y'", "'a' in data row 2")),
        ("x,y\nu,1\nv,2\n", ("--inputs", "x"), ("column 'x'", "not numeric", "'u' in data rows 1, 2")),
        ("x,y\nu,1\nv,2\n", (), ("is left to learn from",)),
        ("x,y\n1,3\n1,2\n", (), ("is left to learn from",)),
        ("x,y\n1,3\n2,2\n", ("--inputs", "x,y"), ("'y' is the target",)),
        ("x,y\n1,3\n2,2\n", ("--inputs", "x,x"), ("'x' twice",)),
        ("x,y,t\n1,3,1\n2,2,0\n", ("--exposure", "t"), ("'t' is 0 in data row 2", "positive")),
        ("x,y,t\n1,3,1\n2,2,1\n", ("--exposure", "t", "--likelihood", "gaussian"), ("--exposure is for counts",)),
        ("x,y\n1,3\n2,2\n", ("--inducing", "many"), ("--inducing must be",)),
    ],
)
def test_bad_tables_are_one_sentence(tmp_path, text, options, parts):
    (tmp_path / "data.csv").write_text(text)
    one_sentence(invoke("fit", tmp_path / "data.csv", "--target", "y", "--out", tmp_path / "run", *options), *parts)
    assert not (tmp_path / "run").exists()


def test_bad_files_are_one_sentence(tmp_path):
    options = ("--target", "y", "--out", tmp_path / "run")
    one_sentence(invoke("fit", tmp_path / "nothing.csv", *options), "there is no file")
    (tmp_path / "data.xlsx").write_bytes(b"PK")
    one_sentence(invoke("fit", tmp_path / "data.xlsx", *options), "not a .csv, .tsv or .parquet file")
    (tmp_path / "data.csv").write_bytes(b"x,y\n1,\xff\xfe\n")
    one_sentence(invoke("fit", tmp_path / "data.csv", *options), "UTF-8")
    (tmp_path / "data.csv").write_text("x,y\n1,2\n2,3\n")
    (tmp_path / "run").write_text("")
    one_sentence(invoke("fit", tmp_path / "data.csv", *options), "is a file")


def test_nothing_is_overwritten_unless_it_is_asked_for(fitted, table, tmp_path):
    shutil.copy(table, tmp_path / "new.csv")
    before = (tmp_path / "new.csv").read_text()
    one_sentence(
        invoke("predict", fitted[0], tmp_path / "new.csv", "--out", tmp_path / "new.csv"), "exists already", "--overwrite"
    )
    assert (tmp_path / "new.csv").read_text() == before
    one_sentence(invoke("predict", fitted[0], table, "--out", tmp_path / "p.xlsx"), "does not end in .csv")
    result = invoke("predict", fitted[0], table, "--out", tmp_path / "new.csv", "--overwrite")
    assert result.exit_code == 0, result.output
    assert "should not be trusted: not converged" in result.stderr
    assert "alive_predicted" in (tmp_path / "new.csv").read_text()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a;b c ;k\n1;2,5;u\n-3;4;v\n", {"a": [1, -3], "b c": [2.5, 4.0], "k": ["u", "v"]}),
        ("a;k\n1.5;u,v\n2;w\n", {"a": [1.5, 2.0], "k": ["u,v", "w"]}),
        ('\ufeffa,"b;c;d"\n1,2\n', {"a": [1], "b;c;d": [2]}),
    ],
)
def test_spreadsheets_of_other_countries(tmp_path, text, expected):
    path = tmp_path / "data.csv"
    path.write_text(text, encoding="utf-8")
    found = read_table(path)
    assert {name: column.tolist() for name, column in found.items()} == expected


def test_columns_of_text_are_categories(tmp_path):
    said = []
    data = pd.DataFrame(
        {
            "sex": ["f", "m", "f", "m", "f", "f"],
            "site": ["n", "s", "e", "n", "s", "e"],
            "x": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
            "who": list("abcdef"),
            "y": [0.5, 1.5, 2.0, 0.0, 1.0, 3.0],
        }
    )
    problem = problem_of(data, Question("y"), tmp_path / "data.csv", said.append)
    described = problem.description
    assert described.inputs == ("sex", "site", "x")
    assert described.columns == ("sex=m", "site=e", "site=n", "site=s", "x")
    assert any("left out: who (6 different texts)" in line for line in said)
    natural = problem.X * np.array(described.scales) + np.array(described.means)
    np.testing.assert_allclose(natural[1], [1.0, 0.0, 0.0, 1.0, 2.0], atol=1e-12)
    assert "[0] sex=m, sd" in described.units()
    assert "the mean of y, 1.333, was subtracted" in described.units()
    shuffled = data.iloc[[1, 0]][["x", "site", "sex"]]
    np.testing.assert_array_equal(described.standardised(shuffled, tmp_path / "new.csv"), problem.X[[1, 0]])
    with pytest.raises(
        ValueError, match=r"'site' of .*new.csv is 'w' in data row 2, which the fit has not seen; it knows e, n, s"
    ):
        described.standardised(shuffled.assign(site=["n", "w"]), tmp_path / "new.csv")


def test_version():
    assert invoke("--version").output.startswith("freegp 0.")


def test_parquet_is_fitted_and_predicted_both_ways_as_csv_is(fitted, tmp_path):
    """A target and a column of categories; the run is the one fitted to the same table as CSV."""
    data = trees().assign(alive=pd.Categorical(trees()["alive"]), site=pd.Categorical(trees()["site"]))
    data.to_parquet(tmp_path / "trees.parquet")
    options = ("--target", "alive", "--inducing", 5, "--samples", NUM_SAMPLES, "--warmup", 30, "--chains", 2)
    result = invoke("fit", tmp_path / "trees.parquet", *options, "--out", tmp_path / "run")
    assert result.exit_code in (0, 2), result.output
    assert "left out: site (the same in every row)" in plain(result)
    np.testing.assert_array_equal(draws_in(tmp_path / "run")["free"], draws_in(fitted[0])["free"])
    found = invoke("predict", tmp_path / "run", tmp_path / "trees.parquet", "--out", tmp_path / "predictions.parquet")
    assert found.exit_code == 0, found.output
    again = pd.read_parquet(tmp_path / "predictions.parquet")
    assert isinstance(again["alive"].dtype, pd.CategoricalDtype)
    trees().to_csv(tmp_path / "trees.csv", index=False)
    printed = invoke("predict", fitted[0], tmp_path / "trees.csv")
    pd.testing.assert_frame_equal(
        again.astype({"alive": str, "site": str}), pd.read_csv(io.StringIO(printed.stdout)), check_dtype=False
    )


class TestParquet:
    def test_a_table_comes_back_as_it_was(self, tmp_path):
        data = sine(5).assign(site=pd.Categorical(["a", "b", "a", "b", "a"]), gap=[1.0, np.nan, 2.0, 3.0, 4.0])
        write_table(data, tmp_path / "sine.parquet")
        pd.testing.assert_frame_equal(read_table(tmp_path / "sine.parquet"), data)

    def test_a_damaged_file_is_one_sentence(self, tmp_path):
        (tmp_path / "data.parquet").write_bytes(b"PAR1 and then nothing")
        options = ("--target", "y", "--out", tmp_path / "run")
        one_sentence(invoke("fit", tmp_path / "data.parquet", *options), "cannot be read as a Parquet file", "save it again")

    def test_missing_values_are_one_sentence(self, tmp_path):
        data = trees().assign(site=pd.Categorical(trees()["site"]), height=trees()["height"].mask(trees().index == 3))
        data.to_parquet(tmp_path / "trees.parquet")
        options = ("--target", "alive", "--out", tmp_path / "run")
        one_sentence(invoke("fit", tmp_path / "trees.parquet", *options), "'height'", "missing or infinite in data row 4")
        data = trees().assign(alive=pd.Categorical(trees()["alive"].mask(trees().index == 6)))
        data.to_parquet(tmp_path / "trees.parquet")
        one_sentence(invoke("fit", tmp_path / "trees.parquet", *options), "'alive' is missing in data row 7")

    def test_integers_with_gaps_are_numbers_with_gaps(self, tmp_path):
        data = sine(6).assign(count=pd.array([1, 2, None, 4, 5, 6], dtype="Int64"))
        data.to_parquet(tmp_path / "sine.parquet")
        options = ("--target", "count", "--out", tmp_path / "run")
        one_sentence(invoke("fit", tmp_path / "sine.parquet", *options), "'count'", "missing or infinite in data row 3")


@pytest.mark.parametrize(
    ("target", "likelihood", "labels"),
    [
        ([0, 1, 1, 0], "bernoulli", ("0", "1")),
        ([True, False, True, True], "bernoulli", ("False", "True")),
        (["b", "a", "b", "a"], "bernoulli", ("a", "b")),
        (["b", "a", "c", "a", "b", "c"], "softmax", ("a", "b", "c")),
        ([0, 3, 2, 10], "poisson", ()),
        ([0, 3, 2, -1], "gaussian", ()),
        ([0.5, 3, 2, 1], "gaussian", ()),
    ],
)
def test_likelihoods_are_guessed_from_the_target(tmp_path, target, likelihood, labels):
    said = []
    data = pd.DataFrame({"x": np.arange(len(target)), "y": target})
    problem = problem_of(data, Question("y"), tmp_path / "data.csv", said.append)
    assert problem.description.likelihood == likelihood
    assert problem.description.classes == labels
    assert said[0].startswith(f"likelihood: {likelihood}, because")


def test_numeric_classes_are_ordered_as_numbers(tmp_path):
    data = pd.DataFrame({"x": np.arange(6), "y": [10.0, 2.0, 2.0, 10.0, 3.0, 3.0]})
    problem = problem_of(data, Question("y", likelihood="softmax"), tmp_path / "data.csv", print)
    assert problem.description.classes == ("2", "3", "10")
    np.testing.assert_array_equal(problem.y, [2, 0, 0, 2, 1, 1])


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ('colour = "red"', "sets colour"),
        ("samples = [1, 2]", "samples in"),
        ("samples = true", "samples in"),
        ("samples = ", "is not TOML"),
        ('target = "y"\nsamples = 0', "--samples"),
        ('target = "y"\nlikelihood = "cauchy"', "--likelihood"),
        ('target = "z"', "no column 'z'"),
        ('target = "y"\ninputs = ["x", "w"]', "no column 'w'"),
    ],
)
def test_bad_options_in_a_file_are_bad_input(tmp_path, text, part):
    sine(5).to_csv(tmp_path / "data.csv", index=False)
    (tmp_path / "options.toml").write_text(text)
    result = invoke("fit", tmp_path / "data.csv", "--config", tmp_path / "options.toml", "--out", tmp_path / "run")
    assert result.exit_code == 1, result.output
    assert part in plain(result).replace("│ ", "").replace(" │", "")
    assert not (tmp_path / "run").exists()


def changed(**fields):
    def change(text):
        return json.dumps(json.loads(text) | fields)

    return change


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda text: text[:40], "is damaged"),
        (lambda text: "[" * 100_000, "is damaged"),
        (lambda text: "3", "format 2"),
        (changed(format=3), "format 2"),
        (changed(extra=1), "extra is missing or unknown"),
        (changed(inputs="height"), "inputs is not a list"),
        (changed(inputs=["height", 3]), "inputs is not text"),
        (changed(inputs=["height"]), "inputs and levels do not go together"),
        (changed(levels=[[], ["one"]]), "inputs and levels do not go together"),
        (changed(levels=[[], ["a", "b", "c"]]), "not equally many"),
        (changed(levels=[[], ["a", 3]]), "levels is not text"),
        (changed(scales=[1.0, 0.0]), "scales is not a number"),
        (changed(means=[True, 0.0]), "means is not a number"),
        (changed(likelihood="cauchy"), "no likelihood 'cauchy'"),
        (changed(classes=[]), "classes do not go"),
        (changed(likelihood="softmax", classes=["no", "yes"]), "describes another run"),
        (changed(inputs=["height"], levels=[[]], means=[0.0], scales=[1.0]), "describes another run"),
    ],
)
def test_a_damaged_description_is_one_sentence(copy, table, change, part):
    path = copy / "data.json"
    path.write_text(change(path.read_text()))
    one_sentence(invoke("predict", copy, table), part, "data.json")


def test_damaged_runs(copy, table):
    (copy / "chunk-00002.npz").write_bytes(b"damaged")
    result = invoke("predict", copy, table, "--out", copy / "predictions.csv")
    assert result.exit_code == 0, result.output
    assert result.stderr.startswith("warning: ")
    assert "chunk-00002.npz" in result.stderr
    (copy / "data.json").unlink()
    assert "has no data.json" in invoke("predict", copy, table).stderr
    (copy / "manifest.npz").write_bytes(b"damaged")
    one_sentence(invoke("diagnose", copy), "manifest.npz", "damaged")
    one_sentence(invoke("diagnose", copy.parent), "is not a run")


def test_new_tables_must_have_the_inputs(fitted, tmp_path):
    trees().drop(columns="slope").to_csv(tmp_path / "new.csv", index=False)
    one_sentence(invoke("predict", fitted[0], tmp_path / "new.csv"), "no column 'slope'")
    trees().assign(slope=np.nan).to_csv(tmp_path / "new.csv", index=False)
    one_sentence(invoke("predict", fitted[0], tmp_path / "new.csv"), "rows 1, 2, 3, 4, 5 and 25 more")
    trees().to_csv(tmp_path / "new.csv", index=False)
    one_sentence(invoke("predict", fitted[0], tmp_path / "new.csv", "--out", tmp_path / "no" / "file.csv"), "no")


@pytest.mark.parametrize("arguments", [["fit"], ["nothing"], ["--nothing"], ["fit", "x.csv", "--samples", "many"]])
def test_wrong_use_is_bad_input_and_not_a_bad_verdict(arguments):
    result = invoke(*arguments)
    assert result.exit_code == 1
    assert "Usage: " in result.stderr


@pytest.mark.parametrize("command", ["fit", "predict", "diagnose", "report", "resume", "demo"])
def test_every_command_has_help(command):
    result = invoke(command, "--help")
    assert result.exit_code == 0
    assert f"freegp {command}" in result.output or f"{command} [OPTIONS]" in result.output


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


@pytest.mark.slow
def test_as_many_points_as_it_takes_and_a_sweep_of_them(tmp_path):
    noise = np.random.default_rng(0).normal(size=40)
    sine(40).assign(y=sine(40)["y"] + 2.0 * noise).to_csv(tmp_path / "sine.csv", index=False)
    options = ("--target", "y", "--likelihood", "gaussian")
    found = invoke(
        "fit", tmp_path / "sine.csv", *options, "--inducing", "auto", "--method", "gaussian", "--out", tmp_path / "run"
    )
    assert found.exit_code == 0, found.output
    assert "M = 30" in plain(found)
    assert "30 inducing points lose about" in plain(found)
    swept = invoke("sweep", tmp_path / "sine.csv", *options, "--sizes", "4, 8,16", "--out", tmp_path / "sweep")
    assert swept.exit_code == 0, swept.output
    table = pd.read_csv(tmp_path / "sweep" / "sweep.csv")
    assert table["M"].tolist() == [4, 8, 16]
    assert (np.diff(table["bound"]) > 0.0).all()
    assert imread(tmp_path / "sweep" / "sweep.png").shape[2] == 4
    assert "is enough" in plain(swept)
    bad = invoke("sweep", tmp_path / "sine.csv", *options, "--sizes", "4,many", "--out", tmp_path / "again")
    one_sentence(bad, "--sizes must be numbers of points", "'many'")
