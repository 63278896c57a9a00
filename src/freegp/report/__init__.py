"""A run on one page of HTML, for people who were not there: what was fitted, whether to trust it, and what came out."""

from freegp.report.page import write_report
from freegp.report.units import Scale, Units

__all__ = ["Scale", "Units", "write_report"]
