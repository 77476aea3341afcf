"""Spread: steered clients that do not all fly to the same place."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from fedroam.components import Part, field, register
from fedroam.mobility.steered.candidate_coverage import Drawn
from fedroam.mobility.steered.flights import Knowledge, flight
from fedroam.mobility.steered.grid import DAM, DCM, Approach, Ties
from fedroam.mobility.steered.rectangle import DAMContinuous, DCMContinuous
from fedroam.mobility.world import Paths, State, World

Base = Literal["dam", "dcm"]


@register("mobility", "spread", source="ours; the base rules are those of Reza et al., Sec. IV-B")
class Spread(Part):
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

    base: Base = field("dcm", "the rule whose targets are discounted")
    discount: float = field(
        1.0, "how much a target loses that another serves wholly: 0 nothing, 1 all", ge=0, le=1
    )
    grid: int = field(18, "grid points along a side; points are 1 m apart", unit="points", ge=1)
    mobile: int = field(5, "how many clients move (the first by index)", unit="clients", ge=0)
    max_step: float = field(math.inf, "longest move in a round (Rm); inf is unconstrained", unit="m", ge=0)
    approach: Approach = field("nearest", "where a flight longer than max_step gets to in a round")
    ties: Ties = field("coverage", "equal centres of base = 'dcm': see there")
    centres: Literal["grid", "clients"] = field("grid", "where centres of base = 'dcm' may lie: see there")
    knowledge: Knowledge = field("oracle", "how the static clients' places and class counts are known")
    warm_up: int = field(20, "rounds of random movement with knowledge = 'warm_up'", unit="rounds", ge=0)

    def rule(self) -> DAM | DCM:
        """The base rule with the same settings."""
        kind: type[DAM] | type[DCM] = DAM if self.base == "dam" else DCM
        return kind(**{name: getattr(self, name) for name in kind.model_fields})

    def start(self, world: World) -> dict[str, np.ndarray]:
        """See `Mobility.start`."""
        return self.rule().start(world)

    def step(self, state: State, world: World, round: int) -> tuple[dict[str, np.ndarray], Paths]:
        """See `Mobility.step`."""
        rule = self.rule()
        return flight(
            state,
            world,
            round,
            ground=rule.ground(world),
            knowledge=self.knowledge,
            warm_up=self.warm_up,
            choose=rule.chooser(world, self.discount),
        )

    def bounds(self) -> tuple[float, float, float, float]:
        """See `Mobility.bounds`."""
        return self.rule().bounds()

    def groups(self, world: World) -> np.ndarray:
        """See `Mobility.groups`."""
        return self.rule().groups(world)


@register("mobility", "spread_continuous", source="ours; the base rules are after Reza et al., Sec. IV-B")
class SpreadContinuous(Part):
    """Steered clients that do not all fly to the same place, in a continuous rectangle.

    The rule is that of `spread`; the base rules are `dam_continuous` and `dcm_continuous`.
    """

    base: Base = field("dcm", "the rule whose targets are discounted")
    discount: float = field(
        1.0, "how much a target loses that another serves wholly: 0 nothing, 1 all", ge=0, le=1
    )
    width: float = field(500.0, "extent of the world along x (w)", unit="m", gt=0, allow_inf_nan=False)
    height: float = field(500.0, "extent of the world along y (h)", unit="m", gt=0, allow_inf_nan=False)
    points: int = field(
        1000,
        "how many candidate points (without meaning for intersections), and survey points",
        ge=1,
        le=10**6,
    )
    candidates: Drawn = field("halton", "how candidate points are drawn")
    mobile: int = field(5, "how many clients move (the first by index)", unit="clients", ge=0)
    max_step: float = field(math.inf, "longest move in a round (Rm); inf is unconstrained", unit="m", ge=0)
    ties: Ties = field("coverage", "equal centres of base = 'dcm': see dcm_continuous")
    knowledge: Knowledge = field("oracle", "how the static clients' places and class counts are known")
    warm_up: int = field(20, "rounds of random movement with knowledge = 'warm_up'", unit="rounds", ge=0)

    def rule(self) -> DAMContinuous | DCMContinuous:
        """The base rule with the same settings."""
        kind: type[DAMContinuous] | type[DCMContinuous] = (
            DAMContinuous if self.base == "dam" else DCMContinuous
        )
        return kind(**{name: getattr(self, name) for name in kind.model_fields})

    def start(self, world: World) -> dict[str, np.ndarray]:
        """See `Mobility.start`."""
        return self.rule().start(world)

    def step(self, state: State, world: World, round: int) -> tuple[dict[str, np.ndarray], Paths]:
        """See `Mobility.step`."""
        rule = self.rule()
        return flight(
            state,
            world,
            round,
            ground=rule.ground(world),
            knowledge=self.knowledge,
            warm_up=self.warm_up,
            choose=rule.chooser(world, self.discount),
        )

    def bounds(self) -> tuple[float, float, float, float]:
        """See `Mobility.bounds`."""
        return self.rule().bounds()

    def groups(self, world: World) -> np.ndarray:
        """See `Mobility.groups`."""
        return self.rule().groups(world)
