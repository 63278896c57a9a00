"""The report as a reader gets it: one page, whole, true to the draws, and in need of nothing else."""

import base64
import re
import shutil
import subprocess
from html.parser import HTMLParser

import matplotlib.image
import numpy as np
import pytest
from matplotlib.figure import Figure

import freegp as fg
from freegp import plots
from freegp.report import Scale, Units, figures, write_report
from freegp.report.page import pictured
from freegp.report.words import estimates, kernel_in_words, model_in_words, sparsity_in_words
from freegp.sampling.run_directory import RunError
from freegp.sparsity import Sparsity
from test_plots import CLASSES, COUNTS, LABELS, LINE, PLANE, made_posterior

VOID = {"meta", "img", "br", "link", "hr", "input"}
CHROMIUM = shutil.which("chromium")


class Reader(HTMLParser):
    """Text, tags and addresses of a page; fails where tags do not nest."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.addresses, self.text = [], [], [], ""
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href", "srcset", "data", "action")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += "" if self.open[-1:] == ["style"] else data


def read(post, tmp_path, **kwargs):
    return Reader(write_report(post, tmp_path / "page.html", **kwargs).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished run on disk, and its posterior."""
    folder = tmp_path_factory.mktemp("report") / "run"
    model = fg.SparseGP(
        fg.kernels.RBF(), fg.likelihoods.Poisson(), inducing=LINE[::6], priors={"kernel.lengthscales": fg.priors.Gamma(2.0, 2.0)}
    )
    fit = fg.fit_gaussian(model, LINE, COUNTS, fg.NaturalGradient(max_steps=3), train_inducing=False)
    settings = {"num_samples": 60, "num_warmup": 40, "num_chains": 2, "progress": False}
    return folder, fg.sample(model, LINE, COUNTS, fit=fit, run_dir=folder, **settings)


@pytest.fixture(scope="module")
def written(run, tmp_path_factory):
    return write_report(run[1], tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="module")
def labels():
    return made_posterior(fg.likelihoods.Bernoulli(), PLANE, LABELS, [1.0, 2.0])


def test_the_page_says_what_the_draws_say(run, written):
    post, page = run[1], Reader(written.read_text(encoding="utf-8"))
    found = post.diagnostics
    assert found.verdict[1:] in page.text
    assert "counts (Poisson)" in page.text
    assert "30 rows with 1 input column" in page.text
    assert "2 chains of 60 draws" in page.text
    low, median, high = np.quantile(post.draws["kernel.lengthscales"], (0.05, 0.5, 0.95))
    assert f"lengthscale: {median:.3g}, 90 % between {low:.3g} and {high:.3g}" in page.text
    assert "prior Gamma(2, 2)" in page.text
    assert sparsity_in_words(found.sparsity) in page.text
    assert f"{found.r_hat:.3f}" in page.text
    for heading in ("The function", "Parameters", "What sparsity costs", "Chains", "Diagnostics"):
        assert heading in page.text
    assert "Calibration" not in page.text


def test_a_table_in_its_own_units(run, tmp_path):
    units = Units((Scale("depth", 50.0, 10.0),), Scale("mean of cases a unit of people"), Scale("log"), rate=2.0, note="in sd")
    page = read(run[1], tmp_path, units=units)
    assert "Mean of cases a unit of people: median and 90 % band." in page.text
    assert "In sd." in page.text


def test_ticks_are_at_round_values_of_the_quantity():
    axes = Figure().subplots()
    axes.plot([-1.7, 1.7], [0.0, 1.0])
    Scale("depth", 53.1, 9.7).label(axes.xaxis)
    natural = [float(label.get_text()) for label in axes.get_xticklabels()]
    np.testing.assert_allclose(53.1 + 9.7 * axes.get_xticks(), natural, atol=1e-3)
    assert {40.0, 50.0, 60.0} <= set(natural)
    assert axes.get_xlabel() == "depth"


def test_the_page_needs_nothing_else(written):
    text = written.read_text(encoding="utf-8")
    page = Reader(text)
    assert page.tags.count("img") == 4
    assert all(address.startswith("data:image/png;base64,") for address in page.addresses)
    for address in page.addresses:
        assert base64.b64decode(address.partition(",")[2], validate=True).startswith(b"\x89PNG\r\n")
    assert not {"script", "link", "iframe", "object"} & set(page.tags)
    assert not re.search(r"https?://|url\(|@import", text)
    assert text.startswith("<!DOCTYPE html>")
    assert "width=device-width" in text


def test_from_a_file_and_from_a_run(run, written, tmp_path):
    folder, post = run
    post.save(tmp_path / "post.npz")
    text = written.read_text(encoding="utf-8")
    assert write_report(tmp_path / "post.npz", tmp_path / "a.html").read_text(encoding="utf-8") == text
    again = write_report(str(folder), tmp_path / "new" / "folder")
    assert again == tmp_path / "new" / "folder" / "report.html"
    assert again.read_text(encoding="utf-8") == text


def test_a_run_that_has_not_finished_is_not_gone_on_with(run, tmp_path):
    copy = shutil.copytree(run[0], tmp_path / "run")
    chunks = sorted(copy.glob("chunk-*.npz"))
    chunks[-1].unlink()
    with pytest.raises(ValueError, match=r"has \d+ of 60 draws a chain; finish it first, with fg.resume"):
        write_report(copy, tmp_path)
    assert sorted(copy.glob("chunk-*.npz")) == chunks[:-1]
    for chunk in chunks[:-1]:
        chunk.unlink()
    with pytest.raises(ValueError, match="holds no draws yet"):
        write_report(copy, tmp_path)


def test_what_cannot_be_reported(run, tmp_path):
    with pytest.raises(TypeError, match="not of a list"):
        write_report([1.0], tmp_path)
    with pytest.raises(FileNotFoundError, match="there is no file"):
        write_report(tmp_path / "nothing.npz", tmp_path)
    with pytest.raises(RunError):
        write_report(tmp_path, tmp_path / "page.html")
    fg.saving.save(run[1].model, tmp_path / "model.npz")
    with pytest.raises(ValueError, match="holds a SparseGP, but a report needs draws"):
        write_report(tmp_path / "model.npz", tmp_path)
    assert not (tmp_path / "report.html").exists()


def test_text_is_text_and_not_markup(run, tmp_path):
    title = '<script>alert("1")</script> & Co'
    page = read(run[1], tmp_path, title=title)
    assert "script" not in page.tags
    assert page.text.count(title) == 2  # the heading and the title


@pytest.mark.slow
def test_calibration_is_of_data_left_out(labels, tmp_path, monkeypatch):
    given = []
    real = plots.calibration_curve
    monkeypatch.setattr(plots, "calibration_curve", lambda *args, **kwargs: given.append(args) or real(*args, **kwargs))
    page = read(labels, tmp_path)
    left_out = labels.loo()
    predicted, seen = given[0]
    np.testing.assert_array_equal(seen, LABELS)
    np.testing.assert_allclose(np.log(np.where(LABELS == 1, predicted, 1.0 - predicted)), left_out.pointwise)
    assert left_out.verdict in page.text
    assert "Map of class probabilities" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "lengthscale 1: " in page.text


def test_several_classes_are_judged_by_the_likeliest(monkeypatch):
    post = made_posterior(fg.likelihoods.RobustMax(3), PLANE, CLASSES, draws=5, fixed=["kernel"])
    given = []
    monkeypatch.setattr(plots, "calibration_curve", lambda *args, **kwargs: given.append(args))
    assert "data that the model was fitted to" in figures.calibration_picture(post).caption
    every = np.asarray(post.predict_y(PLANE)[0])
    np.testing.assert_allclose(given[0][0], every.max(axis=1))
    np.testing.assert_array_equal(given[0][1], every.argmax(axis=1) == CLASSES)


@pytest.mark.slow
def test_inputs_of_three_columns_and_nothing_inferred(tmp_path):
    X = np.random.default_rng(3).normal(size=(30, 3))
    page = read(made_posterior(fg.likelihoods.Poisson(), X, COUNTS, fixed=["kernel"]), tmp_path)
    assert "The function" not in page.text
    assert "Every parameter was held at its value" in page.text
    assert "kernel.variance = 1.5" in page.text
    assert "img" not in page.tags


def test_a_map_where_inputs_have_two_columns():
    picture = figures.fit_picture(made_posterior(fg.likelihoods.Poisson(), PLANE, COUNTS, draws=5), None)
    assert picture.alternative.startswith("Maps of the mean and standard deviation")
    assert "averaged over 10 draws" in picture.caption


def test_counts_with_an_exposure_each_are_drawn_for_one(monkeypatch):
    given = {}
    monkeypatch.setattr(plots, "latent_1d", lambda *args, **kwargs: given.update(kwargs))
    picture = figures.fit_picture(made_posterior(fg.likelihoods.Poisson(np.full(30, 2.0)), LINE, COUNTS), None)
    assert given["exposure"] == 1.0
    assert "for an exposure of 1" in picture.caption


@pytest.mark.slow
def test_many_parameters_have_the_pictures_of_the_slowest():
    X = np.random.default_rng(3).normal(size=(30, 14))
    post = made_posterior(fg.likelihoods.Poisson(), X, COUNTS, np.full(14, 3.0))
    names, note = pictured(post, estimates(post))
    assert "the 12 parameters of 15" in note
    assert set(names) == set(post.summary()["ess_bulk"].nsmallest(12).index)
    traces, ranks = figures.chain_pictures(post, names)
    assert traces.alternative == f"Traces of {', '.join(names)}"
    assert ranks.address != traces.address


def test_models_in_words():
    kernel = (fg.kernels.RBF() + fg.kernels.White()) * fg.kernels.Linear()
    assert kernel_in_words(kernel) == "(squared exponential, plus white noise) times linear"
    post = made_posterior(fg.likelihoods.Softmax(3), PLANE, CLASSES)
    assert "labels of several classes (softmax): 3 latent functions" in model_in_words(post)
    noisy = made_posterior(fg.likelihoods.Gaussian(0.5), LINE, COUNTS)
    assert [each.words for each in estimates(noisy)] == ["variance of kernel", "lengthscale", "variance of likelihood"]


@pytest.mark.parametrize(
    ("sparsity", "expected"),
    [
        (Sparsity(0.21, 0.1, 30, None), "about 0.21 nats .* 0.1 of its standard deviations. That is little"),
        (Sparsity(3.2, 0.0, 30, 60), "about 3.2 nats of the log likelihood .* process. That is too much: about 60 points"),
        (Sparsity(9.0, 0.5, 1, None), r"With 1 inducing point, .* \(Z = X\)"),
        (None, "not measured"),
    ],
    ids=["little", "much", "all", "unknown"],
)
def test_what_sparsity_costs_in_words(sparsity, expected):
    assert re.search(expected, sparsity_in_words(sparsity))


def browse(page, tmp_path, *options):
    """What Chromium makes of a page: its document, and what it wrote on the console."""
    settings = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr"]
    settings += [f"--user-data-dir={tmp_path / 'browser'}", *options, page.as_uri()]
    done = subprocess.run([CHROMIUM, *settings], capture_output=True, text=True, timeout=120, check=True)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium to look at the page with")
def test_in_a_browser(written, run, tmp_path):
    document, console = browse(written, tmp_path, "--dump-dom")
    assert console == []
    assert run[1].diagnostics.verdict[1:] in Reader(document).text
    shot = tmp_path / "shot.png"
    browse(written, tmp_path, f"--screenshot={shot}", "--window-size=800,1200")
    pixels = (255 * matplotlib.image.imread(shot)[..., :3]).round().astype(int)
    backgrounds = np.array([[228, 244, 238], [253, 243, 220], [251, 233, 223]])  # of the verdict: good, mixed, bad
    share = max(np.all(pixels == colour, axis=2).mean() for colour in backgrounds)
    assert 0.03 < share < 0.5


@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium to look at the page with")
def test_a_page_that_asked_for_more_would_be_noticed(written, tmp_path):
    page = tmp_path / "page.html"
    text = written.read_text(encoding="utf-8")
    page.write_text(text.replace("<h2>", '<img src="http://localhost/x.png" alt=""><h2>', 1), encoding="utf-8")
    assert "Content Security Policy" in "".join(browse(page, tmp_path, "--dump-dom")[1])
