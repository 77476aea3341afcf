"""Spread: steered clients that do not all fly to the same place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
from typing_extensions import override

from fedroam.components import Part, field, register
from fedroam.mobility.steered.coverage import Flyer
from fedroam.mobility.steered.grid import Centres, GridCentres, OverGrid
from fedroam.mobility.steered.policy import Draws, Steered, Ties
from fedroam.mobility.steered.rectangle import OverRectangle, RectangleCentres
from fedroam.mobility.steered.sketches.point_sketch import PointTargets, point_sketches
from fedroam.mobility.steered.targets import Targets
from fedroam.mobility.world import World


class Discount(Part):
    """The base rule of steered clients that look at each other, and how much they do."""

    base: Literal["dam", "dcm"] = field("dcm", "the rule whose targets are discounted")
    discount: float = field(
        1.0, "how much a target loses that another serves wholly: 0 nothing, 1 all", ge=0, le=1
    )


@register("mobility", "spread", source="ours; the base rules are those of Reza et al., Sec. IV-B")
class Spread(Steered, GridCentres, OverGrid, Discount):
    """Steered clients that discount a target by how much of its surroundings others will serve anyway.

    The base rule (`dam` or `dcm`) draws a target L with a weight w(L). Whoever flies to L serves the clients within
    the radio reach of L. Another mobile client k that heads for D_k will serve a part of these: if clients lie
    evenly around L, the share o_k of the disc of radius reach around L that the disc around D_k covers,
    o = (2 / pi) (arccos h - h sqrt(1 - h^2)) with h = |L - D_k| / (2 reach), and 0 from h = 1 on. A client at a
    random place of the disc is left to serve if no other takes it; the others being taken for independent, that
    has the probability prod_k (1 - o_k). So the weight becomes w(L) prod_k (1 - discount o_k), normalised anew.
    With discount = 1 nobody flies to the very place for which another heads.

    Destinations are drawn in the order of the clients' indices; only others that are under way, or have drawn
    before in the same round, count. Where the discount leaves no target at all, or the reach is infinite, the base
    rule decides alone. With one mobile client, or discount = 0, this is the base rule, draw for draw.

    It takes for granted that mobile clients tell each other their destinations at any distance, whatever their
    `knowledge` of static clients: two numbers a flight, not counted as traffic.
    """

    ties: Ties = field("coverage", "equal centres of base = 'dcm': see there")
    centres: Centres = field("grid", "where centres of base = 'dcm' may lie: see there")

    def rows(self, world: World, known: np.ndarray) -> np.ndarray:
        """The cluster centres of base = "dcm"."""
        return self.centres_of(world, known, self.ties, self.centres)

    def targets(self, world: World, flyer: Flyer) -> Targets:
        """Those of the base rule."""
        terrain = self.terrain(world)
        if self.base == "dam":
            return terrain.everywhere(flyer)
        return terrain.coverage.targets(flyer, self.rows(world, flyer.known))

    @override
    def sketches(self, world: World, flyers: Sequence[Flyer]) -> Iterator[Draws | None]:
        if self.base == "dam":
            return self.terrain(world).sketches(flyers)
        return point_sketches(self, world, flyers)

    @override
    def avoidance(self) -> float:
        return self.discount

    @override
    def needs_static(self) -> str:
        return "dcm" if self.base == "dcm" else ""


@register("mobility", "spread_continuous", source="ours; the base rules are after Reza et al., Sec. IV-B")
class SpreadContinuous(PointTargets, Steered, RectangleCentres, OverRectangle, Discount):
    """Steered clients that do not all fly to the same place, in a continuous rectangle.

    The rule is that of `spread`; the base rules are `dam_continuous` and `dcm_continuous`.
    """

    ties: Ties = field("coverage", "equal centres of base = 'dcm': see dcm_continuous")

    def rows(self, world: World, known: np.ndarray) -> np.ndarray:
        """The targets of the base rule."""
        if self.base == "dam":
            return self.candidates_of(world, known)
        return self.centres_of(world, known, self.ties)

    @override
    def avoidance(self) -> float:
        return self.discount

    @override
    def needs_static(self) -> str:
        return "dcm_continuous" if self.base == "dcm" else self.candidates_need_static()
