"""Analysis: from run folders to tables, figures and a report.

What draws is imported from its own file, so that a table does not wait for Matplotlib.
"""

from fedroam.analysis.report.table import print_comparison as print_comparison
from fedroam.analysis.summary import Comparison as Comparison
from fedroam.analysis.summary import compare_runs as compare_runs
from fedroam.analysis.variants import Variant as Variant
from fedroam.analysis.variants import variants as variants
