"""Aggregation by those who hold the models: who gives what to whom goes out as orders, and results come back."""

from __future__ import annotations

import functools
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from hmac import compare_digest
from typing import NamedTuple

import numpy as np
import torch
from scipy import sparse
from typing_extensions import override

from fedroam.deploy.messages import (
    NAMED,
    NO_ORDER,
    Expected,
    Order,
    Work,
    expected_of,
    finite,
    layout_arrays,
    named,
    packed,
    receipt,
    sum_of,
    told_of,
)
from fedroam.deploy.node.holding import fact_arrays, packed_sums, sums
from fedroam.deploy.pacing import Rates
from fedroam.deploy.server.hub import Answer, Asked, Hub
from fedroam.errors import FedroamError
from fedroam.federation import (
    SERVER,
    AggregatesAtHolders,
    Aggregator,
    AtHand,
    FederationContext,
    Gathered,
    KnownToHolders,
    Made,
    Model,
    SendsMessages,
    Transfers,
)
from fedroam.federation.aggregating import averages
from fedroam.federation.attention import AveragingWeights
from fedroam.learning import Models


class ErrandOrder(NamedTuple):
    """A model on its way, as one of its ends is told of it: who the other end is, which model, whether it is brought to
    who listens, and how fast it goes, bytes/s."""

    end: int
    model: str
    puts: bool
    rate: float


Way = tuple[int, int, int]  # sender, receiver, row


def ways_of(transfers: Transfers) -> list[Way]:
    """Between whom each is, and which model."""
    each = (transfers.sender.tolist(), transfers.receiver.tolist(), transfers.row.tolist())
    return list(zip(*each, strict=True))


class Ahead:
    """Models that are carried while others train: as soon as both ends have, of which clients learn (int64).

    carry: begins to carry some, whose models are there by now; its promise tells whether each has arrived.
    """

    def __init__(
        self, transfers: Transfers, learning: np.ndarray, carry: Callable[[Transfers], Future[np.ndarray]]
    ) -> None:
        self._left, self._learning, self._carry = transfers, learning, carry
        self._begun: list[tuple[list[Way], Future[np.ndarray]]] = []
        self._begin()

    def trained(self, client: int) -> None:
        """A client has trained: what waited for it alone is on its way from now on."""
        self._learning = self._learning[self._learning != client]
        self._begin()

    def _begin(self) -> None:
        waits = np.isin(self._left.sender, self._learning) | np.isin(self._left.receiver, self._learning)
        some, self._left = self._left.some(~waits), self._left.some(waits)
        if len(some):
            self._begun.append((ways_of(some), self._carry(some)))

    def arrived(self) -> dict[Way, bool]:
        """Which of those that have begun have arrived, once all have or will not."""
        return {
            way: there
            for ways, found in self._begun
            for way, there in zip(ways, found.result().tolist(), strict=True)
        }


class RemoteAggregator(Aggregator):
    """An aggregator whose holders are nodes: models go from one to the other, and each makes its own of them.

    The server knows each model by its SHA-256, and tells holders which they may give and take in a round; a holder that
    was begun anew gets its own model from the server's copy. What the server itself aggregates, as the cloud does, it
    has by then: every answer brings it. rates: of models from one to the other, None for as fast as can be.
    """

    ahead = True

    def __init__(
        self, hub: Hub, rule: AggregatesAtHolders, context: FederationContext, rates: Rates | None = None
    ) -> None:
        self.hub, self.rule, self.context, self.rates = hub, rule, context, rates
        self._here = AtHand()
        self._ahead: Ahead | None = None
        # Links that are down, and in which round a model was last lost on each.
        self._down: dict[tuple[int, int], int] = {}

    # --- models on their way ----------------------------------------------------------------------------------

    @override
    def begin(self, models: Models, transfers: Transfers, round: int, learning: np.ndarray) -> None:
        known = functools.cache(partial(named, models))  # who has trained is not changed before all have

        def carry(some: Transfers) -> Future[np.ndarray]:
            return self.hub.beside(self._carrying(known, some, round, aside=True))

        self._ahead = Ahead(transfers, learning, carry)

    def trained(self, client: int) -> None:
        """A client has trained, while others go on: what it brings is on its way from now on."""
        if self._ahead is not None:
            self._ahead.trained(client)

    @override
    def delivered(self, models: Models, transfers: Transfers, round: int) -> np.ndarray:
        ways = ways_of(transfers)
        arrived, left = np.zeros(len(ways), dtype=bool), np.ones(len(ways), dtype=bool)
        if self._ahead is not None:
            before = time.monotonic()
            known = self._ahead.arrived()
            self.hub.spent["carry"] += time.monotonic() - before
            self._ahead = None
            for k, way in enumerate(ways):
                if way in known:
                    arrived[k], left[k] = known[way], False
        if left.any():
            carrying = self._carrying(partial(named, models), transfers.some(left), round)
            arrived[left] = self.hub.beside(carrying).result()
        self._tell_links(round, ways, arrived)
        return arrived

    def _carrying(
        self,
        name: Callable[[int], tuple[str, bytes]],
        transfers: Transfers,
        round: int,
        *,
        aside: bool = False,
    ) -> Coroutine[None, None, np.ndarray]:
        """Carry models, within the hub's loop; whether each has arrived, bool [transfers]. name: the SHA-256 and the
        body of a row's model, which is asked for now. Each transfer is between one that listens and one that calls it:
        of two that listen, the one that gets the model calls the one that has it. aside: others are asked for something
        else meanwhile."""
        listening = self.hub.listening()
        names = {row: name(row) for row in np.unique(transfers.row).tolist()}
        bodies = dict(names.values())
        ends = list(zip(transfers.sender.tolist(), transfers.receiver.tolist(), strict=True))
        puts = [sender not in listening for sender, _ in ends]
        known = [names[row][0] for row in transfers.row.tolist()]
        rates = np.full(len(ends), np.inf)
        if self.rates is not None:
            rates = self.rates(transfers.sender, transfers.receiver, transfers.distance)
            self.rates.shape(transfers.sender, transfers.receiver, transfers.distance)
        doors, callers = defaultdict[int, list[int]](list), defaultdict[int, list[int]](list)
        for k, (sender, receiver) in enumerate(ends):
            door, caller = (receiver, sender) if puts[k] else (sender, receiver)
            doors[door].append(k)
            callers[caller].append(k)

        secrets = {door: self.hub.secret(door, round) for door in doors}

        async def answers(orders: Mapping[int, Asked]) -> dict[int, Answer]:
            return _given(await self.hub.answers(orders, aside=aside))

        async def carried() -> np.ndarray:
            opened = await answers(
                {
                    door: self._moving(
                        "open",
                        round,
                        [ErrandOrder(ends[k][not puts[k]], known[k], puts[k], rates[k]) for k in some],
                        {},
                        bodies,
                        secret=secrets[door],
                    )
                    for door, some in doors.items()
                }
            )
            arrived = np.zeros(len(ends), dtype=bool)
            ways, orders = {}, {}
            for caller, some in callers.items():
                there = [k for k in some if ends[k][puts[k]] in opened]
                if there:
                    errands = [ErrandOrder(ends[k][puts[k]], known[k], puts[k], rates[k]) for k in there]
                    found = {each.end: self.hub.found(each.end) for each in errands}
                    ways[caller], orders[caller] = there, self._moving("carry", round, errands, found, bodies)
            for caller, answer in (await answers(orders)).items():
                shown = sums(answer["receipt"])
                for k, says, proof in zip(ways[caller], answer["arrived"].tolist(), shown, strict=True):
                    door = ends[k][puts[k]]
                    arrived[k] = says and (
                        not puts[k] or compare_digest(proof, receipt(secrets[door], caller, known[k]))
                    )
                    if says and not arrived[k]:
                        a, b = self.hub.name(caller), self.hub.name(door)
                        self.hub.tell(f"round {round}: {a} says that {b} has its model, and shows no receipt")
            return arrived

        return carried()

    def _moving(
        self,
        work: Work,
        round: int,
        errands: Sequence[ErrandOrder],
        found: Mapping[int, tuple[str, int]],
        bodies: Mapping[str, bytes],
        secret: str = "",
    ) -> Asked:
        """An order about models on their way: with whom, which, and whether it is brought to who listens. secret: of
        the receipts of who listens."""
        arrays = {
            "end": np.array([each.end for each in errands], np.int64),
            "model": packed_sums(each.model for each in errands),
            "puts": np.array([each.puts for each in errands], dtype=bool),
        }
        if self.rates is not None:
            arrays["rate"] = np.array([each.rate for each in errands], np.float64)
        shaped = self.rates is not None and self.rates.network is not None
        expected: Expected = {}
        hosts, about = list[str](), ""
        if work == "carry":
            hosts = sorted({host for host, _ in found.values()})
            places = [found[each.end] for each in errands]
            arrays["host"] = np.array([hosts.index(host) for host, _ in places], np.int64)
            arrays["port"] = np.array([port for _, port in places], np.int64)
            expected = {"arrived": ("bool", (len(errands),)), "receipt": ("uint8", (len(errands), 32))}
            # What has been carried has been carried, wherever those who listen are by now.
            about = sum_of(packed({name: arrays[name] for name in ("end", "model", "puts")}))
        # Whoever gives a model away is given it first, if it lacks it: who listens those that are fetched, who calls
        # those that it brings.
        given = dict.fromkeys(each.model for each in errands if each.puts == (work == "carry"))
        models = {name: bodies[name] for name in given}
        asked = self._asked(
            work,
            round,
            len(errands),
            arrays,
            expected,
            models,
            hosts=hosts,
            paced=self.rates is not None,
            shaped=shaped,
            secret=secret,
        )
        asked.about = about
        return asked

    def _tell_links(self, round: int, ways: Sequence[Way], arrived: np.ndarray) -> None:
        """A link that is down is told when it goes down and when it is back, not in every round between."""
        # Those that are down first, whatever else arrived there.
        for k in np.argsort(arrived, kind="stable").tolist():
            sender, receiver, _ = ways[k]
            a, b = self.hub.name(sender), self.hub.name(receiver)
            if not arrived[k]:
                if (sender, receiver) not in self._down:
                    self.hub.tell(
                        f"round {round}: the model of {a} has not reached {b}: their link counts as down"
                    )
                self._down[sender, receiver] = round
            elif self._down.get((sender, receiver), round) < round:
                del self._down[sender, receiver]
                self.hub.tell(f"round {round}: models of {a} reach {b} again")

    # --- what becomes of them ---------------------------------------------------------------------------------

    @override
    def mix(self, models: Models, weights: sparse.csr_array, round: int) -> None:
        weights = sparse.csr_array(weights)
        alone = (np.diff(weights.indptr) == 1) & (weights.diagonal() == 1.0)
        gathered = []
        for i in np.flatnonzero(~alone).tolist():
            own = slice(*weights.indptr[i : i + 2].tolist())
            members, shares = weights.indices[own].astype(np.int64), weights.data[own]
            gathered.append(Gathered(i, i, members, members, AveragingWeights(shares[:, None], shares)))
        answers, made = self._made(models, gathered, {}, round)
        for k, found in zip(np.flatnonzero(answers).tolist(), list(made), strict=True):
            models.write(gathered[k].own, found.parameters, found.buffers)

    @override
    def made(
        self,
        rule: AggregatesAtHolders,
        models: Models,
        gathered: Sequence[Gathered],
        known: KnownToHolders,
    ) -> tuple[np.ndarray, Iterator[Made]]:
        if all(each.holder == SERVER for each in gathered):
            return self._here.made(rule, models, gathered, known)
        facts = {} if averages(known.context.aggregation) else fact_arrays(known.facts)
        return self._made(models, gathered, facts, known.round)

    @override
    def said(
        self, rule: SendsMessages, models: Models, gathered: Sequence[Gathered], known: KnownToHolders
    ) -> tuple[np.ndarray, Iterator[Model]]:
        expected = layout_arrays(rule.message(models.layout))
        name = functools.cache(partial(named, models))
        orders = {each.holder: self._work("say", name, each, {}, known.round, expected) for each in gathered}
        found = self._ask(orders)
        answers = [found.get(each.holder) for each in gathered]
        said = (_model(answer) for answer in answers if answer is not None)
        return np.array([answer is not None for answer in answers], dtype=bool), said

    def _made(
        self, models: Models, gathered: Sequence[Gathered], facts: Mapping[str, np.ndarray], round: int
    ) -> tuple[np.ndarray, Iterator[Made]]:
        model = layout_arrays(self.context.task.layout)
        name, orders = functools.cache(partial(named, models)), {}
        for each in gathered:
            expected = {**model, **expected_of(told_of(each.keeps), "keeps.")}
            orders[each.holder] = self._work("aggregate", name, each, facts, round, expected)
        found = self._ask(orders)
        answers = np.array([each.holder in found for each in gathered], dtype=bool)
        made = (
            Made(*_model(answer), {name: answer[f"keeps.{name}"] for name in each.keeps})
            for each, answer in ((each, found[each.holder]) for each in gathered if each.holder in found)
        )
        return answers, made

    def _work(
        self,
        work: Work,
        name: Callable[[int], tuple[str, bytes]],
        gathered: Gathered,
        facts: Mapping[str, np.ndarray],
        round: int,
        expected: Expected,
    ) -> Asked:
        """An order to make something of the models that have reached a holder; name: tells how a row is called."""
        given = [name(gathered.own)]
        if gathered.beside is not None:
            given += [named(gathered.beside, row) for row in range(len(gathered.beside))]
        if gathered.keeps:
            kept = packed(gathered.keeps)
            given.append((sum_of(kept), kept))
        if len(given) > NAMED:
            who = self.hub.name(gathered.holder)
            raise FedroamError(
                f"round {round}: {who} needs {len(given)} models to {work}, allowed are {NAMED}"
            )
        arrays = {
            "end": gathered.holders,
            "model": packed_sums(name(row)[0] for row in gathered.rows.tolist()),
            **{f"facts.{each}": array for each, array in facts.items()},
            **{f"told.{each}": array for each, array in gathered.told.items()},
        }
        if gathered.weights is not None:
            arrays["weights"] = gathered.weights.buffers
        asked = self._asked(
            work,
            round,
            len(gathered.rows),
            arrays,
            expected,
            dict(given),
            facts=told_of(facts),
            told=told_of(gathered.told),
            keeps=told_of(gathered.keeps),
            stays=gathered.stays,
            weighed=gathered.weights is not None,
        )
        asked.order = asked.order.model_copy(update={"models": [each for each, _ in given]})
        return asked

    # --- how it is asked --------------------------------------------------------------------------------------

    def _asked(
        self,
        work: Work,
        round: int,
        rows: int,
        arrays: Mapping[str, np.ndarray],
        expected: Expected,
        models: Mapping[str, bytes],
        **facts: object,
    ) -> Asked:
        order = Order.model_validate(
            {
                "order": NO_ORDER,
                "work": work,
                "round": round,
                "rows": rows,
                "models": list(models),
                **facts,
            }
        )
        return Asked(order, packed(arrays), expected, finite(), models)

    def _ask(self, orders: Mapping[int, Asked]) -> dict[int, Answer]:
        """The answers of those who give one."""
        return _given(self.hub.ask(orders))


def _given(answers: Mapping[int, Answer | None]) -> dict[int, Answer]:
    return {i: answer for i, answer in answers.items() if answer is not None}


def _model(answer: Mapping[str, np.ndarray]) -> Model:
    return torch.from_numpy(answer["parameters"]), torch.from_numpy(answer["buffers"])
