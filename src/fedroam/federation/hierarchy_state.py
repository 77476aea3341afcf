"""The state of a hierarchical federation: whose model lies in which row, and what became of each update.

Rows exist for the cloud's model (row 0), for each access point whose model differs from it, and for each device whose
update has not been aggregated yet. All other access points hold the cloud's model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields

import numpy as np

from fedroam.learning import Models

CLOUD = 0
NOBODY = np.zeros(0, dtype=np.int64)
# What is counted, in this order, from the start of the run.
COUNTED = ("present", "trained", "aggregated", "returned", "discarded", "overwritten")
# What a checkpoint calls a field by another name.
_NAMES = {"distance_total": "way"}
_FIELDS = {name: own for own, name in _NAMES.items()}


@dataclass
class HierarchyState:
    """The state of a hierarchical federation, to be changed; all arrays are copies.

    device_row: int64 [clients], the row of a device's update that waits to be aggregated, 0 for none. trained: int64
    [clients], the round in which it was trained. ap_row: int64 [access points], 0 where an access point holds the
    cloud's model. ap: int64 [clients], the access point that each device chose last or belongs to, -1 for none yet.
    served: int64 [clients], the round in which an update of the device was last aggregated, 0 for none yet. arrived:
    int64 [access points], training samples of the devices aggregated there since the last global aggregation. holds:
    bool [rows, updates], which of the updates aggregated since then live on in each row's model. counted: int64, see
    `COUNTED`. distance_total: float64 [2], sum and number of the distances (m) between present devices and
    their access points. more: what a variant keeps of its own, by name.
    """

    models: Models
    device_row: np.ndarray
    trained: np.ndarray
    ap_row: np.ndarray
    ap: np.ndarray
    served: np.ndarray
    arrived: np.ndarray
    holds: np.ndarray
    counted: np.ndarray
    distance_total: np.ndarray
    more: dict[str, np.ndarray] = field(default_factory=dict)

    @classmethod
    def new(cls, models: Models, ap: np.ndarray, access_points: int) -> HierarchyState:
        """Before round 1: the cloud's model (one row) and nothing else."""

        def zeros(size: int) -> np.ndarray:
            return np.zeros(size, dtype=np.int64)

        clients, holds = len(ap), np.zeros((1, 0), dtype=bool)
        return cls(
            models,
            device_row=zeros(clients),
            trained=zeros(clients),
            ap_row=zeros(access_points),
            ap=ap,
            served=zeros(clients),
            arrived=zeros(access_points),
            holds=holds,
            counted=zeros(len(COUNTED)),
            distance_total=np.zeros(2),
        )

    @classmethod
    def of(cls, models: Models, state: Mapping[str, np.ndarray]) -> HierarchyState:
        """From the arrays that `arrays` gave."""
        known = {own.name for own in fields(cls)}
        held = {_FIELDS.get(name, name): array.copy() for name, array in state.items()}
        more = {name: held.pop(name) for name in [*held] if name not in known}
        return cls(models, **held, more=more)

    def arrays(self) -> dict[str, np.ndarray]:
        """All but the models, as plain arrays."""
        own = {_NAMES.get(name, name): value for name, value in vars(self).items()}
        return {name: value for name, value in own.items() if name not in ("models", "more")} | self.more

    def count(self, what: str, number: int) -> None:
        """Add to a total of `COUNTED`."""
        self.counted[COUNTED.index(what)] += number

    def hand_out(self, devices: np.ndarray) -> np.ndarray:
        """Give each of these devices (int64, none waiting) a row with the model of its access point; int64 [devices].

        Momentum starts at zero, as a new optimiser's would.
        """
        begin = len(self.models)
        rows = np.arange(begin, begin + len(devices))
        origin = self.ap_row[self.ap[devices]]
        self.models = self.models.copied(origin, most=1 + len(self.ap_row) + len(self.device_row))
        self.holds = np.concatenate([self.holds, self.holds[origin]])
        self.device_row[devices] = rows
        return rows

    def collect(self, devices: np.ndarray) -> None:
        """Note that the waiting updates of these devices (int64) are being aggregated."""
        known = self.holds.shape[1]
        fresh = np.zeros((len(self.holds), len(devices)), dtype=bool)
        self.holds = np.concatenate([self.holds, fresh], axis=1)
        self.holds[self.device_row[devices], known + np.arange(len(devices))] = True

    def row_to_be(self, ap: int, devices: np.ndarray) -> int:
        """The row that the model of access point `ap` gets where these devices' updates are aggregated: its own, or
        else one that is free then."""
        return int(self.ap_row[ap]) or int(self.device_row[devices[0]])

    def merge(self, ap: int, devices: np.ndarray) -> None:
        """Access point `ap` has what was made of these devices' updates, in `row_to_be`; they no longer wait."""
        rows, row = self.device_row[devices], self.row_to_be(ap, devices)
        self.holds[row] = self.holds[rows].any(axis=0)
        self.ap_row[ap] = row
        self.device_row[devices] = 0

    def mean_distance(self) -> float:
        """Mean distance of present devices to their access points so far, metres; NaN where nobody has been present."""
        total, number = self.distance_total
        return float(total / number) if number else math.nan

    def waiting(self) -> np.ndarray:
        """The devices (int64) whose update waits."""
        return np.flatnonzero(self.device_row)

    def drop(self, devices: np.ndarray) -> None:
        """Lose the updates of these devices (int64)."""
        self.device_row[devices] = 0
        self.count("discarded", len(devices))

    def reset(self) -> None:
        """After a global aggregation: all access points hold the cloud's model, nothing waits.

        Counts the aggregated updates that never reached the cloud: some later update replaced the model they were in,
        and was trained from another one.
        """
        reached = self.holds[self.ap_row[self.ap_row > 0]].any(axis=0)
        self.count("overwritten", int((~reached).sum()))
        self.ap_row[:] = 0
        self.arrived[:] = 0
        self.holds = self.holds[:, :0]

    def compact(self) -> None:
        """Give up the rows that nobody needs."""
        rows = np.unique(np.concatenate([[CLOUD], self.ap_row, self.device_row]))
        place = np.zeros(len(self.models), dtype=np.int64)
        place[rows] = np.arange(len(rows))
        self.models = self.models.kept(rows)
        self.ap_row, self.device_row = place[self.ap_row], place[self.device_row]
        self.holds = self.holds[rows]
