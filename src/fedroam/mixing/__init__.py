"""Mixing: the weights of an exchange, as a sparse matrix."""

from fedroam.mixing import mobility_aware
from fedroam.mixing.weights import Facts, Mixing, entries, matrix

__all__ = ["Facts", "Mixing", "entries", "matrix", "mobility_aware"]
