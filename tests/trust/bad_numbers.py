"""Data and settings at odds with each other and with reason: a finite answer or one clear sentence, and nothing else."""

import faulthandler
import warnings
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import freegp as fg
from freegp.fields import Value, parameter, positive

LONGEST = 2000
WATCHDOG = 300.0
"""Seconds for one case; what takes longer hangs, and the process says where and ends."""


class Waves(fg.kernels.Kernel):
    """A function of distance that is no covariance: ``variance sin(1 + |x - y|)`` has eigenvalues far below zero."""

    variance: Value = parameter(positive, default=1.0)

    def matrix(self, X: Any, X2: Any) -> Any:
        """Between rows."""
        return self.variance * jnp.sin(1.0 + 3.0 * jnp.sum(jnp.abs(X[:, None] - X2[None]), axis=-1))

    def diagonal(self, X: Any) -> Any:
        """Of rows with themselves."""
        return self.variance * jnp.sin(1.0) * jnp.ones(X.shape[0])


LIKELIHOODS = {
    "Gaussian": lambda: fg.likelihoods.Gaussian(),
    "StudentT": lambda: fg.likelihoods.StudentT(),
    "Bernoulli": lambda: fg.likelihoods.Bernoulli(),
    "Poisson": lambda: fg.likelihoods.Poisson(),
    "Softmax": lambda: fg.likelihoods.Softmax(3),
}
SIZES = ((20, 1), (20, 1), (6, 2), (6, 2), (1, 1))
"""Rows and columns: few, so that programs are compiled once for many cases."""


@dataclass(frozen=True)
class Case:
    """One problem: what the data are like, and what the model believes."""

    likelihood: str
    size: tuple[int, int]
    seed: int = 0
    num_inducing: int = 4
    power_x: float = 0.0
    power_y: float = 0.0
    power_length: float = 0.0
    is_constant: bool = False
    has_duplicates: bool = False
    is_single: bool = False
    odd: str = "none"
    kernel: str = "RBF"

    def data(self) -> tuple[Any, Any]:
        """X and y."""
        rng = np.random.default_rng(self.seed)
        N, D = self.size
        X = rng.normal(size=(N, D)) * 10.0**self.power_x
        if self.has_duplicates:
            X[N // 2 :] = X[0]
        y = {
            "Bernoulli": lambda: rng.integers(0, 2, N).astype(float),
            "Softmax": lambda: rng.integers(0, 3, N).astype(float),
            "Poisson": lambda: np.floor(np.abs(rng.normal(size=N)) * 10.0**self.power_y),
        }.get(self.likelihood, lambda: rng.normal(size=N) * 10.0**self.power_y)()
        if self.is_constant:
            y[:] = y[0]
        if self.is_single:
            X, y = X.astype(np.float32), y.astype(np.float32)
        return self._made_odd(X, y)

    def _made_odd(self, X: np.ndarray, y: np.ndarray) -> tuple[Any, Any]:
        if self.odd in ("nan", "inf"):
            X[-1, 0] = float(self.odd)
        elif self.odd == "nan in y":
            y[0] = np.nan
        elif self.odd == "text":
            return X.astype(str) + "!", y
        elif self.odd == "missing":
            return X.astype(object), np.where(np.arange(len(y)) == 0, None, y)
        elif self.odd == "categories":
            return X, np.array(["a", "b"] * len(y))[: len(y)]
        elif self.odd == "empty":
            return X[:0], y[:0]
        elif self.odd == "too short":
            return X, y[:-1]
        return X, y

    def model(self) -> fg.SparseGP:
        """A model of it."""
        length = 10.0**self.power_length
        kernel = Waves() if self.kernel == "not a covariance" else getattr(fg.kernels, self.kernel)(lengthscales=length)
        priors = {"kernel.lengthscales": fg.priors.LogNormal(20.0, 0.01)} if self.odd == "prior far away" else {}
        return fg.SparseGP(kernel, LIKELIHOODS[self.likelihood](), inducing=self.num_inducing, priors=priors)


# What is refused at once is rarer than the rest, or little else would be tried.
cases = st.builds(
    Case,
    likelihood=st.sampled_from(sorted(LIKELIHOODS)),
    size=st.sampled_from(SIZES),
    seed=st.integers(0, 1000),
    num_inducing=st.sampled_from([4] * 5 + [1, 40]),
    power_x=st.sampled_from([0.0, 0.0, 0.0, -8.0, -3.0, 3.0, 8.0]),
    power_y=st.sampled_from([0.0, 0.0, 0.0, -8.0, -3.0, 3.0, 8.0]),
    power_length=st.sampled_from([0.0, 0.0, 0.0, -6.0, 6.0]),
    is_constant=st.sampled_from([False] * 4 + [True]),
    has_duplicates=st.sampled_from([False] * 2 + [True]),
    is_single=st.booleans(),
    odd=st.sampled_from(["none"] * 40 + ["nan", "inf", "nan in y", "text", "missing", "categories", "empty", "too short"]),
    kernel=st.sampled_from(["RBF", "RBF", "RBF", "Matern12"]),
)
ALWAYS = (
    Case("Poisson", (20, 1), kernel="not a covariance"),
    Case("Gaussian", (20, 1), odd="prior far away"),
    Case("Poisson", (20, 1), power_y=8.0),
    Case("Gaussian", (1, 1)),
    Case("Bernoulli", (20, 1), is_constant=True),
)
"""Tried whatever else is."""


@dataclass
class Outcome:
    """How many cases were answered, what the others were told, and what went wrong."""

    answered: int = 0
    refusals: Counter = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def try_one(self, case: Case) -> None:
        """From the data to predictions."""
        faulthandler.dump_traceback_later(WATCHDOG, exit=True)
        try:
            problem = _problem_of_answer(case)
            if problem is None:
                self.answered += 1
            else:
                self.failures.append(f"{case}: {problem}")
        except (ValueError, TypeError, FloatingPointError) as error:
            text = str(error)
            if not text or "\n" in text.strip() or len(text) > LONGEST:
                self.failures.append(f"{case}: {type(error).__name__}: {text[:300]!r}")
            self.refusals[text] += 1
        except Exception as error:
            self.failures.append(f"{case}: {type(error).__name__}: {str(error)[:300]!r}")
        finally:
            faulthandler.cancel_dump_traceback_later()


def _problem_of_answer(case: Case) -> str | None:
    """Fit, sample and predict; what is wrong with what comes out, if anything is."""
    X, y = case.data()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        posterior = fg.sample(case.model(), X, y, num_samples=20, num_warmup=60, num_chains=2, progress=False)
        new = np.concatenate([np.asarray(X, dtype=float), np.asarray(X, dtype=float) + 10.0**case.power_x])
        mean, variance = posterior.predict_f(new)
        parts = {"draws": posterior.free, "values": posterior.whitened, "f": mean, "variance of f": variance}
        parts["y"] = posterior.predict_y(new)[0]
        verdict = posterior.diagnostics.verdict
    bad = [name for name, part in parts.items() if not np.all(np.isfinite(np.asarray(part)))]
    if bad:
        return f"not finite: {', '.join(bad)}"
    return None if verdict else "no verdict"


def sweep(num_cases: int, with_seed: int = 0) -> Outcome:
    """The cases that are always tried, and so many more."""
    outcome = Outcome()
    for case in ALWAYS:
        outcome.try_one(case)
    wanted = settings(
        max_examples=num_cases, database=None, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
    )

    @seed(with_seed)
    @wanted
    @given(cases)
    def each(case: Case) -> None:
        outcome.try_one(case)

    if num_cases:
        each()
    return outcome
