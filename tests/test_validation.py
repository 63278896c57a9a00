import jax
import numpy as np
import pytest

import freegp as fg

X = np.random.default_rng(0).normal(size=(20, 2))
LABELS = (X[:, 0] > 0).astype(float)
NAN_ROWS = X.copy()
NAN_ROWS[[3, 8], 1] = np.nan
CONSTANT = X.copy()
CONSTANT[:, 1] = 2.0
TWINS = np.concatenate([X[:5], X[2:3]])


def replaced(y, index, value):
    y = np.array(y, dtype=object if isinstance(value, str) else float)
    y[index] = value
    return y


CASES = {
    "X is a vector": ({"X": X[:, 0]}, r"X must have shape \(N, D\).*X\[:, None\]"),
    "X is a cube": ({"X": X[None]}, r"shape \(1, 20, 2\)"),
    "X is empty": ({"X": np.zeros((0, 2)), "y": np.zeros(0)}, "X is empty"),
    "X has NaN rows": ({"X": NAN_ROWS}, "NaN or infinite in rows 3, 8; drop them"),
    "X has text": ({"X": X.astype(str)}, "X holds text"),
    "X has objects": ({"X": [[1.0, object()]] * 20}, "X is not numeric"),
    "X is ragged": ({"X": [[1.0, 2.0], [1.0]]}, "X is not numeric"),
    "X has a constant column": ({"X": CONSTANT}, "column 1 of X is 2 in every row"),
    "y is short": ({"y": LABELS[:-1]}, "y has 19 entries, but X has 20"),
    "y is a matrix": ({"y": np.stack([LABELS, LABELS], axis=1)}, "y must have shape"),
    "y has NaN": ({"y": replaced(LABELS, 7, np.nan)}, "NaN or infinite in row 7"),
    "y has text": ({"y": replaced(LABELS, 0, "yes")}, "y is not numeric"),
    "labels outside": ({"y": replaced(LABELS, 4, 3.0)}, "3 classes, but Bernoulli takes 2"),
    "one class": ({"y": np.ones(20)}, "only the label 1"),
    "M > N": ({"inducing": 21}, "21 inducing points for 20 data; use inducing=20 or fewer"),
    "Z > N": ({"inducing": np.random.default_rng(0).normal(size=(21, 2))}, "21 inducing points for 20 data"),
    "duplicate Z": ({"inducing": TWINS}, "rows 2 and 5 of inducing are the same point"),
    "Z has NaN": ({"inducing": NAN_ROWS}, "inducing is NaN or infinite in rows 3, 8"),
    "Z has other columns": ({"inducing": X[:4, :1]}, "inducing has 1 columns, but X has 2"),
    "few distinct rows": ({"X": np.repeat(X[:4], 5, axis=0), "inducing": 6}, "4 distinct rows"),
    "kernel of other columns": ({"kernel": fg.kernels.RBF(1.0, [1.0] * 3)}, "3 lengthscales, but sees 2"),
    "model is no model": ({"model": "RBF"}, "fg.SparseGP"),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_input_is_one_sentence_before_anything_compiles(name, monkeypatch):
    arguments, message = CASES[name]

    def forbidden(*_, **__):
        raise AssertionError("a fit was started")

    monkeypatch.setattr("freegp.approximation.fit.Problem", forbidden)
    usual = {"X": X, "y": LABELS, "kernel": fg.kernels.RBF(), "inducing": 4} | arguments
    model = usual.get("model") or fg.SparseGP(usual["kernel"], fg.likelihoods.Bernoulli(), inducing=usual["inducing"])
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        fg.fit_gaussian(model, usual["X"], usual["y"])
    assert "\n" not in str(caught.value)


def test_prediction_inputs_are_checked():
    model = fg.SparseGP(fg.kernels.RBF(), fg.likelihoods.Bernoulli(), inducing=4)
    fit = fg.fit_gaussian(model, X, LABELS, fg.NaturalGradient(max_steps=1))
    with pytest.raises(ValueError, match="Xs has 1 columns, but the model was fitted to 2"):
        fit.predict_f(X[:, :1])
    with pytest.raises(ValueError, match="row 3"):
        fit.predict_y(np.where(np.arange(20)[:, None] == 3, np.inf, X))
    with pytest.raises(ValueError, match="ys has 20 entries, but X has 3"):
        fit.predict_log_density(X[:3], LABELS)
    assert fit.predict_log_density(X[:1], [1.0]).shape == (1,), "a single label is fine to predict"


def test_what_is_not_bad_is_taken():
    """Integers, booleans, single precision, lists, a column of targets, JAX arrays."""
    model = fg.SparseGP(fg.kernels.RBF(), fg.likelihoods.Bernoulli(), inducing=4)
    settings = fg.NaturalGradient(max_steps=1)
    bounds = [
        fg.fit_gaussian(model, X.astype(np.float32), y, settings, train_inducing=False).elbo
        for y in (LABELS > 0, LABELS.astype(int), LABELS[:, None], LABELS.tolist(), jax.numpy.asarray(LABELS))
    ]
    np.testing.assert_allclose(bounds, bounds[0])
