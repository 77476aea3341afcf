"""Steered movement: clients fly where the data differs, on a grid or in a rectangle."""

from fedroam.mobility.steered import grid as grid
from fedroam.mobility.steered import rectangle as rectangle
from fedroam.mobility.steered import spread as spread
