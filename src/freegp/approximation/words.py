"""What the inducing points lose, in a phrase for every summary."""

import math

import pandas as pd

from freegp.sparsity import SMALL_SHIFT, Sparsity


def loss_in_words(sparsity: Sparsity) -> str:
    """How much is lost and, where it matters, what to do about it.

    >>> loss_in_words(Sparsity(nats_lost=0.03, shift=0.0, num_inducing=50, suggested_inducing=None))
    '50 inducing points lose about 0.03 nats'
    >>> loss_in_words(Sparsity(3.2, 0.9, 20, 41))
    '20 inducing points lose about 3.2 nats and move a parameter by about 0.9 sd: raise M to about 41'
    """
    points = "1 inducing point loses" if sparsity.num_inducing == 1 else f"{sparsity.num_inducing} inducing {sparsity.what} lose"
    lost = f"{points} about {sparsity.nats_lost:.2g} nats"
    if not sparsity.matters:
        return lost
    moved = f" and move a parameter by about {sparsity.shift:.1f} sd" if sparsity.shift > SMALL_SHIFT else ""
    if sparsity.suggested_inducing == sparsity.num_inducing:
        return f"{lost}{moved}, though they are all the data: lower the jitter"
    return f"{lost}{moved}: raise M to {wanted_size(sparsity)}"


def with_nats_lost(table: pd.DataFrame, sparsity: Sparsity | None) -> pd.DataFrame:
    """A table of parameters with the loss in its corner, where whoever looks at it sees it; the entries are as they were."""
    return table if sparsity is None else table.rename_axis(columns=f"nats lost: {sparsity.nats_lost:.2g}")


def wanted_size(sparsity: Sparsity) -> str:
    """The number to raise M to, where the loss matters."""
    more = sparsity.suggested_inducing
    if more is None and sparsity.what != "points":
        return "many more, or give HilbertSpace a larger boundary, or use points"
    return "all the data (Z = X)" if more is None else f"about {two_digits_up(more)}"


def two_digits_up(number: float) -> int:
    """A number rounded up to its first two digits."""
    unit = 10 ** max(0, math.floor(math.log10(number)) - 1)
    return math.ceil(number / unit) * unit
