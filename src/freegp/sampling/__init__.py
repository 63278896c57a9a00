"""From a Gaussian approximation to draws: coordinates, samplers, chains, and the folder a run is kept in."""

from freegp.sampling.sample import resume, sample
from freegp.sampling.samplers import NUTS, RotationHMC

__all__ = ["NUTS", "RotationHMC", "resume", "sample"]
