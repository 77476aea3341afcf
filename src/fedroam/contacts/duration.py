"""For how long of a round those in contact are within reach."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from fedroam.contacts.approach import LIMIT, Legs
from fedroam.contacts.graph import pairs_of
from fedroam.contacts.intervals import crossings
from fedroam.contacts.ragged import chunks
from fedroam.mobility import Paths


def contact_durations(paths: Paths, graph: sparse.csr_array, radius: float) -> sparse.csr_array:
    """The share of the round's time in which each pair of a contact graph is at most `radius` (m) apart.

    float64 CSR [clients, clients], 0 to 1, symmetric, with the structure of `graph`: a pair that only touches, or is
    in contact by another rule than distance, has an entry of 0. On a piece of time in which both move straight, the
    time within the radius lies between the two roots of |gap + s move|^2 = radius^2.
    """
    pairs = pairs_of(graph).astype(np.int64)
    i, j = pairs.T
    if np.isinf(radius):
        share = np.ones(len(pairs))
    else:
        legs, share = Legs.of(paths), np.zeros(len(pairs))
        for part in chunks(legs.count[i] + legs.count[j], LIMIT):
            share[part] = _shares(legs, i[part], j[part], radius)
    entries = (np.concatenate([share, share]), (np.concatenate([i, j]), np.concatenate([j, i])))
    found = sparse.coo_array(entries, shape=graph.shape).tocsr()
    found.sort_indices()
    return found


def _shares(legs: Legs, i: np.ndarray, j: np.ndarray, radius: float) -> np.ndarray:
    """The share of time within the radius of each pair, float64 [pairs]: all its intervals together."""
    which, a, b = legs.overlapping(i, j)
    begin, end = np.maximum(legs.begin[a], legs.begin[b]), np.minimum(legs.end[a], legs.end[b])
    gap, then = ((legs.at(a, when) - legs.at(b, when)).T for when in (begin, end))
    first, last = crossings(gap, then - gap, radius)
    share = np.bincount(which, (last - first) * np.maximum(end - begin, 0.0), minlength=len(i))
    return np.minimum(share, 1.0)  # the pieces add up to 1 but for rounding
