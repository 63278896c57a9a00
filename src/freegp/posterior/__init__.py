"""Draws from the target, and what they say of new inputs."""

from freegp.posterior.posterior import LARGEST_JOINT, Posterior

__all__ = ["LARGEST_JOINT", "Posterior"]
