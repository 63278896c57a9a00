import equinox as eqx
import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from reference import conditional, kernel_matrix, numerical_gradient, rbf
from scipy import stats

import freegp as fg
from freegp.parameters import log_jacobian, log_prior, to_free
from freegp.target.kept import keep, kept_data_term
from freegp.target.projection import unwhiten

RNG = np.random.default_rng(3)
X = RNG.uniform(0, 3, (11, 2))
Z = RNG.uniform(0, 3, (4, 2))
COUNTS = RNG.poisson(1.5, 11).astype(float)
LABELS = RNG.integers(0, 3, 11).astype(float)


def poisson_model(block_size=2048, lengthscales=(0.9, 1.4), inducing=Z, exposure=0.5):
    kernel = fg.kernels.RBF(1.3, jnp.asarray(lengthscales))
    return fg.SparseGP(kernel, fg.likelihoods.Poisson(exposure), inducing=inducing, block_size=block_size)


def test_matches_the_double_loop():
    v = RNG.normal(size=4)
    mean, variance = conditional(rbf(1.3, [0.9, 1.4]), Z, X, v, 1e-6)
    expected = np.sum(
        COUNTS * (mean + np.log(0.5)) - 0.5 * np.exp(mean + variance / 2) - [float(mpmath.loggamma(c + 1)) for c in COUNTS]
    )
    np.testing.assert_allclose(fg.expected_log_likelihood(poisson_model(), X, COUNTS, v[:, None]), expected, rtol=1e-9)
    np.testing.assert_allclose(fg.expected_log_likelihood(poisson_model(), X, COUNTS, v), expected, rtol=1e-9)


def test_log_density_adds_both_priors_and_the_jacobian():
    v = RNG.normal(size=(4, 1))
    model = poisson_model().prepared(X)
    free = to_free(model)
    expected = (
        fg.expected_log_likelihood(model, X, COUNTS, v)
        + stats.norm.logpdf(v).sum()
        + log_prior(model, free)
        + log_jacobian(model, free)
    )
    np.testing.assert_allclose(fg.log_density(model, jnp.asarray(X), jnp.asarray(COUNTS), free, jnp.asarray(v)), expected)


@pytest.mark.parametrize("block_size", [1, 3, 4, 11])
def test_blocks_change_neither_value_nor_gradient(block_size):
    v = jnp.asarray(RNG.normal(size=(4, 1)))
    exposure = RNG.uniform(0.2, 2.0, 11)

    def both(block_size):
        model = poisson_model(block_size, exposure=exposure)
        return eqx.filter_value_and_grad(lambda at: 3.0 * fg.expected_log_likelihood(at[0], X, COUNTS, at[1]))((model, v))

    for got, expected in zip(jax.tree.leaves(both(block_size)), jax.tree.leaves(both(2048)), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("num_columns", [1, 5])
def test_blocks_of_few_columns_and_of_many(num_columns):
    """The former are laid out anew, column by column; the latter are read where they lie."""
    rng = np.random.default_rng(0)
    X, v = rng.uniform(0, 3, (11, num_columns)), jnp.asarray(rng.normal(size=(4, 1)))

    def both(block_size):
        kernel = fg.kernels.Matern52(1.3, np.linspace(1.0, 2.0, num_columns))
        model = fg.SparseGP(kernel, fg.likelihoods.Poisson(np.linspace(0.5, 2.0, 11)), inducing=X[:4], block_size=block_size)
        return eqx.filter_value_and_grad(lambda at: fg.expected_log_likelihood(at[0], X, COUNTS, at[1]))((model, v))

    for got, expected in zip(jax.tree.leaves(both(3)), jax.tree.leaves(both(None)), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("block_size", [4, 2048])
def test_gradients_in_everything(block_size):
    v = RNG.normal(size=(4, 1))

    def value(lengthscales=(0.9, 1.4), inducing=Z, whitened=v, variance=1.3):
        model = poisson_model(block_size, lengthscales, inducing)
        model = eqx.tree_at(lambda model: model.kernel.variance, model, jnp.asarray(variance))
        return fg.expected_log_likelihood(model, X, COUNTS, whitened)

    for name, at in (("lengthscales", np.array([0.9, 1.4])), ("inducing", Z), ("whitened", v), ("variance", np.array(1.3))):
        got = jax.grad(lambda x, name=name: value(**{name: x}))(jnp.asarray(at))
        expected = numerical_gradient(lambda x, name=name: value(**{name: x}), at)
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6, err_msg=name)


def test_traces_once_under_jit():
    v = RNG.normal(size=(4, 1))
    jitted = jax.jit(lambda lengthscales, v: fg.expected_log_likelihood(poisson_model(4, lengthscales), X, COUNTS, v))
    got = jitted(jnp.array([0.9, 1.4]), v)
    np.testing.assert_allclose(got, fg.expected_log_likelihood(poisson_model(), X, COUNTS, v), rtol=1e-12)


@pytest.mark.parametrize("nugget", [0.0, 0.1])
def test_inducing_inputs_at_the_data_give_the_full_process(nugget):
    """With Z = X the latents are R v exactly, nugget and all, and nothing is left unexplained."""
    plain = fg.kernels.RBF(1.3, 0.7)
    kernel = plain + fg.kernels.White(nugget) if nugget else plain
    model = fg.SparseGP(kernel, fg.likelihoods.Bernoulli(), inducing=X, jitter=1e-12)
    labels = (COUNTS > 1).astype(float)
    v = RNG.normal(size=11)
    K = kernel_matrix(rbf(1.3, 0.7), X, X) + nugget * np.eye(11)
    f = np.linalg.cholesky(K) @ v
    expected = stats.norm.logcdf((2 * labels - 1) * f).sum()
    np.testing.assert_allclose(fg.expected_log_likelihood(model, X, labels, v), expected, atol=1e-5)


class TestSeveralLatentFunctions:
    def test_one_shared_kernel_is_the_same_kernel_for_each(self):
        v = RNG.normal(size=(4, 3))
        kernel = fg.kernels.Matern52(1.3, 0.8)
        shared = fg.SparseGP(kernel, fg.likelihoods.Softmax(3), inducing=Z, block_size=5)
        each = fg.SparseGP([kernel] * 3, fg.likelihoods.Softmax(3), inducing=Z, block_size=5)
        value, slope = jax.value_and_grad(lambda v: fg.expected_log_likelihood(shared, X, LABELS, v))(jnp.asarray(v))
        other, other_slope = jax.value_and_grad(lambda v: fg.expected_log_likelihood(each, X, LABELS, v))(jnp.asarray(v))
        np.testing.assert_allclose(value, other, rtol=1e-11)
        np.testing.assert_allclose(slope, other_slope, rtol=1e-9, atol=1e-10)
        shared_slope = eqx.filter_grad(lambda m: fg.expected_log_likelihood(m, X, LABELS, v))(shared)
        each_slope = eqx.filter_grad(lambda m: fg.expected_log_likelihood(m, X, LABELS, v))(each)
        together = sum(kernel.lengthscales for kernel in each_slope.kernel)
        np.testing.assert_allclose(shared_slope.kernel.lengthscales, together, rtol=1e-9)
        np.testing.assert_allclose(shared_slope.inducing.Z, each_slope.inducing.Z, rtol=1e-8, atol=1e-9)

    def test_different_kernels_match_the_double_loop(self):
        v = RNG.normal(size=(4, 3))
        lengths, variances = (0.5, 1.0, 2.0), (0.7, 1.0, 1.6)
        kernels = [fg.kernels.RBF(*values) for values in zip(variances, lengths, strict=True)]
        model = fg.SparseGP(kernels, fg.likelihoods.RobustMax(3), inducing=Z)
        moments = [
            conditional(rbf(*values), Z, X, v[:, p], 1e-6) for p, values in enumerate(zip(variances, lengths, strict=True))
        ]
        mean, variance = (np.stack(part, axis=1) for part in zip(*moments, strict=True))
        expected = fg.likelihoods.RobustMax(3).expected_log_prob(mean, variance, LABELS).sum()
        np.testing.assert_allclose(fg.expected_log_likelihood(model, X, LABELS, v), expected, rtol=1e-7)


class TestExtendedPrecision:
    """The fast gradient, by products with Kuu^-1, against 50 digits where Kuu has condition number 1e8."""

    NUM, INDUCING = 40, 20
    inputs = np.sort(np.random.default_rng(0).uniform(0, 3, NUM))
    centres = np.linspace(0, 3, INDUCING)
    counts = np.random.default_rng(1).poisson(1.0, NUM).astype(float)
    v = np.random.default_rng(2).normal(size=INDUCING)
    jitter = 2e-7

    def fast(self, length):
        kernel = fg.kernels.RBF(1.0, length)
        model = fg.SparseGP(kernel, fg.likelihoods.Poisson(), inducing=self.centres[:, None], jitter=self.jitter)
        return fg.expected_log_likelihood(model, self.inputs[:, None], self.counts, self.v)

    def exact(self, length):
        def k(a, b):
            return mpmath.exp(-((mpmath.mpf(float(a)) - mpmath.mpf(float(b))) ** 2) / (2 * length**2))

        Kuu = mpmath.matrix(self.INDUCING, self.INDUCING)
        for i, a in enumerate(self.centres):
            for j, b in enumerate(self.centres):
                Kuu[i, j] = k(a, b) + (mpmath.mpf(self.jitter) if i == j else 0)
        R = mpmath.cholesky(Kuu)
        total = mpmath.mpf(0)
        for x, y in zip(self.inputs, self.counts, strict=True):
            a = []
            for i, z in enumerate(self.centres):
                a.append((k(z, x) - sum(R[i, j] * a[j] for j in range(i))) / R[i, i])
            mean = sum(ai * mpmath.mpf(float(vi)) for ai, vi in zip(a, self.v, strict=True))
            variance = 1 - sum(ai**2 for ai in a)
            total += mpmath.mpf(float(y)) * mean - mpmath.exp(mean + variance / 2) - mpmath.loggamma(float(y) + 1)
        return total

    def test_value_and_gradient(self):
        K = np.asarray(fg.kernels.RBF()(self.centres[:, None])) + self.jitter * np.eye(self.INDUCING)
        assert 5e7 < np.linalg.cond(K) < 2e8
        value, slope = jax.value_and_grad(self.fast)(jnp.asarray(1.0))
        with mpmath.workdps(50):
            step = mpmath.mpf(10) ** -15
            exact_slope = (self.exact(1 + step) - self.exact(1 - step)) / (2 * step)
            assert abs(float(value) - self.exact(mpmath.mpf(1))) < 1e-6
            assert abs(float(slope) / exact_slope - 1) < 1e-7


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"whitened": np.zeros((5, 1))}, r"\(M, P\) = \(4, 1\)"),
        ({"X": X[:, 0]}, r"X\[:, None\]"),
        ({"y": COUNTS[:-1]}, "10 entries, but X has 11"),
        ({"y": COUNTS + 0.5}, "counts"),
    ],
)
def test_bad_input_is_one_sentence(arguments, message):
    usual = {"X": X, "y": COUNTS, "whitened": np.zeros((4, 1))}
    with pytest.raises(ValueError, match=message):
        fg.expected_log_likelihood(poisson_model(), **(usual | arguments))


def test_placement_is_asked_for_when_it_cannot_be_made():
    model = fg.SparseGP(fg.kernels.RBF(), fg.likelihoods.Poisson(), inducing=4)
    assert np.isfinite(fg.expected_log_likelihood(model, X, COUNTS, np.zeros((4, 1))))
    with pytest.raises(ValueError, match="prepared"):
        jax.jit(lambda x: fg.expected_log_likelihood(model, x, COUNTS, np.zeros((4, 1))))(X)


def test_distances_that_are_kept_change_neither_value_nor_gradient():
    rng = np.random.default_rng(0)
    X, v = jnp.asarray(rng.normal(size=(30, 40))), jnp.asarray(rng.normal(size=(5, 1)))
    y = jnp.asarray(rng.poisson(1.0, 30).astype(float))
    kernel = (
        fg.kernels.RBF(1.0, 6.0) * fg.kernels.Linear() + fg.kernels.Matern32(0.5, 3.0, active_dims=(0, 1)) + fg.kernels.White()
    )
    model = fg.SparseGP(kernel, fg.likelihoods.Poisson(), inducing=X[:5], block_size=8).prepared(X)
    kept = model.with_known(X)
    assert kept.known.shape == (30, 5)
    free = to_free(model) + 0.1
    both = jax.value_and_grad(lambda free, v, X: fg.log_density(model, X, y, free, v), argnums=(0, 1))
    for got, expected in zip(jax.tree.leaves(both(free, v, kept)), jax.tree.leaves(both(free, v, X)), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-10)
    one_each = fg.SparseGP(fg.kernels.RBF(1.0, np.full(40, 6.0)), fg.likelihoods.Poisson(), inducing=X[:5])
    assert one_each.with_known(X) is X, "with a lengthscale for each column there is nothing to keep"


SIX = RNG.uniform(0, 3, (6, 2))
SUMS = fg.kernels.RBF(1.3, [0.9, 1.4]) + fg.kernels.White(0.01)
SINGLE = {
    "ARD": (SUMS, SIX, fg.likelihoods.Poisson(0.5), COUNTS),
    "one lengthscale": (fg.kernels.Matern32(1.3, 0.9) + fg.kernels.Constant(0.5), SIX, fg.likelihoods.Poisson(0.5), COUNTS),
    "classes": (SUMS, SIX, fg.likelihoods.RobustMax(3), LABELS),
    "a kernel each": ([SUMS] * 3, SIX, fg.likelihoods.Softmax(3), LABELS),
    "waves": (fg.kernels.RBF(1.3, 0.9), fg.HilbertSpace(4), fg.likelihoods.Poisson(0.5), COUNTS),
}


@pytest.mark.parametrize(("name", "block_size"), list(zip(SINGLE, (4, None, 4, None, None), strict=True)))
def test_single_precision_is_the_same_to_seven_digits_and_of_the_data_alone(name, block_size):
    kernel, inducing, likelihood, y = SINGLE[name]

    def both(single_precision):
        model = fg.SparseGP(kernel, likelihood, inducing, block_size=block_size, single_precision=single_precision).prepared(X)
        v = jnp.linspace(-1.0, 1.5, model.num_inducing * model.num_latents).reshape(model.num_inducing, -1)

        def density(free, v):
            return fg.log_density(model, model.with_known(jnp.asarray(X)), jnp.asarray(y), free, v)

        return jax.value_and_grad(density, argnums=(0, 1)), (to_free(model), v)

    (double, at), (single, _) = both(False), both(True)
    for got, expected in zip(jax.tree.leaves(single(*at)), jax.tree.leaves(double(*at)), strict=True):
        np.testing.assert_allclose(got, expected, rtol=2e-5, atol=2e-5)
        assert got.dtype == jnp.float64
    text = str(jax.make_jaxpr(single)(*at))
    assert "f32[" in text
    M, rows = at[1].shape[0], block_size or len(X)  # eleven rows are three blocks of four, too
    assert f"f32[{M},{rows}]" in text
    assert f"f64[{M},{rows}]" not in text
    assert f"f64[{M},{M}]" in text or name == "waves"


def test_what_is_kept_in_single_precision_is_the_same_target():
    model = fg.SparseGP(SUMS, fg.likelihoods.RobustMax(3), Z, single_precision=True).prepared(X)
    v = jnp.asarray(RNG.normal(size=(4, 3)))
    kept = keep(model, jnp.asarray(X))
    assert kept.basis.dtype == jnp.float32
    weights = unwhiten(kept.inverse_factors, v)
    got = kept_data_term(kept, model.likelihood, weights, jnp.asarray(LABELS), 5)
    np.testing.assert_allclose(got, fg.expected_log_likelihood(model, X, LABELS, v), rtol=1e-5)
