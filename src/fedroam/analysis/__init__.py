"""Analysis: from run folders to tables, figures and a report."""

from fedroam.analysis.figures.plotting import plot as plot
from fedroam.analysis.figures.publishing import save_figure as save_figure
from fedroam.analysis.report.report import write_report as write_report
from fedroam.analysis.report.table import print_comparison as print_comparison
from fedroam.analysis.summary import Comparison as Comparison
from fedroam.analysis.summary import compare_runs as compare_runs
from fedroam.analysis.variants import Variant as Variant
from fedroam.analysis.variants import variants as variants
