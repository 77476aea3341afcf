"""Access points: where they stand, and which one is nearest."""

from fedroam.access_points import given, landmarks, synthetic
from fedroam.access_points.nearest import choose_nearest, distances
from fedroam.access_points.protocol import AccessPoints

__all__ = ["AccessPoints", "choose_nearest", "distances", "given", "landmarks", "synthetic"]
