"""Mobility: where everybody is, as piecewise-linear paths, round by round."""

from fedroam.mobility import grid, random_walk, steered
from fedroam.mobility.world import Mobility, Paths, State, World, checked

__all__ = ["Mobility", "Paths", "State", "World", "checked", "grid", "random_walk", "steered"]
