"""What the columns are called and measured in, where the model saw them standardised."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axis import Axis
from matplotlib.ticker import FuncFormatter, MaxNLocator


@dataclass(frozen=True)
class Scale:
    """A quantity's name, and how its own values come from the model's: ``mean + scale * value``."""

    name: str
    mean: float = 0.0
    scale: float = 1.0

    def label(self, axis: Axis, most_ticks: int = 6) -> None:
        """Name an axis that was drawn in the model's values, and put its ticks at round values of the quantity."""
        axis.set_label_text(self.name)
        axis.set_major_locator(self.locator(most_ticks))
        axis.set_major_formatter(self.formatter())

    def locator(self, most_ticks: int = 6) -> MaxNLocator:
        """Of ticks at round values."""
        return _RoundLocator(self, most_ticks)

    def formatter(self) -> FuncFormatter:
        """Of ticks, in the quantity's own values."""
        return FuncFormatter(lambda value, _: _plain(self.mean + self.scale * value, self.scale))


class _RoundLocator(MaxNLocator):
    def __init__(self, scale: Scale, most_ticks: int):
        super().__init__(nbins=most_ticks, steps=[1, 2, 2.5, 5, 10])
        self._scale = scale

    def tick_values(self, vmin: float, vmax: float) -> Any:
        mean, scale = self._scale.mean, self._scale.scale
        return (np.asarray(super().tick_values(mean + scale * vmin, mean + scale * vmax)) - mean) / scale


def _plain(value: float, scale: float) -> str:
    """Without an exponent, to a thousandth of the scale.

    >>> _plain(4003999.9999999, 3005.0), _plain(-1e-17, 1.0), _plain(0.25, 0.1)
    ('4004000', '0', '0.25')
    """
    decimals = max(0, 3 - math.floor(math.log10(scale)))
    return f"{round(value, decimals) + 0.0:.{decimals}f}".rstrip("0").rstrip(".") if decimals else f"{value:.0f}"


@dataclass(frozen=True)
class Units:
    """The scales of a table's columns.

    Attributes
    ----------
    inputs
        Of each column that the model sees.
    target
        Of what is learnt, where it is a number; otherwise its name alone.
    latent
        Of the latent function.
    classes
        The names of the classes; none where there are none.
    rate
        For counts: the exposure that makes the model's rates those of one unit.
    note
        What the parameters are measured in, in words.
    """

    inputs: tuple[Scale, ...]
    target: Scale
    latent: Scale
    classes: tuple[str, ...] = ()
    rate: float | None = None
    note: str = ""
