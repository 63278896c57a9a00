"""The density that is sampled: projection onto the inducing variables, sums over blocks of data, and the log density itself."""

from freegp.target.log_density import expected_log_likelihood, log_density

__all__ = ["expected_log_likelihood", "log_density"]
