"""Sites on this machine: a server and its nodes, as threads of the test, over real connections."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fedroam.deploy.node.process import Node, node_of
from fedroam.deploy.server.serving import serve
from fedroam.deploy.site.file import FILE, Limits, read_site
from fedroam.deploy.site.founding import found_site
from fedroam.experiment import Experiment
from fedroam.recording import Run
from fedroam.recording.checkpoint import kept, load
from support.waiting import HANGS


@dataclass
class LocalSite:
    """A site in a folder of its own, its nodes as threads, by the number of the holder that each is. lines: what the
    server told; heard: what nodes did."""

    folder: Path
    experiment: Experiment
    lines: list[str] = field(default_factory=list)
    heard: list[str] = field(default_factory=list)
    nodes: dict[int, Node] = field(default_factory=dict)
    ended: dict[int, BaseException | None] = field(default_factory=dict)
    threads: dict[int, threading.Thread] = field(default_factory=dict)

    @classmethod
    def new(
        cls,
        folder: Path,
        experiment: Experiment,
        *,
        relayed: bool = False,
        paced: bool = False,
        **limits: Any,
    ) -> LocalSite:
        found_site(
            folder,
            experiment,
            address="127.0.0.1:1",
            limits=Limits(**limits),
            relayed=relayed,
            listening="127.0.0.1:0",
            paced=paced,
        )
        return cls(folder, experiment)

    def at(self, port: int) -> None:
        """From now on the site says that the server listens at this port."""
        site = read_site(self.folder / FILE)
        site.model_copy(update={"address": f"127.0.0.1:{port}"}).write(self.folder)

    def start(self, client: int, change: Callable[[Node], object] = lambda node: None) -> None:
        """Let a node attend."""
        name = read_site(self.folder / FILE).holders[client].name
        node = node_of(self.folder, name, lambda line: self.heard.append(f"{name}: {line}"))
        change(node)
        self.nodes[client] = node

        def live() -> None:
            try:
                node.run()
                self.ended[client] = None
            except BaseException as error:
                self.ended[client] = error
            finally:
                node.close()

        self.threads[client] = threading.Thread(target=live, name=name, daemon=True)
        self.threads[client].start()

    def end(self) -> None:
        """End all nodes."""
        for node in self.nodes.values():
            node.stop()
        for thread in self.threads.values():
            thread.join(HANGS)

    def run(
        self,
        out: Path,
        changes: Mapping[int, Callable[[Node], object]] | None = None,
        clients: list[int] | None = None,
        link: Callable[[int], int] = lambda port: port,
        **options: Any,
    ) -> Run:
        """Run the experiment with nodes of these clients and access points, all by default.

        changes: what is done to some nodes. link: the port that nodes dial, in place of the server's.
        """

        def listening(port: int) -> None:
            self.at(link(port))
            for client in read_site(self.folder / FILE).holders if clients is None else clients:
                self.start(client, (changes or {}).get(client, lambda node: None))

        try:
            return serve(
                self.folder, out, address="127.0.0.1:0", tell=self.lines.append, listening=listening,
                **{"patience": HANGS, **options},
            )  # fmt: skip
        finally:
            self.end()


def states(run: Run) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
    """The states that a run kept, by round."""
    for path in kept(run.folder / "checkpoints"):
        found = load(path, run.status["digest"])
        yield found.round, found.arrays


def same_states(a: Run, b: Run) -> None:
    """Fail where two runs' last states differ in a bit."""
    one, other = dict(states(a)), dict(states(b))
    assert one.keys() == other.keys()
    for t in one:
        assert one[t].keys() == other[t].keys()
        for name in one[t]:
            np.testing.assert_array_equal(one[t][name], other[t][name], err_msg=f"round {t}: {name}")


@contextlib.contextmanager
def living(site: LocalSite) -> Iterator[LocalSite]:
    """Whatever happens, the nodes end."""
    try:
        yield site
    finally:
        site.end()


# Ports below those that a system gives to whoever dials or asks for any (Linux: from 32,768 on, where nobody has set
# another range). One of these may be given away between being found free and being listened at; a node that dials it
# may even be given it itself, and is then connected with itself. Each test program begins elsewhere.
FIRST = 10_000 + os.getpid() * 97 % 22_000
PORTS = itertools.cycle([*range(FIRST, 32_000), *range(10_000, FIRST)])


def free_port() -> int:
    """A port of this machine that nobody listens at."""
    while True:
        port = next(PORTS)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
