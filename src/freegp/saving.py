"""Saving and loading without pickle: arrays and a JSON description in one npz file.

A file names classes; it never says where to import them from. The names are looked up among the classes that registered when
they were defined, so loading runs no code that is not already in the program.
"""

import contextlib
import dataclasses
import hashlib
import json
import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np

FORMAT = 1
MAX_BYTES = 64 * 2**30

_classes: dict[str, type] = {}
_T = TypeVar("_T", bound=type)


class LoadError(ValueError):
    """A file that is not ours, is damaged, or comes from a newer version."""


def registered(cls: _T) -> _T:
    """Make a dataclass savable and loadable under its name."""
    _classes[_name_of(cls)] = cls
    return cls


def _name_of(cls: type) -> str:
    """Ours by their bare name, a user's with its module, so that neither hides the other."""
    return cls.__name__ if cls.__module__.startswith("freegp.") else f"{cls.__module__}.{cls.__qualname__}"


def save(value: Any, path: str | os.PathLike[str]) -> None:
    """Write an object made of registered classes; the file appears whole or not at all."""
    arrays: dict[str, np.ndarray] = {}
    body = _encode(value, arrays)
    hashes = {name: _digest(array) for name, array in arrays.items()}
    manifest = json.dumps({"freegp": FORMAT, "body": body, "sha256": hashes}, allow_nan=True)
    target = Path(path)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, manifest=np.frombuffer(manifest.encode(), dtype=np.uint8), **arrays)  # type: ignore[arg-type]
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def load(path: str | os.PathLike[str]) -> Any:
    """Read what `save` wrote."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}; check the path")
    manifest, arrays = _read(path)
    if not isinstance(manifest, dict) or "freegp" not in manifest:
        raise LoadError(f"{path} was not written by freegp; load takes files made by save")
    if manifest["freegp"] != FORMAT:
        raise LoadError(
            f"{path} has format {manifest['freegp']!r}, and this version reads {FORMAT}; use the freegp it was saved with"
        )
    for name, array in arrays.items():
        if manifest.get("sha256", {}).get(name) != _digest(array):
            raise LoadError(f"{path} is damaged (checksum of {name}); restore it from a copy")
    try:
        return _decode(manifest["body"], arrays)
    except LoadError as error:
        raise LoadError(f"{path} cannot be loaded: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise LoadError(f"{path} is damaged ({type(error).__name__}: {error}); restore it from a copy") from None


def _read(path: Path) -> tuple[Any, dict[str, np.ndarray]]:
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > MAX_BYTES:
                raise LoadError(f"{path} claims to hold more than {MAX_BYTES >> 30} GiB; it is damaged or not ours")
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        manifest = json.loads(arrays.pop("manifest").tobytes().decode())
    except LoadError:
        raise
    except (KeyError, ValueError, EOFError, OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise LoadError(f"{path} is not a freegp file or is damaged ({error}); restore it from a copy") from None
    return manifest, arrays


def _digest(array: np.ndarray) -> str:
    header = f"{array.dtype.str}{array.shape}".encode()
    return hashlib.sha256(header + np.ascontiguousarray(array).tobytes()).hexdigest()


def _encode(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, jax.Array | np.ndarray):
        name = f"array{len(arrays)}"
        arrays[name] = np.asarray(value)
        return {"array": name}
    if isinstance(value, tuple):
        return [_encode(item, arrays) for item in value]
    name = _name_of(type(value))
    if _classes.get(name) is type(value) and dataclasses.is_dataclass(value):
        fields = {f.name: _encode(getattr(value, f.name), arrays) for f in dataclasses.fields(value)}
        return {"class": name, "fields": fields}
    raise TypeError(f"{value!r} cannot be saved: it is a function or an object without a registered class")


def _decode(node: Any, arrays: dict[str, np.ndarray]) -> Any:
    if isinstance(node, list):
        return tuple(_decode(item, arrays) for item in node)
    if not isinstance(node, dict):
        return node
    if "array" in node:
        return arrays[node["array"]]
    if node["class"] not in _classes:
        raise LoadError(f"no class {node['class']!r} is known; if it is your own, define or import it first")
    fields = {name: _decode(item, arrays) for name, item in node["fields"].items()}
    return _classes[node["class"]](**fields)
