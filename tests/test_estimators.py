import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
from reference import conditional, kernel_matrix, rbf
from scipy.optimize import brentq
from scipy.special import softmax
from scipy.stats import norm
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import freegp as fg
from freegp.estimators import GPClassifier, GPCountRegressor, GPRegressor
from freegp.estimators.base import default_size

# One shape for most tests, so that most programs are compiled once.
rng = np.random.default_rng(0)
X = rng.uniform(-2.0, 2.0, (40, 2)) * [1.0, 10.0] + [0.0, 100.0]
SIGNAL = np.sin(1.5 * X[:, 0]) + 0.1 * (X[:, 1] - 100.0)
LABELS = np.where(SIGNAL + 0.3 * rng.normal(size=40) > 0.0, "yes", "no")
NUMBERS = 50.0 + 7.0 * (SIGNAL + 0.2 * rng.normal(size=40))
EXPOSURE = rng.uniform(0.5, 3.0, 40)
COUNTS = rng.poisson(6.0 * EXPOSURE * np.exp(0.5 * SIGNAL))


@pytest.fixture(scope="module")
def classifier():
    return GPClassifier(method="gaussian").fit(X, LABELS)


@pytest.fixture(scope="module")
def regressor():
    return GPRegressor(method="gaussian").fit(X, NUMBERS)


@pytest.fixture(scope="module")
def counter():
    return GPCountRegressor(method="gaussian").fit(X, COUNTS, exposure=EXPOSURE)


@pytest.fixture(scope="module")
def sampled():
    with pytest.warns(ConvergenceWarning, match=r"GPRegressor: .*one chain only.*num_chains=4"):
        return GPRegressor(num_samples=60, num_warmup=50, num_chains=1).fit(X, NUMBERS)


def standardised(inputs):
    return (inputs - X.mean(axis=0)) / X.std(axis=0)


# scikit-learn's own checks


class RoundedCounts(GPCountRegressor):
    """The checks give targets that are not counts, and too few of them to explain much: rounded, as they are positive."""

    def _counts(self, y):
        return super()._counts(np.round(y))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags


class StandIn:
    """Kernel ridge regression in NumPy, with the face of a Gaussian approximation."""

    status, message = "converged", "converged"

    def __init__(self, model, X, y, **options):
        self.model, self.X, self.kind = model, X, type(model.likelihood).__name__
        targets = {"Softmax": lambda: np.eye(int(y.max()) + 1)[y.astype(int)], "Bernoulli": lambda: 2.0 * y - 1.0}
        self.targets = targets.get(self.kind, lambda: y / np.asarray(getattr(model.likelihood, "exposure", 1.0)))()
        self.weights = np.linalg.solve(self.covariance(X) + 0.1 * np.eye(len(X)), self.targets - self.targets.mean(axis=0))

    def covariance(self, Xs):
        return np.exp(-0.5 * np.square(Xs[:, None] - self.X).sum(axis=-1) / self.X.shape[1])

    def predict_y(self, Xs, exposure=1.0):
        f = self.targets.mean(axis=0) + self.covariance(Xs) @ self.weights
        if self.kind == "Softmax":
            return softmax(5.0 * f, axis=1), None
        return (norm.cdf(2.0 * f), None) if self.kind == "Bernoulli" else (exposure * f, np.ones(len(Xs)))

    def predict_log_density(self, Xs, ys):
        p = self.predict_y(Xs)[0]
        p = np.stack([1.0 - p, p], axis=1) if p.ndim == 1 else p
        return np.log(p[np.arange(len(Xs)), ys.astype(int)])


@pytest.fixture
def stand_in(monkeypatch):
    """In place of the fit, which would be compiled anew for each of the many shapes of data that scikit-learn makes."""
    monkeypatch.setattr("freegp.estimators.base.fit_gaussian", StandIn)


ESTIMATORS = (GPClassifier, GPRegressor, RoundedCounts)


@parametrize_with_checks([estimator(method="gaussian") for estimator in ESTIMATORS])
@pytest.mark.usefixtures("stand_in")
def test_scikit_learn_checks_of_the_interface(estimator, check):
    check(estimator)


NUMERICAL = (
    "check_dict_unchanged",
    "check_estimators_pickle",
    "check_fit2d_1feature",
    "check_fit_idempotent",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
)
"""The checks in which the numbers matter, and not the interface alone."""


def run_if_numerical(estimator, check):
    if getattr(check, "func", check).__name__ not in NUMERICAL:
        pytest.skip("of the interface alone, and run with the stand-in")
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks([estimator(method="gaussian", inducing=5) for estimator in ESTIMATORS])
def test_scikit_learn_checks_with_the_gaussian_approximation(estimator, check):
    run_if_numerical(estimator, check)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([GPClassifier(inducing=5, num_samples=10, num_warmup=20, num_chains=1)])
def test_scikit_learn_checks_with_chains(estimator, check):
    run_if_numerical(estimator, check)


# Answers


def test_regression_is_that_of_the_exact_gaussian_process(regressor):
    values = regressor.model_.parameter_values()
    k = rbf(values["kernel.variance"], values["kernel.lengthscales"])
    inputs, new = standardised(X), standardised(X[:7] + 0.3)
    y = (NUMBERS - NUMBERS.mean()) / NUMBERS.std()
    K = kernel_matrix(k, inputs, inputs) + values["likelihood.variance"] * np.eye(len(y))
    Ks = kernel_matrix(k, inputs, new)
    mean = Ks.T @ np.linalg.solve(K, y)
    variance = values["kernel.variance"] - np.sum(Ks * np.linalg.solve(K, Ks), axis=0) + values["likelihood.variance"]
    found, deviation = regressor.predict(X[:7] + 0.3, return_std=True)
    np.testing.assert_allclose(found, NUMBERS.mean() + NUMBERS.std() * mean, rtol=1e-4)
    np.testing.assert_allclose(deviation, NUMBERS.std() * np.sqrt(variance), rtol=1e-4)


def test_answers_follow_the_units_of_the_data(regressor):
    other = clone(regressor).fit(X * [3.0, -0.01] + 5.0, 1e4 - 20.0 * NUMBERS)
    mean, deviation = regressor.predict(X, return_std=True)
    other_mean, other_deviation = other.predict(X * [3.0, -0.01] + 5.0, return_std=True)
    np.testing.assert_allclose(other_mean, 1e4 - 20.0 * mean, rtol=1e-4)
    np.testing.assert_allclose(other_deviation, 20.0 * deviation, rtol=1e-3)


def test_quantiles_of_one_gaussian(regressor):
    mean, deviation = regressor.predict(X, return_std=True)
    found = regressor.predict_quantiles(X, [0.05, 0.5, 0.9])
    assert found.shape == (3, 40)
    exact = norm.ppf(np.array([0.05, 0.5, 0.9])[:, None], mean, deviation)
    assert np.max(np.abs(found - exact) / deviation) < 0.08  # 4 standard errors of 10 000 draws
    np.testing.assert_allclose(regressor.predict_quantiles(X[3:5], [0.9]), found[2:, 3:5])


def test_quantiles_of_the_mixture_over_draws(sampled):
    posterior, new = sampled.posterior_, X[:2]
    Z = np.asarray(posterior.model.inducing_inputs)
    moments = []
    for s in range(60):
        at = {name: draws[0, s] for name, draws in posterior.draws.items()}
        k = rbf(at["kernel.variance"], at["kernel.lengthscales"])
        mean, variance = conditional(k, Z, standardised(new), at["whitened"][:, 0], 1e-6)
        moments.append((mean, np.sqrt(variance + at["likelihood.variance"])))
    mean, deviation = (np.array(part) * NUMBERS.std() for part in zip(*moments, strict=True))
    mean += NUMBERS.mean()
    np.testing.assert_allclose(sampled.predict(new), mean.mean(axis=0), rtol=1e-6)
    found = sampled.predict_quantiles(new, [0.1, 0.8])
    for level, row in zip([0.1, 0.8], found, strict=True):
        for n in range(2):
            exact = brentq(lambda q, n=n, level=level: norm.cdf(q, mean[:, n], deviation[:, n]).mean() - level, -200.0, 300.0)
            assert abs(row[n] - exact) < 0.08 * deviation[:, n].mean()


@pytest.mark.slow
def test_quantiles_of_counts_agree_with_their_probabilities(counter):
    new, exposure = X[:6], np.linspace(0.5, 3.0, 6)
    found = counter.predict_quantiles(new, [0.1, 0.5, 0.9], exposure=exposure)
    inputs, scaled, support = standardised(new), exposure * counter.rate_, np.arange(200.0)
    densities = [counter.approximation_.predict_log_density(inputs, np.full(6, k), exposure=scaled) for k in support]
    below = np.cumsum(np.exp(np.array(densities)), axis=0)
    np.testing.assert_allclose(below[-1], 1.0, atol=1e-6)
    mean = np.sum(np.diff(below, axis=0, prepend=0.0) * support[:, None], axis=0)
    np.testing.assert_allclose(counter.predict(new, exposure=exposure), mean, rtol=1e-4)
    rows = np.arange(6)
    for level, quantile in zip([0.1, 0.5, 0.9], found.astype(int), strict=True):
        assert (below[quantile, rows] > level - 0.02).all()
        assert (np.where(quantile > 0, below[quantile - 1, rows], 0.0) < level + 0.02).all()


def test_exposure_scales_counts(counter):
    np.testing.assert_allclose(counter.predict(X, exposure=2.0), 2.0 * counter.predict(X), rtol=1e-10)
    other = clone(counter).fit(X, COUNTS, exposure=10.0 * EXPOSURE)
    np.testing.assert_allclose(other.predict(X, exposure=10.0), counter.predict(X), rtol=1e-6)
    assert counter.rate_ == pytest.approx(COUNTS.sum() / EXPOSURE.sum())
    assert counter.score(X, COUNTS, exposure=EXPOSURE) > 0.7
    assert counter.score(X, COUNTS, exposure=EXPOSURE) > counter.score(X, COUNTS, exposure=1.0)


def test_counts_are_scored_in_the_exposures_they_were_taken_in(counter):
    with pytest.raises(ValueError, match=r"pass exposure= to score; in cross-validation, set_fit_request"):
        counter.score(X, COUNTS)
    mean, deviation = counter.predict(X, exposure=EXPOSURE, return_std=True)
    np.testing.assert_allclose(mean, counter.predict(X, exposure=EXPOSURE))
    assert (deviation >= np.sqrt(mean)).all(), "at least Poisson noise"


def test_log_loss_is_that_of_scikit_learns_classifier(classifier):
    fresh = np.random.default_rng(1).uniform(-2.0, 2.0, (300, 2)) * [1.0, 10.0] + [0.0, 100.0]
    truth = np.where(np.sin(1.5 * fresh[:, 0]) + 0.1 * (fresh[:, 1] - 100.0) > 0.0, "yes", "no")
    theirs = GaussianProcessClassifier(ConstantKernel(1.0) * RBF([1.0, 1.0])).fit(standardised(X), LABELS)
    our_loss = log_loss(truth, classifier.predict_proba(fresh), labels=classifier.classes_)
    their_loss = log_loss(truth, theirs.predict_proba(standardised(fresh)), labels=theirs.classes_)
    assert our_loss < 0.5
    assert our_loss < their_loss + 0.05


def test_probabilities(classifier):
    p = classifier.predict_proba(X)
    assert classifier.classes_.tolist() == ["no", "yes"]
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_array_equal(classifier.predict(X), np.where(p[:, 1] > 0.5, "yes", "no"))
    np.testing.assert_allclose(np.exp(classifier.predict_log_proba(X)), p, atol=1e-10)
    assert classifier.score(X, LABELS) > 0.85


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", ["softmax", "robustmax"])
def test_several_classes(likelihood):
    words = np.array(["low", "middle", "high"])[np.digitize(SIGNAL, [-0.7, 0.7])]
    fitted = GPClassifier(likelihood=likelihood, inducing=10, method="gaussian").fit(X, words)
    p = fitted.predict_proba(X)
    assert fitted.classes_.tolist() == ["high", "low", "middle"]
    assert p.shape == (40, 3)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_allclose(np.exp(fitted.predict_log_proba(X)), p, atol=1e-6)
    assert fitted.score(X, words) > 0.8
    assert type(fitted.model_.likelihood).__name__.lower() == likelihood


@pytest.mark.slow
def test_student_noise_shrugs_outliers_off(regressor):
    spoilt = NUMBERS.copy()
    spoilt[[3, 17, 30]] += 300.0
    robust = GPRegressor(noise="student", method="gaussian").fit(X, spoilt)
    plain = clone(regressor).fit(X, spoilt)
    truth = 50.0 + 7.0 * SIGNAL
    assert np.median(np.abs(robust.predict(X) - truth)) < 0.5 * np.median(np.abs(plain.predict(X) - truth))
    assert robust.model_.parameter_values()["likelihood.df"] == 4.0
    assert np.isfinite(robust.predict(X, return_std=True)[1]).all()


# Parameters


def test_default_model(regressor):
    model = regressor.model_
    beliefs = dict(model.priors)
    assert model.parameter_values()["kernel.lengthscales"] != [1.0, 1.0]
    assert beliefs["kernel.lengthscales"] == fg.priors.LogNormal(0.5 * np.log(2.0), 1.0)
    assert beliefs["likelihood.variance"] == fg.priors.LogNormal(np.log(0.1), 2.0)
    np.testing.assert_allclose(np.asarray(model.inducing_inputs), np.unique(standardised(X), axis=0), atol=1e-12)


def test_default_size_grows_slowly():
    assert [default_size(n, 2) for n in (1, 99, 100, 101)] == [1, 99, 100, 100]
    sizes = [default_size(n, 10) for n in (200, 1000, 10_000, 100_000, 10**7)]
    assert sizes == sorted(sizes)
    assert sizes[-1] == 400
    assert default_size(10**6, 1) == 100


@pytest.mark.slow
def test_priors_and_kernel_of_ones_own():
    beliefs = {"likelihood.df": fg.priors.Gamma(2.0, 0.1), "kernel.variance": fg.priors.HalfNormal(2.0)}
    own = GPRegressor(noise="student", kernel=fg.kernels.Matern32(), priors=beliefs, inducing=6, method="gaussian").fit(
        X, NUMBERS
    )
    found = dict(own.model_.priors)
    assert found["kernel.variance"] == fg.priors.HalfNormal(2.0)
    assert found["likelihood.df"] == fg.priors.Gamma(2.0, 0.1)
    assert isinstance(own.model_.kernel, fg.kernels.Matern32)
    assert own.model_.num_inducing == 6


@pytest.mark.slow
def test_inducing_inputs_are_given_in_the_units_of_X_and_held():
    own = GPRegressor(inducing=X[:6], method="gaussian").fit(X, NUMBERS)
    np.testing.assert_allclose(np.asarray(own.model_.inducing_inputs), standardised(X)[:6], atol=1e-12)


@pytest.mark.slow
def test_inducing_points_by_number_are_moved_to_gain():
    own = GPRegressor(inducing=6, method="gaussian").fit(X, NUMBERS)
    held = GPRegressor(inducing=X[:6], method="gaussian").fit(X, NUMBERS)
    assert own.model_.num_inducing == 6
    assert own.approximation_.elbo > held.approximation_.elbo + 1.0


@pytest.mark.slow
def test_random_state_is_what_scikit_learn_has():
    def predicted(random_state):
        return GPRegressor(inducing=6, method="gaussian", random_state=random_state).fit(X, NUMBERS).predict(X)

    np.testing.assert_array_equal(predicted(3), predicted(3))
    np.testing.assert_array_equal(predicted(np.random.RandomState(3)), predicted(3))
    assert np.isfinite(predicted(None)).all()


# Chains


def test_sampled_estimator_survives_pickling(sampled):
    again = pickle.loads(pickle.dumps(sampled))
    np.testing.assert_array_equal(again.predict(X), sampled.predict(X))
    assert again.diagnostics_.verdict == sampled.diagnostics_.verdict
    assert not sampled.diagnostics_.converged
    assert sampled.posterior_.free.shape[:2] == (1, 60)


def test_joblib_keeps_estimators(sampled, classifier, tmp_path):
    for fitted, method in ((sampled, "predict"), (classifier, "predict_proba")):
        joblib.dump(fitted, tmp_path / "fitted.joblib")
        again = joblib.load(tmp_path / "fitted.joblib")
        np.testing.assert_array_equal(getattr(again, method)(X), getattr(fitted, method)(X))
        assert str(again.approximation_) == str(fitted.approximation_)


def test_as_many_points_as_it_takes():
    fitted = GPClassifier(inducing="auto", method="gaussian").fit(X, LABELS)
    assert "M = " in fitted.approximation_.message
    assert not fitted.approximation_.sparsity.matters
    assert fitted.model_.num_inducing <= 40
    assert clone(fitted).inducing == "auto"


@pytest.mark.slow
def test_default_chains_converge_without_a_warning():
    inputs = np.random.default_rng(1).uniform(-2.0, 2.0, (120, 2))
    labels = np.sin(1.5 * inputs[:, 0]) + inputs[:, 1] + 0.3 * np.random.default_rng(2).normal(size=120) > 0.0
    fitted = GPClassifier().fit(inputs, labels)  # a warning would be an error
    assert fitted.diagnostics_.converged
    assert fitted.posterior_.free.shape[:2] == (4, 1000)
    assert fitted.score(inputs, labels) > 0.85


# With the rest of scikit-learn


@pytest.mark.usefixtures("stand_in")
def test_cross_validation_and_grid_search_in_a_pipeline():
    pipeline = make_pipeline(MinMaxScaler(), GPRegressor(method="gaussian"))
    grid = {"gpregressor__inducing": [1, 6], "gpregressor__kernel": [None, fg.kernels.Matern32()]}
    search = GridSearchCV(pipeline, grid, cv=3).fit(X, NUMBERS)
    scores = cross_val_score(search.best_estimator_, X, NUMBERS, cv=3)
    assert search.best_score_ == pytest.approx(scores.mean())
    assert scores.min() > 0.3
    assert search.best_estimator_[-1].model_.inducing.num_inducing == search.best_params_["gpregressor__inducing"]


@pytest.mark.slow
def test_cross_validation_of_the_real_fit_in_a_pipeline():
    pipeline = make_pipeline(MinMaxScaler(), GPRegressor(method="gaussian", inducing=6))
    assert cross_val_score(pipeline, X, NUMBERS, cv=2).min() > 0.6


@pytest.mark.slow
def test_cross_validation_in_parallel():
    estimator = GPRegressor(method="gaussian", inducing=6)
    np.testing.assert_allclose(
        cross_val_score(estimator, X, NUMBERS, cv=2, n_jobs=2), cross_val_score(estimator, X, NUMBERS, cv=2), rtol=1e-6
    )


@pytest.mark.slow
def test_grid_search_over_inducing_points_and_kernels():
    grid = {"inducing": [1, 6], "kernel": [None, fg.kernels.Matern32()]}
    search = GridSearchCV(GPRegressor(method="gaussian"), grid, cv=2).fit(X, NUMBERS)
    assert search.best_params_["inducing"] == 6
    assert search.best_score_ > 0.6


def test_tables_keep_their_names(regressor):
    table = pd.DataFrame(X, columns=["depth", "temperature"])
    fitted = clone(regressor).fit(table, NUMBERS)
    assert fitted.feature_names_in_.tolist() == ["depth", "temperature"]
    np.testing.assert_allclose(fitted.predict(table), regressor.predict(X))
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(table[["temperature", "depth"]])


# Awkward data


@pytest.mark.parametrize("num_rows", [2, *(pytest.param(n, marks=pytest.mark.slow) for n in (3, 4, 5))])
def test_few_rows_of_one_column(num_rows):
    few = GPRegressor(method="gaussian").fit(X[:num_rows, :1], NUMBERS[:num_rows])
    assert np.isfinite(few.predict(X[:, :1])).all()


@pytest.mark.slow
def test_duplicated_rows_share_an_inducing_point():
    twice = GPRegressor(method="gaussian").fit(np.repeat(X[:5], 2, axis=0), NUMBERS[:10])
    assert twice.model_.num_inducing == 5
    assert np.isfinite(twice.predict(X)).all()


def test_constant_columns_are_left_out(regressor):
    padded = np.column_stack([X[:, 0], np.full(40, 0.1), X[:, 1]])
    fitted = clone(regressor).fit(padded, NUMBERS)
    np.testing.assert_allclose(fitted.predict(padded + np.array([0.0, 9.0, 0.0])), regressor.predict(X))
    assert fitted.n_features_in_ == 3
    with pytest.raises(ValueError, match="column 1 of X is the same in every row; drop it, or leave kernel=None"):
        GPRegressor(kernel=fg.kernels.RBF()).fit(padded, NUMBERS)


@pytest.mark.slow
def test_constant_targets(regressor):
    np.testing.assert_allclose(clone(regressor).fit(X, np.full(40, 8.0)).predict(X), 8.0, atol=1e-6)


def test_no_counts_at_all(counter):
    fitted = clone(counter).fit(X, np.zeros(40), exposure=EXPOSURE)
    assert (fitted.predict(X) < 0.1).all()


def spoil(value):
    y = NUMBERS.copy()
    y[3] = value
    return y


@pytest.mark.parametrize(
    ("estimator", "inputs", "targets", "message"),
    [
        (GPClassifier(), X, np.full(40, "yes"), "y holds one class only, .*yes.*; a classifier needs data of at least two"),
        (GPRegressor(), X, spoil(np.nan), "NaN"),
        (GPRegressor(), np.where(X < -1.5, np.nan, X), NUMBERS, "NaN"),
        (GPRegressor(), X[:1], NUMBERS[:1], "1 sample"),
        (GPRegressor(), np.repeat(X[:1], 40, axis=0), NUMBERS, "every row of X is the same"),
        (GPCountRegressor(), X, -COUNTS, "takes counts 0, 1, 2"),
        (GPCountRegressor(), X, COUNTS + 0.5, "takes counts 0, 1, 2"),
        (GPRegressor(method="mcmc"), X, NUMBERS, "method must be one of 'sample', 'gaussian', but is 'mcmc'"),
        (GPRegressor(noise="laplace"), X, NUMBERS, "noise must be one of 'gaussian', 'student', but is 'laplace'"),
        (GPRegressor(inducing="many"), X, NUMBERS, "inducing must be one of 'auto', but is 'many'"),
        (GPRegressor(inducing=[[0.0]]), X, NUMBERS, r"inducing has shape \(1, 1\), but must be \(M, 2\)"),
        (GPClassifier(link="cauchit"), X, LABELS, "link must be one of"),
        (GPClassifier(likelihood="poisson"), X, LABELS, "likelihood must be one of"),
        (GPCountRegressor(likelihood="softmax"), X, COUNTS, "likelihood must be one of"),
    ],
)
def test_bad_data_and_options_are_refused_in_words(estimator, inputs, targets, message):
    with pytest.raises(ValueError, match=message):
        estimator.fit(inputs, targets)


def test_bad_predictions_are_refused_in_words(regressor, counter):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        GPRegressor().predict(X)
    with pytest.raises(ValueError, match="expecting 2 features"):
        regressor.predict(X[:, :1])
    with pytest.raises(ValueError, match="between 0 and 1"):
        regressor.predict_quantiles(X, [0.5, 1.0])
    with pytest.raises(ValueError, match=r"exposure has shape \(3,\) for 40 rows"):
        counter.predict(X, exposure=[1.0, 1.0, 1.0])
    with pytest.raises(ValueError, match="exposure must be positive"):
        counter.predict(X, exposure=0.0)
