"""Access points: where they stand, and which one is nearest."""

from fedroam.access_points import given as given
from fedroam.access_points import landmarks as landmarks
from fedroam.access_points import synthetic as synthetic
from fedroam.access_points.nearest import choose_nearest as choose_nearest
from fedroam.access_points.nearest import distances as distances
from fedroam.access_points.nearest import in_service as in_service
from fedroam.access_points.protocol import AccessPoints as AccessPoints
from fedroam.access_points.protocol import KnowsRanges as KnowsRanges
from fedroam.access_points.protocol import places_of as places_of
from fedroam.access_points.protocol import ranges_of as ranges_of
