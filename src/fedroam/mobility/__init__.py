"""Mobility: where everybody is, as piecewise-linear paths, round by round."""

from fedroam.mobility import activity, grid, random_walk, steered
from fedroam.mobility.activity import Activity, KnowsItsLimits, check_limits
from fedroam.mobility.distance import within_reach
from fedroam.mobility.world import KnowsPlaces, Mobility, Paths, State, World, checked

__all__ = [
    "Activity",
    "KnowsItsLimits",
    "KnowsPlaces",
    "Mobility",
    "Paths",
    "State",
    "World",
    "activity",
    "check_limits",
    "checked",
    "grid",
    "random_walk",
    "steered",
    "within_reach",
]
