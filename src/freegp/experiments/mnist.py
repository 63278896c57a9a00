"""Handwritten digits: ten classes, 60 000 images (paper, section 4.4)."""

import resource
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike
from matplotlib.figure import Figure
from sklearn.cluster import MiniBatchKMeans
from sklearn.decomposition import PCA

import freegp as fg
from freegp.experiments.data import Labelled, load_mnist
from freegp.experiments.tables import Report, Row
from freegp.experiments.workplace import Values, Workplace, efficiency
from freegp.parameters import to_free

TITLE = "handwritten digits"
READINGS = (
    "M = 500, as the paper says; settings published with it have 467.",
    "The inputs are the images' first principal components, on the scale of the pixels, with a lengthscale each; the paper has "
    "the pixels. Steps along one minibatch's slope do less harm in fewer columns, and so the fit takes fewer of them.",
    "k-means runs on the components, in minibatches.",
    "Priors of the covariance parameters are not stated in the paper: ours are freegp's log-normals around the starting values.",
    "The Gaussian approximation is fitted on minibatches with natural gradients for q(v) and Adam for the rest; the paper has "
    "AdaDelta. It begins with few inducing inputs, and in stages gets more, in the middle of the training images that it finds "
    "hardest then, which takes far less time than to begin with all of them; the paper has k-means centres. In the last stage "
    "q(v) settles alone.",
    "The variance, which sets the scale of what robust-max does not see, is held: at that value under which a small model of all "
    "but the last training images predicts these best. Free, it grows with the number of steps, and the bound with it.",
    "Work on the images is done in single precision where draws are made, else in double; robust-max has its quadrature in "
    "single.",
    "Of theta the chains move one factor of all lengthscales, whose ratios stay those of the fit: the paper does not say whether "
    "all of them moved.",
    "The draws are few for chains that mix so slowly: see how many are effective.",
    "Seconds a gradient are those of value and gradient of the log density over all images on all cores, the least of three; "
    "peak memory is that of the process that finished the run.",
    "Past the paper: from where the fit ends one goes on with epsilon inferred under a uniform prior, and one with more inducing "
    "inputs, got as before. With epsilon inferred no image has a log density above log(1 - epsilon), which costs more than it "
    "gains.",
    "The three inducing images are those that moved most among the k-means centres that were nearest to a six.",
)
PARTS = ("variance", "Gaussian", "cost", "free-form", "epsilon inferred, Gaussian", "larger, Gaussian", "larger, free-form")
"""In the order in which they are run."""


@dataclass(frozen=True)
class Settings:
    """How much of it to do: images to train and test on, how many pixels are averaged into one along a side, and the rest.

    Each stage of the fit has so many inducing inputs, steps, and a learning rate at first, which falls to ``falling`` of that;
    the rate of the sites falls with its square root, since they have less to follow then and their noise is what is left. Last
    come steps on q(v) alone. The first ``trial_stages`` are also tried without the last ``num_held_out`` training images, under
    each of the ``variances``, 0 being one that is free. What begins with ``epsilon`` is of the fit in which it is inferred, what
    begins with ``more`` of the larger model.
    """

    num_train: int = 60_000
    num_test: int = 10_000
    pooling: int = 1
    num_components: int = 100
    variances: tuple[float, ...] = (0.1, 1.0, 10.0, 0.0)
    num_held_out: int = 10_000
    trial_stages: int = 3
    num_inducing: tuple[int, ...] = (125, 250, 250, 500, 500, 500)
    num_steps: tuple[int, ...] = (300, 300, 500, 600, 400, 250)
    learning_rates: tuple[float, ...] = (0.03, 0.02, 0.02, 0.02, 0.006, 0.002)
    falling: float = 0.4
    site_rate: float = 0.05
    batch_size: int = 6000
    num_settling: int = 100
    lengthscale: float = 10.0
    num_samples: int = 120
    num_warmup: int = 60
    num_chains: int = 2
    epsilon_steps: tuple[int, ...] = (300, 150)
    epsilon_rates: tuple[float, ...] = (0.02, 0.006)
    more_inducing: tuple[int, ...] = (750, 750)
    more_steps: tuple[int, ...] = (150, 100)
    more_rates: tuple[float, ...] = (0.006, 0.002)
    more_samples: int = 40


FULL = Settings()
QUICK = Settings(
    num_train=1500,
    num_test=1000,
    pooling=4,
    num_components=20,
    variances=(1.0, 0.0),
    num_held_out=500,
    trial_stages=1,
    num_inducing=(20, 40),
    num_steps=(100, 100),
    learning_rates=(0.03, 0.01),
    batch_size=300,
    num_settling=50,
    lengthscale=3.0,
    num_samples=25,
    num_warmup=25,
    epsilon_steps=(50,),
    epsilon_rates=(0.02,),
    more_inducing=(50,),
    more_steps=(50,),
    more_rates=(0.004,),
    more_samples=10,
)


def pooled(X: np.ndarray, pooling: int) -> np.ndarray:
    """Images with blocks of pixels averaged into one."""
    side = 28 // pooling
    return X.reshape(len(X), side, pooling, side, pooling).mean(axis=(2, 4)).reshape(len(X), side**2)


def prepared(data: Labelled, settings: Settings) -> Labelled:
    """As many images as the settings ask for, at their resolution."""
    train, test = slice(settings.num_train), slice(settings.num_test)
    images = (pooled(data.X[train], settings.pooling), pooled(data.X_test[test], settings.pooling))
    return Labelled(images[0], data.y[train], images[1], data.y_test[test])


def in_components(images: Labelled, num_components: int) -> tuple[Labelled, PCA]:
    """The images as their principal components, those of the training images; and what takes these back to pixels."""
    pca = PCA(num_components, svd_solver="covariance_eigh").fit(images.X)
    return Labelled(pca.transform(images.X), images.y, pca.transform(images.X_test), images.y_test), pca


def model_of(
    Z: np.ndarray, lengthscales: ArrayLike, variance: float, *, infers_epsilon: bool = False, single_precision: bool = False
) -> fg.SparseGP:
    """The paper's model, with the variance held, or free where it is 0."""
    return fg.SparseGP(
        kernel=fg.kernels.RBF(variance=variance or 10.0, lengthscales=lengthscales) + fg.kernels.White(variance=1e-3),
        likelihood=fg.likelihoods.RobustMax(10, epsilon=1e-3, single_precision=True),
        inducing=Z,
        priors={"likelihood.epsilon": fg.priors.Uniform(0.0, 1.0)} if infers_epsilon else {},
        fixed=["kernel.members.1"] + (["kernel.members.0.variance"] if variance else []),
        single_precision=single_precision,
    )


def run(work: Workplace, settings: Settings) -> Report:
    """Choose the variance, fit, score, sample, score; and the same past the paper."""
    images = prepared(load_mnist(work.data), settings)
    data, pca = in_components(images, settings.num_components)
    found: dict[str, Values] = {}

    def part(name: str, compute: Callable[[], Values]) -> None:
        found[name] = work.part(name, compute)
        work.publish(_report(found))

    def fitted(name: str, fit: fg.GaussianFit, seconds: float) -> None:
        epsilon = fit.model.parameter_values()["likelihood.epsilon"]
        part(name, lambda: _scores(fit, data) | {"seconds": seconds, "bound": fit.elbo, "epsilon": epsilon})

    stages = _stages(settings.num_inducing, settings.num_steps, settings.learning_rates)
    part("variance", lambda: _tried(work, settings, data, stages[: settings.trial_stages]))
    fit, seconds = _fitted(work, settings, data, "digits", stages, found["variance"]["best"])
    fitted("Gaussian", fit, seconds)
    work.draw("inducing-images", _images(data, pca, fit, settings))
    part("cost", lambda: _costs(settings, fit, data, images))
    part("free-form", lambda: _sampled(work, "digits", settings, fit, data, settings.num_samples))
    start = _with_epsilon(fit, data)
    again = _stages([settings.num_inducing[-1]] * len(settings.epsilon_steps), settings.epsilon_steps, settings.epsilon_rates)
    fitted("epsilon inferred, Gaussian", *_in_stages(work, settings, data, "epsilon", again, start.model, start))
    more = _stages(settings.more_inducing, settings.more_steps, settings.more_rates)
    larger, seconds = _in_stages(work, settings, data, "larger", more, fit.model, fit)
    fitted("larger, Gaussian", larger, seconds)
    part("larger, free-form", lambda: _sampled(work, "larger", settings, larger, data, settings.more_samples))
    return _report(found)


Stage = tuple[int, int, float]
"""A number of inducing inputs, one of steps, and the learning rate at first."""


def _stages(num_inducing: Sequence[int], num_steps: Sequence[int], rates: Sequence[float]) -> list[Stage]:
    return list(zip(num_inducing, num_steps, rates, strict=True))


def _tried(work: Workplace, settings: Settings, data: Labelled, stages: list[Stage]) -> Values:
    """How well the last training images are predicted from the others, under each of the variances; and the best of these."""
    most = len(data.X) - settings.num_held_out
    without = Labelled(data.X[:most], data.y[:most], data.X[most:], data.y[most:])
    densities, seconds = [], 0.0
    for variance in settings.variances:
        fit, more = _fitted(work, settings, without, f"trial-{variance:g}", stages, variance)
        densities.append(_scores(fit, without)["log density"])
        seconds += more
    best = settings.variances[int(np.argmax(densities))]
    return {"variances": settings.variances, "log densities": densities, "best": best, "seconds": seconds}


def _fitted(
    work: Workplace, settings: Settings, data: Labelled, name: str, stages: list[Stage], variance: float
) -> tuple[fg.GaussianFit, float]:
    """A fit from the centres of the images, and its seconds."""
    lengthscales = np.full(data.X.shape[1], settings.lengthscale)
    return _in_stages(work, settings, data, name, stages, model_of(_centres(data.X, stages[0][0]), lengthscales, variance))


def _with_epsilon(fit: fg.GaussianFit, data: Labelled) -> fg.GaussianFit:
    """The fit, to go on from with epsilon inferred."""
    values, Z = fit.model.parameter_values(), np.asarray(fit.model.inducing_inputs)
    lengthscales, variance = (values[f"kernel.members.0.{name}"] for name in ("lengthscales", "variance"))
    return replace(fit, model=model_of(Z, np.asarray(lengthscales), variance, infers_epsilon=True).prepared(data.X))


def _in_stages(
    work: Workplace,
    settings: Settings,
    data: Labelled,
    name: str,
    stages: list[Stage],
    model: fg.SparseGP,
    fit: fg.GaussianFit | None = None,
) -> tuple[fg.GaussianFit, float]:
    """A fit in stages that are kept, so that one that was stopped goes on from the last; and the seconds of all of them."""
    seconds = 0.0
    for number, (num_inducing, num_steps, rate) in enumerate([*stages, (stages[-1][0], settings.num_settling, 0.0)]):
        model = model if fit is None else _with_points(fit, num_inducing, data)
        method = fg.NaturalGradient(
            batch_size=settings.batch_size,
            num_steps=num_steps,
            site_rate=settings.site_rate * ((rate or settings.falling * stages[-1][2]) / settings.learning_rates[0]) ** 0.5,
            learning_rate=rate,
            falling=settings.falling,
        )
        fit = work.fit(f"{name}-{number}", model, data.X, data.y, method=method, seed=number, start=fit)
        seconds += fit.seconds
        work.say(f"{name}, stage {number + 1} of {len(stages) + 1}: M = {num_inducing}, bound {fit.elbo:.0f}")
    assert fit is not None
    return fit, seconds


HARDEST = 0.05
"""The share of the training images near which more inducing inputs are put."""


def _with_points(fit: fg.GaussianFit, num_inducing: int, data: Labelled) -> fg.SparseGP:
    """The fit's model with so many inducing inputs: those it has, and centres of the images that it finds hardest."""
    Z = np.asarray(fit.model.inducing_inputs)
    if len(Z) == num_inducing:
        return fit.model
    hardest = np.argsort(fit.predict_log_density(data.X, data.y))[: max(int(HARDEST * len(data.X)), num_inducing)]
    return fit.model.with_inducing(np.concatenate([Z, _centres(data.X[hardest], num_inducing - len(Z))]))


def _centres(X: np.ndarray, num_inducing: int) -> np.ndarray:
    return np.asarray(MiniBatchKMeans(num_inducing, n_init=1, batch_size=4096, random_state=0).fit(X).cluster_centers_)


def in_lengthscales(fit: fg.GaussianFit, data: Labelled) -> tuple[fg.GaussianFit, Labelled]:
    """The fit and data for the draws: with inputs in units of their lengthscales, so that one factor of all of them is left."""
    values = fit.model.parameter_values()
    lengthscales = np.asarray(values["kernel.members.0.lengthscales"])
    Z = np.asarray(fit.model.inducing_inputs) / lengthscales
    model = model_of(Z, 1.0, values["kernel.members.0.variance"], single_precision=True).prepared(Z)
    scaled = Labelled(data.X / lengthscales, data.y, data.X_test / lengthscales, data.y_test)
    return replace(fit, model=model), scaled


def _gradient_seconds(model: fg.SparseGP, data: Labelled, whitened: ArrayLike) -> float:
    """Of one value and gradient of the log density over all the data, at the model's own parameters."""
    X, free = model.with_known(jnp.asarray(data.X)), to_free(model)
    gradient = jax.jit(jax.value_and_grad(lambda free, v, X, y: fg.log_density(model, X, y, free, v), argnums=(0, 1)))
    times = []
    for _ in range(4):  # the first compiles
        begun = time.perf_counter()
        jax.block_until_ready(gradient(free, jnp.asarray(whitened), X, jnp.asarray(data.y)))
        times.append(time.perf_counter() - begun)
    return min(times[1:])


def _scores(result: fg.GaussianFit | fg.Posterior, data: Labelled) -> Values:
    likely = np.argmax(result.predict_y(data.X_test)[0], axis=1)
    density = result.predict_log_density(data.X_test, data.y_test)
    return {"accuracy": float(np.mean(likely == data.y_test)), "log density": float(np.mean(density))}


def _sampled(work: Workplace, name: str, settings: Settings, fit: fg.GaussianFit, data: Labelled, num_samples: int) -> Values:
    common, scaled = in_lengthscales(fit, data)
    posterior = work.sample(
        name,
        common,
        scaled.X,
        scaled.y,
        num_samples=num_samples,
        num_warmup=settings.num_warmup,
        num_chains=settings.num_chains,
    )
    return _scores(posterior, scaled) | {
        "seconds": posterior.seconds_total,
        "ESS": efficiency(posterior).ess,
        "draws": posterior.num_chains * posterior.num_draws,
        "peak memory (GiB)": peak_memory(),
    }


def _costs(settings: Settings, fit: fg.GaussianFit, data: Labelled, images: Labelled) -> Values:
    """Of a gradient, with one factor of all lengthscales and with a lengthscale for each pixel."""
    common, scaled = in_lengthscales(fit, data)
    Z = _centres(images.X, settings.num_inducing[-1])
    variance = fit.model.parameter_values()["kernel.members.0.variance"]
    lengthscales = np.full(images.X.shape[1], settings.lengthscale)
    of_pixels = model_of(Z, lengthscales, variance, single_precision=True).prepared(Z)
    return {
        "seconds a gradient": _gradient_seconds(common.model, scaled, common.mean),
        "the same, ARD": _gradient_seconds(of_pixels, images, fit.mean),
    }


def peak_memory() -> float:
    """The most memory this process has had, in GiB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30


def moved_sixes(data: Labelled, before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Three inducing images that started nearest to a six, those that moved most."""
    squares = np.sum(np.square(data.X), axis=1)
    nearest = np.array([int(np.argmin(squares - 2.0 * (data.X @ z))) for z in before])
    distance = np.linalg.norm(after - before, axis=1)
    return np.argsort(np.where(data.y[nearest] == 6, -distance, np.inf), kind="stable")[:3]


def _images(data: Labelled, pca: PCA, fit: fg.GaussianFit, settings: Settings) -> Figure:
    before = _centres(data.X, settings.num_inducing[0])
    after = np.asarray(fit.model.inducing_inputs)[: len(before)]
    shown = moved_sixes(data, before, after)
    before, after = pca.inverse_transform(before), pca.inverse_transform(after)
    side = 28 // settings.pooling
    figure = Figure(figsize=(6.5, 6.5), layout="constrained")
    grid = figure.subplots(3, 3)
    for axes, column in zip(grid, shown, strict=True):
        for axis, picture in zip(axes, (before[column], after[column], after[column] - before[column]), strict=True):
            axis.imshow(picture.reshape(side, side), cmap="gray", vmin=-1, vmax=1)
            axis.set(xticks=[], yticks=[])
    for axis, title in zip(grid[0], ("k-means", "optimised", "difference"), strict=True):
        axis.set_title(title)
    return figure


def _report(found: dict[str, Values]) -> Report:
    """Of what there is; what is missing is named."""
    rows: list[Row] = []

    def scores(name: str, label: str, paper: tuple[str, str]) -> None:
        if (of := found.get(name)) is not None:
            accuracy, density = f"{100 * of['accuracy']:.2f} %", f"{of['log density']:.4f}"
            rows.append(Row(f"test accuracy, {label}", paper[0], accuracy, of["seconds"]))
            rows.append(Row(f"mean test log density, {label}", paper[1], density))

    def draws(name: str, label: str, paper: str) -> None:
        if (of := found.get(name)) is not None:
            rows.append(Row(f"draws; fewest effective{label}", paper, f"{of['draws']}; {of['ESS']:.3g}"))

    if (tried := found.get("variance")) is not None:
        names = ", ".join("free" if variance == 0 else f"{variance:g}" for variance in tried["variances"])
        densities = ", ".join(f"{density:.4f}" for density in tried["log densities"])
        rows.append(Row(f"log density of training images left out, variance {names}", "", densities, tried["seconds"]))
    scores("Gaussian", "Gaussian", ("98.04 %", "-0.068"))
    if (cost := found.get("cost")) is not None:
        rows.append(Row("seconds a gradient, one factor of all lengthscales", "", f"{cost['seconds a gradient']:.3g}"))
        rows.append(Row("the same, a lengthscale for each pixel", "0.4", f"{cost['the same, ARD']:.3g}"))
    scores("free-form", "free-form", ("98.04 %", "-0.064"))
    draws("free-form", "", "1000")
    if (free_form := found.get("free-form")) is not None:
        rows.append(Row("peak memory (GiB)", "", f"{free_form['peak memory (GiB)']:.2f}"))
    scores("epsilon inferred, Gaussian", "epsilon inferred, Gaussian", ("", ""))
    if (inferred := found.get("epsilon inferred, Gaussian")) is not None:
        rows.append(Row("epsilon inferred", "", f"{inferred['epsilon']:.2g}"))
    scores("larger, Gaussian", "larger, Gaussian", ("", ""))
    scores("larger, free-form", "larger, free-form", ("", ""))
    draws("larger, free-form", ", larger", "")
    missing = [name for name in PARTS if name not in found]
    return Report(TITLE, rows, found, (*READINGS, f"Not run to the end: {'; '.join(missing)}.") if missing else READINGS)
