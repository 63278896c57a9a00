import contextlib
import errno
import io
import itertools
import json
import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import equinox as eqx
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import freegp as fg
from freegp import saving
from freegp.sampling.run_directory import DamagedChunkError, RunDirectory, RunError

MODEL = fg.SparseGP(fg.kernels.RBF(1.0, 0.5), fg.likelihoods.Poisson(0.1), inducing=5)
SMALL, LARGE = 3, 3000


def chunk(index, size=SMALL):
    """What the chunk of an index holds, the same in every process: two chains, four draws."""
    values = np.random.default_rng(index).normal(size=(2, 4, size, 1))
    draws = {"whitened": values, "kernel.lengthscales": values[:, :, 0, 0] ** 2, "divergent": values[:, :, 0, 0] > 1}
    return draws, {"position": values[:, -1], "draw": np.array(4 * (index + 1)), "step": np.float32(0.1) * np.ones(2)}


def write(run, indices, size=SMALL):
    for index in indices:
        run.write_chunk(index, *chunk(index, size))


def assert_equal(got, expected):
    assert set(got) == set(expected)
    for name, array in expected.items():
        np.testing.assert_array_equal(got[name], array, strict=True)


def assert_holds(run, num_chunks, size=SMALL):
    """The first chunks are what was written."""
    written = [chunk(index, size)[0] for index in range(num_chunks)]
    names = written[0] if written else ()
    assert_equal(run.read_draws(num_chunks), {n: np.concatenate([draws[n] for draws in written], axis=1) for n in names})
    for index in range(num_chunks):
        assert_equal(run.read_state(index), chunk(index, size)[1])


@contextlib.contextmanager
def refused(match, kind=RunError):
    """A refusal in one sentence: what is wrong; what to do."""
    with pytest.raises(kind, match=match) as caught:
        yield
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert ". " not in sentence
    assert sentence.count("; ") == 1


def chunk_path(run, index):
    return run.path / f"chunk-{index:05d}.npz"


def leftovers(folder):
    return sorted(name for name in os.listdir(folder) if name.startswith(".") and name != ".lock")


def rewrite(path, change):
    """The same file with its header changed; what has a checksum stays right."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    header = json.loads(arrays["manifest"].tobytes())
    change(header)
    arrays["manifest"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    np.savez(path, **arrays)


@pytest.fixture
def run(tmp_path):
    with RunDirectory.create(tmp_path / "run", MODEL) as run:
        yield run


@pytest.fixture
def four(run):
    write(run, range(4))
    return run


class TestThereAndBack:
    def test_draws_and_states(self, four):
        assert four.check() == (4, None)
        assert_holds(four, 4)
        four.close()
        with RunDirectory.open(four.path) as again:
            assert again.valid_chunks() == 4
            assert_holds(again, 4)
            assert eqx.tree_equal(again.manifest.kernel, MODEL.kernel)
            assert again.manifest.inducing == MODEL.inducing

    def test_the_first_chunks_only(self, four):
        assert_holds(four, 2)
        assert four.read_draws(0) == {}
        with refused("holds 4 chunks, not 5"):
            four.read_draws(5)

    def test_the_files(self, four):
        assert sorted(os.listdir(four.path)) == [".lock", *(f"chunk-0000{i}.npz" for i in range(4)), "manifest.npz"]
        with np.load(chunk_path(four, 0)) as file:
            assert "draws/kernel.lengthscales" in file.files
            assert "state/position" in file.files

    def test_two_equal_runs_have_equal_files(self, four, tmp_path):
        with RunDirectory.create(tmp_path / "other", MODEL) as other:
            write(other, range(4))
        for path in four.path.glob("*.npz"):
            assert (other.path / path.name).read_bytes() == path.read_bytes()

    def test_arrays_of_jax_and_chunks_without_draws(self, run):
        run.write_chunk(0, {}, {"position": jnp.ones(3)})
        write(run, [1, 2])
        assert run.valid_chunks() == 3
        assert_equal(run.read_state(0), {"position": np.ones(3)})
        np.testing.assert_array_equal(run.read_draws(3)["whitened"][:, 4:], chunk(2)[0]["whitened"])

    def test_the_folder_of_the_run_does_not_depend_on_the_working_directory(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "elsewhere").mkdir()
        with RunDirectory.create("a/b/run", MODEL) as run:
            monkeypatch.chdir(tmp_path / "elsewhere")
            write(run, [0])
        assert (tmp_path / "a/b/run/chunk-00000.npz").is_file()

    def test_the_mode_of_files_is_the_users(self, run):
        old = os.umask(0o022)
        try:
            write(run, [0])
        finally:
            os.umask(old)
        assert chunk_path(run, 0).stat().st_mode & 0o777 == 0o644


class TestCreate:
    def test_an_existing_run(self, four):
        four.close()
        before = chunk_path(four, 0).read_bytes()
        with refused("already holds a run; continue it with fg.resume"):
            RunDirectory.create(four.path, MODEL)
        assert chunk_path(four, 0).read_bytes() == before

    def test_somebody_elses_folder(self, tmp_path):
        (tmp_path / "thesis.tex").touch()
        with refused("not empty and not a run"):
            RunDirectory.create(tmp_path, MODEL)
        assert os.listdir(tmp_path) == ["thesis.tex"]

    def test_chunks_that_lost_their_manifest_are_not_overwritten(self, four):
        four.close()
        (four.path / "manifest.npz").unlink()
        with refused("not empty and not a run"):
            RunDirectory.create(four.path, MODEL)

    def test_a_file(self, tmp_path):
        (tmp_path / "run").touch()
        with refused("is a file"):
            RunDirectory.create(tmp_path / "run", MODEL)
        with refused("cannot be used"):
            RunDirectory.create(tmp_path / "run" / "below", MODEL)

    def test_what_a_killed_create_left_is_no_hindrance(self, tmp_path):
        (tmp_path / ".lock").touch()
        (tmp_path / ".manifest.npz.0123456789abcdef").write_bytes(b"half")
        with RunDirectory.create(tmp_path, MODEL):
            assert leftovers(tmp_path) == []

    def test_a_function_in_the_manifest_leaves_no_folder(self, tmp_path):
        with pytest.raises(TypeError, match="cannot be saved"):
            RunDirectory.create(tmp_path / "run", (MODEL, np.sin))
        assert os.listdir(tmp_path) == []


class TestOpen:
    def test_no_folder(self, tmp_path):
        with refused("there is no folder"):
            RunDirectory.open(tmp_path / "nothing")

    def test_a_file(self, tmp_path):
        (tmp_path / "run").touch()
        with refused("is a file"):
            RunDirectory.open(tmp_path / "run")

    def test_no_manifest(self, tmp_path):
        with refused("not a run"):
            RunDirectory.open(tmp_path)
        assert os.listdir(tmp_path) == []

    @pytest.mark.parametrize("content", [b"", b"garbage", b"PK\x03\x04 truncated"])
    def test_garbage_manifest(self, run, content):
        run.close()
        (run.path / "manifest.npz").write_bytes(content)
        with refused("manifest.npz is not a freegp file or is damaged"):
            RunDirectory.open(run.path)

    def test_flipped_manifest(self, tmp_path):
        RunDirectory.create(tmp_path, (MODEL, np.arange(100.0))).close()
        content = (tmp_path / "manifest.npz").read_bytes()
        (tmp_path / "manifest.npz").write_bytes(content.replace(np.float64(37.0).tobytes(), np.float64(38.0).tobytes()))
        with refused("manifest.npz is not a freegp file or is damaged"):
            RunDirectory.open(tmp_path)

    @pytest.mark.parametrize("key", ["freegp", "run"])
    def test_from_the_future(self, run, key):
        run.close()
        rewrite(run.path / "manifest.npz", lambda header: header.update({key: 99}))
        with refused("format 99, and this version reads 1"):
            RunDirectory.open(run.path)

    def test_another_freegp_file_as_manifest(self, tmp_path):
        saving.save(MODEL, tmp_path / "manifest.npz")
        with refused("not the manifest of a run"):
            RunDirectory.open(tmp_path)

    def test_a_failed_open_leaves_no_lock(self, run):
        run.close()
        content = (run.path / "manifest.npz").read_bytes()
        (run.path / "manifest.npz").write_bytes(b"garbage")
        with pytest.raises(RunError):
            RunDirectory.open(run.path)
        (run.path / "manifest.npz").write_bytes(content)
        RunDirectory.open(run.path).close()

    def test_leftovers_are_removed_and_nothing_else(self, four):
        four.close()
        (four.path / ".chunk-00004.npz.0123456789abcdef").write_bytes(b"half")
        (four.path / ".notes").touch()
        with RunDirectory.open(four.path, read_only=True):
            assert len(leftovers(four.path)) == 2
        with RunDirectory.open(four.path) as again:
            assert leftovers(four.path) == [".notes"]
            assert again.valid_chunks() == 4


class TestDamage:
    """A chunk that is not intact ends the count, is told of, and can be redone."""

    def assert_ends(self, run, valid, match):
        check = run.check()
        assert check.valid_chunks == run.valid_chunks() == valid
        with refused(match, DamagedChunkError):
            raise DamagedChunkError(check.problem)
        assert f"chunk-{valid:05d}.npz" in check.problem
        assert f"draws chunk {valid} and those after it again" in check.problem
        assert_holds(run, valid)
        with pytest.raises(DamagedChunkError):
            run.read_draws(valid + 1)
        self.assert_can_be_redone(run, valid)

    def assert_can_be_redone(self, run, valid):
        assert chunk_path(run, 3).exists()
        write(run, range(valid, 4))
        assert run.check() == (4, None)
        assert_holds(run, 4)

    @pytest.mark.parametrize("length", [0, 10, 1000, -1])
    def test_truncated(self, four, length):
        path = chunk_path(four, 2)
        path.write_bytes(path.read_bytes()[:length])
        self.assert_ends(four, 2, "damaged")

    def test_flipped_bits_in_the_draws(self, four):
        path = chunk_path(four, 1)
        value = chunk(1)[0]["whitened"][1, 2, 0, 0]
        content = path.read_bytes()
        assert value.tobytes() in content
        path.write_bytes(content.replace(value.tobytes(), (-value).tobytes()))
        self.assert_ends(four, 1, "damaged")

    def test_no_flipped_bit_passes_for_something_else(self, run):
        write(run, [0])
        path = chunk_path(run, 0)
        content = bytearray(path.read_bytes())
        undetected = 0
        for position in range(0, len(content), 3):
            content[position] ^= 1 << (position % 8)
            path.write_bytes(content)
            content[position] ^= 1 << (position % 8)
            valid, problem = run.check()
            assert (valid, problem is None) in ((0, False), (1, True))
            if valid == 1:  # in what a zip file holds besides: dates, versions, permissions
                undetected += 1
                assert_holds(run, 1)
        assert undetected < 0.2 * len(content) / 3

    def test_a_damaged_shape_is_not_a_lack_of_memory(self, four):
        path = chunk_path(four, 1)
        right, wrong = b"(2, 4, 3, 1), }", b"(2, 4, 3, 99999999999999), }"
        padded = right.ljust(len(wrong))
        assert padded in path.read_bytes()
        path.write_bytes(path.read_bytes().replace(padded, wrong))
        self.assert_ends(four, 1, "checksum of draws/whitened")

    def test_another_array_with_a_right_zip_checksum(self, four):
        path = chunk_path(four, 1)
        with np.load(path) as file:
            arrays = {name: file[name] for name in file.files}
        arrays["state/position"] += 1
        np.savez(path, **arrays)
        self.assert_ends(four, 1, "checksum of state/position")

    @pytest.mark.parametrize("index", [0, 2])
    def test_missing(self, four, index):
        chunk_path(four, index).unlink()
        self.assert_ends(four, index, "is missing")

    def test_the_last_one_missing_is_no_problem(self, four):
        chunk_path(four, 3).unlink()
        assert four.check() == (3, None)

    def test_foreign(self, four, tmp_path):
        with RunDirectory.create(tmp_path / "other", (MODEL, "another seed")) as other:
            write(other, range(4))
        shutil.copy(chunk_path(other, 1), chunk_path(four, 1))
        self.assert_ends(four, 1, "belongs to another run")

    def test_renamed(self, four):
        shutil.copy(chunk_path(four, 3), chunk_path(four, 2))
        self.assert_ends(four, 2, "another chunk renamed")

    def test_what_continues_something_else_does_not_count(self, four):
        draws, state = chunk(1)
        four.write_chunk(1, draws, state | {"position": state["position"] + 1})
        assert four.check().valid_chunks == 2
        assert "chunk-00002.npz does not continue the chunk before it" in four.check().problem
        write(four, [1])
        assert four.check() == (4, None)

    def test_another_saved_file(self, four):
        saving.save(MODEL, chunk_path(four, 2))
        self.assert_ends(four, 2, "belongs to another run")

    def test_from_the_future(self, four):
        rewrite(chunk_path(four, 2), lambda header: header.update(freegp=99))
        self.assert_ends(four, 2, "format 99")

    def test_a_pickle_is_not_opened(self, four):
        buffer = io.BytesIO()
        np.save(buffer, np.array([{}], dtype=object), allow_pickle=True)
        with zipfile.ZipFile(chunk_path(four, 2), "w") as archive:
            archive.writestr("manifest.npy", buffer.getvalue())
        self.assert_ends(four, 2, "Object arrays cannot be loaded")

    def test_what_would_grow_when_it_is_unpacked(self, four):
        with zipfile.ZipFile(chunk_path(four, 2), "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("manifest.npy", bytes(10**6))
        self.assert_ends(four, 2, "claims to hold more than there is")

    def test_a_link_out_of_the_folder_is_not_followed(self, four, tmp_path):
        chunk_path(four, 2).rename(tmp_path / "outside.npz")
        before = (tmp_path / "outside.npz").read_bytes()
        chunk_path(four, 2).symlink_to(tmp_path / "outside.npz")
        self.assert_ends(four, 2, "not a plain file")
        assert (tmp_path / "outside.npz").read_bytes() == before
        assert not chunk_path(four, 2).is_symlink()

    def test_a_pipe_is_not_waited_for(self, four):
        chunk_path(four, 2).unlink()
        os.mkfifo(chunk_path(four, 2))
        self.assert_ends(four, 2, "not a plain file")

    def test_a_chunk_that_may_not_be_read_is_not_taken_for_damaged(self, four, monkeypatch):
        monkeypatch.setattr(saving, "open", failing(errno.EACCES), raising=False)
        with refused("cannot be used .Permission denied"):
            four.check()


class TestWrite:
    def test_only_what_continues_something(self, run):
        with refused("chunk-00000.npz is missing"):
            write(run, [1])
        assert run.check() == (0, None)

    @pytest.mark.parametrize("shape", [(2,), (2, 5, 3), (3, 4)])
    def test_chains_and_draws_must_agree(self, run, shape):
        with pytest.raises(ValueError, match="same chains and draws"):
            run.write_chunk(0, {"a": np.zeros((2, 4)), "b": np.zeros(shape)}, {})

    @pytest.mark.parametrize("draws", [{"b": np.zeros((2, 4))}, {"a": np.zeros((3, 4))}, {"a": np.zeros((2, 4), dtype=int)}])
    def test_chunks_must_fit_together(self, run, draws):
        run.write_chunk(0, {"a": np.zeros((2, 4))}, {})
        with pytest.raises(ValueError, match="same names, shapes and types"):
            run.write_chunk(1, draws, {})
        run.write_chunk(1, {"a": np.zeros((2, 7))}, {})
        assert run.read_draws(2)["a"].shape == (2, 11)

    @pytest.mark.parametrize("array", [np.array([None]), np.zeros(3, dtype=ml_dtypes.bfloat16)])
    def test_only_what_comes_back_the_same(self, run, array):
        with pytest.raises(TypeError, match=r"state/x holds .* cannot be saved"):
            run.write_chunk(0, {}, {"x": array})

    def test_what_a_rename_commits_is_on_the_disk_before_it(self, run, monkeypatch):
        events = []

        def fsync(handle):
            events.append("sync folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "sync file")

        def replace(source, target):
            events.append("rename")
            shutil.move(source, target)

        monkeypatch.setattr(os, "fsync", fsync)
        monkeypatch.setattr(os, "replace", replace)
        write(run, [0])
        assert events == ["sync file", "rename", "sync folder"]

    @pytest.mark.parametrize("read_only", [True, False])
    def test_not_without_the_lock(self, run, read_only):
        run.close()
        again = RunDirectory.open(run.path, read_only=read_only)
        again.close()
        with refused("not open for writing"):
            write(again, [0])


def failing(code):
    def fail(*_, **__):
        raise OSError(code, os.strerror(code))

    return fail


class TestDisk:
    def assert_unharmed(self, run):
        assert leftovers(run.path) == []
        assert run.check() == (4, None)
        assert_holds(run, 4)
        write(run, [4])
        assert_holds(run, 5)

    @pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
    @pytest.mark.parametrize("index", [3, 4])
    def test_full_in_the_middle_of_a_file(self, four, monkeypatch, code, index):
        def write_some(file, **_):
            file.write(b"PK half a file")
            failing(code)()

        with monkeypatch.context() as patch:
            patch.setattr(np, "savez", write_some)
            with refused(f"no room left in {four.path}"):
                write(four, [index])
        self.assert_unharmed(four)

    @pytest.mark.parametrize("function", ["fsync", "replace"])
    def test_full_at_the_end(self, four, monkeypatch, function):
        with monkeypatch.context() as patch:
            patch.setattr(os, function, failing(errno.ENOSPC))
            with refused(f"no room left in {four.path}"):
                write(four, [4])
        self.assert_unharmed(four)

    def test_a_real_limit(self, four):
        draws, state = chunk(4, LARGE)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
        try:
            with refused("no room left"):
                four.write_chunk(4, {}, {"large": draws["whitened"], **state})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        self.assert_unharmed(four)

    @pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES])
    def test_read_only(self, four, monkeypatch, code):
        def open_to_read(path, mode):
            return open(path, mode) if mode == "rb" else failing(code)()

        with monkeypatch.context() as patch:
            patch.setattr(saving, "open", open_to_read, raising=False)
            with refused(f"{four.path} cannot be used .* make it readable and writable or choose another folder"):
                write(four, [4])
        self.assert_unharmed(four)

    def test_full_or_read_only_when_it_is_created(self, tmp_path, monkeypatch):
        with monkeypatch.context() as patch:
            patch.setattr(np, "savez", failing(errno.ENOSPC))
            with refused("no room left"):
                RunDirectory.create(tmp_path / "run", MODEL)
            patch.setattr(Path, "mkdir", failing(errno.EROFS))
            with refused("Read-only file system"):
                RunDirectory.create(tmp_path / "other", MODEL)
        RunDirectory.create(tmp_path / "run", MODEL).close()

    @pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only to root")
    def test_a_real_read_only_folder(self, four):
        four.close()
        (four.path / ".lock").unlink()
        four.path.chmod(0o555)
        try:
            with refused("Permission denied"):
                RunDirectory.open(four.path)
            with RunDirectory.open(four.path, read_only=True) as run:
                assert_holds(run, 4)
        finally:
            four.path.chmod(0o755)

    def test_a_folder_that_has_gone(self, four):
        shutil.rmtree(four.path)
        with refused("is missing"):
            write(four, [4])
        with refused("No such file or directory"):
            write(four, [0])


def in_another_process(task, folder):
    """A process that does one of the tasks below."""
    code = f"import test_run_directory as tests; tests.{task.__name__}({str(folder)!r})"
    return subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parent, stdout=subprocess.PIPE, text=True)


def hold(folder):
    with RunDirectory.open(folder):
        print("holding", flush=True)
        time.sleep(600)


def try_to_open(folder):
    try:
        RunDirectory.open(folder)
    except RunError as error:
        print(f"refused: {error}")


def write_for_ever(folder):
    with RunDirectory.open(folder) as run:
        write(run, itertools.count(run.valid_chunks()), LARGE)


def die_while_writing(folder):
    whole_savez = np.savez

    def half_savez(file, **arrays):
        buffer = io.BytesIO()
        whole_savez(buffer, **arrays)
        file.write(buffer.getvalue()[: buffer.tell() // 2])
        file.flush()
        os.kill(os.getpid(), signal.SIGKILL)

    with RunDirectory.open(folder) as run:
        write(run, [4])
        np.savez = half_savez
        write(run, [5])


class TestProcesses:
    def test_a_second_one_is_refused(self, four):
        with refused("in use by another process"):
            RunDirectory.open(four.path)
        output, _ = in_another_process(try_to_open, four.path).communicate(timeout=120)
        assert output.startswith(f"refused: the run in {four.path} is in use by another process; ")
        with RunDirectory.open(four.path, read_only=True) as reader:
            assert_holds(reader, 4)
        assert_holds(four, 4)

    def test_a_killed_one_does_not_block(self, run):
        run.close()
        process = in_another_process(hold, run.path)
        try:
            assert process.stdout.readline() == "holding\n"
            with refused("in use by another process"):
                RunDirectory.open(run.path)
        finally:
            process.kill()
            process.communicate()
        with RunDirectory.open(run.path) as again:
            write(again, [0])
            assert_holds(again, 1)

    def test_killed_in_the_middle_of_a_file(self, four):
        four.close()
        process = in_another_process(die_while_writing, four.path)
        process.communicate(timeout=120)
        assert process.returncode == -signal.SIGKILL
        assert len(leftovers(four.path)) == 1
        assert leftovers(four.path)[0].startswith(".chunk-00005.npz.")
        with RunDirectory.open(four.path) as run:
            assert leftovers(run.path) == []
            assert run.check() == (5, None)
            assert_holds(run, 5)

    @pytest.mark.slow
    def test_killed_at_any_time(self, run):
        run.close()
        valid = 0
        for delay in (0.0, 0.011, 0.023):
            process = in_another_process(write_for_ever, run.path)
            deadline = time.monotonic() + 120
            while not chunk_path(run, valid + 5).exists() and time.monotonic() < deadline:
                time.sleep(0.002)
            time.sleep(delay)
            process.kill()
            process.communicate()
            with RunDirectory.open(run.path) as again:
                assert leftovers(run.path) == []
                files = len(list(run.path.glob("chunk-*.npz")))
                assert files >= valid + 6
                assert again.check() == (files, None)
                assert_holds(again, files, LARGE)
                valid = files

    def test_the_lock_does_not_lead_out_of_the_folder(self, run, tmp_path):
        run.close()
        (run.path / ".lock").unlink()
        (run.path / ".lock").symlink_to(tmp_path / "outside")
        with refused("cannot be used"):
            RunDirectory.open(run.path)
        assert not (tmp_path / "outside").exists()
