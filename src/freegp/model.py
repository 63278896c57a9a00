"""The model: kernels, a likelihood, inducing variables, and what is believed of the parameters."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from freegp.inducing import Inducing, InducingPoints, Inputs, Placement, as_inducing
from freegp.kernels import Kernel
from freegp.likelihoods import Likelihood
from freegp.parameters import all_parameters, check_names, check_values, get_value
from freegp.priors import Prior, as_prior
from freegp.saving import registered

BLOCK_ENTRIES = 400_000
"""Of a block's matrix: a few such matrices stay in the cache, and below the size at which memory is fetched anew every time."""
ROWS_IN_BLOCK = 256, 4096


@registered
class SparseGP(eqx.Module):
    """P latent functions with Gaussian process priors, seen through a likelihood and carried by M inducing variables.

    Parameters
    ----------
    kernel
        One kernel shared by all latent functions, or a sequence with one for each.
    likelihood
        How data depend on the latent functions; it says how many there are.
    inducing
        The number of inducing points (put by k-means), "auto" (the fit finds how many it takes, see `Automatic`), an (M, D)
        array, or a placement (`Grid`, `Subset`). The data inputs themselves give the full Gaussian process.
    priors
        Priors by parameter name. A positive parameter without one has a log-normal with its value as median and scale 1.5.
    fixed
        Names of parameters held at their values; "kernel" holds all below it.
    jitter
        Added to the diagonal of Kuu, in units of its mean.
    block_size
        How many data are in memory at once; by default as many as make a matrix of 3 MiB with the inducing variables.
    single_precision
        Whether the work on the data is done in 32-bit numbers, which takes less time and memory; that on the inducing variables
        never is, nor are natural gradients. For many data and many inducing variables, with standardised inputs and a nugget
        (`White`) in the kernel.

    >>> import freegp as fg
    >>> model = fg.SparseGP(fg.kernels.RBF(), fg.likelihoods.Bernoulli(), inducing=10, fixed=["kernel.variance"])
    >>> model.parameter_values()
    {'kernel.variance': 1.0, 'kernel.lengthscales': 1.0}
    """

    kernel: Kernel | tuple[Kernel, ...]
    likelihood: Likelihood
    inducing: Inducing | Placement
    priors: tuple[tuple[str, Prior], ...] = eqx.field(static=True)
    fixed: tuple[str, ...] = eqx.field(static=True)
    jitter: float = eqx.field(static=True)
    block_size: int | None = eqx.field(static=True)
    single_precision: bool = eqx.field(static=True)

    def __init__(
        self,
        kernel: Kernel | Sequence[Kernel],
        likelihood: Likelihood,
        inducing: int | str | ArrayLike | Inducing | Placement,
        priors: Mapping[str, Prior] | Iterable[tuple[str, Prior]] = (),
        fixed: Iterable[str] = (),
        *,
        jitter: float = 1e-6,
        block_size: int | None = None,
        single_precision: bool = False,
    ):
        self.kernel = kernel if isinstance(kernel, Kernel) else tuple(kernel)
        self.likelihood = likelihood
        self.inducing = as_inducing(inducing)
        self.priors = tuple((path, as_prior(prior)) for path, prior in dict(priors).items())
        self.fixed = (fixed,) if isinstance(fixed, str) else tuple(fixed)
        self.jitter = float(jitter)
        self.block_size = None if block_size is None else int(block_size)
        self.single_precision = bool(single_precision)
        self._check()

    def __repr__(self) -> str:
        size = f"{self.num_inducing} {self.inducing.what}" if isinstance(self.inducing, Inducing) else repr(self.inducing)
        parts = [f"kernel={self.kernel!r}", f"likelihood={self.likelihood!r}", f"inducing={size}"]
        parts += [f"priors={dict(self.priors)!r}"] if self.priors else []
        parts += [f"fixed={list(self.fixed)!r}"] if self.fixed else []
        parts += ["single_precision=True"] if self.single_precision else []
        return f"SparseGP({', '.join(parts)})"

    def _check(self) -> None:
        if not isinstance(self.likelihood, Likelihood):
            raise TypeError(f"likelihood must be one of fg.likelihoods, such as Poisson(), but is {self.likelihood!r}")
        if not all(isinstance(kernel, Kernel) for kernel in self.kernels):
            raise TypeError(f"kernel must be one of fg.kernels, or one for each latent function, but is {self.kernel!r}")
        if len(self.kernels) not in (1, self.num_latents):
            raise ValueError(
                f"{len(self.kernels)} kernels were given for {self.num_latents} latent function(s); give one, or one for each"
            )
        if self.jitter <= 0.0 or (self.block_size is not None and self.block_size < 1):
            raise ValueError(f"jitter and block_size must be positive, but are {self.jitter} and {self.block_size}")
        check_names(self)

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The distinct kernels: one if shared, else one for each latent function."""
        return self.kernel if isinstance(self.kernel, tuple) else (self.kernel,)

    @property
    def num_latents(self) -> int:
        """P."""
        return self.likelihood.num_latents

    @property
    def num_inducing(self) -> int:
        """M."""
        return self.placed.num_inducing

    @property
    def rows_at_once(self) -> int:
        """How many data are in memory at once."""
        entries = 2 * BLOCK_ENTRIES if self.single_precision else BLOCK_ENTRIES
        return self.block_size or int(np.clip(entries // self.num_inducing, *ROWS_IN_BLOCK))

    @property
    def placed(self) -> Inducing:
        """The inducing variables, which must have been placed."""
        if not isinstance(self.inducing, Inducing):
            raise ValueError(
                f"the inducing points are still to be placed ({self.inducing}); call model.prepared(X), or give them as an array"
            )
        return self.inducing

    @property
    def inducing_inputs(self) -> Float[Array, "M D"]:
        """Z."""
        placed = self.placed
        if not isinstance(placed, InducingPoints):
            raise ValueError(f"{type(placed).__name__} have no inducing inputs; use inducing points")
        return placed.Z

    def prepared(self, X: np.ndarray, seed: int = 0) -> "SparseGP":
        """The model with Z placed for data at X and every prior, the default ones too, written out."""
        check_values(self)
        priors = {p.path: p.prior for p in all_parameters(self) if p.prior is not None}
        inducing = self.inducing if isinstance(self.inducing, Inducing) else self.inducing.place(np.asarray(X), seed)
        return self._replace(priors=priors, inducing=inducing)

    def with_inducing(self, inducing: int | str | ArrayLike | Inducing | Placement) -> "SparseGP":
        """The model with other inducing variables, or another number of them."""
        return self._replace(inducing=inducing)

    def with_inducing_inputs(self, Z: Float[Array, "M D"]) -> "SparseGP":
        """The model with other inducing inputs."""
        return self._replace(inducing=InducingPoints(Z))

    def with_known(self, X: Float[Array, "N D"]) -> Float[Array, "N D"] | Inputs:
        """X with what of the basis no parameter changes (distances to points, features), where that spares work."""
        return self.placed.with_known(self.kernels, X)

    def with_likelihood(self, likelihood: Likelihood) -> "SparseGP":
        """The model with another likelihood of the same parameters (another exposure, say)."""
        return self._replace(likelihood=likelihood)

    def in_double_precision(self) -> "SparseGP":
        """The model with all work on data in double precision."""
        return self._replace(single_precision=False)

    def _replace(self, **changes: Any) -> "SparseGP":
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return SparseGP(**(fields | changes))

    def parameter_values(self) -> dict[str, Any]:
        """Every parameter by name, in natural units."""
        return {p.path: np.asarray(get_value(self, p.path)).tolist() for p in all_parameters(self)}
