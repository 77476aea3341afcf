"""What a round costs: its transfers and its training, charged to the clients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from fedroam.components import answer_of, ours
from fedroam.cost.account import Account, charge
from fedroam.cost.radio import Cost, DistanceDistribution, Radio, checked_cost, checked_joules
from fedroam.cost.sample_passes import SamplePasses
from fedroam.federation import NOBODY, Traffic
from fedroam.learning import Job

Found = TypeVar("Found")


@dataclass(frozen=True)
class Paid:
    """Local work that is paid for in a round under a clock, as far as it is done in it.

    jobs: of clients, begun in this round; shares: float64 [jobs], how much of each is done; broken_off: bool [jobs],
    which are given up for good. goes_on: float64 [clients], the share that each does, in this round, of what was left
    of work begun in an earlier one.
    """

    jobs: Sequence[Job]
    shares: np.ndarray
    broken_off: np.ndarray
    goes_on: np.ndarray


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
        if ours(self.radio):
            return self.radio.cost(traffic, self.distances)
        found = self.radio.cost(deepcopy(traffic), self.distances)  # what it writes into stays its own
        return self._held(checked_cost, found, len(traffic.bytes))

    def training(self, clients: np.ndarray, samples: np.ndarray) -> np.ndarray:
        """Joules of local training, float64 [jobs], as `Radio.training`; raises as `cost` does."""
        if ours(self.radio):
            return self.radio.training(clients, samples)
        return self._held(checked_joules, self.radio.training(clients.copy(), samples.copy()), len(clients))

    def _held(self, check: Callable[[Any, int], Found], found: Any, count: int) -> Found:
        """What a radio of one's own gave for so many transfers or jobs, held against what it promises."""
        with answer_of("radio", self.radio):
            return check(found, count)

    def joules(self, paid: Paid, owed: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """What is spent on local work of a round: clients (int64) and joules (float64), of each job, and then of each
        client who goes on with work of earlier rounds, for which it owes so many (float64 [clients])."""
        clients, samples = self.passes.of(paid.jobs)
        joules = self.training(clients, samples) * paid.shares
        if owed is None:
            return clients, joules
        later = paid.goes_on * owed
        going_on = np.flatnonzero(later)
        return np.append(clients, going_on), np.append(joules, later[going_on])

    def owed(self, paid: Paid, owed: np.ndarray, unfinished: np.ndarray) -> np.ndarray:
        """What clients owe after a round for work that goes on in later ones (bool [clients]), J, float64 [clients]."""
        if not unfinished.any():
            return np.zeros(len(owed))
        clients, samples = self.passes.of(paid.jobs)
        rest = self.training(clients, samples) * (1.0 - paid.shares)
        begun = np.zeros(len(owed), dtype=bool)
        begun[clients] = True
        left = np.where(begun, np.bincount(clients, rest, minlength=len(owed)), owed * (1.0 - paid.goes_on))
        return np.where(unfinished, left, 0.0)

    def charge(
        self,
        account: Account,
        work: Sequence[Job] | Paid,
        traffic: Traffic,
        aggregated: np.ndarray,
        discarded: np.ndarray,
        *,
        in_vain: np.ndarray = NOBODY,
        owed: np.ndarray | None = None,
        keeps: bool = False,
    ) -> Account:
        """The account after a round with this local work and these transfers (see `charge`).

        work: jobs, all of which are done, or what is paid for; owed: see `joules`. in_vain: clients (int64) whose work
        of the round is wasted, and nothing that they learnt before it. keeps: whether clients keep their models, so
        that the same is true of work that is broken off.
        """
        cost = self.cost(traffic)
        if isinstance(work, Paid):
            clients, joules = self.joules(work, owed)
            broken_off = np.flatnonzero(work.broken_off) if keeps else NOBODY
        else:
            clients, samples = self.passes.of(work)
            joules, broken_off = self.training(clients, samples), NOBODY
        wasted = None
        if len(in_vain) or len(broken_off):
            wasted = np.where(np.isin(clients, in_vain), joules, 0.0)
            wasted[broken_off] = joules[broken_off]
        return charge(account, traffic, cost, clients, joules, aggregated, discarded, wasted)
