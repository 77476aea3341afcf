"""Analysis: from run folders to tables, figures and a report."""

from fedroam.analysis.figures.plotting import plot
from fedroam.analysis.figures.publishing import save_figure
from fedroam.analysis.report.report import write_report
from fedroam.analysis.report.table import print_comparison
from fedroam.analysis.summary import Comparison, compare_runs
from fedroam.analysis.variants import Variant, variants

__all__ = [
    "Comparison",
    "Variant",
    "compare_runs",
    "plot",
    "print_comparison",
    "save_figure",
    "variants",
    "write_report",
]
