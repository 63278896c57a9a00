import dataclasses
import io
import json
import os
import zipfile

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import freegp as fg
from freegp import saving
from freegp.likelihoods import Likelihood

X = np.linspace(0, 3, 20)[:, None]
COUNTS = np.random.default_rng(0).poisson(2.0, 20).astype(float)


@pytest.fixture(scope="module")
def fit():
    model = fg.SparseGP(
        fg.kernels.RBF(1.0, 0.5) * fg.kernels.Constant(2.0) + fg.kernels.White(1e-3, active_dims=[0]),
        fg.likelihoods.NegativeBinomial(0.5, exposure=np.full(20, 2.0)),
        inducing=5,
        priors={"kernel.members.0.members.0.lengthscales": fg.priors.Gamma(1.5, 1.0)},
        fixed=["kernel.members.1"],
    )
    return fg.fit_gaussian(model, X, COUNTS, fg.NaturalGradient(max_steps=2))


@pytest.fixture
def saved(fit, tmp_path):
    fit.save(tmp_path / "fit.npz")
    return tmp_path / "fit.npz"


def test_there_and_back(fit, saved):
    loaded = fg.load(saved)
    assert eqx.tree_equal(loaded.model, fit.model)
    assert loaded.model.priors == fit.model.priors
    for name in ("elbo", "status", "message", "method", "seconds"):
        assert getattr(loaded, name) == getattr(fit, name)
    np.testing.assert_array_equal(loaded.trace, fit.trace)
    for got, expected in zip(loaded.predict_y(X, exposure=1.0), fit.predict_y(X, exposure=1.0), strict=True):
        np.testing.assert_array_equal(got, expected)
    loaded.save(saved)
    assert fg.load(saved).elbo == fit.elbo


@pytest.mark.parametrize(
    "likelihood",
    [
        fg.likelihoods.Gaussian(0.2),
        fg.likelihoods.StudentT(),
        fg.likelihoods.Bernoulli("logit"),
        fg.likelihoods.Ordinal(cutpoints=[-1.0, 2.0]),
        fg.likelihoods.RobustMax(4, 0.01, step=0.2),
        fg.likelihoods.Softmax(3),
    ],
    ids=lambda likelihood: type(likelihood).__name__,
)
def test_models_of_every_shape(likelihood, tmp_path):
    model = fg.SparseGP([fg.kernels.Periodic()] * likelihood.num_latents, likelihood, inducing=fg.Grid((2, 3)), jitter=1e-5)
    saving.save(model, tmp_path / "model.npz")
    loaded = fg.load(tmp_path / "model.npz")
    assert eqx.tree_equal(loaded, model)
    assert loaded.inducing == model.inducing


class OwnLikelihood(Likelihood):
    """A likelihood of the user's own, by subclass."""

    def _log_prob(self, f, y):
        return -0.5 * jnp.square(y - f)

    def _conditional_mean(self, f):
        return f

    def _conditional_variance(self, f):
        return jnp.ones_like(f)

    def _sample(self, key, f):
        return f


def test_a_users_class_is_saved_by_its_full_name(tmp_path):
    model = fg.SparseGP(fg.kernels.RBF(), OwnLikelihood(), inducing=3)
    saving.save(model, tmp_path / "model.npz")
    assert isinstance(fg.load(tmp_path / "model.npz").likelihood, OwnLikelihood)


def test_a_function_cannot_be_saved(tmp_path):
    model = fg.SparseGP(fg.kernels.RBF(), fg.likelihoods.Custom(lambda f, y: f), inducing=3)
    with pytest.raises(TypeError, match="cannot be saved"):
        saving.save(model, tmp_path / "model.npz")
    assert os.listdir(tmp_path) == []


def test_nothing_half_written_stays_behind(fit, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    (tmp_path / "fit.npz").write_bytes(b"old")
    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError, match="No space left"):
        fit.save(tmp_path / "fit.npz")
    assert (tmp_path / "fit.npz").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["fit.npz"]


def rewrite(path, change):
    """The same file with its manifest changed."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    manifest = json.loads(arrays["manifest"].tobytes())
    change(manifest, arrays)
    arrays["manifest"] = np.frombuffer(json.dumps(manifest).encode(), dtype=np.uint8)
    np.savez(path, **arrays)


class TestDamage:
    def test_missing(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="there is no file"):
            fg.load(tmp_path / "nothing.npz")
        with pytest.raises(IsADirectoryError, match="if it holds a run"):
            fg.load(tmp_path)

    @pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04 truncated"])
    def test_not_ours(self, tmp_path, content):
        (tmp_path / "x.npz").write_bytes(content)
        with pytest.raises(saving.LoadError, match="not a freegp file or is damaged"):
            fg.load(tmp_path / "x.npz")

    def test_truncated(self, saved):
        saved.write_bytes(saved.read_bytes()[:-100])
        with pytest.raises(saving.LoadError, match="damaged"):
            fg.load(saved)

    def test_another_array(self, saved):
        rewrite(saved, lambda manifest, arrays: arrays["array0"].__iadd__(1.0))
        with pytest.raises(saving.LoadError, match="checksum of array0"):
            fg.load(saved)

    def test_a_sentence_is_one_line_whatever_it_quotes(self, saved):
        """The names of arrays are the file's own."""
        content = bytearray(saved.read_bytes().replace(b"array0.npy", b"arr\ny0.npy"))
        content[content.index(b"arr\ny0.npy") + 100] ^= 1
        saved.write_bytes(content)
        with pytest.raises(saving.LoadError) as caught:
            fg.load(saved)
        assert str(caught.value).isprintable()

    def test_from_the_future(self, saved):
        rewrite(saved, lambda manifest, arrays: manifest.update(freegp=99))
        with pytest.raises(saving.LoadError, match="format 99"):
            fg.load(saved)

    def test_foreign(self, tmp_path):
        np.savez(tmp_path / "x.npz", manifest=np.frombuffer(b"[1, 2]", dtype=np.uint8))
        with pytest.raises(saving.LoadError, match="was not written by freegp"):
            fg.load(tmp_path / "x.npz")

    @pytest.mark.parametrize("name", ["os.system", "subprocess.Popen", "Nonsense"])
    def test_unregistered_classes_are_not_looked_for(self, saved, name):
        rewrite(saved, lambda manifest, arrays: manifest["body"].update({"class": name}))
        with pytest.raises(saving.LoadError, match="no class"):
            fg.load(saved)

    def test_a_pickle_is_not_opened(self, tmp_path):
        buffer = io.BytesIO()
        np.save(buffer, np.array([{}], dtype=object), allow_pickle=True)
        with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
            archive.writestr("manifest.npy", buffer.getvalue())
        with pytest.raises(saving.LoadError, match="not a freegp file"):
            fg.load(tmp_path / "x.npz")

    def test_fields_that_do_not_fit(self, saved):
        rewrite(saved, lambda manifest, arrays: manifest["body"]["fields"].pop("elbo"))
        with pytest.raises(saving.LoadError, match="damaged"):
            fg.load(saved)


def test_every_result_field_is_saved(fit):
    arrays: dict = {}
    encoded = saving._encode(fit, arrays)
    assert set(encoded["fields"]) == {field.name for field in dataclasses.fields(fit)}
