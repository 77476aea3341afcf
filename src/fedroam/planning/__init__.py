"""From an experiment file and the command line to the runs that are meant.

The package is called planning and not plan, because `fedroam.plan` is the public function, and importing a
subpackage of that name would put the package in its place.
"""

from fedroam.planning.axes import label
from fedroam.planning.plans import Plan, PlannedRun, Refused, SweepPlan, SweepRun, title
from fedroam.planning.resolve import plan, sweep_plan
from fedroam.planning.settings import named_experiments, overlay, read_settings

__all__ = [
    "Plan",
    "PlannedRun",
    "Refused",
    "SweepPlan",
    "SweepRun",
    "label",
    "named_experiments",
    "overlay",
    "plan",
    "read_settings",
    "sweep_plan",
    "title",
]
