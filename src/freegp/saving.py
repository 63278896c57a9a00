"""Saving and loading without pickle: arrays and a JSON description in one npz file.

A file names classes; it never says where to import them from. The names are looked up among the classes that registered when
they were defined, so loading runs no code that is not already in the program.
"""

import contextlib
import dataclasses
import errno
import hashlib
import json
import os
import secrets
import zipfile
from pathlib import Path
from typing import IO, Any, TypeVar

import jax
import numpy as np

FORMAT = 1
_PLAIN = "biufcSU"  # dtype kinds that an npy file keeps as they are; bfloat16, say, would come back as raw bytes

_classes: dict[str, type] = {}
_T = TypeVar("_T", bound=type)


class LoadError(ValueError):
    """A file that is not ours, is damaged, or comes from a newer version; on one line, whatever of the file is quoted in it."""

    def __init__(self, sentence: str):
        super().__init__("".join(character if character.isprintable() else "?" for character in sentence))


def registered(cls: _T) -> _T:
    """Make a dataclass savable and loadable under its name."""
    _classes[_name_of(cls)] = cls
    return cls


def _name_of(cls: type) -> str:
    """Ours by their bare name, a user's with its module, so that neither hides the other."""
    return cls.__name__ if cls.__module__.startswith("freegp.") else f"{cls.__module__}.{cls.__qualname__}"


def save(value: Any, path: str | os.PathLike[str]) -> None:
    """Write an object made of registered classes; the file appears whole or not at all."""
    body, arrays = encode(value)
    write_arrays(path, {"body": body}, arrays)


def load(path: str | os.PathLike[str]) -> Any:
    """Read what `save` wrote."""
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; if it holds a run, fg.read_run({str(path)!r}) reads it")
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}; check the path")
    return decode(path, *read_arrays(path))


def write_arrays(path: str | os.PathLike[str], header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Write arrays and a JSON header with their checksums; the file is durable and whole, or not there at all."""
    for name, array in arrays.items():
        if array.dtype.kind not in _PLAIN:
            raise TypeError(f"{name} holds {array.dtype} values, which cannot be saved; convert it to numbers or text")
    hashes = {name: _digest(array) for name, array in arrays.items()}
    manifest = json.dumps({"freegp": FORMAT, **header, "sha256": hashes}, allow_nan=True)
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        with open(temporary, "xb") as file:
            np.savez(file, manifest=np.frombuffer(manifest.encode(), dtype=np.uint8), **arrays)  # type: ignore[arg-type]
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    sync_folder(target.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, on systems that let a folder be opened and synced."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except PermissionError:
        return
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(handle)


def read_arrays(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header and the arrays that `write_arrays` wrote, every checksum verified."""
    header, arrays = _read(path)
    if not isinstance(header, dict) or "freegp" not in header:
        raise LoadError(f"{path} was not written by freegp; give a file that freegp saved")
    if header["freegp"] != FORMAT:
        raise LoadError(
            f"{path} has format {header['freegp']!r}, and this version reads {FORMAT}; use the freegp it was saved with"
        )
    hashes = header.get("sha256")
    if not isinstance(hashes, dict) or set(hashes) != set(arrays):
        raise LoadError(f"{path} is damaged (arrays and their checksums do not match); restore it from a copy")
    for name, array in arrays.items():
        if hashes[name] != _digest(array):
            raise LoadError(f"{path} is damaged (checksum of {name}); restore it from a copy")
    return header, arrays


def fingerprint(header: dict[str, Any]) -> str:
    """A hash of a header and, because it lists their checksums, of the arrays that came with it."""
    return hashlib.sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()


def encode(value: Any) -> tuple[Any, dict[str, np.ndarray]]:
    """The JSON description of an object made of registered classes, and the arrays it refers to."""
    arrays: dict[str, np.ndarray] = {}
    return _encode(value, arrays), arrays


def decode(path: Path, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    """The object described by a header's body; the path is for error messages."""
    try:
        return _decode(header["body"], arrays)
    except LoadError as error:
        raise LoadError(f"{path} cannot be loaded: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise LoadError(f"{path} is damaged ({type(error).__name__}: {error}); restore it from a copy") from None


def _read(path: Path) -> tuple[Any, dict[str, np.ndarray]]:
    with open(path, "rb") as file:
        try:
            return _parse(path, file)
        except (LoadError, MemoryError):
            raise
        except Exception as error:  # a damaged archive can fail in any of its parsers: zip, zlib, npy, JSON
            raise LoadError(f"{path} is not a freegp file or is damaged ({error}); restore it from a copy") from None


def _parse(path: Path, file: IO[bytes]) -> tuple[Any, dict[str, np.ndarray]]:
    arrays = {}
    with zipfile.ZipFile(file) as archive:
        if sum(entry.file_size for entry in archive.infolist()) > os.fstat(file.fileno()).st_size:  # nothing is compressed
            raise LoadError(f"{path} claims to hold more than there is and must be damaged; restore it from a copy")
        # Before any array is made, so that a damaged shape is not taken for a lack of memory.
        if damaged := archive.testzip():
            raise zipfile.BadZipFile(f"checksum of {damaged}")
        for entry in archive.infolist():
            with archive.open(entry) as member:
                arrays[entry.filename.removesuffix(".npy")] = np.lib.format.read_array(member, allow_pickle=False)
    return json.loads(arrays.pop("manifest").tobytes().decode()), arrays


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
