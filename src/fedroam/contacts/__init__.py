"""Contacts: who can talk to whom in a round, as a sparse graph."""

from fedroam.contacts import closest_approach, radius
from fedroam.contacts.approach import Legs
from fedroam.contacts.duration import contact_durations
from fedroam.contacts.graph import Contacts, degrees, graph_of, pairs_of
from fedroam.contacts.intervals import Intervals, contact_intervals, distance_at

__all__ = [
    "Contacts",
    "Intervals",
    "Legs",
    "closest_approach",
    "contact_durations",
    "contact_intervals",
    "degrees",
    "distance_at",
    "graph_of",
    "pairs_of",
    "radius",
]
