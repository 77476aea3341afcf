"""Mixing: the weights of an exchange, as a sparse matrix, and the rules that see the models themselves."""

from fedroam.mixing import balance, clipped_gossip, contact_duration, coordinate_wise, krum, mobility_aware
from fedroam.mixing.aggregation import Aggregation, Average, Received
from fedroam.mixing.facts import Fact, Facts, Surroundings
from fedroam.mixing.weights import Mixing, entries, matrix

__all__ = [
    "Aggregation",
    "Average",
    "Fact",
    "Facts",
    "Mixing",
    "Received",
    "Surroundings",
    "balance",
    "clipped_gossip",
    "contact_duration",
    "coordinate_wise",
    "entries",
    "krum",
    "matrix",
    "mobility_aware",
]
