"""From an experiment file and the command line to the runs that are meant.

The package is called planning and not plan, because `fedroam.plan` is the public function, and importing a
subpackage of that name would put the package in its place.
"""

from fedroam.planning.axes import label as label
from fedroam.planning.plans import Plan as Plan
from fedroam.planning.plans import PlannedRun as PlannedRun
from fedroam.planning.plans import RefusedRun as RefusedRun
from fedroam.planning.plans import SweepPlan as SweepPlan
from fedroam.planning.plans import SweepRun as SweepRun
from fedroam.planning.plans import title as title
from fedroam.planning.resolve import plan as plan
from fedroam.planning.resolve import sweep_plan as sweep_plan
from fedroam.planning.settings import named_experiments as named_experiments
from fedroam.planning.settings import overlay as overlay
from fedroam.planning.settings import read_settings as read_settings
