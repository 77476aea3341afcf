"""What a round costs: its transfers and its training, charged to the clients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from fedroam.components import called, ours
from fedroam.cost.account import Account, charge
from fedroam.cost.radio import Cost, DistanceDistribution, Radio, checked_cost, checked_joules
from fedroam.cost.sample_passes import SamplePasses
from fedroam.errors import InputError
from fedroam.federation import Traffic
from fedroam.learning import Job

Found = TypeVar("Found")


@dataclass(frozen=True)
class Tariff:
    """The prices of a run.

    distances: between clients and access points, over the run. passes: counts local training.
    """

    radio: Radio
    distances: DistanceDistribution
    passes: SamplePasses

    def cost(self, traffic: Traffic) -> Cost:
        """What each of these transfers costs. Raises InputError where a radio of one's own gives what is no cost."""
        found = self.radio.cost(traffic, self.distances)
        return found if ours(self.radio) else self._held(checked_cost, found, len(traffic.bytes))

    def training(self, clients: np.ndarray, samples: np.ndarray) -> np.ndarray:
        """Joules of local training, float64 [jobs], as `Radio.training`; raises as `cost` does."""
        found = self.radio.training(clients, samples)
        return found if ours(self.radio) else self._held(checked_joules, found, len(clients))

    def _held(self, check: Callable[[Any, int], Found], found: Any, count: int) -> Found:
        """What a radio of one's own gave for so many transfers or jobs, held against what it promises."""
        try:
            return check(found, count)
        except InputError as error:
            raise InputError(f"radio kind {called(self.radio)!r}: {error}") from None

    def charge(
        self,
        account: Account,
        jobs: Sequence[Job],
        traffic: Traffic,
        aggregated: np.ndarray,
        discarded: np.ndarray,
        broken_off: tuple[Sequence[Job], np.ndarray] = ((), np.zeros(0)),
        *,
        keeps: bool = False,
    ) -> Account:
        """The account after a round with this training and these transfers (see `charge`).

        broken_off: work that was begun beside it, and which share of each piece (float64) was done. keeps: whether
        clients keep their models, so that this work is wasted, and nothing that they learnt before it.
        """
        clients, samples = self.passes.of(jobs)
        cost, joules = self.cost(traffic), self.training(clients, samples)
        if len(broken_off[0]):
            others, passed = self.passes.of(broken_off[0])
            further = self.training(others, passed) * broken_off[1]
            in_vain = np.append(np.zeros(len(joules)), further) if keeps else None
            joules, clients = np.append(joules, further), np.append(clients, others)
            return charge(account, traffic, cost, clients, joules, aggregated, discarded, in_vain)
        return charge(account, traffic, cost, clients, joules, aggregated, discarded)
