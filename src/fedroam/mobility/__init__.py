"""Mobility: where everybody is, as piecewise-linear paths, round by round."""

from fedroam.mobility import activity as activity
from fedroam.mobility import grid as grid
from fedroam.mobility import random_walk as random_walk
from fedroam.mobility import random_waypoint as random_waypoint
from fedroam.mobility import steered as steered
from fedroam.mobility.activity import Activity as Activity
from fedroam.mobility.activity import KnowsItsLimits as KnowsItsLimits
from fedroam.mobility.activity import active_after as active_after
from fedroam.mobility.activity import active_at_start as active_at_start
from fedroam.mobility.activity import check_limits as check_limits
from fedroam.mobility.distance import within_reach as within_reach
from fedroam.mobility.world import Advises as Advises
from fedroam.mobility.world import KnowsPlaces as KnowsPlaces
from fedroam.mobility.world import KnowsSeconds as KnowsSeconds
from fedroam.mobility.world import Mobility as Mobility
from fedroam.mobility.world import Paths as Paths
from fedroam.mobility.world import State as State
from fedroam.mobility.world import World as World
from fedroam.mobility.world import checked as checked
from fedroam.mobility.world import checked_beginning as checked_beginning
from fedroam.mobility.world import checked_bounds as checked_bounds
from fedroam.mobility.world import checked_groups as checked_groups
from fedroam.mobility.world import checked_paths as checked_paths
from fedroam.mobility.world import checked_step as checked_step
from fedroam.mobility.world import checked_within as checked_within
from fedroam.mobility.world import own_paths as own_paths
