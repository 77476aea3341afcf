"""Analysis: from run folders to tables, figures and a report."""

from fedroam.analysis.report.report import write_report
from fedroam.analysis.report.terminal import print_table
from fedroam.analysis.summary import compare_table
from fedroam.analysis.variants import Variant, variants

__all__ = ["Variant", "compare_table", "print_table", "variants", "write_report"]
