"""A run on one page of HTML, for people who were not there: what was fitted, whether to trust it, and what came out."""

from freegp.report.page import write_report

__all__ = ["write_report"]
