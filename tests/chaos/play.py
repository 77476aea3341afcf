"""A small site at work among faults, and what its run is held against: the simulated one without what was lost."""

from __future__ import annotations

import faulthandler
import functools
import multiprocessing
import re
import shutil
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from typing_extensions import override

from chaos import node
from chaos.faults import DOORS, MADE, Fault, drawn
from chaos.link import Link
from fedroam.deploy.server import serving
from fedroam.deploy.server.hub import Hub
from fedroam.deploy.server.remote import RemoteLearner
from fedroam.deploy.server.remote_aggregator import RemoteAggregator
from fedroam.deploy.site.file import AUTHORITY, AUTHORITY_KEY, FILE, Limits, read_site
from fedroam.deploy.site.founding import found_site
from fedroam.deploy.site.identity import enrol, make_authority
from fedroam.experiment import Experiment
from fedroam.federation import Gathered, Transfers, access_point
from fedroam.learning import Models
from fedroam.recording import Run
from support.holders import Answer, Transfer
from support.losing import same_runs, without
from support.tiny import tiny

WAIT = 300.0  # seconds after which whoever waits waits in vain
HANGS = 900.0  # seconds for a whole run, however busy the machine is
CLIENTS, ROUNDS = 4, 16
# Kinds of federation that ask their clients to train and nothing else, so that what is lost is an update. By way of
# the server, or directly: then faults are those of peers and access points.
FEDERATIONS: tuple[tuple[Any, bool], ...] = (
    ("fedavg", True),
    ("decentralized", False),
    ({"kind": "mohawk", "k2": 2}, False),
    ("scaffold", True),
    ("decentralized", True),
    ({"kind": "hierfavg", "k2": 3}, False),
    ({"kind": "mohawk", "k2": 2}, True),
    ({"kind": "fedprox", "mu": 0.1}, True),
    ("push_sum", False),
    ({"kind": "cached", "size": 2}, False),
    ("ad_psgd", False),
    ({"kind": "hierarchical_fedbuff", "k2": 3, "size": 2}, False),
    ({"kind": "delayed_mohawk", "k2": 3}, False),
    ({"kind": "hierarchical_fedasync", "k2": 2}, False),
)
OF_PEERS = ("decentralized", "push_sum", {"kind": "cached", "size": 2}, "ad_psgd")
TWO_PLACES = {"kind": "grid", "columns": 2, "rows": 1}
# What nodes import, some of it only when they begin to train: Python 3.11's server does not look below tests/.
ROOMS = ("fedroam.deploy.node.process", "fedroam.parts", "sklearn.datasets")
LOST = re.compile(r"round (\d+): client-(\d+) .* counts as not arrived$")


def experiment(seed: int, number: int, rounds: int = ROUNDS) -> Experiment:
    """What the site learns."""
    federation, relayed = FEDERATIONS[number % len(FEDERATIONS)]
    crowded: dict[str, Any] = {
        "contacts": {"kind": "radius", "radius": float("inf")},
        "access_points": TWO_PLACES,
    }
    return tiny(
        seed=1000 * seed + number,
        clients=CLIENTS,
        rounds=rounds,
        evaluate_every=1,
        test_share=0.0,
        federation=federation,
        **({} if relayed else {"contacts": crowded["contacts"]} if federation in OF_PEERS else crowded),
    )


def faults_of(seed: int, number: int, rounds: int = ROUNDS) -> Sequence[Fault]:
    """What befalls the nodes of a run."""
    federation, relayed = FEDERATIONS[number % len(FEDERATIONS)]
    if relayed:
        return drawn(seed, number, rounds, range(CLIENTS))
    doors = range(CLIENTS) if federation in OF_PEERS else [int(access_point(a)) for a in range(2)]
    return drawn(seed, number, rounds, doors, DOORS)


@dataclass
class Outcome:
    """What became of a run. faults: those that struck; late: updates lost besides them, in rounds of short limits."""

    faults: list[Fault] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    late: int = 0

    @property
    def kinds(self) -> Counter[str]:
        """How many of each kind struck."""
        return Counter(fault.kind for fault in self.faults)


@dataclass
class Fleet:
    """The site, its nodes and the links between: to the server, and to the doors of those that listen.

    lost, away: clients by round; given: transfers (sender, receiver) that were asked for, and whether each arrived;
    silent: holders that have aggregated nothing.
    """

    folder: Path
    own: Experiment
    faults: Sequence[Fault]
    relayed: bool
    lines: list[str] = field(default_factory=list)
    lost: dict[int, set[int]] = field(default_factory=dict)
    away: dict[int, np.ndarray] = field(default_factory=dict)
    given: dict[int, list[tuple[int, int, bool]]] = field(default_factory=dict)
    silent: dict[int, set[int]] = field(default_factory=dict)
    links: dict[int, Link] = field(default_factory=dict)
    doors: dict[int, Link] = field(default_factory=dict)
    nodes: dict[int, Any] = field(default_factory=dict)
    timers: list[threading.Thread] = field(default_factory=list)
    struck: set[int] = field(default_factory=set)
    settling: threading.Event = field(default_factory=threading.Event)
    round: int = 0

    @property
    def trail(self) -> Path:
        return self.folder / "trail"

    def found(self) -> None:
        """Make the site, and certificates that are good for nothing."""
        site = found_site(
            self.folder,
            self.own,
            address="127.0.0.1:1",
            limits=self._limits({}),
            relayed=self.relayed,
            listening="127.0.0.1:0",
        )
        self.trail.mkdir()
        for name in ("other", "old"):
            (self.folder / name).mkdir()
        make_authority(self.folder / "other", site.name)
        for name in (AUTHORITY, AUTHORITY_KEY):
            shutil.copy(self.folder / name, self.folder / "old" / name)
        for each in site.holders.values():
            for name in ("other", "old"):
                enrol(self.folder / name, site.name, each, 1.0)

    def listening(self, port: int) -> None:
        for holder, each in read_site(self.folder / FILE).holders.items():
            self.links[holder] = Link(port)
            if each.listens:
                self.doors[holder] = Link(0)
            self.start(holder)

    def found_at(self, hub: Hub) -> None:
        """Whoever listens is found behind the link to its door."""
        honest = hub.found

        def found(number: int) -> tuple[str, int]:
            host, self.doors[number].target = honest(number)
            return host, self.doors[number].port

        hub.found = found  # type: ignore[method-assign]

    def start(self, holder: int) -> None:
        """Begin a node's process; what has struck its forerunner does not strike it again."""
        own = [fault for fault in self.faults if fault.holder == holder]
        name = read_site(self.folder / FILE).holders[holder].name
        # From a server that has imported all this and nothing else, so that processes start at once.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["chaos.node", *ROOMS])
        self.nodes[holder] = context.Process(
            target=node.live, args=(self.folder, name, self.links[holder].port, own, self.trail), daemon=True
        )
        self.nodes[holder].start()

    def begin(self, round: int, hub: Hub) -> None:
        """Let the faults of a round loose, and mend those of the one before."""
        self.settle()
        if self.doors and not self.round:
            self.found_at(hub)
        self.round = round
        due = [fault for fault in self.faults if fault.round == round]
        short = {name: value for fault in due for name, value in fault.short.items()}
        if short:  # whoever is on its way back comes first
            hub.wait(WAIT)
        site = read_site(self.folder / FILE)
        site.model_copy(update={"limits": self._limits(short)}).write(self.folder)
        hub.callers.site_now()
        for fault in due:
            self._loose(fault)

    def _loose(self, fault: Fault) -> None:
        at_door = fault.way.endswith(" door")
        link, way = (self.doors if at_door else self.links)[fault.holder], (fault.kind, fault.way)
        if way == ("kill", "back at once"):
            timer = threading.Timer(0.3 * fault.amount, self._kill, (fault,))
            self.timers.append(timer)
            timer.start()
        elif way == ("kill", "in its work"):
            self.timers.append(threading.Thread(target=self._nurse, args=(fault,), daemon=True))
            self.timers[-1].start()
        elif fault.kind == "cut":
            link.cut = (
                "to the node" if fault.way == "to the node" else "to the server",
                self._bytes(fault),
            )
        elif fault.kind == "corrupt" and (at_door or fault.way == "on the wire"):
            link.damage = self._bytes(fault)
        elif fault.kind == "delay" and (at_door or fault.way == "on the link"):
            link.delay = 0.02 + 0.2 * fault.amount
        elif way in (("slow", "a slow link"), ("slow", "a slow door")):
            link.rate = 4000 + 20_000 * fault.amount
        elif way == ("slow", "a stalled one"):
            link.stalled = True

    def _kill(self, fault: Fault) -> None:
        self.nodes[fault.holder].kill()
        self.nodes[fault.holder].join()
        self.struck.add(fault.number)
        self.start(fault.holder)

    def _nurse(self, fault: Fault) -> None:
        """Begin a holder anew when it has killed itself, if it does."""
        while not self.settling.is_set():
            self.nodes[fault.holder].join(0.05)
            if not self.nodes[fault.holder].is_alive():
                self.start(fault.holder)
                return

    @staticmethod
    def _bytes(fault: Fault) -> int:
        return 1 + int(3000 * fault.amount)

    @staticmethod
    def _limits(short: dict[str, float]) -> Limits:
        return Limits(**{"chunk": 1024, "away": WAIT, "answer": WAIT, "retry": WAIT, **short})

    def settle(self) -> None:
        """Mend what the round did, but for what it did to the run."""
        self.settling.set()
        for timer in self.timers:
            timer.join()
        self.timers.clear()
        self.settling.clear()
        for fault in self.faults:
            link = (self.doors if fault.way.endswith(" door") else self.links)[fault.holder]
            if fault.round == self.round and link.struck:
                self.struck.add(fault.number)
        for link in (*self.links.values(), *self.doors.values()):
            link.clear()
        for holder, process in list(self.nodes.items()):
            if not process.is_alive() and self.round < self.own.rounds:
                process.join()
                self.start(holder)
        self.struck |= {int(path.name) for path in self.trail.iterdir() if path.name.isdigit()}

    def end(self) -> None:
        """Nothing of it is left."""
        self.round = self.own.rounds
        self.settle()
        for process in self.nodes.values():
            process.join(0.2)
            process.kill()
            process.join()
            process.close()
        for link in (*self.links.values(), *self.doors.values()):
            link.close()


class Watched(RemoteLearner):
    """The server's learner, and what it counts as lost, and as out of reach."""

    def __init__(self, fleet: Fleet, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.fleet = fleet

    @override
    def begin_round(self, number: int) -> None:
        super().begin_round(number)
        self.fleet.begin(number, self.hub)

    @override
    def unreachable(self) -> np.ndarray:
        found = self.fleet.away[self._round] = super().unreachable()
        return found

    @override
    def lost(self) -> np.ndarray:
        found = super().lost()
        self.fleet.lost[self._round] = set(found.tolist())
        return found


class WatchedHolders(RemoteAggregator):
    """The server's view of who aggregates: what was asked of them, and what has come of it."""

    def __init__(self, fleet: Fleet, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.fleet = fleet

    @override
    def delivered(self, models: Models, transfers: Transfers, round: int) -> np.ndarray:
        found = super().delivered(models, transfers, round)
        ends = zip(transfers.sender.tolist(), transfers.receiver.tolist(), found.tolist(), strict=True)
        self.fleet.given.setdefault(round, []).extend(ends)
        return found

    @override
    def _made(self, models: Models, gathered: Sequence[Gathered], *rest: Any) -> Any:
        answers, made = super()._made(models, gathered, *rest)
        some = {each.holder for each, there in zip(gathered, answers.tolist(), strict=True) if not there}
        self.fleet.silent[rest[-1]] = self.fleet.silent.get(rest[-1], set()) | some
        return answers, made


def play(seed: int, number: int, folder: Path, rounds: int = ROUNDS) -> Outcome:
    """Play one run of a campaign, in an empty folder of its own."""
    own = experiment(seed, number, rounds)
    fleet = Fleet(
        folder / "site", own, faults_of(seed, number, rounds), FEDERATIONS[number % len(FEDERATIONS)][1]
    )
    fleet.found()
    outcome, ran = Outcome(), [Run(folder)][:0]

    def serve() -> None:
        with (
            mock.patch.object(serving, "RemoteLearner", functools.partial(Watched, fleet)),
            mock.patch.object(serving, "RemoteAggregator", functools.partial(WatchedHolders, fleet)),
        ):
            ran.append(
                serving.serve(
                    fleet.folder,
                    folder / "network",
                    address="127.0.0.1:0",
                    patience=WAIT,
                    tell=fleet.lines.append,
                    listening=fleet.listening,
                )
            )

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    thread.join(HANGS)
    if thread.is_alive():
        faulthandler.dump_traceback(file=sys.__stderr__)
        outcome.findings.append(f"it does not end: {fleet.lines[-3:]}")
        return outcome
    fleet.end()
    outcome.faults = [fault for fault in fleet.faults if fault.number in fleet.struck]
    outcome.findings += [path.read_text() for path in sorted(fleet.trail.glob("found-*"))]
    if not ran:
        outcome.findings.append(f"the run failed: {fleet.lines[-3:]}")
        return outcome
    _judge(own, fleet, ran[0], outcome, folder)
    outcome.findings = [f"run {number}: {what}" for what in outcome.findings]
    return outcome


def _judge(own: Experiment, fleet: Fleet, ran: Run, outcome: Outcome, folder: Path) -> None:
    """Hold a run against what struck it."""
    lost = {(t, i) for t, some in fleet.lost.items() for i in some}
    must = {(fault.round, fault.holder): fault for fault in outcome.faults if fault.loses}
    short = {fault.round for fault in fleet.faults if fault.short}
    told = Counter((int(m[1]), int(m[2])) for line in fleet.lines if (m := LOST.match(line)))
    outcome.late = len(lost - must.keys())
    for each in sorted(must.keys() - lost):
        outcome.findings.append(f"arrived all the same: {must[each]}")
    for t, i in sorted(lost - must.keys()):
        if t not in short:
            outcome.findings.append(f"round {t}, client {i}: lost without a reason: {fleet.lines}")
    if told != Counter(lost):
        outcome.findings.append(f"told {sorted(told.elements())}, lost {sorted(lost)}")
    transfers, silent = _judge_holders(fleet, outcome)
    try:
        same_runs(ran, without(own, folder / "simulated", lost, fleet.away, transfers, silent))
    except AssertionError as error:
        outcome.findings.append(
            f"another run than without {sorted(lost)}, {sorted(transfers)}, {sorted(silent)}: "
            f"{' '.join(str(error).split())[:300]}"
        )


def _judge_holders(fleet: Fleet, outcome: Outcome) -> tuple[frozenset[Transfer], frozenset[Answer]]:
    """Which transfers and aggregates are missing; it is a finding where they are not those that had to be."""
    missing = {(t, *ends) for t, some in fleet.given.items() for *ends, arrived in some if not arrived}
    silent = {(t, holder) for t, some in fleet.silent.items() for holder in some}
    no_models = {  # whoever had the model already asked for none
        (t, sender, receiver)
        for t, some in fleet.given.items()
        for sender, receiver, _ in some
        if node.wrong_to(fleet.trail, t, sender, receiver).exists()
    }
    nothing = {(fault.round, fault.holder) for fault in outcome.faults if fault.way in MADE}
    for what, found, must in (("model", missing, no_models), ("aggregate", silent, nothing)):
        for each in sorted(must - found):
            outcome.findings.append(f"a {what} that had to be missing arrived: {each}")
        for each in sorted(found - must):
            outcome.findings.append(f"a {what} is missing without a reason: {each}: {fleet.lines}")
    return frozenset(missing), frozenset(silent)  # type: ignore[arg-type]
