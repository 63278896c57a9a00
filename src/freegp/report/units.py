"""What the columns are called and measured in, where the model saw them standardised."""

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

    def label(self, axis: Axis) -> None:
        """Name an axis that was drawn in the model's values, and put its ticks at round values of the quantity."""
        axis.set_label_text(self.name)
        axis.set_major_locator(self.locator())
        axis.set_major_formatter(self.formatter())

    def locator(self) -> MaxNLocator:
        """Of ticks at round values."""
        return _RoundLocator(self)

    def formatter(self) -> FuncFormatter:
        """Of ticks, in the quantity's own values."""
        return FuncFormatter(lambda value, _: _plain(self.mean + self.scale * value, self.scale))


class _RoundLocator(MaxNLocator):
    def __init__(self, scale: Scale):
        super().__init__(nbins=6, steps=[1, 2, 2.5, 5, 10])
        self._scale = scale

    def tick_values(self, vmin: float, vmax: float) -> Any:
        mean, scale = self._scale.mean, self._scale.scale
        return (np.asarray(super().tick_values(mean + scale * vmin, mean + scale * vmax)) - mean) / scale


def _plain(value: float, scale: float) -> str:
    return "0" if abs(value) < 1e-9 * scale else f"{value:.6g}"


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
