"""The optimisation problem that every method of fitting shares, and where a fit of it stands."""

from dataclasses import dataclass, field
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from freegp.approximation.gaussian import Sites
from freegp.model import SparseGP
from freegp.parameters import from_free, log_jacobian, log_prior, to_free

Status = Literal["converged", "ran out", "diverged"]
DIVERGED = "diverged: the bound is not a number; standardise the inputs, or start from other parameter values"


class Problem(eqx.Module):
    """A prepared model and its data. A *position* is the free parameters, followed by Z if it is to be trained."""

    model: SparseGP
    X: Float[Array, "N D"]
    y: Float[Array, " N"]
    train_inducing: bool = eqx.field(static=True)

    @property
    def num_data(self) -> int:
        """N."""
        return self.X.shape[0]

    def start(self) -> Float[Array, " T"]:
        """The position of the model as it was given."""
        free = to_free(self.model)
        return jnp.concatenate([free, self.model.inducing_inputs.ravel()]) if self.train_inducing else free

    def at(self, position: Float[Array, " T"]) -> SparseGP:
        """The model at a position."""
        if not self.train_inducing:
            return from_free(self.model, position)
        Z = self.model.inducing_inputs
        num_free = position.size - Z.size
        return from_free(self.model, position[:num_free]).with_inducing_inputs(position[num_free:].reshape(Z.shape))

    def log_prior(self, position: Float[Array, " T"]) -> Float[Array, ""]:
        """Log prior density of the free parameters, so that its mode is the mode of the density the samplers see."""
        free = position[: position.size - self.model.inducing_inputs.size] if self.train_inducing else position
        return log_prior(self.model, free) + log_jacobian(self.model, free)

    def on(self, rows: Int[Array, " B"]) -> "Problem":
        """The problem on some rows of the data."""
        model = self.model.with_likelihood(self.model.likelihood.take(rows))
        return Problem(model, self.X[rows], self.y[rows], self.train_inducing)

    def in_double_precision(self) -> "Problem":
        """The problem with all work on data in double precision."""
        return Problem(self.model.in_double_precision(), self.X, self.y, self.train_inducing)

    def minibatches(self, key: PRNGKeyArray, size: int, steps: range) -> Int[Array, "steps B"]:
        """The rows of each of these steps, which go round the data in an order that is drawn anew for every round.

        No row comes twice before all have come once (but for the last few of a round, where the size does not divide N): a mean
        over a round then has the noise of its order alone, and not that of a sample.
        """
        in_a_round = self.num_data // size
        rounds = range(steps[0] // in_a_round, steps[-1] // in_a_round + 1)
        orders = [jax.random.permutation(jax.random.fold_in(key, number), self.num_data) for number in rounds]
        rows = jnp.concatenate([order[: in_a_round * size].reshape(in_a_round, size) for order in orders])
        first = steps[0] - rounds[0] * in_a_round
        return rows[first : first + len(steps)]


@dataclass
class Outcome:
    """Where a fit stands, kept up to date while it runs so that an interruption loses nothing."""

    position: Float[Array, " T"]
    sites: Sites
    trace: list[float] = field(default_factory=list)
    status: Status = "ran out"
    message: str = "stopped before the first step"

    def record(self, position: Float[Array, " T"], sites: Sites, objective: float) -> None:
        """A step that was taken."""
        self.position, self.sites = position, sites
        self.trace.append(objective)

    def end(self, status: Status, message: str) -> None:
        """How it ended."""
        self.status, self.message = status, message

    def end_noisy(self, num_steps: int) -> None:
        """Judge a noisy trace: it has converged if its last two fifths differ by less than their noise."""
        if len(self.trace) < 10:
            return self.end("ran out", f"ran out of steps ({num_steps}), too few to tell whether it had converged")
        late = np.array_split(np.asarray(self.trace), 5)[-2:]
        noise = np.sqrt(sum(np.var(part) / len(part) for part in late))
        gain = float(np.mean(late[1]) - np.mean(late[0]))
        if gain < 2.0 * noise:
            self.end("converged", f"converged to within the noise of its minibatches in {num_steps} steps")
        else:
            self.end("ran out", f"ran out of steps ({num_steps}), still gaining {gain:.2g} nats over the last fifth")
