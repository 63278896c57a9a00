import subprocess
import sys

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.stats import norm

from freegp.diagnostics import (
    Thresholds,
    diagnose,
    energy_bfmi,
    entry_names,
    import_arviz,
    psis_loo,
    psrf_curve,
    statistics,
    summary_table,
    tn_ess,
)


def independent(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def autoregressive(rho, *shape, seed=0):
    """Stationary chains ``x_t = rho x_{t-1} + noise`` of unit variance, along axis 1."""
    noise = independent(*shape, seed=seed) * np.sqrt(1.0 - rho**2)
    noise[:, 0] /= np.sqrt(1.0 - rho**2)
    return lfilter([1.0], [1.0, -rho], noise, axis=1)


def judged(draws, **changes):
    """Diagnostics of one group by a sampler with nothing else to report."""
    plain = {
        "acceptance": 0.8,
        "divergences": 0,
        "nonfinite": 0,
        "energy": None,
        "seconds_sampling": 2.0,
        "seconds_total": 8.0,
        "gradients": 4000,
    }
    groups = draws if isinstance(draws, dict) else {"theta": draws}
    return diagnose(groups, **(plain | changes))


# Statistics


def test_independent_draws_have_as_many_effective_samples():
    found = statistics(independent(4, 1000, 200))
    # One estimate has a spread of 4 %, the mean of 200 of 0.3 %; the smaller of the two tails is 4 % low.
    assert abs(found.ess_bulk.mean() / 4000 - 1.0) < 0.03
    assert abs(found.ess_tail.mean() / 4000 - 1.0) < 0.07
    assert found.ess_bulk.min() > 0.8 * 4000
    assert found.r_hat.max() < 1.01
    np.testing.assert_allclose(found.mcse, found.sd / np.sqrt(4000), rtol=0.15)
    z = found.mean / found.mcse
    assert abs(z).max() < 4.5
    assert 0.85 < z.std() < 1.15


@pytest.mark.parametrize("rho", [0.3, 0.6, 0.9])
def test_autoregressive_chains_have_the_known_ratio(rho):
    found = statistics(autoregressive(rho, 4, 2000, 100))
    assert found.ess_bulk.mean() / 8000 == pytest.approx((1.0 - rho) / (1.0 + rho), rel=0.15)
    assert np.std(found.mean / found.mcse) == pytest.approx(1.0, abs=0.25)


def test_antithetic_chains_are_better_than_independent_but_bounded():
    found = statistics(autoregressive(-0.5, 4, 1000, 20))
    assert (found.ess_bulk > 6000).all()
    assert (found.ess_bulk <= 4000 * np.log10(4000)).all()


def test_r_hat_sees_a_chain_that_is_shifted_and_one_that_is_wider():
    draws = independent(4, 1000, 3)
    draws[0, :, 0] += 1.0
    draws[0, :, 1] *= 3.0
    r_hat = statistics(draws).r_hat
    assert r_hat[0] > 1.05
    assert r_hat[1] > 1.05
    assert r_hat[2] < 1.01


def test_r_hat_of_one_chain_sees_a_trend():
    draws = independent(1, 1000, 2)
    draws[0, :, 0] += np.linspace(0.0, 2.0, 1000)
    r_hat = statistics(draws).r_hat
    assert r_hat[0] > 1.05
    assert r_hat[1] < 1.01


def cases():
    """Draws of every kind that the estimators treat apart."""
    yield "independent", independent(4, 100, 3)
    yield "odd", independent(3, 101, 3)
    yield "random walks", np.cumsum(independent(4, 200, 3), axis=1)
    yield "antithetic", autoregressive(-0.9, 2, 300, 3)
    yield "slow", autoregressive(0.99, 4, 250, 3)
    yield "ties", np.round(autoregressive(0.8, 4, 300, 3))
    yield "two values", np.sign(autoregressive(0.8, 4, 300, 3))
    yield "heavy tails", np.random.default_rng(0).standard_cauchy((4, 100, 3))
    yield "shifted", independent(4, 100, 3) + 2.0 * np.arange(4)[:, None, None]
    yield "far away", 1e6 + independent(4, 100, 3)
    for num_draws in (4, 5, 6, 7, 8, 9, 11):
        yield f"{num_draws} draws", independent(2, num_draws, 20)


@pytest.mark.parametrize("draws", [pytest.param(draws, id=kind) for kind, draws in cases()])
def test_statistics_agree_with_arviz(draws):
    import_arviz()
    from arviz.stats import diagnostics as theirs

    found = statistics(draws)
    for i in range(draws.shape[2]):
        chains = draws[:, :, i]
        np.testing.assert_allclose(found.r_hat[i], theirs._rhat_rank(chains), rtol=1e-6)
        np.testing.assert_allclose(found.ess_bulk[i], theirs._ess_bulk(chains), rtol=1e-6)
        np.testing.assert_allclose(found.ess_tail[i], theirs._ess_tail(chains), rtol=1e-6)
        np.testing.assert_allclose(found.mcse[i], theirs._mcse_mean(chains), rtol=1e-6)


def test_statistics_keep_the_shape_of_a_draw_and_do_not_depend_on_the_neighbours():
    draws = autoregressive(0.5, 2, 50, 300)
    found = statistics(draws.reshape(2, 50, 20, 15))
    assert found.ess_bulk.shape == (20, 15)
    for i in (0, 127, 128, 299):
        assert found.ess_bulk.flat[i] == statistics(draws[:, :, i]).ess_bulk
    assert statistics(draws[:, :, :0]).r_hat.shape == (0,)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e300])
def test_constants_have_no_r_hat(value):
    found = statistics(np.full((4, 100), value))
    assert found.constant
    assert found.mean == pytest.approx(value)
    assert found.sd == 0.0
    assert found.mcse == 0.0
    assert np.isnan([found.r_hat, found.ess_bulk, found.ess_tail]).all()


def test_chains_that_stand_still_apart_are_not_constant():
    found = statistics(np.broadcast_to(np.arange(4.0)[:, None], (4, 100)))
    assert not found.constant
    assert found.r_hat > 1e6
    assert found.ess_bulk < 5


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_one_broken_draw_spoils_its_quantity_alone(value):
    draws = independent(4, 100, 3)
    draws[2, 7, 1] = value
    found = statistics(draws)
    assert found.num_broken.tolist() == [0, 1, 0]
    assert np.isnan(found.r_hat).tolist() == [False, True, False]
    assert np.isnan(found.mean).tolist() == [False, True, False]


def test_draws_without_a_chain_axis_are_refused():
    with pytest.raises(ValueError, match=r"for one chain use draws\[None\]"):
        statistics(independent(100))
    with pytest.raises(ValueError, match=r"theta must have shape \(chain, draw, ...\)"):
        summary_table({"theta": independent(4, 0, 2)})


# Summary table


def test_summary_table_has_one_row_a_scalar():
    draws = 3.0 + 2.0 * independent(4, 500, 2, 2)
    table = summary_table({"kernel.variance": draws[:, :, 0, 0], "kernel.lengthscales": draws[:, :, 1], "whitened": draws})
    assert list(table.columns) == ["mean", "sd", "mcse", "r_hat", "ess_bulk", "ess_tail"]
    assert list(table.index)[:4] == ["kernel.variance", "kernel.lengthscales[0]", "kernel.lengthscales[1]", "whitened[0, 0]"]
    assert table.loc["kernel.variance"].equals(table.loc["whitened[0, 0]"])
    assert table.loc["kernel.lengthscales[1]"].equals(table.loc["whitened[1, 1]"])
    assert table.loc["whitened[1, 0]", "mean"] == pytest.approx(draws[:, :, 1, 0].mean())
    assert table.loc["whitened[1, 0]", "sd"] == pytest.approx(draws[:, :, 1, 0].std(ddof=1))


def test_summary_table_of_nothing_and_of_few_draws():
    assert summary_table({}).shape == (0, 6)
    table = summary_table({"a": np.array([[1.0, 3.0]])})
    assert table.loc["a", "mean"] == 2.0
    assert np.isnan(table.loc["a", "r_hat"])


def test_entry_names_follow_the_order_in_memory():
    assert entry_names("f", (2, 3))[4] == "f[1, 1]"
    assert entry_names("f", (0,)) == []


# Energy, efficiency, convergence against iterations


def test_energy_fraction_of_known_energies():
    np.testing.assert_allclose(energy_bfmi(independent(4, 4000)), 2.0, rtol=0.1)
    # For x_t = rho x_{t-1} + noise the fraction is 2 (1 - rho).
    np.testing.assert_allclose(energy_bfmi(autoregressive(0.95, 4, 20000)), 0.1, rtol=0.15)
    np.testing.assert_array_equal(energy_bfmi(np.ones((2, 10))), [np.nan, np.nan])
    np.testing.assert_array_equal(energy_bfmi(np.ones((2, 1))), [np.nan, np.nan])
    np.testing.assert_array_equal(energy_bfmi(np.full((1, 10), np.inf)), [np.nan])


def funnel_energies(num_draws):
    """Energies of Gibbs moves in a ten-dimensional funnel ``x ~ N(0, e^v)``: x is drawn afresh, v walks in small steps."""
    rng = np.random.default_rng(0)
    v = np.clip(np.cumsum(0.1 * rng.normal(size=num_draws)), -9.0, 9.0)
    x = np.exp(0.5 * v)[:, None] * rng.normal(size=(num_draws, 10))
    return v**2 / 18.0 + 5.0 * v + 0.5 * np.sum(x**2, axis=1) / np.exp(v)


def test_funnel_has_a_low_energy_fraction():
    energy = funnel_energies(2000)[None]
    assert energy_bfmi(energy)[0] < 0.3
    assert energy_bfmi(np.random.default_rng(0).permutation(energy, axis=1))[0] > 1.5


def test_time_normalised_ess_is_that_of_the_slowest():
    groups = {"theta": independent(4, 1000, 3), "whitened": autoregressive(0.9, 4, 1000, 5)}
    groups["theta"][:, :, 1] = 1.0
    slowest = statistics(groups["whitened"]).ess_bulk.min()
    found = tn_ess(groups, seconds_sampling=2.0, seconds_total=8.0, gradients=20_000)
    assert found.ess == slowest
    assert found.tn_ess == slowest / 2.0
    assert found.tn_ess_total == slowest / 8.0
    assert found.ess_per_1000_gradients == slowest / 20.0
    assert np.isnan(tn_ess(groups, seconds_sampling=2.0, seconds_total=8.0, gradients=0).ess_per_1000_gradients)


def test_psrf_curve_matches_the_definition():
    draws = autoregressive(0.9, 5, 300, 4) + 1e3
    curve = psrf_curve(draws, num_points=7, num_slowest=3)
    assert curve.iterations[-1] == 300
    assert len(curve.iterations) == 7
    np.testing.assert_array_equal(curve.variables, np.argsort(statistics(draws).ess_bulk)[:3])
    for n, row in zip(curve.iterations, curve.psrf, strict=True):
        for variable, value in zip(curve.variables, row, strict=True):
            chains = draws[:, :n, variable]
            within = np.mean([np.var(chain, ddof=1) for chain in chains])
            between = np.var([np.mean(chain) for chain in chains], ddof=1)
            assert value == pytest.approx(np.sqrt(((n - 1) / n * within + (1 + 1 / 5) * between) / within), rel=1e-9)


def test_psrf_curve_falls_to_one_and_leaves_constants_out():
    draws = autoregressive(0.95, 10, 5000, 3)
    draws[:, :, 1] = 2.0
    curve = psrf_curve(draws)
    assert sorted(curve.variables) == [0, 2]
    assert (curve.psrf[0] > 1.05).all()
    assert (curve.psrf[-1] < 1.03).all()


def test_psrf_curve_says_what_it_needs():
    with pytest.raises(ValueError, match="needs 2 chains of 4 draws, but there are 1 of 100; draw more"):
        psrf_curve(independent(1, 100, 2))
    with pytest.raises(ValueError, match="reshape them"):
        psrf_curve(independent(2, 100))
    with pytest.raises(ValueError, match="100 draws are NaN or infinite"):
        psrf_curve(np.full((1, 50, 1), np.nan) * np.ones((2, 1, 1)))


# Verdicts


def test_good_draws_converge():
    draws = {
        "theta": independent(4, 1000, 2),
        "whitened": autoregressive(0.3, 4, 1000, 5, 1),
        "log_density": independent(4, 1000, seed=1),
        "f": np.zeros((4, 1000, 3)),
    }
    found = judged(draws, acceptance=np.full((4, 1000), 0.75), energy=independent(4, 1000))
    assert found.converged
    worst = statistics(draws["whitened"])
    assert found.ess == worst.ess_bulk.min()
    assert found.groups["whitened"] == (worst.r_hat.max(), worst.ess_bulk.min())
    assert list(found.groups) == ["theta", "whitened", "log_density"]
    assert found.r_hat == max(r_hat for r_hat, _ in found.groups.values())
    assert found.tn_ess == found.ess / 2.0
    assert found.tn_ess_total == found.ess / 8.0
    assert found.ess_per_1000_gradients == found.ess / 4.0
    assert found.acceptance == 0.75
    assert len(found.ebfmi) == 4
    assert (found.num_chains, found.num_draws, found.gradients) == (4, 1000, 4000)
    fewest = int(min(found.ess, found.ess_tail))
    assert (
        found.verdict == f"converged: R-hat at most {np.ceil(1000 * found.r_hat) / 1000:.3f}, at least {fewest} effective samples"
    )


def test_high_r_hat_names_the_quantity_and_the_remedy():
    draws = {"theta": independent(4, 1000, 2), "whitened": independent(4, 1000, 3, 1)}
    draws["theta"][1, :, 1] += 1.0
    found = judged(draws, labels={"theta": ["kernel.variance", "kernel.lengthscales[0]"]})
    assert not found.converged
    assert found.verdict == (
        f"not converged: R-hat is {found.r_hat:.3f} for kernel.lengthscales[0], at most 1.01 wanted; "
        "run a longer warm-up and more draws, or another sampler"
    )
    assert found.groups["whitened"][0] < 1.01
    assert "for theta[1]" in judged(draws).verdict


def test_stuck_chains_are_not_left_out_as_constants():
    found = judged(np.broadcast_to(np.arange(4.0)[:, None, None], (4, 100, 1)))
    assert not found.converged
    assert "R-hat is above 100 for theta[0]" in found.verdict


def test_few_effective_samples_say_how_many_draws_are_enough():
    draws = autoregressive(0.95, 4, 4000, 1, seed=3)
    thresholds = Thresholds(ess_per_chain=1000)
    found = judged(draws, thresholds=thresholds)
    assert found.r_hat < 1.01
    assert not found.converged
    words = found.verdict.split()
    assert found.verdict.startswith(f"not converged: {int(min(found.ess, found.ess_tail))} effective samples of theta[0]")
    assert found.verdict.endswith("a chain instead of 4000")
    needed = int(words[words.index("draw") + 1])
    exact = 4000 * 4000 / min(found.ess, found.ess_tail)
    assert exact <= needed <= 1.1 * exact
    assert judged(autoregressive(0.95, 4, 2 * needed, 1, seed=4), thresholds=thresholds).converged


def test_slow_tails_are_seen_and_named():
    draws = np.exp(1.5 * autoregressive(0.95, 4, 4000)) * independent(4, 4000, seed=1)
    found = judged(draws, thresholds=Thresholds(ess_per_chain=500))
    assert found.ess_tail < 2000 < found.ess
    assert f"{int(found.ess_tail)} effective samples of theta in the tails, 2000 wanted" in found.verdict


def test_divergences_ask_for_a_smaller_step():
    flags = np.zeros((4, 1000), dtype=bool)
    flags[0, :3] = True
    found = judged(independent(4, 1000, 1), divergences=flags)
    assert found.divergences == 3
    assert not found.converged
    assert found.verdict == "not converged: 3 of 4000 draws diverged; use a smaller step or a higher target acceptance"
    assert judged(independent(4, 1000, 1), divergences=flags, thresholds=Thresholds(divergences=3)).converged


def test_few_rejected_nonfinite_proposals_are_mentioned_and_many_are_a_fault():
    few, many = (judged(independent(4, 1000, 1), nonfinite=count) for count in (2, 50))
    assert few.converged
    assert few.verdict.endswith("; non-finite proposals, all rejected: 2")
    assert not many.converged
    assert many.verdict == (
        "not converged: 50 of 4000 proposals were not finite; use a smaller step, tighter priors or more jitter"
    )


def test_low_energy_fraction_names_the_chain():
    energy = independent(2, 2000)
    energy[1] = funnel_energies(2000)
    found = judged(independent(2, 2000, 1), energy=energy)
    assert not found.converged
    assert found.verdict.startswith(f"not converged: E-BFMI is {found.ebfmi[1]:.2f} in chain 1, at least 0.3 wanted; ")
    assert judged(independent(2, 2000, 1), energy=np.ones((2, 2000))).converged


def test_faults_are_all_told():
    found = judged(independent(4, 50, 1), divergences=1, nonfinite=9, energy=np.tile(np.arange(50.0), (4, 1)))
    for fault in ("effective samples of theta[0]", "1 of 200 draws diverged", "9 of 200 proposals", "E-BFMI is 0.00 in chain 0"):
        assert fault in found.verdict


def test_one_chain_cannot_be_judged_by_itself():
    found = judged(independent(1, 1000, 1))
    assert not found.converged
    assert found.r_hat < 1.01
    assert found.verdict == ("cannot be judged: one chain only, so R-hat compares its halves and not chains; run num_chains=4")
    drifting = judged(independent(1, 1000, 1) + np.linspace(0.0, 2.0, 1000)[None, :, None])
    assert drifting.verdict.startswith("not converged: R-hat is")
    assert "one chain only" in drifting.verdict


def test_constants_are_left_out():
    draws = independent(4, 1000, 3)
    draws[:, :, 1] = 5.0
    found = judged({"theta": draws, "whitened": np.ones((4, 1000, 2, 1)), "f": np.ones((4, 1000, 0))})
    assert found.converged
    assert list(found.groups) == ["theta"]
    assert np.isfinite([found.r_hat, found.ess, found.ess_tail, found.tn_ess]).all()


def test_nothing_but_constants_is_a_sampler_that_stands_still():
    found = judged(np.ones((4, 1000, 2)))
    assert not found.converged
    assert found.verdict.startswith("cannot be judged: no quantity moves; see that proposals are accepted")
    assert found.groups == {}


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_broken_draws_are_reported(value):
    draws = {"theta": independent(4, 1000, 3), "log_density": independent(4, 1000)}
    draws["theta"][0, :2, 1] = value
    found = judged(draws)
    assert not found.converged
    assert found.verdict.startswith("cannot be judged: 2 draws of theta[1] are NaN or infinite; ")
    assert np.isnan([found.r_hat, found.ess, found.tn_ess]).all()
    assert np.isfinite(found.groups["log_density"]).all()
    draws["log_density"][0, 0] = value
    assert "2 draws of theta[1] (and of 1 more) are NaN or infinite" in judged(draws).verdict
    energy = independent(4, 1000)
    energy[0, 0] = value
    broken = judged(independent(4, 1000, 1), energy=energy)
    assert broken.verdict.startswith("cannot be judged: 1 draw of the energy is NaN or infinite; ")


@pytest.mark.parametrize("num_draws", [1, 2, 3])
def test_few_draws_are_a_clear_sentence(num_draws):
    found = judged(independent(4, num_draws, 2), energy=independent(4, num_draws))
    assert not found.converged
    noun = "draw" if num_draws == 1 else "draws"
    assert found.verdict == f"cannot be judged: {num_draws} {noun} a chain; draw at least 4, better 1000"
    assert judged(independent(4, 4, 2)).r_hat > 0.0


def test_groups_that_do_not_fit_together_are_refused():
    with pytest.raises(ValueError, match=r"theta \(4, 10\), f \(4, 9\)"):
        judged({"theta": independent(4, 10, 1), "f": independent(4, 9, 1)})
    with pytest.raises(ValueError, match="there are no draws to judge"):
        judged({})
    with pytest.raises(ValueError, match=r"energy must have shape \(chain, draw\) = \(4, 10\)"):
        judged(independent(4, 10, 1), energy=independent(4, 9))
    with pytest.raises(ValueError, match="theta has 1 entries, but 2 labels"):
        judged(independent(4, 10, 1), labels={"theta": ["a", "b"]})


# Leave-one-out


def linear_model(num_data=30, unexplained=0.5, noise=0.3):
    """Draws from ``N(v; 0, I) exp(sum_n E_n)`` with f_n ~ N(a_n v, unexplained) and y_n ~ N(f_n, noise), and the exact answer."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(num_data, 3))
    y = features @ rng.normal(size=3) + np.sqrt(noise) * rng.normal(size=num_data)
    exact = np.empty(num_data)
    for n in range(num_data):
        others = np.delete(np.arange(num_data), n)
        covariance = np.linalg.inv(np.eye(3) + features[others].T @ features[others] / noise)
        mean = covariance @ features[others].T @ y[others] / noise
        variance = features[n] @ covariance @ features[n] + unexplained + noise
        exact[n] = norm.logpdf(y[n], features[n] @ mean, np.sqrt(variance))
    covariance = np.linalg.inv(np.eye(3) + features.T @ features / noise)
    mean = covariance @ features.T @ y / noise
    f = rng.multivariate_normal(mean, covariance, size=(4, 2500)) @ features.T
    expected = norm.logpdf(y, f, np.sqrt(noise)) - 0.5 * unexplained / noise
    return expected, norm.logpdf(y, f, np.sqrt(noise + unexplained)), exact


@pytest.mark.parametrize("unexplained", [0.0, 0.5])
def test_leave_one_out_matches_the_exact_densities(unexplained):
    expected, predictive, exact = linear_model(unexplained=unexplained)
    found = psis_loo(expected, predictive)
    np.testing.assert_allclose(found.pointwise, exact, atol=0.02)
    assert found.elpd == pytest.approx(exact.sum(), abs=0.06)
    assert found.se == pytest.approx(np.sqrt(30 * exact.var()), rel=0.05)
    assert found.threshold == 0.7
    assert found.verdict == f"reliable: Pareto k at most {found.pareto_k.max():.2f}"


def test_leave_one_out_weighs_by_the_factor_in_the_target():
    expected, predictive, exact = linear_model(unexplained=0.5)
    for wrong in (psis_loo(predictive, predictive), psis_loo(expected, expected)):
        assert abs(wrong.elpd - exact.sum()) > 0.5


def test_leave_one_out_agrees_with_arviz_when_nothing_is_left_unexplained():
    arviz = import_arviz()
    expected, predictive, _ = linear_model(unexplained=0.0)
    data = arviz.from_dict(posterior={"a": independent(4, 2500)}, log_likelihood={"y": expected})
    theirs = arviz.loo(data, pointwise=True, reff=1.0)
    np.testing.assert_allclose(psis_loo(expected, predictive).pointwise, theirs.loo_i, atol=2e-3)


def test_leave_one_out_says_which_data_it_cannot_do_without():
    expected, predictive, _ = linear_model(unexplained=0.0)
    expected[:, :, 4] = -((3.0 * independent(4, 2500)) ** 2)
    found = psis_loo(expected, predictive)
    assert found.pareto_k[4] > 0.7
    assert found.verdict.startswith("not reliable: Pareto k is above 0.70 for 1 of 30 data, up to ")
    assert "for datum 4; sample again without these data" in found.verdict


def test_leave_one_out_of_a_datum_without_influence():
    expected, predictive, _ = linear_model()
    expected[:, :, 2] = -1.0
    found = psis_loo(expected, predictive)
    assert found.pareto_k[2] == 0.0
    assert found.pointwise[2] == pytest.approx(np.log(np.mean(np.exp(predictive[:, :, 2]))))
    assert psis_loo(np.ones((4, 100, 2)), np.ones((4, 100, 2))).elpd == pytest.approx(2.0)


def test_leave_one_out_refuses_what_it_cannot_use():
    expected, predictive, _ = linear_model()
    with pytest.raises(ValueError, match=r"one shape \(chain, draw, N\)"):
        psis_loo(expected, predictive[:, :, :-1])
    with pytest.raises(ValueError, match="needs 25 draws, but there are 24; draw more"):
        psis_loo(expected[:, :6], predictive[:, :6])
    predictive[0, 0, 3] = np.nan
    with pytest.raises(ValueError, match="log_predictive is NaN or infinite for 1 data, the first 3"):
        psis_loo(expected, predictive)


def test_arviz_is_imported_late_and_silently(tmp_path):
    script = (
        "import sys, freegp.diagnostics as d; assert 'arviz' not in sys.modules; d.import_arviz(); assert 'arviz' in sys.modules"
    )
    # A fresh cache directory, as the notice comes once a day.
    environment = {"XDG_CACHE_HOME": str(tmp_path), "HOME": str(tmp_path), "JAX_PLATFORMS": "cpu"}
    subprocess.run([sys.executable, "-W", "error::FutureWarning", "-c", script], check=True, env=environment)
