"""Contact by distance at the end of the round."""

from __future__ import annotations

import math

import numpy as np
from scipy import sparse

from fedroam.components import Part, field, register
from fedroam.contacts.candidates import close_places
from fedroam.contacts.graph import graph_of
from fedroam.mobility import Paths, within_reach


@register("contacts", "radius", source="Reza et al., Sec. III: N_i = {j != i : ||L_i - L_j||_2 <= Rc}")
class Radius(Part):
    """Two clients meet where they are at most `radius` apart (inclusive) at the end of the round."""

    radius: float = field(3.0, "communication radius (Rc); inf connects everybody", unit="m", ge=0)

    def meet(self, paths: Paths) -> sparse.csr_array:
        """By the places at the end of the round. Cost grows with contacts, not with pairs (a spatial index)."""
        present = np.flatnonzero(paths.present)
        if math.isinf(self.radius):
            i, j = np.triu_indices(len(present), k=1)
            return graph_of(np.stack([present[i], present[j]], axis=1), paths.clients)
        places = paths.end.take(present, axis=0)
        found = close_places(places, self.radius)
        i, j = found.T
        # The distance itself decides: a pair whose distance is the radius to the last bit is in contact.
        dx, dy = (along.take(i) - along.take(j) for along in places.T)
        found = found[within_reach(dx, dy, self.radius)]
        return graph_of(present.take(found), paths.clients)

    def reach(self) -> float:
        """The radius."""
        return self.radius
