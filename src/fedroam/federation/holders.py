"""Who holds models and aggregates them: clients, access points, the server, each what reaches it.

A federation says which models go where and what a holder makes of them. Where that happens is the aggregator's: here,
in one process that holds all models, or at the holders themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from scipy import sparse
from typing_extensions import override

from fedroam.federation.attention import AveragingWeights
from fedroam.learning import Layout, Models, mix
from fedroam.mixing import Facts

if TYPE_CHECKING:
    from fedroam.federation.protocol import FederationContext

Model = tuple[torch.Tensor, torch.Tensor]  # parameters and buffers


@dataclass(frozen=True)
class Transfers:
    """Models on their way from one holder to another, one entry a transfer.

    sender, receiver: int64, a client, the server or an access point, as `Traffic` writes them. row: int64, of the
    model. distance: float64, metres between the two.
    """

    sender: np.ndarray
    receiver: np.ndarray
    row: np.ndarray
    distance: np.ndarray

    @classmethod
    def nothing(cls) -> Transfers:
        """No models."""
        nobody = np.zeros(0, np.int64)
        return cls(nobody, nobody, nobody, np.zeros(0))

    def __len__(self) -> int:
        return len(self.row)

    def some(self, which: np.ndarray) -> Transfers:
        """Those of them (int64 or bool) alone."""
        return Transfers(self.sender[which], self.receiver[which], self.row[which], self.distance[which])


@dataclass(frozen=True)
class Gathered:
    """The models that have reached one holder, as rows of a matrix.

    holder: who aggregates. own: the row of its model. rows: int64 [models], those to be aggregated; holders: int64
    [models], whose they are. weights: of each; None where the holder finds them itself, from the models. told: what
    else it is told, by name. keeps: what it keeps beside its model, by name. beside: further models that it needs, and
    mostly has; stays: whether it has these in later rounds, too.
    """

    holder: int
    own: int
    rows: np.ndarray
    holders: np.ndarray
    weights: AveragingWeights | None
    told: Mapping[str, np.ndarray] = field(default_factory=dict)
    keeps: Mapping[str, np.ndarray] = field(default_factory=dict)
    beside: Models | None = None
    stays: bool = False


class Made(NamedTuple):
    """What a holder makes of what has reached it: a model, and what it keeps beside it, by name."""

    parameters: torch.Tensor
    buffers: torch.Tensor
    keeps: Mapping[str, np.ndarray] = MappingProxyType({})


@runtime_checkable
class AggregatesAtHolders(Protocol):
    """A federation in which clients or access points aggregate, each what has reached it."""

    @property
    def holders(self) -> Literal["clients", "access_points"]:
        """Who aggregates."""

    def made(self, models: Models, gathered: Gathered, known: KnownToHolders) -> Made:
        """What a holder makes of the models that have reached it; nothing is changed."""


@runtime_checkable
class SendsMessages(AggregatesAtHolders, Protocol):
    """A federation in which holders send each other something that they make for it, in the place of their models."""

    def message(self, layout: Layout) -> Layout:
        """What lies where in a message; layout: that of a model."""

    def said(self, models: Models, gathered: Gathered, known: KnownToHolders) -> Model:
        """The message of a holder, which knows of no other's yet; nothing is changed."""


@dataclass(frozen=True)
class KnownToHolders:
    """What holders may know when they aggregate in a round: what does not change in a run, and what the experiment's
    aggregation rule declares."""

    context: FederationContext
    facts: Facts
    round: int


class Aggregator(Protocol):
    """Takes models from holder to holder, and computes what each makes of those that have reached it.

    at_hand: whether all that holders have is here: then a federation may do the work of many at once. ahead: whether it
    is told what is on its way while others train.
    """

    at_hand: bool = False
    ahead: bool = False

    def begin(self, models: Models, transfers: Transfers, round: int, learning: np.ndarray) -> None:
        """Models that may be carried while others train: at once, or, those of clients that learn (int64), as soon as
        these have. `delivered` tells what has become of them."""
        return

    def delivered(self, models: Models, transfers: Transfers, round: int) -> np.ndarray:
        """Carry models; whether each has arrived, bool [transfers]."""

    def mix(self, models: Models, weights: sparse.csr_array, round: int) -> None:
        """X <- W X in place, as `fedroam.learning.mix`: row i is what client i makes of the models that reached it.

        A client that does not answer keeps its model.
        """

    def made(
        self, rule: AggregatesAtHolders, models: Models, gathered: Sequence[Gathered], known: KnownToHolders
    ) -> tuple[np.ndarray, Iterator[Made]]:
        """Which holders answer, bool [gathered], and what each that does makes of its models, in order.

        What was made of one may be written into rows that no later one needs before the next is taken.
        """

    def said(
        self, rule: SendsMessages, models: Models, gathered: Sequence[Gathered], known: KnownToHolders
    ) -> tuple[np.ndarray, Iterator[Model]]:
        """Which holders answer, bool [gathered], and the message of each that does, in order."""
        return np.ones(len(gathered), dtype=bool), (rule.said(models, each, known) for each in gathered)

    def replace(
        self,
        rule: AggregatesAtHolders,
        models: Models,
        gathered: Sequence[Gathered],
        into: Sequence[int],
        known: KnownToHolders,
    ) -> np.ndarray:
        """Put into row into[k] what holder k makes of the models that have reached it; which holders answer, bool
        [gathered]. All is made of the models as they are now, and rows of holders that do not answer stay."""
        answers, made = self.made(rule, models, gathered, known)
        answering = list(compress(zip(gathered, into, strict=True), answers))
        last = {row: k for k, (each, _) in enumerate(answering) for row in (each.own, *each.rows.tolist())}
        waiting: list[tuple[int, Made]] = []
        for k, ((_, row), found) in enumerate(zip(answering, made, strict=True)):
            waiting.append((row, found))
            for done in [each for each in waiting if last.get(each[0], -1) <= k]:
                models.write(done[0], done[1].parameters, done[1].buffers)
            waiting = [each for each in waiting if last.get(each[0], -1) > k]
        return answers


class AtHand(Aggregator):
    """Everything is in this process, and arrives."""

    at_hand = True

    @override
    def delivered(self, models: Models, transfers: Transfers, round: int) -> np.ndarray:
        return np.ones(len(transfers.row), dtype=bool)

    @override
    def mix(self, models: Models, weights: sparse.csr_array, round: int) -> None:
        mix(models, weights)

    @override
    def made(
        self, rule: AggregatesAtHolders, models: Models, gathered: Sequence[Gathered], known: KnownToHolders
    ) -> tuple[np.ndarray, Iterator[Made]]:
        made = (rule.made(models, each, known) for each in gathered)
        return np.ones(len(gathered), dtype=bool), made
