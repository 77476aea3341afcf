"""Contacts: who can talk to whom in a round, as a sparse graph."""

from fedroam.contacts import closest_approach, radius
from fedroam.contacts.duration import contact_durations
from fedroam.contacts.graph import Contacts, degrees, graph_of, pairs_of

__all__ = ["Contacts", "closest_approach", "contact_durations", "degrees", "graph_of", "pairs_of", "radius"]
