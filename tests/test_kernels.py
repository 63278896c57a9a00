import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference import kernel_matrix, numerical_gradient, rbf

import freegp as fg
from freegp import kernels
from freegp.kernels import Kernel

LENGTHS = np.array([0.7, 1.9])


def scaled(a, b):
    return math.sqrt(float(np.sum(((a - b) / LENGTHS) ** 2)))


# Every kernel, with its value at one pair of points.
TABLE = {
    "RBF": (kernels.RBF(1.3, LENGTHS), rbf(1.3, LENGTHS)),
    "Matern12": (kernels.Matern12(1.3, LENGTHS), lambda a, b: 1.3 * math.exp(-scaled(a, b))),
    "Matern32": (
        kernels.Matern32(1.3, LENGTHS),
        lambda a, b: 1.3 * (1 + math.sqrt(3) * scaled(a, b)) * math.exp(-math.sqrt(3) * scaled(a, b)),
    ),
    "Matern52": (
        kernels.Matern52(1.3, LENGTHS),
        lambda a, b: 1.3 * (1 + math.sqrt(5) * scaled(a, b) + 5 / 3 * scaled(a, b) ** 2) * math.exp(-math.sqrt(5) * scaled(a, b)),
    ),
    "RationalQuadratic": (
        kernels.RationalQuadratic(1.3, LENGTHS, 0.6),
        lambda a, b: 1.3 * (1 + scaled(a, b) ** 2 / (2 * 0.6)) ** -0.6,
    ),
    "Periodic": (
        kernels.Periodic(1.3, LENGTHS, 2.5),
        lambda a, b: 1.3 * math.exp(-2 * float(np.sum((np.sin(np.pi * (a - b) / 2.5) / LENGTHS) ** 2))),
    ),
    "Linear": (kernels.Linear(np.array([0.5, 2.0])), lambda a, b: 0.5 * a[0] * b[0] + 2.0 * a[1] * b[1]),
    "Constant": (kernels.Constant(1.3), lambda a, b: 1.3),
    "White": (kernels.White(1.3), lambda a, b: 1.3 * float(np.array_equal(a, b))),
    "Sum": (kernels.RBF(1.3, 0.7) + kernels.Constant(0.4), lambda a, b: rbf(1.3, 0.7)(a, b) + 0.4),
    "Product": (kernels.RBF(1.3, 0.7) * kernels.Linear(2.0), lambda a, b: rbf(1.3, 0.7)(a, b) * 2.0 * float(a @ b)),
}


@pytest.fixture
def inputs():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(7, 2))
    return X, np.concatenate([rng.normal(size=(4, 2)), X[:2]])


def test_every_kernel_is_in_the_table():
    concrete = {
        name
        for name in kernels.__all__
        if issubclass(kind := getattr(kernels, name), Kernel) and not kind.__abstractmethods__ and kind.__name__ == name
    }
    assert concrete == set(TABLE)
    assert kernels.SquaredExponential is kernels.RBF


@pytest.mark.parametrize("name", TABLE)
def test_matches_the_double_loop(name, inputs):
    kernel, function = TABLE[name]
    X, X2 = inputs
    np.testing.assert_allclose(kernel(X, X2), kernel_matrix(function, X, X2), atol=1e-12)
    np.testing.assert_allclose(kernel(X), kernel_matrix(function, X, X), atol=1e-7 if "Matern" in name else 1e-12)
    np.testing.assert_allclose(kernel.diagonal(X), [function(x, x) for x in X], atol=1e-12)


@pytest.mark.parametrize("name", [name for name in TABLE if name != "White"])
def test_gradients_match_finite_differences(name, inputs):
    kernel, _ = TABLE[name]
    X, X2 = inputs
    weights = np.random.default_rng(1).normal(size=(7, 4))
    leaves, structure = jax.tree.flatten(kernel)

    def of_inputs(x):
        return jnp.sum(weights * kernel(x, X2[:4]))

    np.testing.assert_allclose(jax.grad(of_inputs)(jnp.asarray(X)), numerical_gradient(of_inputs, X), atol=1e-7)
    for i, leaf in enumerate(leaves):

        def of_leaf(value, i=i):
            changed = jax.tree.unflatten(structure, [*leaves[:i], jnp.asarray(value), *leaves[i + 1 :]])
            return jnp.sum(weights * changed(X, X2[:4]))

        np.testing.assert_allclose(jax.grad(of_leaf)(leaf), numerical_gradient(of_leaf, leaf), atol=1e-7)


@pytest.mark.parametrize("name", ["Matern12", "Matern32", "Matern52"])
def test_gradient_is_finite_where_points_coincide(name):
    kernel, _ = TABLE[name]
    gradient = jax.grad(lambda x: jnp.sum(kernel(x)))(jnp.array([[0.3, 0.1], [0.3, 0.1], [1.0, 2.0]]))
    assert np.isfinite(gradient).all()


@pytest.mark.parametrize("name", TABLE)
def test_a_scale_comes_out_of_the_whole_kernel(name, inputs):
    kernel, _ = TABLE[name]
    np.testing.assert_allclose(kernel.scale * kernel.unscaled(*inputs), kernel(*inputs), rtol=1e-12)
    np.testing.assert_allclose(kernel.scale * kernel.unscaled.diagonal(inputs[0]), kernel.diagonal(inputs[0]), rtol=1e-12)
    assert float(kernel.unscaled.scale) == 1.0
    assert (float(kernel.scale) == 1.3) == (name not in ("Linear", "Constant", "White", "Sum"))


def test_distances_far_from_the_origin():
    near = np.random.default_rng(0).normal(size=(6, 2))
    np.testing.assert_allclose(kernels.RBF()(near + 1e6), kernels.RBF()(near), atol=1e-8)


def test_active_dims_pick_columns():
    X = np.random.default_rng(0).normal(size=(5, 3))
    kernel = kernels.RBF(1.0, 0.5, active_dims=[2]) * kernels.Linear(active_dims=(0, 1))
    expected = np.asarray(kernels.RBF(1.0, 0.5)(X[:, [2]])) * np.asarray(kernels.Linear()(X[:, :2]))
    np.testing.assert_allclose(kernel(X), expected, atol=1e-12)


def test_sums_flatten_so_that_names_stay_short():
    kernel = kernels.RBF() + kernels.White(1e-6) + kernels.Constant()
    assert [type(member).__name__ for member in kernel.members] == ["RBF", "White", "Constant"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: kernels.RBF(lengthscales=-1.0), "lengthscales must be positive"),
        (lambda: kernels.RBF(variance=np.nan), "variance must be positive"),
        (lambda: kernels.RBF(lengthscales=[1.0, 1.0, 1.0])(np.zeros((2, 2))), "3 lengthscales, but sees 2"),
        (lambda: kernels.RBF(active_dims=[3])(np.zeros((2, 2))), "column 3"),
        (lambda: kernels.RBF()(np.zeros(3)), r"X\[:, None\]"),
        (lambda: kernels.RBF() + 2.0, "Constant"),
    ],
)
def test_bad_input_is_one_sentence(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


def test_traced_parameters_need_no_check():
    assert float(jax.jit(lambda length: fg.kernels.RBF(1.0, length)(jnp.ones((1, 1)))[0, 0])(2.0)) == 1.0
