"""What hierarchical federations share whose access points take each update at the moment when it arrives.

An access point counts its models: each that it makes of updates, and each that it gets of the cloud where a global
aggregation has made one. The staleness of an update is the number of these that its device's model does not descend
from. Where a device delivers to the access point that it got its model from, they are those since then, as at a server.
Where it has moved, the two access points last had a model in common when the cloud made one: they are those of the
receiving access point since the last global aggregation before the device got its model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import compress
from typing import ClassVar, Protocol

import numpy as np

from fedroam.federation.aggregating import models_of, values
from fedroam.federation.asynchronous.rules import STALENESS, ArrivalRule, Holder
from fedroam.federation.hierarchy_state import NOBODY, HierarchyState
from fedroam.federation.holders import AggregatesAtHolders, Gathered, KnownToHolders, Made
from fedroam.federation.protocol import Round, access_point, by_arrival
from fedroam.learning import Job, Models

# State, int64. Of each access point: how many models it has had before its present one [access points], and before each
# that it got of the cloud, the oldest first [common, access points]. Of each client: from which access point it got its
# model, the number of that there, and which of the cloud's was the last before [clients].
VERSION, COMMON = "version", "common"
ORIGIN, BASE, LINE = "origin", "base", "line"
# Where changes are gathered: whose model is under way, int64 [devices], and what they were given, float32 [devices,
# values]; how many updates each access point holds, int64 [access points], and their sum, float64 [access points that
# hold any, values].
GIVEN_TO, GIVEN = "given_to", "given"
HELD, CHANGES = "held", "changes"


class _AtAccessPoints(ArrivalRule, AggregatesAtHolders, Protocol):
    """A rule, and what a hierarchical federation says beside it."""

    @property
    def carry_over(self) -> bool:
        """Whether updates wait for their device to be back."""

    def _taking(self, hierarchy: HierarchyState, ap: int, devices: np.ndarray) -> Gathered: ...


class TakesAtOnce:
    """Mixed into a hierarchical federation beside a rule: access points go by the rule, update by update.

    Updates are taken in the order in which they arrive; those that arrive at once, as without seconds all do, in an
    order drawn anew for each round. A device that has delivered goes on with the model that it gets when the next round
    begins.
    """

    own_columns: ClassVar[tuple[str, ...]] = (STALENESS,)

    @property
    def aggregates(self) -> bool:
        """By a rule of its own."""
        return False

    def _begun(self: _AtAccessPoints, hierarchy: HierarchyState) -> None:
        points, clients = len(hierarchy.ap_row), len(hierarchy.ap)
        more = hierarchy.more
        more[VERSION], more[COMMON] = np.zeros(points, np.int64), np.zeros((1, points), np.int64)
        more |= {name: np.zeros(clients, np.int64) for name in (ORIGIN, BASE, LINE)}
        if self.gathers:
            width = hierarchy.models.layout.size + hierarchy.models.layout.buffer_size
            more[GIVEN_TO], more[GIVEN] = NOBODY, np.zeros((0, width), np.float32)
            more[HELD], more[CHANGES] = np.zeros(points, np.int64), np.zeros((0, width))

    def _handed_out(
        self: _AtAccessPoints, hierarchy: HierarchyState, devices: np.ndarray, jobs: list[Job]
    ) -> list[Job]:
        more, origin = hierarchy.more, hierarchy.ap[devices]
        more[ORIGIN][devices], more[BASE][devices] = origin, more[VERSION][origin]
        more[LINE][devices] = len(more[COMMON]) - 1
        older = np.setdiff1d(hierarchy.waiting(), devices)
        # Models of the cloud's that are older than all that is under way are asked for no more.
        first = int(more[LINE][hierarchy.waiting()].min(initial=len(more[COMMON]) - 1))
        more[COMMON], more[LINE] = more[COMMON][first:], np.maximum(more[LINE] - first, 0)
        near, rows = hierarchy.models.at_hand(hierarchy.ap_row[origin])
        if self.gathers:
            kept, new = np.isin(more[GIVEN_TO], older), values(near.parameters[rows], near.buffers[rows])
            more[GIVEN_TO] = np.concatenate([more[GIVEN_TO][kept], devices])
            more[GIVEN] = np.concatenate([more[GIVEN][kept], new])
        given = {row: near.parameters[row] for row in set(rows.tolist())}
        return [self.held_to(job, given[row]) for job, row in zip(jobs, rows.tolist(), strict=True)]

    def _taken(
        self: _AtAccessPoints,
        round: Round,
        hierarchy: HierarchyState,
        devices: np.ndarray,
        known: KnownToHolders,
    ) -> tuple[np.ndarray, dict[str, float]]:
        more, stale = hierarchy.more, [NOBODY]
        order = by_arrival(devices, round.finished, round.context.seed, round.number)
        gathered = [
            self._taking(hierarchy, ap, order[hierarchy.ap[order] == ap])
            for ap in np.unique(hierarchy.ap[devices]).tolist()
        ]
        answers, made = round.aggregator.made(self, hierarchy.models, gathered, known)
        gathered = list(compress(gathered, answers))
        changes = dict(zip(np.flatnonzero(more[HELD]), more[CHANGES], strict=True)) if self.gathers else {}
        for each, found in zip(gathered, made, strict=True):
            own, stale = each.holders, [*stale, each.told[STALENESS]]
            ap = int(hierarchy.ap[own[0]])
            held = int(more[HELD][ap]) if self.gathers else 0
            if models := (held + len(own)) // self.size:
                into = hierarchy.row_to_be(ap, own)
                hierarchy.models.write(into, found.parameters, found.buffers)
                hierarchy.ap_row[ap] = into
                more[VERSION][ap] += models
            if self.gathers:
                changes[ap], more[HELD][ap] = found.keeps[CHANGES], found.keeps[HELD][0]
            hierarchy.device_row[own] = 0
        if self.gathers:
            holding = np.flatnonzero(more[HELD]).tolist()
            more[CHANGES] = np.array([changes[ap] for ap in holding]).reshape(-1, more[CHANGES].shape[1])
        mean = float(np.concatenate(stale).mean()) if gathered else np.nan
        return np.sort(np.concatenate([NOBODY, *(each.holders for each in gathered)])), {STALENESS: mean}

    def _taking(self: _AtAccessPoints, hierarchy: HierarchyState, ap: int, devices: np.ndarray) -> Gathered:
        """The updates of these devices (int64), in the order in which they have reached an access point."""
        more, beside, keeps, held = hierarchy.more, None, {}, 0
        if self.gathers:
            given = np.concatenate([more[GIVEN][more[GIVEN_TO] == device] for device in devices.tolist()])
            beside = models_of(hierarchy.models.layout, given)
            holding, held = np.flatnonzero(more[HELD]), int(more[HELD][ap])
            changes = more[CHANGES][holding == ap] if held else np.zeros((1, more[CHANGES].shape[1]))
            keeps = {CHANGES: changes[0], HELD: np.array([held])}
        # Each was taken by the model that those before it have made.
        version = more[VERSION][ap] + (held + np.arange(len(devices))) // self.size
        stale = version - np.array([_descends_from(more, device, ap) for device in devices.tolist()])
        rows = hierarchy.device_row[devices]
        own, told = int(hierarchy.ap_row[ap]), {STALENESS: stale}
        return Gathered(int(access_point(ap)), own, rows, devices, None, told, keeps, beside)

    def _at_access_point(
        self: _AtAccessPoints, models: Models, gathered: Gathered, known: KnownToHolders
    ) -> Made:
        near, rows = models.at_hand(np.append(gathered.own, gathered.rows))
        own, *updates = ((near.parameters[row], near.buffers[row]) for row in rows.tolist())
        holder, given = Holder(own), [None] * len(updates)
        if gathered.beside is not None:
            given = [*values(gathered.beside.parameters, gathered.beside.buffers)]
            holder = replace(holder, changes=gathered.keeps[CHANGES], held=int(gathered.keeps[HELD][0]))
        for update, begun, stale in zip(updates, given, gathered.told[STALENESS].tolist(), strict=True):
            holder = self.take(holder, update, begun, stale)
        if holder.changes is None:
            return Made(*holder.model)
        return Made(*holder.model, {CHANGES: holder.changes, HELD: np.array([holder.held])})

    def _renewed(self, hierarchy: HierarchyState) -> None:
        more = hierarchy.more
        more[VERSION] = more[VERSION] + 1
        more[COMMON] = np.concatenate([more[COMMON], more[VERSION][None]])

    def gives_up(self: _AtAccessPoints, round: int) -> bool:
        """Whether updates that still wait after the aggregations of a round are lost."""
        return not self.carry_over


def _descends_from(more: Mapping[str, np.ndarray], device: int, ap: int) -> int:
    """The last model of an access point that a device's descends from, by its number there."""
    if more[ORIGIN][device] == ap:
        return int(more[BASE][device])
    return int(more[COMMON][more[LINE][device], ap])
