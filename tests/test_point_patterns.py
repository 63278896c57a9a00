import shutil
import warnings

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import freegp as fg
from freegp.datasets import load_coal, load_pines
from freegp.point_patterns import CoxProcess, Mask, Polygon, geometry
from freegp.point_patterns.cells import lay_cells
from freegp.point_patterns.defaults import regular_points
from freegp.point_patterns.window import as_window, borders

RNG = np.random.default_rng(0)
TRIANGLE = np.array([(0.0, 0.0), (4.0, 0.0), (0.0, 3.0)])
ARROW = np.array([(0.0, 0.0), (4.0, 2.0), (0.0, 4.0), (1.0, 2.0)])  # not convex; area 8 - 2
SQUARE = ((0.0, 10.0), (0.0, 10.0))


def quick(window, **kwargs):
    return CoxProcess(window, **({"method": "gaussian", "progress": False} | kwargs))


def share_of_cell(window, low, high, num=200):
    """The part of a rectangle inside a window, by counting a fine lattice of points."""
    axes = [a + (b - a) * (np.arange(num) + 0.5) / num for a, b in zip(low, high, strict=True)]
    lattice = np.stack([grid.ravel() for grid in np.meshgrid(*axes)], axis=1)
    return np.mean(window.contains(lattice))


@pytest.fixture(scope="module")
def homogeneous():
    events = np.random.default_rng(1).uniform(0, 10, (150, 2))
    return quick(SQUARE, grid=8, inducing=fg.Grid(5)).fit(events)


@pytest.fixture(scope="module")
def coal():
    return quick((1851.0, 1963.0), grid=40, inducing=fg.Grid(15)).fit(load_coal())


@pytest.fixture(scope="module")
def sampled():
    return quick((1851.0, 1963.0), grid=40, inducing=fg.Grid(15), method="sample", num_samples=200, num_warmup=100).fit(
        load_coal()
    )


class TestWindows:
    @pytest.mark.parametrize(
        ("window", "size"),
        [
            ((2.0, 5.0), 3.0),
            (((0.0, 4.0), (1.0, 2.5)), 6.0),
            (TRIANGLE, 6.0),
            (TRIANGLE[::-1], 6.0),
            (np.vstack([TRIANGLE, TRIANGLE[:1]]), 6.0),
            (ARROW, 6.0),
            (ARROW + np.array([5e5, 6.7e6]), 6.0),
            (Mask(((0.0, 4.0), (0.0, 3.0)), np.eye(3, dtype=bool)), 4.0),
        ],
    )
    def test_sizes_are_closed_forms_and_cells_add_up_to_them(self, window, size):
        window = as_window(window)
        assert window.size == pytest.approx(size, rel=1e-9)
        for grid in (2, 7):
            assert lay_cells(window, grid).exposure.sum() == pytest.approx(size, rel=1e-7)

    @pytest.mark.parametrize("window", [TRIANGLE, ARROW, Mask(((0.0, 4.0), (0.0, 4.0)), RNG.random((3, 5)) < 0.6)])
    def test_each_cell_against_a_lattice_of_points(self, window):
        cells = lay_cells(as_window(window), (4, 3))
        width, height = cells.widths
        for row, y in enumerate(cells.edges[1][:-1]):
            for column, x in enumerate(cells.edges[0][:-1]):
                share = share_of_cell(cells.window, (x, y), (x + width, y + height))
                assert cells.sizes[row, column] / (width * height) == pytest.approx(share, abs=0.01)

    @pytest.mark.parametrize("region", [((0.5, 3.0), (0.2, 2.2)), TRIANGLE + 0.3, ARROW + np.array([0.5, -0.7])])
    @pytest.mark.parametrize("window", [ARROW, Mask(((-1.0, 3.0), (0.0, 4.0)), RNG.random((4, 3)) < 0.7)])
    def test_overlap_of_window_and_region(self, window, region):
        window, region = as_window(window), as_window(region)
        points = np.random.default_rng(3).uniform((-1, -1), (5, 5), (200_000, 2))
        expected = 36.0 * np.mean(window.contains(points) & region.contains(points))
        assert lay_cells(window, 9).sizes_in(region).sum() == pytest.approx(expected, abs=0.06)

    def test_overlap_with_itself_is_the_window(self):
        assert lay_cells(Polygon(ARROW), 9).sizes_in(Polygon(ARROW)).sum() == pytest.approx(6.0, rel=1e-9)

    def test_overlap_of_intervals(self):
        assert lay_cells(as_window((0.0, 10.0)), 7).sizes_in(as_window((2.5, 30.0))).sum() == pytest.approx(7.5)
        assert lay_cells(as_window((0.0, 10.0)), 7).sizes_in(as_window((12.0, 30.0))).sum() == 0.0

    def test_points_inside(self):
        points = np.array([(0.5, 0.5), (0.5, 2.0), (3.9, 2.0), (4.1, 2.0), (0.0, 0.0), (2.0, 1.0), (2.0, 0.9)])
        assert Polygon(ARROW).contains(points).tolist() == [True, False, True, False, True, True, False]

    def test_borders_hold_the_pixels_and_leave_out_the_holes(self):
        inside = np.zeros((6, 7), dtype=bool)
        inside[1:5, 1:6], inside[2, 3], inside[5, 6] = True, False, True
        mask = fg.Mask(((0.0, 14.0), (0.0, 3.0)), inside)
        areas = [geometry.signed_area(border) for border in borders(mask)]
        assert sum(areas) == pytest.approx(mask.size)
        assert min(areas) == pytest.approx(-1.0), "a hole of one pixel, the other way round"
        assert borders(as_window((0.0, 1.0))) == []

    def test_dates_are_refused_in_words(self):
        days = np.array(["2020-01-01", "2021-01-01"], dtype="datetime64[D]")
        for dates in (days, [pd.Timestamp("2020-01-01"), pd.Timestamp("2021-01-01")]):
            with pytest.raises(TypeError, match=r"window holds dates; give numbers .* for days"):
                fg.CoxProcess(dates).fit([])
        with pytest.raises(TypeError, match="events holds dates"):
            fg.CoxProcess((0.0, 1.0)).fit(days)

    def test_mask_rows_go_up(self):
        mask = Mask(((0.0, 2.0), (0.0, 2.0)), np.array([[True, False], [False, False]]))
        assert mask.contains(np.array([(0.5, 0.5), (0.5, 1.5), (1.5, 0.5)])).tolist() == [True, False, False]

    @pytest.mark.parametrize(
        ("window", "message"),
        [
            ((5.0, 1.0), "reversed"),
            ((1.0, 1.0), "empty"),
            (((0.0, 1.0), (3.0, 2.0)), "window in y is reversed"),
            ((0.0, np.nan), "NaN"),
            (TRIANGLE[:1], "3 or more vertices"),
            (np.array([(0, 0), (1, 1), (2, 2)]), "no area"),
            (np.array([(0, 0), (1, 1), (1, 0), (0, 1)]), "cross each other"),
            (np.zeros((3, 3)), "shape \\(3, 3\\)"),
        ],
    )
    def test_bad_windows(self, window, message):
        with pytest.raises(ValueError, match=message):
            as_window(window)

    def test_bad_masks(self):
        with pytest.raises(ValueError, match="no pixel is True"):
            Mask(SQUARE, np.zeros((2, 2), dtype=bool))
        with pytest.raises(ValueError, match="mask > 0"):
            Mask(SQUARE, np.ones((2, 2)))
        with pytest.raises(TypeError, match="a polygon's vertices"):
            as_window("everywhere")


class TestCells:
    @pytest.mark.parametrize("window", [TRIANGLE, ARROW, Mask(((0.0, 4.0), (0.0, 4.0)), RNG.random((3, 5)) < 0.6)])
    def test_every_event_is_counted_once(self, window):
        window = as_window(window)
        points = RNG.uniform(0, 4, (2000, 2))
        inside = points[window.contains(points)]
        cells = lay_cells(window, (11, 6))
        assert cells.counts(inside).sum() == len(inside)
        row, column = np.argwhere(cells.kept)[7]
        (x_edges, y_edges) = cells.edges
        there = (inside >= (x_edges[column], y_edges[row])) & (inside < (x_edges[column + 1], y_edges[row + 1]))
        assert cells.counts(inside)[7] == there.all(axis=1).sum()

    def test_events_on_the_border_are_counted(self):
        assert lay_cells(Polygon(TRIANGLE), 5).counts(TRIANGLE).sum() == 3
        assert lay_cells(as_window(SQUARE), 5).counts(np.array([(10.0, 10.0), (0.0, 10.0)])).sum() == 2

    def test_scattered_points_are_inside_and_in_their_cells(self):
        cells = lay_cells(Polygon(ARROW), 6)
        counts = RNG.poisson(30, len(cells.exposure))
        points = cells.scatter(counts, RNG)
        assert cells.window.contains(points).all()
        np.testing.assert_array_equal(cells.counts(points), counts)

    def test_defaults_follow_the_shape(self):
        assert lay_cells(as_window((0.0, 1.0))).sizes.shape == (100,)
        assert lay_cells(as_window(SQUARE)).sizes.shape == (32, 32)
        long = lay_cells(as_window(((0.0, 100.0), (0.0, 5.0))))
        assert long.widths[0] == pytest.approx(long.widths[1], rel=0.05)

    @pytest.mark.parametrize("window", [SQUARE, TRIANGLE, ((0.0, 100.0), (0.0, 5.0))])
    def test_inducing_points_are_about_225_and_in_the_window(self, window):
        cells = lay_cells(as_window(window))
        Z = regular_points(cells)
        assert 180 <= len(Z) <= 225
        assert cells.covers(Z).all()
        few = lay_cells(as_window(window), 4)
        assert len(regular_points(few)) <= len(few.exposure)

    @pytest.mark.parametrize("grid", [1, 2.5, (3, 3, 3)])
    def test_bad_grids(self, grid):
        with pytest.raises(ValueError, match="grid"):
            lay_cells(as_window(SQUARE), grid)


class TestHomogeneous:
    def test_intensity_is_the_mean_rate(self, homogeneous):
        found = homogeneous.intensity([(5.0, 5.0), (2.0, 8.0)])
        assert found.mean == pytest.approx(1.5, rel=0.15)
        assert (found.bands[0] < found.bands[1]).all()
        assert (found.bands[1] < found.bands[2]).all()
        assert ((found.bands[0] < 1.5) & (found.bands[2] > 1.5)).all()

    def test_expected_count_is_that_of_the_events(self, homogeneous):
        count = homogeneous.expected_count()
        assert count.mean == pytest.approx(150, rel=0.02)
        assert count.quantiles[0] < 150 < count.quantiles[2]
        assert count.quantiles[2] - count.quantiles[0] == pytest.approx(2 * 1.645 * np.sqrt(150), rel=0.2)
        assert count.share_inside == pytest.approx(1.0)

    def test_regions_add_up(self, homogeneous):
        left, right = (homogeneous.expected_count(r).mean for r in (((0, 3.3), (0, 10)), ((3.3, 10), (0, 10))))
        assert left + right == pytest.approx(homogeneous.expected_count().mean, rel=1e-9)
        corner = homogeneous.expected_count(np.array([(0, 0), (10, 0), (0, 10)]))
        assert corner.mean == pytest.approx(75, rel=0.2)
        half = homogeneous.expected_count(((5, 15), (0, 10)))
        assert half.share_inside == pytest.approx(0.5)

    def test_a_new_count_has_poisson_noise(self, homogeneous):
        expected, predicted = homogeneous.expected_count(num_draws=2000), homogeneous.predict_count(num_draws=2000)
        widths = [np.ptp(count.quantiles) for count in (expected, predicted)]
        assert widths[1] ** 2 == pytest.approx(widths[0] ** 2 + (2 * 1.645) ** 2 * 150, rel=0.2)
        assert predicted.quantiles[1] == round(predicted.quantiles[1])

    def test_surface_is_the_intensity_at_the_cells(self, homogeneous):
        surface = homogeneous.intensity_surface((0.25, 0.75))
        at = homogeneous.intensity([(surface.x[3], surface.y[5])], (0.25, 0.75))
        assert surface.mean[5, 3] == pytest.approx(at.mean[0], rel=1e-9)
        assert surface.bands[:, 5, 3] == pytest.approx(at.bands[:, 0], rel=1e-9)
        integral = surface.mean.sum() * 100 / 64
        assert integral == pytest.approx(homogeneous.expected_count(num_draws=2000).mean, rel=0.02)

    def test_simulated_patterns_have_the_right_mean(self, homogeneous):
        patterns = homogeneous.sample(200, seed=5)
        sizes = np.array([len(pattern) for pattern in patterns])
        assert sizes.mean() == pytest.approx(150, abs=4.5 * sizes.std() / np.sqrt(200))
        assert sizes.var() == pytest.approx(300, rel=0.35)  # the intensity's own variance, and Poisson's
        assert np.concatenate(patterns).mean(axis=0) == pytest.approx(5.0, abs=0.5)

    def test_held_out_probability_against_poisson(self, homogeneous):
        """The level is nearly known, so each cell is nearly Poisson with mean 150 / 64."""
        events = np.random.default_rng(2).uniform(0, 10, (150, 2))
        found = homogeneous.held_out_log_likelihood(events)
        counts = homogeneous.cells_.counts(events)
        log_factorial = np.array([np.sum(np.log(np.arange(1, count + 1))) for count in counts])
        by_hand = counts * np.log(150 / 64) - 150 / 64 - log_factorial
        assert found.per_cell.shape == (64,)
        assert found.mean == pytest.approx(by_hand.mean(), abs=0.02)

    @pytest.mark.slow
    def test_units_change_nothing_else(self, homogeneous):
        """In millimetres the intensity is a million times less, and everything else is the same."""
        other = quick(tuple((1e3 * a, 1e3 * b) for a, b in SQUARE), grid=8, inducing=fg.Grid(5)).fit(1e3 * homogeneous.events_)
        ratio = homogeneous.intensity([(4.0, 7.0)]).bands / other.intensity([(4e3, 7e3)]).bands
        assert ratio == pytest.approx(1e6, rel=1e-3)

    @pytest.mark.slow
    def test_refinement(self, homogeneous):
        found = homogeneous.refinement_check()
        assert found.fine_enough
        assert found.change < 0.25
        assert "small enough" in str(found)

    def test_map(self, homogeneous):
        axes = homogeneous.plot()
        assert axes.get_aspect() == 1.0
        assert len(axes.figure.axes) == 2, "a map and its colour bar"
        assert homogeneous.plot(axes) is axes
        plt.close("all")


class TestCoal:
    def test_intensity_falls(self, coal):
        early, late = coal.intensity([1860.0, 1955.0]).bands.T
        assert early[0] > late[2]
        assert coal.expected_count((1851.0, 1890.0)).mean == pytest.approx(np.sum(load_coal() < 1890), rel=0.1)

    def test_curve(self, coal):
        axes = coal.plot()
        assert axes.get_ylim()[0] == 0.0
        plt.close("all")

    @pytest.mark.slow
    def test_coarse_cells_are_found_out(self):
        """A burst of events within a year, in cells of eleven."""
        rng = np.random.default_rng(6)
        events = np.concatenate([rng.uniform(1899.5, 1900.5, 60), rng.uniform(1851, 1963, 40)])
        found = quick((1851.0, 1963.0), grid=10).fit(events).refinement_check()
        assert not found.fine_enough
        assert "use more cells" in found.sentence

    def test_a_gaussian_fit_has_no_chains(self, coal):
        with pytest.raises(AttributeError, match="method='sample'"):
            _ = coal.diagnostics_
        assert "191 events" in str(coal)
        assert coal.summary().index.tolist() == ["kernel.members.0.variance", "kernel.members.0.lengthscales"]

    def test_sampling_agrees(self, coal, sampled):
        years = np.array([1860.0, 1910.0, 1955.0])
        by_draws, by_fit = sampled.intensity(years), coal.intensity(years)
        assert by_draws.mean == pytest.approx(by_fit.mean, rel=0.25)
        assert (by_draws.bands[0] < by_draws.mean).all()
        assert (by_draws.mean < by_draws.bands[2]).all()
        assert sampled.diagnostics_.r_hat < 1.1
        assert "r_hat" in sampled.summary()

    @pytest.mark.slow
    def test_joint_draws_have_the_marginal_moments(self, sampled):
        """Means and quantiles of joint draws are those that the mixture over draws has in closed form."""
        cells = sampled.cells_
        f = sampled._latent.draws(cells.centres, 4000, seed=1)
        mean, variance = (np.asarray(moment)[:, 0] for moment in sampled.posterior_.predict_f(cells.centres))
        assert np.abs(f.mean(axis=0) - mean).max() < 4.5 * np.sqrt(variance.max() / 4000)
        assert f.var(axis=0) == pytest.approx(variance, rel=0.2)
        total = sampled.expected_count(num_draws=2000)
        assert total.mean == pytest.approx(sampled.intensity_surface().mean.sum() * 112 / 40, rel=0.01)

    def test_joint_draws_of_the_approximation(self, coal):
        f = coal._latent.draws(coal.cells_.centres, 4000, seed=1)
        mean, variance = (np.asarray(moment)[:, 0] for moment in coal.fit_.predict_f(coal.cells_.centres))
        assert np.abs(f.mean(axis=0) - mean).max() < 4.5 * np.sqrt(variance.max() / 4000)
        assert f.var(axis=0) == pytest.approx(variance, rel=0.15)


class TestShapes:
    @pytest.mark.slow
    def test_polygon(self):
        window = Polygon(3 * ARROW)
        points = np.random.default_rng(4).uniform(0, 12, (600, 2))
        events = points[window.contains(points)]
        found = quick(window, grid=9, inducing=fg.Grid(4)).fit(events)
        assert found.expected_count().mean == pytest.approx(len(events), rel=0.03)
        assert found.expected_count(3 * ARROW).mean == pytest.approx(found.expected_count().mean, rel=1e-6)
        surface = found.intensity_surface()
        assert np.isnan(surface.mean).sum() == (~found.cells_.kept).sum() > 0
        assert all(window.contains(pattern).all() for pattern in found.sample(3))
        found.plot()
        plt.close("all")

    def test_no_events_at_all(self):
        found = quick((1851.0, 1963.0), grid=40, inducing=fg.Grid(15)).fit([])
        assert 0.0 < found.expected_count().mean < 3.0
        assert np.isfinite(found.intensity([1900.0]).bands).all()

    @pytest.mark.slow
    def test_own_kernel_and_priors(self):
        kernel = fg.kernels.Matern52(1.0, 20.0)
        priors = {"kernel.lengthscales": fg.priors.Gamma(2.0, 0.1)}
        found = quick((1851.0, 1963.0), grid=20, inducing=8, kernel=kernel, priors=priors).fit(load_coal())
        assert found.summary().index.tolist() == ["kernel.variance", "kernel.lengthscales"]
        assert found.fit_.model.num_inducing == 8


class TestBadInput:
    @pytest.mark.parametrize(
        ("events", "message"),
        [
            ([(1.0, 1.0), (11.0, 1.0), (12.0, 3.0)], "2 of 3 events lie outside the window \\(the first is \\(11, 1\\)\\)"),
            ([(1.0, np.nan)], "NaN"),
            ([1.0, 2.0], "shape \\(E, 2\\)"),
            ([(1.0, 2.0, 3.0)], "shape \\(E, 2\\)"),
        ],
    )
    def test_events(self, events, message):
        with pytest.raises(ValueError, match=message):
            quick(SQUARE).fit(events)

    def test_settings(self):
        with pytest.raises(ValueError, match="sample, gaussian"):
            quick(SQUARE, method="mcmc").fit([(1.0, 1.0)])
        with pytest.raises(TypeError, match="'auto'"):
            quick(SQUARE, inducing="all").fit([(1.0, 1.0)])
        with pytest.raises(ValueError, match="call fit"):
            quick(SQUARE).intensity([(1.0, 1.0)])

    @pytest.mark.slow
    def test_many_copies_are_mentioned(self):
        events = np.repeat(RNG.uniform(1851, 1963, 20), 2)
        with pytest.warns(UserWarning, match="40 of 40 events are in the same place"):
            quick((1851.0, 1963.0), grid=40, inducing=fg.Grid(15)).fit(events)

    def test_regions_and_points(self, homogeneous):
        with pytest.raises(ValueError, match="lies outside the window"):
            homogeneous.expected_count(((20, 30), (0, 10)))
        with pytest.raises(ValueError, match="region has 1 dimension"):
            homogeneous.expected_count((0, 1))
        with pytest.raises(ValueError, match="between 0 and 1"):
            homogeneous.intensity([(1.0, 1.0)], (5, 95))
        with pytest.raises(ValueError, match="1 of 1 points lie outside"):
            homogeneous.intensity([(-1.0, 1.0)])


class TestPines:
    def test_data(self):
        pines = load_pines()
        assert pines.events.shape == (126, 2)
        assert as_window(pines.window).contains(pines.events).all()
        assert pines.events[0] == pytest.approx((-1.993875, 0.9297642))
        assert pines.events.sum(axis=0) == pytest.approx((15.60241125, -361.03877125), abs=1e-6)

    @pytest.mark.slow
    def test_sampling(self):
        pines = load_pines()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = quick(pines.window, grid=24, inducing=fg.Grid(11), method="sample", num_samples=250).fit(pines.events)
        assert found.diagnostics_.r_hat < 1.02
        count = found.expected_count(num_draws=200)
        assert count.quantiles[0] < 126 < count.quantiles[2]
        clump, clearing = found.intensity([(0.5, -6.3), (3.5, -4.0)]).bands.T
        assert clump[0] > clearing[2]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of coal disasters in a folder, with settings of every kind."""
    folder = tmp_path_factory.mktemp("cox") / "run"
    kernel = fg.kernels.RBF(1.0, 20.0) + fg.kernels.Constant(4.0)
    priors = {"kernel.members.0.lengthscales": fg.priors.Gamma(2.0, 0.1)}
    options = {"kernel": kernel, "priors": priors, "inducing": np.linspace(1851, 1963, 12)[:, None], "grid": [40]}
    sizes = {"method": "sample", "num_samples": 60, "num_warmup": 30, "num_chains": 2}
    return folder, quick((1851.0, 1963.0), **options, **sizes, run_dir=folder).fit(load_coal())


@pytest.mark.slow
class TestKept:
    def test_an_interrupted_run_is_taken_up(self, run, tmp_path):
        folder, whole = run
        shutil.copytree(folder, tmp_path / "run")
        last = max((tmp_path / "run").glob("chunk-*.npz"))
        last.unlink()
        again = CoxProcess.resume(tmp_path / "run", progress=False)
        np.testing.assert_array_equal(again.posterior_.free, whole.posterior_.free)
        assert_same(again, whole)
        assert again.run_dir == tmp_path / "run"

    def test_saved_and_loaded_with_its_draws(self, run, tmp_path):
        run[1].save(tmp_path / "process.npz")
        again = fg.load(tmp_path / "process.npz")
        assert isinstance(again, CoxProcess)
        assert again.run_dir is None
        assert_same(again, run[1])
        assert again.priors == run[1].priors

    def test_a_polygon_and_a_mask(self, tmp_path):
        events = np.array([(1.0, 1.0), (0.5, 0.5), (2.0, 0.5)])
        mask = Mask(((0.0, 4.0), (0.0, 3.0)), np.array([[True, True], [True, False]]))
        for window in (TRIANGLE, mask):
            process = quick(window, grid=(5, 4), inducing=fg.Grid(3)).fit(events)
            process.save(tmp_path / "process.npz")
            assert_same(fg.load(tmp_path / "process.npz"), process)

    def test_a_fit_again_is_the_same_fit(self, coal, tmp_path):
        coal.save(tmp_path / "process.npz")
        again = fg.load(tmp_path / "process.npz").fit(load_coal())
        np.testing.assert_allclose(again.fit_.elbo, coal.fit_.elbo)

    def test_nothing_to_save(self, tmp_path):
        with pytest.raises(ValueError, match="call fit"):
            quick(SQUARE).save(tmp_path / "process.npz")
        with pytest.raises(FileNotFoundError, match="there is no file"):
            CoxProcess.resume(tmp_path)


def assert_same(again, process):
    np.testing.assert_array_equal(again.intensity_surface().bands, process.intensity_surface().bands)
    np.testing.assert_array_equal(again.counts_, process.counts_)
    assert again.rate_ == process.rate_
    assert str(again) == str(process)
    np.testing.assert_allclose(again.expected_count().quantiles, process.expected_count().quantiles)


@pytest.mark.slow
def test_as_many_points_as_it_takes(coal):
    process = quick((1851.0, 1963.0), grid=40, inducing="auto").fit(load_coal())
    assert not process.fit_.sparsity.matters
    assert "M = " in str(process)
    assert "inducing points lose about" in str(process)
    assert "nats lost" in process.summary().to_string()
    assert process.fit_.elbo == pytest.approx(coal.fit_.elbo, abs=1.0)


@pytest.mark.slow
def test_a_grid_of_225_is_too_coarse_for_the_pines():
    pines = load_pines()
    process = quick(pines.window).fit(pines.events)
    assert process.fit_.model.num_inducing == 225
    assert process.fit_.sparsity.matters
    assert "raise M to about" in str(process)
