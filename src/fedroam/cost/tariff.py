"""What a round costs: its transfers and its training, charged to the clients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedroam.cost.account import Account, charge
from fedroam.cost.radio import DistanceDistribution, Radio
from fedroam.cost.sample_passes import SamplePasses
from fedroam.federation import Traffic
from fedroam.learning import Job


@dataclass(frozen=True)
class Tariff:
    """The prices of a run.

    distances: between clients and access points, over the run. passes: counts local training.
    """

    radio: Radio
    distances: DistanceDistribution
    passes: SamplePasses

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
        cost, joules = self.radio.cost(traffic, self.distances), self.radio.training(clients, samples)
        if len(broken_off[0]):
            others, passed = self.passes.of(broken_off[0])
            further = self.radio.training(others, passed) * broken_off[1]
            in_vain = np.append(np.zeros(len(joules)), further) if keeps else None
            joules, clients = np.append(joules, further), np.append(clients, others)
            return charge(account, traffic, cost, clients, joules, aggregated, discarded, in_vain)
        return charge(account, traffic, cost, clients, joules, aggregated, discarded)
