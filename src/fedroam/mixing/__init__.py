"""Mixing: the weights of an exchange, as a sparse matrix."""

from fedroam.mixing.weights import Facts, Mixing, entries, matrix

__all__ = ["Facts", "Mixing", "entries", "matrix"]
