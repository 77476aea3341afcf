"""Steered movement: clients fly where the data differs, on a grid or in a rectangle."""

from fedroam.mobility.steered import grid, rectangle, spread

__all__ = ["grid", "rectangle", "spread"]
