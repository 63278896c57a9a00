import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pytest

import freegp as fg

RNG = np.random.default_rng(0)
X = np.sort(RNG.uniform(0, 6, (60, 1)), axis=0)
RATE = np.exp(1.0 + np.sin(2.0 * X[:, 0]))
Y = RNG.poisson(RATE).astype(float)
TEST = (np.linspace(0.1, 5.9, 25)[:, None], RNG.poisson(np.exp(1.0 + np.sin(2.0 * np.linspace(0.1, 5.9, 25)))).astype(float))
MODEL = fg.SparseGP(fg.kernels.RBF(1.0, 1.0), fg.likelihoods.Poisson(), inducing="auto", fixed=["kernel.variance"])


@pytest.fixture(scope="module")
def sweep():
    return fg.sweep_inducing(MODEL, X, Y, sizes=[4, 8, 16], test=TEST, progress=False)


@pytest.mark.slow
def test_the_table(sweep):
    table = sweep.table
    assert list(table.index) == [4, 8, 16]
    assert (np.diff(table["bound"]) > 0.0).all()
    assert (table["nats lost"] == [fit.sparsity.nats_lost for fit in sweep.results]).all()
    assert (table["kernel.lengthscales"] == [float(fit.model.kernel.lengthscales) for fit in sweep.results]).all()
    assert table["held-out log density"][8] == pytest.approx(float(np.mean(sweep.results[1].predict_log_density(*TEST))))
    assert (table["seconds"] > 0.0).all()


@pytest.mark.slow
def test_the_change_is_to_the_next_m_in_its_standard_deviations(sweep):
    means = [np.asarray(fit.predict_f(TEST[0])[0]) for fit in sweep.results]
    deviation = np.sqrt(np.asarray(sweep.results[1].predict_f(TEST[0])[1]))
    assert sweep.table["change of predictions"][4] == pytest.approx(np.max(np.abs(means[0] - means[1]) / deviation))
    assert np.isnan(sweep.table["change of predictions"][16])


@pytest.mark.slow
def test_the_recommendation_is_the_smallest_that_is_enough(sweep):
    enough = [not fit.sparsity.matters and sweep.table["bound"].max() - fit.elbo < 1.0 for fit in sweep.results]
    small = [*(sweep.table["change of predictions"][:-1] <= 0.25), True]
    assert sweep.recommended == next(M for M, a, b in zip(sweep.table.index, enough, small, strict=True) if a and b)
    assert sweep.recommendation.startswith(f"M = {sweep.recommended} is enough")
    assert str(sweep).startswith(sweep.recommendation)
    assert "nats lost" in str(sweep)


@pytest.mark.slow
def test_too_few_that_lose_nothing_are_not_recommended():
    """Three points fit a function that three points carry; the bound of more says that it is the wrong one.

    Predictions do not, where they are compared far from all data.
    """
    away = (np.array([[1000.0]]), np.array([1.0]))
    swept = fg.sweep_inducing(MODEL, X, Y, sizes=[3, 16], test=away, train_inducing=False, progress=False)
    assert swept.table["nats lost"][3] < 1.0
    assert swept.table["change of predictions"][3] < 0.1
    assert swept.recommended == 16


def test_too_few_are_told_to_be_more():
    held = MODEL._replace(fixed=["kernel"])
    few = fg.sweep_inducing(held, X, Y, sizes=[2, 3], train_inducing=False, progress=False)
    assert few.recommended is None
    assert "raise M to about" in few.recommendation
    assert "held-out log density" not in few.table.columns


@pytest.mark.slow
def test_doubling_ends_where_nothing_is_lost():
    table = fg.sweep_inducing(MODEL, X, Y, progress=False).table
    assert list(table.index[:1]) == [16]
    assert (table["nats lost"].iloc[:-1] >= 0.1).all()
    assert table["nats lost"].iloc[-1] < 0.1


@pytest.mark.slow
def test_sampled_and_with_placements():
    options = {"num_samples": 20, "num_warmup": 20, "num_chains": 2}
    swept = fg.sweep_inducing(MODEL, X, Y, sizes=[fg.Grid(8)], sample=options, train_inducing=False, progress=False)
    draws = swept.results[0].draws["kernel.lengthscales"]
    assert swept.table["kernel.lengthscales"][8] == pytest.approx(draws.mean())
    assert swept.table["kernel.lengthscales sd"][8] == pytest.approx(draws.std(ddof=1))
    axes = swept.plot()
    assert len(axes) == 3  # the change to the next M is not known
    plt.close(axes[0].figure)


@pytest.mark.slow
def test_pictures(sweep):
    axes = sweep.plot()
    assert [each.get_title(loc="left").split()[0] for each in axes] == ["bound", "nats", "largest", "held-out", "parameters,"]
    np.testing.assert_allclose(axes[1].lines[0].get_ydata(), sweep.table["nats lost"])
    np.testing.assert_allclose(axes[1].lines[1].get_ydata(), 1.0)
    plt.close(axes[0].figure)


def test_bad_sizes():
    with pytest.raises(ValueError, match="sizes is empty"):
        fg.sweep_inducing(MODEL, X, Y, sizes=[], progress=False)
    with pytest.raises(ValueError, match="61 inducing points for 60 data"):
        fg.sweep_inducing(MODEL, X, Y, sizes=[4, 61], progress=False)
