"""From a Gaussian approximation to draws: coordinates, samplers, chains, and the folder a run is kept in."""

from freegp.sampling.gibbs import Gibbs
from freegp.sampling.paper import PaperHMC
from freegp.sampling.runner import read_plan, read_run, resume, sample
from freegp.sampling.samplers import NUTS, RotationHMC

__all__ = ["NUTS", "Gibbs", "PaperHMC", "RotationHMC", "read_plan", "read_run", "resume", "sample"]
