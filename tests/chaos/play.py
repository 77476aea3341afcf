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
from chaos.faults import Fault, drawn
from chaos.link import Link
from fedroam.deploy.server import serving
from fedroam.deploy.server.hub import Hub
from fedroam.deploy.server.remote import RemoteLearner
from fedroam.deploy.site.file import AUTHORITY, AUTHORITY_KEY, FILE, Limits, read_site
from fedroam.deploy.site.founding import found_site
from fedroam.deploy.site.identity import enrol, make_authority
from fedroam.experiment import Experiment
from fedroam.recording import Run
from support.losing import same_runs, without
from support.tiny import tiny

WAIT = 300.0  # seconds after which whoever waits waits in vain
HANGS = 900.0  # seconds for a whole run, however busy the machine is
CLIENTS, ROUNDS = 4, 16
# Kinds of federation that ask their clients to train and nothing else, so that what is lost is an update.
FEDERATIONS: tuple[Any, ...] = (
    "fedavg",
    "scaffold",
    "decentralized",
    {"kind": "mohawk", "k2": 2},
    {"kind": "fedprox", "mu": 0.1},
    {"kind": "hierfavg", "k2": 3},
)
# What nodes import, some of it only when they begin to train: Python 3.11's server does not look below tests/.
ROOMS = ("fedroam.deploy.node.process", "fedroam.parts", "sklearn.datasets", "torch._dynamo")
LOST = re.compile(r"round (\d+): client-(\d+) .* counts as not arrived$")


def experiment(seed: int, number: int) -> Experiment:
    """What the site learns."""
    return tiny(
        seed=1000 * seed + number,
        clients=CLIENTS,
        rounds=ROUNDS,
        evaluate_every=1,
        test_share=0.0,
        federation=FEDERATIONS[number % len(FEDERATIONS)],
    )


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
    """The site, its nodes and the links between."""

    folder: Path
    faults: Sequence[Fault]
    lines: list[str] = field(default_factory=list)
    lost: dict[int, set[int]] = field(default_factory=dict)
    away: dict[int, np.ndarray] = field(default_factory=dict)
    links: dict[int, Link] = field(default_factory=dict)
    nodes: dict[int, Any] = field(default_factory=dict)
    timers: list[threading.Timer] = field(default_factory=list)
    struck: set[int] = field(default_factory=set)
    round: int = 0

    @property
    def trail(self) -> Path:
        return self.folder / "trail"

    def found(self, own: Experiment) -> None:
        """Make the site, and certificates that are good for nothing."""
        site = found_site(self.folder, own, address="127.0.0.1:1", limits=self._limits({}), relayed=True)
        self.trail.mkdir()
        for name in ("other", "old"):
            (self.folder / name).mkdir()
        make_authority(self.folder / "other", site.name)
        for name in (AUTHORITY, AUTHORITY_KEY):
            shutil.copy(self.folder / name, self.folder / "old" / name)
        for each in site.clients.values():
            for name in ("other", "old"):
                enrol(self.folder / name, site.name, each, 1.0)

    def listening(self, port: int) -> None:
        for client in range(CLIENTS):
            self.links[client] = Link(port)
            self.start(client)

    def start(self, client: int) -> None:
        """Begin a client's process; what has struck its forerunner does not strike it again."""
        own = [fault for fault in self.faults if fault.client == client]
        name = read_site(self.folder / FILE).clients[client].name
        # From a server that has imported all this and nothing else, so that processes start at once.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["chaos.node", *ROOMS])
        self.nodes[client] = context.Process(
            target=node.live, args=(self.folder, name, self.links[client].port, own, self.trail), daemon=True
        )
        self.nodes[client].start()

    def begin(self, round: int, hub: Hub) -> None:
        """Let the faults of a round loose, and mend those of the one before."""
        self.settle()
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
        link, way = self.links[fault.client], (fault.kind, fault.way)
        if way == ("kill", "back at once"):
            timer = threading.Timer(0.3 * fault.amount, self._kill, (fault,))
            self.timers.append(timer)
            timer.start()
        elif fault.kind == "cut":
            link.cut = (
                "to the server" if fault.way == "to the server" else "to the node",
                self._bytes(fault),
            )
        elif way == ("corrupt", "on the wire"):
            link.damage = self._bytes(fault)
        elif way == ("delay", "on the link"):
            link.delay = 0.02 + 0.2 * fault.amount
        elif way == ("slow", "a slow link"):
            link.rate = 4000 + 20_000 * fault.amount
        elif way == ("slow", "a stalled one"):
            link.stalled = True

    def _kill(self, fault: Fault) -> None:
        self.nodes[fault.client].kill()
        self.nodes[fault.client].join()
        self.struck.add(fault.number)
        self.start(fault.client)

    @staticmethod
    def _bytes(fault: Fault) -> int:
        return 1 + int(3000 * fault.amount)

    @staticmethod
    def _limits(short: dict[str, float]) -> Limits:
        return Limits(**{"chunk": 1024, "away": WAIT, "answer": WAIT, "retry": WAIT, **short})

    def settle(self) -> None:
        """Mend what the round did, but for what it did to the run."""
        for timer in self.timers:
            timer.join()
        self.timers.clear()
        for fault in self.faults:
            link = self.links[fault.client]
            if fault.round == self.round and link.struck:
                self.struck.add(fault.number)
        for client, link in self.links.items():
            link.clear()
            if not self.nodes[client].is_alive() and self.round < ROUNDS:
                self.nodes[client].join()
                self.start(client)
        self.struck |= {int(path.name) for path in self.trail.iterdir() if path.name.isdigit()}

    def end(self) -> None:
        """Nothing of it is left."""
        self.round = ROUNDS
        self.settle()
        for process in self.nodes.values():
            process.join(0.2)
            process.kill()
            process.join()
            process.close()
        for link in self.links.values():
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


def play(seed: int, number: int, folder: Path) -> Outcome:
    """Play one run of a campaign, in an empty folder of its own."""
    own = experiment(seed, number)
    fleet = Fleet(folder / "site", drawn(seed, number, ROUNDS, CLIENTS))
    fleet.found(own)
    outcome, ran = Outcome(), [Run(folder)][:0]

    def serve() -> None:
        with mock.patch.object(serving, "RemoteLearner", functools.partial(Watched, fleet)):
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
    must = {(fault.round, fault.client): fault for fault in outcome.faults if fault.loses}
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
    try:
        same_runs(ran, without(own, folder / "simulated", lost, fleet.away))
    except AssertionError as error:
        outcome.findings.append(
            f"another run than without {sorted(lost)}: {' '.join(str(error).split())[:300]}"
        )
