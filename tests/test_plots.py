"""Pictures are checked by what is drawn in them: lines, bars and meshes against the numbers they stand for."""

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.collections import QuadMesh
from scipy import stats

import freegp as fg
from freegp.diagnostics import psrf_curve
from freegp.parameters import free_parameters, to_free
from freegp.plots.beliefs import prior_density

matplotlib.use("Agg")

RNG = np.random.default_rng(0)
LINE = np.sort(RNG.uniform(0, 5, (30, 1)), axis=0)
PLANE = RNG.uniform(-2, 2, (30, 2))
COUNTS = RNG.poisson(np.exp(np.sin(LINE[:, 0]))).astype(float)
LABELS = (PLANE[:, 0] > 0).astype(float)
CLASSES = np.digitize(PLANE[:, 0], [-0.6, 0.6]).astype(float)
INPUTS = np.linspace(0.5, 4.5, 7)


def made_posterior(likelihood, X, y, lengthscales=1.0, draws=60, **settings):
    """Draws around a model's own values, with no sampler: two chains of draws with five inducing points."""
    rng = np.random.default_rng(1)
    model = fg.SparseGP(fg.kernels.RBF(1.5, lengthscales), likelihood, inducing=X[::6][:5], **settings).prepared(X)
    start = np.asarray(to_free(model))
    noted = {name: rng.normal(size=(2, draws)) for name in ("log_density", "energy")}
    noted |= {"acceptance": np.full((2, draws), 0.8), "num_gradients": np.full((2, draws), 3)}
    noted |= {name: np.zeros((2, draws), dtype=bool) for name in ("is_divergent", "is_nonfinite")}
    free = start + 0.2 * rng.normal(size=(2, draws, len(start)))
    whitened = np.array([2.0, -2.0, 2.0, -2.0, 2.0])[:, None] + rng.normal(size=(2, draws, 5, model.num_latents))
    return fg.Posterior(model, X, y, free, whitened, tuple(noted.items()), 1.0, 2.0)


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def counts():
    return made_posterior(
        fg.likelihoods.Poisson(), LINE, COUNTS, priors={"kernel.lengthscales": fg.priors.Gamma(2.0, 2.0)}, jitter=1e-5
    )


@pytest.fixture(scope="module")
def labels():
    return made_posterior(fg.likelihoods.Bernoulli(), PLANE, LABELS, [1.0, 2.0])


def line_of(axes, label):
    (line,) = (line for line in axes.lines if line.get_label() == label)
    return line


def band_of(axes):
    """Low and high edge of the one filled band, by input."""
    corners = axes.collections[0].get_paths()[0].vertices
    return {x: (corners[corners[:, 0] == x, 1].min(), corners[corners[:, 0] == x, 1].max()) for x in np.unique(corners[:, 0])}


def mesh_of(axes):
    (mesh,) = (each for each in axes.collections if isinstance(each, QuadMesh))
    return mesh


def test_a_latent_function_of_one_input(counts):
    axes = fg.plots.latent_1d(counts, inputs=INPUTS)
    low, middle, high = np.asarray(counts.quantiles_f(INPUTS[:, None]))[..., 0]
    np.testing.assert_allclose(line_of(axes, "median of f").get_ydata(), middle)
    np.testing.assert_allclose(list(band_of(axes).values()), np.stack([low, high], axis=1))
    np.testing.assert_array_equal(axes.lines[-1].get_xdata(), LINE[:, 0])  # ticks: counts are not on f's scale


def test_the_mean_of_y_has_the_quantiles_of_f(counts):
    axes = fg.plots.latent_1d(counts, "mean", inputs=INPUTS, exposure=2.0)
    expected = 2.0 * np.exp(np.asarray(counts.quantiles_f(INPUTS[:, None]))[..., 0])
    np.testing.assert_allclose(line_of(axes, "median of the mean of y").get_ydata(), expected[1])
    np.testing.assert_allclose(list(band_of(axes).values()), expected[[0, 2]].T)
    np.testing.assert_allclose(line_of(axes, "data").get_ydata(), 2.0 * COUNTS)  # as if each had that exposure


def test_a_band_of_new_observations_holds_nine_in_ten(counts):
    axes = fg.plots.latent_1d(counts, "y", inputs=INPUTS)
    np.testing.assert_allclose(line_of(axes, "mean of y").get_ydata(), counts.predict_y(INPUTS[:, None])[0])
    low, high = np.array(list(band_of(axes).values())).T
    fresh = np.asarray(counts.sample_y(INPUTS[:, None], 1000, seed=5))
    inside, above = np.mean((fresh >= low) & (fresh <= high)), np.mean(fresh > high)
    assert inside > 0.88
    assert 0.01 < above < 0.07


def test_data_lie_on_a_function_that_has_their_scale():
    post = made_posterior(fg.likelihoods.Gaussian(0.1), LINE, COUNTS, fixed=["kernel", "likelihood"])
    np.testing.assert_array_equal(line_of(fg.plots.latent_1d(post, inputs=INPUTS), "data").get_ydata(), COUNTS)


def test_several_latent_functions_have_a_line_each():
    post = made_posterior(fg.likelihoods.Softmax(3), LINE, np.arange(30.0) % 3, fixed=["kernel"])
    axes = fg.plots.latent_1d(post, inputs=INPUTS)
    expected = np.asarray(post.quantiles_f(INPUTS[:, None]))[1]
    np.testing.assert_allclose(line_of(axes, "f[2], 90 % band").get_ydata(), expected[:, 2])
    with pytest.raises(ValueError, match="Softmax has no mean"):
        fg.plots.latent_1d(post, "mean")


def test_what_cannot_be_drawn_along_a_line(counts, labels):
    with pytest.raises(ValueError, match="the model has 2; use latent_2d"):
        fg.plots.latent_1d(labels)
    with pytest.raises(ValueError, match='of must be "f", "mean" or "y", but is \'g\''):
        fg.plots.latent_1d(counts, "g")
    with pytest.raises(ValueError, match="the model has 1; use latent_1d"):
        fg.plots.latent_2d(counts)


def test_maps_of_mean_and_deviation(labels):
    drawn = fg.plots.latent_2d(labels, resolution=6)
    corner = mesh_of(drawn[0]).get_coordinates().mean(axis=(0, 1))
    np.testing.assert_allclose(corner, 0.5 * (PLANE.min(axis=0) + PLANE.max(axis=0)))
    x, y = (np.linspace(a - 0.04 * (b - a), b + 0.04 * (b - a), 6) for a, b in zip(PLANE.min(0), PLANE.max(0), strict=True))
    for row, column in ((0, 0), (1, 4), (5, 2)):
        mean, variance = labels.predict_f(np.array([[x[column], y[row]]]))
        np.testing.assert_allclose(mesh_of(drawn[0]).get_array()[row, column], mean[0, 0], rtol=1e-9)
        np.testing.assert_allclose(mesh_of(drawn[1]).get_array()[row, column], np.sqrt(variance[0, 0]), rtol=1e-9)


def test_pictures_of_draws_want_draws():
    model = fg.SparseGP(fg.kernels.RBF(), fg.likelihoods.Poisson(), inducing=LINE[::6])
    fit = fg.fit_gaussian(model, LINE, COUNTS, fg.NaturalGradient(max_steps=1), train_inducing=False, progress=False)
    for draw in (fg.plots.latent_1d, fg.plots.latent_2d, fg.plots.traces, fg.plots.ranks, fg.plots.probability_contours):
        with pytest.raises(TypeError, match=r"a GaussianFit does not have; give what fg.sample returned"):
            draw(fit)


def test_a_map_of_ones_own():
    x, y = np.arange(4.0), np.arange(3.0)
    axes = fg.plots.surface_2d(x, y, np.arange(12.0).reshape(3, 4), label="height")
    np.testing.assert_array_equal(mesh_of(axes).get_array(), np.arange(12.0).reshape(3, 4))
    with pytest.raises(ValueError, match=r"= \(3, 4\), but have shape \(4, 3\)"):
        fg.plots.surface_2d(x, y, np.zeros((4, 3)))


def test_an_intensity_and_its_events():
    edges = np.linspace(0, 2, 5), np.linspace(0, 1, 3)
    border = np.array([[0.0, 0.0], [2.0, 0.0], [1.0, 1.0]])
    axes = fg.plots.intensity_map(edges, np.ones((2, 4)), PLANE, borders=[border])
    np.testing.assert_array_equal(axes.lines[0].get_xydata(), PLANE)
    np.testing.assert_array_equal(axes.patches[0].get_path().vertices[:3], border)
    bands = np.array([[1.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
    axes = fg.plots.intensity_curve(np.array([0.0, 1.0]), bands, np.array([0.5]))
    np.testing.assert_array_equal(line_of(axes, "median rate").get_ydata(), [2.0, 3.0])
    assert band_of(axes) == {0.0: (1.0, 4.0), 1.0: (1.0, 5.0)}


@pytest.mark.slow
def test_two_classes_part_where_they_are_as_likely(labels):
    axes = fg.plots.probability_contours(labels, names=["no", "yes"], resolution=30)
    contours = axes.collections[1]
    at = contours.get_paths()[list(contours.levels).index(0.5)].vertices
    assert len(at) > 10
    np.testing.assert_allclose(np.asarray(labels.predict_y(at)[0]), 0.5, atol=0.01)
    np.testing.assert_array_equal(line_of(axes, "yes").get_xydata(), PLANE[LABELS == 1])
    np.testing.assert_allclose(line_of(axes, "inducing inputs").get_xydata(), labels.model.inducing_inputs)
    with pytest.raises(ValueError, match="1 names were given, but there are labels up to 1"):
        fg.plots.probability_contours(labels, names=["no"], resolution=4)


def test_several_classes(counts):
    post = made_posterior(fg.likelihoods.RobustMax(3), PLANE, CLASSES, draws=10, fixed=["kernel"])
    shift = np.array([-6.0, 0.0, 6.0]) * np.asarray(post.model.inducing_inputs)[:, :1]
    post = fg.Posterior(**{name: getattr(post, name) for name in post.__dataclass_fields__} | {"whitened": post.whitened + shift})
    axes = fg.plots.probability_contours(post, resolution=15)
    drawn = [each for each in axes.collections if hasattr(each, "levels") and not each.filled]
    colours = {matplotlib.colors.to_hex(each.get_edgecolor()[0]) for each in drawn}
    assert {"#0072b2", "#009e73"} <= colours
    assert line_of(axes, "class 2").get_xdata().size == (CLASSES == 2).sum()
    with pytest.raises(ValueError, match="the likelihood is Poisson"):
        fg.plots.probability_contours(counts)


def test_calibration_by_hand():
    predicted, seen = np.array([0.9, 0.1, 0.2, 0.7, 0.8, 0.3]), np.array([1.0, 0.0, 1.0, 1.0, 0.0, 0.0])
    axes = fg.plots.calibration_curve(predicted, seen, num_bins=2)
    points = [line.get_xydata()[0] for line in axes.lines if line.get_marker() == "o" and len(line.get_xdata())]
    np.testing.assert_allclose(points, [[0.2, 1 / 3], [0.8, 2 / 3]])
    bar = next(line for line in axes.lines if line.get_linewidth() == 5)
    np.testing.assert_allclose(bar.get_ydata(), stats.beta(1.5, 2.5).ppf([0.05, 0.95]))
    with pytest.raises(ValueError, match=r"shapes are \(6,\) and \(5,\)"):
        fg.plots.calibration_curve(predicted, seen[:5])
    with pytest.raises(ValueError, match="between 0 and 1"):
        fg.plots.calibration_curve(predicted + 1.0, seen)


def test_traces_are_the_draws(labels):
    rows = fg.plots.traces(labels)
    assert [row.get_title(loc="left") for row in rows] == ["kernel.variance", "kernel.lengthscales[0]", "kernel.lengthscales[1]"]
    for chain in range(2):
        expected = labels.draws["kernel.lengthscales"][chain, :, 1]
        np.testing.assert_array_equal(rows[2].lines[chain].get_ydata(), expected)
    assert rows[0].lines[0].get_color() != rows[0].lines[1].get_color()


def test_parameters_are_chosen_by_name(labels):
    assert len(fg.plots.traces(labels, ["kernel.lengthscales"])) == 2
    assert fg.plots.traces(labels, ["kernel.lengthscales[1]"])[0].get_title(loc="left") == "kernel.lengthscales[1]"
    with pytest.raises(ValueError, match=r"no inferred parameter is named 'lengthscale'; there are kernel.variance, "):
        fg.plots.traces(labels, ["lengthscale"])
    with pytest.raises(ValueError, match="there are 3 pictures to draw, but 1 axes were given"):
        fg.plots.traces(labels, axes=[plt.figure().subplots()])


def test_ranks_of_chains_that_disagree(labels):
    moved = labels.free.copy()
    moved[1] += 10.0
    apart = fg.Posterior(**{name: getattr(labels, name) for name in labels.__dataclass_fields__} | {"free": moved})
    (axes,) = fg.plots.ranks(apart, ["kernel.variance"], num_bins=4)
    heights = np.array([bar.get_height() for bar in axes.patches]).reshape(2, 4)
    assert (heights[0, 2:] == 0).all()
    assert (heights[1, :2] == 0).all()
    (axes,) = fg.plots.ranks(labels, ["kernel.variance"], num_bins=4)
    heights = np.array([bar.get_height() for bar in axes.patches]).reshape(2, 4)
    order = np.argsort(np.argsort(labels.draws["kernel.variance"].ravel())).reshape(2, 60) // 30
    expected = np.array([np.bincount(row, minlength=4) for row in order])
    np.testing.assert_allclose(heights / heights.sum(), expected / expected.sum())


def test_scale_reduction_against_iterations(labels):
    curve = psrf_curve(labels.whitened.reshape(2, 60, -1))
    axes = fg.plots.psrf_curves(curve, wanted=1.05)
    slowest = line_of(axes, f"variable {curve.variables[0]}, the slowest")
    np.testing.assert_array_equal(slowest.get_xydata(), np.stack([curve.iterations, curve.psrf[:, 0]], axis=1))
    assert line_of(axes, "wanted: at most 1.05").get_ydata()[0] == 1.05


@pytest.mark.parametrize(
    ("prior", "expected"),
    [
        (fg.priors.Gamma(2.0, 3.0), stats.gamma(2.0, scale=1 / 3)),
        (fg.priors.LogNormal(0.5, 0.8), stats.lognorm(0.8, scale=np.exp(0.5))),
        (fg.priors.Normal(1.0, 2.0), stats.truncnorm(-0.5, np.inf, 1.0, 2.0)),
        (fg.priors.Uniform(0.5, 2.0), stats.uniform(0.5, 1.5)),
        (fg.priors.HalfCauchy([9.0, 0.3]), stats.halfcauchy(scale=0.3)),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_prior_densities(prior, expected):
    model = fg.SparseGP(fg.kernels.RBF(1.0, [1.0, 1.0]), fg.likelihoods.Poisson(), 5, {"kernel.lengthscales": prior})
    parameter = free_parameters(model)[1]
    values = np.linspace(-0.99, 4.0, 41)
    np.testing.assert_allclose(prior_density(parameter, 1, values), expected.pdf(values), rtol=1e-6)


def test_a_student_prior_is_cut_off_too():
    model = fg.SparseGP(fg.kernels.RBF(), fg.likelihoods.Poisson(), 5, {"kernel.variance": fg.priors.StudentT(3.0, 0.5, 1.0)})
    whole = stats.t(3.0, 0.5, 1.0)
    density = prior_density(free_parameters(model)[0], 0, np.array([-0.1, 1.0]))
    np.testing.assert_allclose(density, [0.0, whole.pdf(1.0) / whole.sf(0.0)], rtol=1e-6)


def test_prior_against_posterior(counts):
    axes = fg.plots.prior_and_posterior(counts)[1]
    bars = np.array([(bar.get_x(), bar.get_width(), bar.get_height()) for bar in axes.patches])
    assert (bars[:, 1] * bars[:, 2]).sum() == pytest.approx(1.0)
    draws = counts.draws["kernel.lengthscales"]
    assert draws.min() <= bars[0, 0] < np.median(draws) < bars[-1, 0] <= draws.max()
    at, density = line_of(axes, "prior").get_data()
    np.testing.assert_allclose(density, stats.gamma(2.0, scale=0.5).pdf(at), rtol=1e-6)
    fixed = made_posterior(fg.likelihoods.Poisson(), LINE, COUNTS, fixed=["kernel"])
    with pytest.raises(ValueError, match="every parameter of this model is fixed"):
        fg.plots.prior_and_posterior(fixed)


def test_the_prior_of_ordered_entries_is_left_out():
    post = made_posterior(fg.likelihoods.Ordinal(3), LINE, np.arange(30.0) % 3, fixed=["kernel"])
    assert not fg.plots.prior_and_posterior(post)[1].lines


def test_inducing_inputs_before_and_after():
    for columns in (1, 3):
        before, after = RNG.normal(size=(2, 4, columns))
        axes = fg.plots.inducing_inputs(before, after, X=RNG.normal(size=(9, columns)), columns=(0, columns - 1))
        joins = [line.get_xdata() for line in axes.lines if line.get_linestyle() == "-"]
        np.testing.assert_array_equal(joins, np.stack([before[:, 0], after[:, 0]], axis=1))
    with pytest.raises(ValueError, match="columns must lie between 0 and 2"):
        fg.plots.inducing_inputs(before, after, columns=(0, 3))
    with pytest.raises(ValueError, match=r"\(4, 3\) and \(3, 3\); give the same points"):
        fg.plots.inducing_inputs(before, after[:3])
    with pytest.raises(ValueError, match=r"use before\[:, None\]"):
        fg.plots.inducing_inputs(before[:, 0], after)


def test_axes_that_are_given_are_used(counts):
    figure = matplotlib.figure.Figure()  # no pyplot, so no display
    given = figure.subplots(2, 1)
    assert fg.plots.latent_1d(counts, inputs=INPUTS, axes=given[0]) is given[0]
    assert list(fg.plots.prior_and_posterior(counts, axes=given)) == list(given)
    assert not plt.get_fignums()
