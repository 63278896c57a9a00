"""The folder in which a long run keeps its draws, so that a crash, a full disk or a killed process loses one chunk at most.

``manifest.npz`` says what is being sampled and is written once. ``chunk-00000.npz``, ``chunk-00001.npz``, ... each hold the next
draws of all chains and the sampler's state after them, committed together by one rename. A chunk records which run it belongs
to and the fingerprint of the chunk before it, so that only an unbroken sequence counts.
"""

import contextlib
import errno
import fcntl
import itertools
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from freegp import saving

RUN_FORMAT = 1

_MANIFEST = "manifest.npz"
_LOCK = ".lock"
_CHUNK = re.compile(r"chunk-([0-9]{5,})\.npz")
_LEFTOVER = re.compile(r"\.(manifest|chunk-[0-9]{5,})\.npz\.[0-9a-f]{16}")
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class RunError(ValueError):
    """A folder that cannot serve as a run: missing, occupied, in use, damaged, full, or from a newer version."""


class DamagedChunkError(RunError):
    """A chunk that is missing, damaged, of another run, or does not continue the one before it."""


class ChunkCheck(NamedTuple):
    """How many leading chunks are intact, and a sentence on what is wrong with the next one, if anything is."""

    valid_chunks: int
    problem: str | None


class _Chunk(NamedTuple):
    draws: dict[str, np.ndarray]
    state: dict[str, np.ndarray]
    follows: str
    fingerprint: str


class RunDirectory:
    """A run on disk, locked against other writers from `create` or `open` until `close`; usable in a ``with`` statement."""

    def __init__(self, path: Path, lock: IO[bytes] | None):
        self.path = path
        self.manifest, self._fingerprint = _read_manifest(path)
        self._lock = lock

    @classmethod
    def create(cls, path: str | os.PathLike[str], manifest: Any) -> "RunDirectory":
        """A new run in an empty or new folder; the manifest is any object that `freegp.saving` can save."""
        folder = Path(path).absolute()
        body, arrays = saving.encode(manifest)
        with _explained(folder), contextlib.ExitStack() as on_error:
            _refuse_occupied(folder)
            folder.mkdir(parents=True, exist_ok=True)
            saving.sync_folder(folder.parent)
            lock = on_error.enter_context(_locked(folder))
            _refuse_occupied(folder)  # once more, now that nobody else can be writing
            _remove_leftovers(folder)
            saving.write_arrays(folder / _MANIFEST, {"run": RUN_FORMAT, "body": body}, arrays)
            run = cls(folder, lock)
            on_error.pop_all()
        return run

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, read_only: bool = False) -> "RunDirectory":
        """An existing run; read-only takes no lock, so it can look at a run that another process is writing."""
        folder = Path(path).absolute()
        with _explained(folder), contextlib.ExitStack() as on_error:
            _refuse_other_folders(folder)
            lock = None if read_only else on_error.enter_context(_locked(folder))
            if lock is not None:
                _remove_leftovers(folder)
            run = cls(folder, lock)
            on_error.pop_all()
        return run

    def close(self) -> None:
        """Let other processes write; reading still works."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def __enter__(self) -> "RunDirectory":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write_chunk(self, index: int, draws: Mapping[str, np.ndarray], state: Mapping[str, np.ndarray]) -> None:
        """Commit draws, each ``[chain, draw, ...]``, and the state after them; replaces a chunk of the same index."""
        if self._lock is None:
            raise RunError(f"the run in {self.path} is not open for writing; open it with RunDirectory.open")
        arrays = _named("draws", draws) | _named("state", state)
        chunk_draws = _group("draws", arrays)
        _check_shapes(chunk_draws)
        follows = self._fingerprint
        if index != 0:
            previous = self._read_chunk(index - 1)
            _check_continues(previous.draws, chunk_draws)
            follows = previous.fingerprint
        header = {"run": self._fingerprint, "index": index, "follows": follows}
        with _explained(self.path):
            saving.write_arrays(self._chunk_path(index), header, arrays)

    def check(self) -> ChunkCheck:
        """Read every chunk and count those that can be used: the first ones, up to the first that is not intact."""
        valid_chunks = 0
        try:
            for _ in self._chunks():
                valid_chunks += 1
        except DamagedChunkError as error:
            return ChunkCheck(valid_chunks, str(error))
        return ChunkCheck(valid_chunks, None)

    def valid_chunks(self) -> int:
        """How many leading chunks are intact; `check` also says what is wrong with the next one."""
        return self.check().valid_chunks

    def read_draws(self, num_chunks: int) -> dict[str, np.ndarray]:
        """The draws ``[chain, draw, ...]`` of the first chunks, one after the other; chunks without draws are passed over."""
        chunks = [chunk.draws for chunk in itertools.islice(self._chunks(), num_chunks)]
        if len(chunks) < num_chunks:
            raise RunError(f"{self.path} holds {len(chunks)} chunks, not {num_chunks}; ask for as many as valid_chunks() counts")
        filled = [draws for draws in chunks if draws]
        names = filled[0] if filled else ()
        return {name: np.concatenate([draws[name] for draws in filled], axis=1) for name in names}

    def read_state(self, index: int) -> dict[str, np.ndarray]:
        """The sampler's state after a chunk."""
        return self._read_chunk(index).state

    def _chunks(self) -> Iterator[_Chunk]:
        """The chunks in order, each checked to be intact and to continue the one before."""
        follows = self._fingerprint
        for index in range(self._num_chunk_files()):
            chunk = self._read_chunk(index)
            if chunk.follows != follows:
                raise _damaged(
                    index, f"{self._chunk_path(index)} does not continue the chunk before it; restore both from a copy"
                )
            yield chunk
            follows = chunk.fingerprint

    def _num_chunk_files(self) -> int:
        """One more than the highest index there is a file for."""
        with _explained(self.path):
            matches = [_CHUNK.fullmatch(name) for name in os.listdir(self.path)]
        return max((int(match[1]) + 1 for match in matches if match), default=0)

    def _read_chunk(self, index: int) -> _Chunk:
        path = self._chunk_path(index)
        try:
            with _explained(self.path):
                if not _is_plain_file(path):
                    raise saving.LoadError(f"{path} is missing or not a plain file; restore it from a copy")
                header, arrays = saving.read_arrays(path)
        except saving.LoadError as error:
            raise _damaged(index, str(error)) from None
        if header.get("run") != self._fingerprint:
            raise _damaged(index, f"{path} belongs to another run; restore the right one from a copy")
        if header.get("index") != index:
            raise _damaged(index, f"{path} is another chunk renamed; restore the right one from a copy")
        follows = str(header.get("follows"))
        return _Chunk(_group("draws", arrays), _group("state", arrays), follows, saving.fingerprint(header))

    def _chunk_path(self, index: int) -> Path:
        return self.path / f"chunk-{index:05d}.npz"


def _damaged(index: int, sentence: str) -> DamagedChunkError:
    return DamagedChunkError(f"{sentence}, or resume the run, which draws chunk {index} and those after it again")


def _read_manifest(folder: Path) -> tuple[Any, str]:
    path = folder / _MANIFEST
    try:
        header, arrays = saving.read_arrays(path)
        if "run" not in header:
            raise RunError(f"{path} is not the manifest of a run; give the folder of a run, or read the file with fg.load")
        if header["run"] != RUN_FORMAT:
            found = f"{folder} holds a run of format {header['run']!r}, and this version reads {RUN_FORMAT}"
            raise RunError(f"{found}; use the freegp it was started with")
        return saving.decode(path, header, arrays), saving.fingerprint(header)
    except saving.LoadError as error:
        raise RunError(str(error)) from None


@contextlib.contextmanager
def _explained(folder: Path) -> Iterator[None]:
    """What the operating system refuses, told in a sentence that names the folder and the remedy."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno in _FULL:
            remedy = "free some space and start or resume the run again, what it holds already is safe"
            raise RunError(f"there is no room left in {folder} ({reason}); {remedy}") from None
        raise RunError(f"{folder} cannot be used ({reason}); make it readable and writable or choose another folder") from None


def _locked(folder: Path) -> IO[bytes]:
    """The lock of a run, which the system takes back when the process ends, however it ends; its file stays."""
    lock = os.fdopen(os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666), "r+b", buffering=0)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise RunError(
            f"the run in {folder} is in use by another process; wait for it, stop it, or choose another folder"
        ) from None
    except BaseException:
        lock.close()
        raise
    return lock


def _refuse_occupied(folder: Path) -> None:
    if not folder.exists():
        return
    if not folder.is_dir():
        raise RunError(f"{folder} is a file; choose another folder for the run")
    names = os.listdir(folder)
    if _MANIFEST in names:
        raise RunError(f"{folder} already holds a run; continue it with fg.resume or freegp resume, or choose another folder")
    if any(name != _LOCK and not _LEFTOVER.fullmatch(name) for name in names):
        raise RunError(f"{folder} is not empty and not a run; choose an empty or a new folder")


def _refuse_other_folders(folder: Path) -> None:
    if not folder.exists():
        raise RunError(f"there is no folder {folder}; check the path")
    if not folder.is_dir():
        raise RunError(f"{folder} is a file; give the folder of a run")
    if not _is_plain_file(folder / _MANIFEST):
        raise RunError(f"{folder} is not a run (it has no {_MANIFEST}); give the folder that was named as run_dir")


def _remove_leftovers(folder: Path) -> None:
    """Delete what a killed process had not finished writing; only under the lock."""
    for name in os.listdir(folder):
        if _LEFTOVER.fullmatch(name):
            os.unlink(folder / name)


def _is_plain_file(path: Path) -> bool:
    """Not a link, which could lead out of the folder, nor a pipe, which could wait for ever."""
    return path.is_file() and not path.is_symlink()


def _named(group: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {f"{group}/{name}": np.asarray(array) for name, array in arrays.items()}


def _group(group: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name.removeprefix(f"{group}/"): array for name, array in arrays.items() if name.startswith(f"{group}/")}


def _check_shapes(draws: dict[str, np.ndarray]) -> None:
    """All draws of a chunk have the same chains and the same number of draws."""
    shapes = {name: array.shape for name, array in draws.items()}
    if any(len(shape) < 2 for shape in shapes.values()) or len({shape[:2] for shape in shapes.values()}) > 1:
        raise ValueError(
            f"the draws of a chunk have shapes {shapes}; give each as [chain, draw, ...] with the same chains and draws"
        )


def _check_continues(previous: dict[str, np.ndarray], draws: dict[str, np.ndarray]) -> None:
    """Two chunks can be joined along the draws; one of them may have none, as in a warm-up."""
    before, now = _signature(previous), _signature(draws)
    if before and now and before != now:
        raise ValueError(f"a chunk of {now} cannot continue one of {before}; write the same names, shapes and types each time")


def _signature(draws: dict[str, np.ndarray]) -> dict[str, str]:
    return {name: f"{array.dtype}[{array.shape[0]}, draw, {array.shape[2:]}]" for name, array in draws.items()}
