"""Aggregators for tests: each holder for itself, as on a network, and transfers and answers that never arrive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from scipy import sparse
from typing_extensions import override

from fedroam.federation import (
    AggregatesAtHolders,
    Aggregator,
    FederationContext,
    Gathered,
    KnownToHolders,
    Made,
    Model,
    SendsMessages,
    Transfers,
)
from fedroam.federation.attention import AveragingWeights
from fedroam.learning import Models
from fedroam.mixing import Facts

# (round, sender, receiver) or (round, holder) of what does not arrive
Transfer = tuple[int, int, int]
Answer = tuple[int, int]


@dataclass
class Apart(Aggregator):
    """Each holder computes from a matrix that holds nothing but the models that have reached it.

    losing: transfers that do not arrive. silent: holders that do not answer. seen: all transfers that were asked for.
    """

    rule: AggregatesAtHolders
    context: FederationContext
    losing: frozenset[Transfer] = frozenset()
    silent: frozenset[Answer] = frozenset()
    seen: list[Transfer] = field(default_factory=list)

    @override
    def delivered(self, models: Models, transfers: Transfers, round: int) -> np.ndarray:
        ends = zip(transfers.sender.tolist(), transfers.receiver.tolist(), strict=True)
        asked = [(round, sender, receiver) for sender, receiver in ends]
        self.seen += asked
        return np.array([each not in self.losing for each in asked], dtype=bool)

    @override
    def mix(self, models: Models, weights: sparse.csr_array, round: int) -> None:
        clients = weights.shape[0]
        gathered = []
        for i in range(clients):
            row = weights[[i]].tocoo()
            members = row.coords[1].astype(np.int64)
            gathered.append(Gathered(i, i, members, members, AveragingWeights(row.data[:, None], row.data)))
        facts = Facts(self.context.samples, np.zeros(clients))
        known = KnownToHolders(self.context, facts, round)
        answers, made = self.made(self.rule, models, gathered, known)
        found = list(made)
        for i, made_there in zip(np.flatnonzero(answers).tolist(), found, strict=True):
            models.write(i, made_there.parameters, made_there.buffers)

    @override
    def made(
        self,
        rule: AggregatesAtHolders,
        models: Models,
        gathered: Sequence[Gathered],
        known: KnownToHolders,
    ) -> tuple[np.ndarray, Iterator[Made]]:
        answers = np.array([(known.round, each.holder) not in self.silent for each in gathered], dtype=bool)
        found = []
        for k in np.flatnonzero(answers).tolist():
            found.append(rule.made(*alone(models, gathered[k]), known))
        return answers, iter(found)

    @override
    def said(
        self, rule: SendsMessages, models: Models, gathered: Sequence[Gathered], known: KnownToHolders
    ) -> tuple[np.ndarray, Iterator[Model]]:
        found = [rule.said(*alone(models, each), known) for each in gathered]
        return np.ones(len(found), dtype=bool), iter(found)


def alone(models: Models, gathered: Gathered) -> tuple[Models, Gathered]:
    """What has reached a holder, in a matrix of its own."""
    there = replace(gathered, own=0, rows=np.arange(1, 1 + len(gathered.rows)))
    return models.rows(torch.from_numpy(np.append(gathered.own, gathered.rows))), there
