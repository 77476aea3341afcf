"""Access points: where they stand, and which one is nearest."""

from fedroam.access_points import given, landmarks, synthetic
from fedroam.access_points.nearest import choose_nearest, distances, in_service
from fedroam.access_points.protocol import AccessPoints, KnowsRanges, ranges_of

__all__ = [
    "AccessPoints",
    "KnowsRanges",
    "choose_nearest",
    "distances",
    "given",
    "in_service",
    "landmarks",
    "ranges_of",
    "synthetic",
]
