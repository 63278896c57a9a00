"""The boundary: data are checked here, once, before anything compiles. Each failure is one sentence that names the remedy."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from freegp.inducing import HilbertFeatures, Inducing, InducingPoints
from freegp.model import SparseGP


def check_inputs(X: ArrayLike, name: str = "X") -> np.ndarray:
    """Inputs as a finite float64 matrix."""
    X = _numeric(X, name)
    if X.ndim != 2:
        remedy = f"; for one column use {name}[:, None]" if X.ndim == 1 else ""
        raise ValueError(f"{name} must have shape (N, D), but has shape {X.shape}{remedy}")
    if X.shape[0] == 0 or X.shape[1] == 0:
        raise ValueError(f"{name} is empty (shape {X.shape}); give at least one row and one column")
    bad = np.any(~np.isfinite(X), axis=1)
    if bad.any():
        raise ValueError(f"{name} is NaN or infinite in {_rows(bad)}; drop them or fill them in")
    return X


def check_targets(y: ArrayLike, num_rows: int, name: str = "y") -> np.ndarray:
    """Targets as a finite float64 vector, one for each row of the inputs."""
    y = _numeric(y, name)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise ValueError(f"{name} must have shape (N,), but has shape {y.shape}; give one target for each row of X")
    if y.shape[0] != num_rows:
        raise ValueError(f"{name} has {y.shape[0]} entries, but X has {num_rows} rows; give one target for each row")
    bad = ~np.isfinite(y)
    if bad.any():
        raise ValueError(f"{name} is NaN or infinite in {_rows(bad)}; drop them or fill them in")
    return y


def check_training_data(model: SparseGP, X: ArrayLike, y: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Data to fit this model to."""
    if not isinstance(model, SparseGP):
        raise TypeError(f"model must be an fg.SparseGP, but is a {type(model).__name__}")
    X = check_inputs(X)
    y = check_targets(y, X.shape[0])
    constant = np.ptp(X, axis=0) == 0.0
    if constant.any():
        column = int(np.flatnonzero(constant)[0])
        raise ValueError(f"column {column} of X is {X[0, column]:g} in every row and says nothing; drop it")
    model.likelihood.check_training_targets(y)
    _check_kernels(model, X)
    _check_inducing(model, X)
    return X, y


def check_prediction_inputs(model: SparseGP, X: ArrayLike) -> np.ndarray:
    """Inputs to predict at with a fitted model."""
    X = check_inputs(X, "Xs")
    num_columns = model.placed.num_columns
    if X.shape[1] != num_columns:
        raise ValueError(f"Xs has {X.shape[1]} columns, but the model was fitted to {num_columns}; give the same columns")
    _check_box(model.placed, X, "Xs")
    return X


def check_whitened(model: SparseGP, whitened: ArrayLike) -> Float[Array, "M P"]:
    """Whitened inducing values; traced ones pass with their shape checked."""
    whitened = jnp.asarray(whitened, dtype=jnp.float64)
    if whitened.ndim == 1 and model.num_latents == 1:
        whitened = whitened[:, None]
    expected = (model.num_inducing, model.num_latents)
    if whitened.shape != expected:
        raise ValueError(f"whitened must have shape (M, P) = {expected}, but has shape {whitened.shape}")
    return whitened


def _check_kernels(model: SparseGP, X: np.ndarray) -> None:
    for kernel in model.kernels:
        kernel(X[:1])


def _check_inducing(model: SparseGP, X: np.ndarray) -> None:
    if isinstance(model.inducing, InducingPoints):
        Z = np.asarray(model.inducing.Z)
        check_inputs(Z, "inducing")
        if Z.shape[1] != X.shape[1]:
            raise ValueError(f"inducing has {Z.shape[1]} columns, but X has {X.shape[1]}; give the same columns")
        _, first, counts = np.unique(Z, axis=0, return_index=True, return_counts=True)
        if (counts > 1).any():
            twin = Z[first[np.argmax(counts > 1)]]
            rows = np.flatnonzero((twin == Z).all(axis=1))[:2]
            raise ValueError(f"rows {rows[0]} and {rows[1]} of inducing are the same point; drop one (np.unique(Z, axis=0))")
    if isinstance(model.inducing, HilbertFeatures):
        num_columns = model.inducing.num_columns
        if num_columns != X.shape[1]:
            raise ValueError(f"the features have {num_columns} columns, but X has {X.shape[1]}; give the same columns")
        _check_box(model.inducing, X, "X")
        return
    asked = model.inducing.num_inducing if isinstance(model.inducing, Inducing) else getattr(model.inducing, "num_inducing", 0)
    if asked > X.shape[0]:
        raise ValueError(f"{asked} inducing points for {X.shape[0]} data; use inducing={X.shape[0]} or fewer")


def _check_box(inducing: Inducing, X: np.ndarray, name: str) -> None:
    if not isinstance(inducing, HilbertFeatures):
        return
    low, high = np.asarray(inducing.low), np.asarray(inducing.high)
    outside = ((low > X) | (high < X)).any(axis=1)
    if outside.any():
        row = int(np.flatnonzero(outside)[0])
        raise ValueError(f"row {row} of {name} is outside the box of the features; give HilbertSpace a larger boundary")


def _numeric(values: ArrayLike, name: str) -> np.ndarray:
    try:
        array = np.asarray(values)
        if array.dtype.kind in "OUS":
            array = array.astype(float) if array.dtype.kind == "O" else _refuse(array, name)
        return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        if str(error).startswith(name):
            raise
        raise ValueError(f"{name} is not numeric; encode text and categories as numbers first") from None


def _refuse(array: np.ndarray, name: str) -> np.ndarray:
    example = array.ravel()[0] if array.size else ""
    raise ValueError(f"{name} holds text ({str(example)!r}); encode text and categories as numbers first")


def _rows(bad: np.ndarray) -> str:
    index = np.flatnonzero(bad)
    listed = ", ".join(str(i) for i in index[:5])
    return f"row{'s' if index.size > 1 else ''} {listed}" + (f" and {index.size - 5} more" if index.size > 5 else "")
