"""Federations: who trains, who aggregates with whom, and what that sends over the air."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy import sparse

from fedroam.learning import Models
from fedroam.mixing import Mixing
from fedroam.mobility import Paths


@dataclass(frozen=True)
class Meeting:
    """One round's movement and who met whom in it: paths and the contact graph (bool CSR [clients, clients])."""

    paths: Paths
    graph: sparse.csr_array


@dataclass(frozen=True)
class Traffic:
    """What was sent in a round, one entry a transfer: sender and receiver (int32; -1 is a server), bytes (int64)."""

    sender: np.ndarray
    receiver: np.ndarray
    bytes: np.ndarray

    @property
    def total(self) -> int:
        """All bytes sent."""
        return int(self.bytes.sum())


@dataclass(frozen=True)
class Setting:
    """What a federation may know: the seed, training samples held (int64 [clients]), and the mixing rule."""

    seed: int
    samples: np.ndarray
    mixing: Mixing

    @property
    def clients(self) -> int:
        """Number of clients."""
        return len(self.samples)


@dataclass(frozen=True)
class Exchanged:
    """What an exchange did: the meeting it used, the traffic, and the federation's next state."""

    meeting: Meeting
    traffic: Traffic
    state: dict[str, np.ndarray]


class Federation(Protocol):
    """Who trains and who aggregates. State is a mapping of plain numeric arrays (empty where none is needed)."""

    def init(self, setting: Setting) -> dict[str, np.ndarray]:
        """The state before round 1."""

    def learners(
        self, state: Mapping[str, np.ndarray], setting: Setting, before: Meeting, round: int
    ) -> np.ndarray:
        """The clients (int64) that train in this round; `before` is where everybody is when it begins."""

    def exchange(
        self,
        models: Models,
        state: Mapping[str, np.ndarray],
        setting: Setting,
        before: Meeting,
        after: Meeting,
        round: int,
    ) -> Exchanged:
        """Replace rows of `models` by aggregates, in place. Between `before` and `after` lies the round's move."""
