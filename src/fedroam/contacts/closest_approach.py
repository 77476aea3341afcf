"""Contact at any moment of the round: in closed form, or looked for at some instants."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from fedroam.components import Part, field, register
from fedroam.contacts.approach import legs_in_contact
from fedroam.contacts.candidates import candidates
from fedroam.contacts.graph import graph_of
from fedroam.contacts.ragged import distinct
from fedroam.mobility import Paths, within_reach


@register("contacts", "closest_approach", source="de Heredia, Sec. 5.1, Neighbours")
class ClosestApproach(Part):
    """Two clients meet where they are at most `radius` apart (inclusive) at any moment of the round.

    Exact: the closest approach of two piecewise-linear paths has a closed form on each piece of time in which both
    move straight. See `radius` for contact at the end of the round only, and `sampled` for what is found by looking
    at some instants.
    """

    radius: float = field(45.0, "communication radius (R); inf connects everybody", unit="m", ge=0)

    def meet(self, paths: Paths) -> sparse.csr_array:
        """By the closed form. Cost grows with contacts, not with pairs."""
        return paths.derived(("closest approach", self.radius), lambda: self._met(paths))

    def _met(self, paths: Paths) -> sparse.csr_array:
        if np.isinf(self.radius):
            return graph_of(candidates(paths, self.radius), paths.clients)
        pairs, near = legs_in_contact(paths, self.radius)
        return graph_of(pairs[distinct(near.which)], paths.clients)

    def reach(self) -> float:
        """The radius."""
        return self.radius


@register(
    "contacts", "sampled", source="de Heredia: the paper's program looks at 100 instants, without the start"
)
class Sampled(Part):
    """Two clients meet where they are at most `radius` apart at one of `samples` equally spaced instants.

    The instants are k / samples for k = 1, 2, ..., samples, the last one being the end of the round, and the start
    too if asked for. What happens between two instants is missed: this is what other simulators do, and is kept to
    compare with them. Prefer `closest_approach`.
    """

    radius: float = field(45.0, "communication radius (R); inf connects everybody", unit="m", ge=0)
    samples: int = field(100, "instants in a round", unit="instants", ge=1, le=10_000)
    include_start: bool = field(False, "whether the start of the round is looked at too")

    def meet(self, paths: Paths) -> sparse.csr_array:
        """By the places at the instants, one after the other."""
        pairs = candidates(paths, self.radius)
        apart = np.ones(len(pairs), dtype=bool)
        for k in range(0 if self.include_start else 1, self.samples + 1):
            left = np.flatnonzero(apart)
            place = paths.at(k / self.samples)
            gap = place[pairs[left, 0]] - place[pairs[left, 1]]
            apart[left[within_reach(gap[:, 0], gap[:, 1], self.radius)]] = False
        return graph_of(pairs[~apart], paths.clients)

    def reach(self) -> float:
        """The radius."""
        return self.radius
