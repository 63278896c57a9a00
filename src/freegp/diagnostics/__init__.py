"""Whether draws can be trusted: R-hat, effective samples, energy, leave-one-out. Draws are arrays ``[chain, draw, ...]``."""

from freegp.diagnostics.estimates import Statistics, energy_bfmi, entry_names, statistics, summary_table
from freegp.diagnostics.leave_one_out import LeaveOneOut, import_arviz, psis_loo
from freegp.diagnostics.psrf import PsrfCurve, psrf_curve
from freegp.diagnostics.quantities import Efficiency, tn_ess
from freegp.diagnostics.verdict import Diagnostics, Thresholds, diagnose

__all__ = [
    "Diagnostics",
    "Efficiency",
    "LeaveOneOut",
    "PsrfCurve",
    "Statistics",
    "Thresholds",
    "diagnose",
    "energy_bfmi",
    "entry_names",
    "import_arviz",
    "psis_loo",
    "psrf_curve",
    "statistics",
    "summary_table",
    "tn_ess",
]
