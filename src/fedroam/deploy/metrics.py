"""What a node or the server tells Prometheus while it runs: pages of numbers for whoever asks at its port."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from fedroam.deploy.node.process import Node
from fedroam.deploy.server.hub import Hub
from fedroam.devices.meters import What
from fedroam.errors import InputError, MissingExtraError
from fedroam.measurement import Measurement

try:
    from prometheus_client import CollectorRegistry, Counter, Gauge, ProcessCollector, start_http_server
except ImportError:
    raise MissingExtraError("metrics for Prometheus", "deploy") from None

LOOPBACK = "127.0.0.1"


def address_of(text: str) -> tuple[str, int]:
    """Where metrics are served, from PORT or HOST:PORT; loopback where no host is named. Raises InputError."""
    host, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or not 0 <= int(port) <= 65_535:
        raise InputError(f"--metrics {text!r}: allowed are PORT, and HOST:PORT to be reached from elsewhere")
    return host.strip("[]") or LOOPBACK, int(port)


@contextlib.contextmanager
def _served(address: str, registry: Any) -> Iterator[int]:
    """Within it the numbers are at an address; the port. Raises InputError where that cannot be."""
    host, port = address_of(address)
    ProcessCollector(registry=registry)
    try:
        server, thread = start_http_server(port, addr=host, registry=registry)
    except OSError as error:
        raise InputError(f"--metrics {address!r}: cannot be served at ({error.strerror or error})") from None
    try:
        yield int(server.server_port)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextlib.contextmanager
def node_metrics(node: Node, address: str) -> Iterator[int]:
    """Within it a node's numbers are at an address (PORT or HOST:PORT); the port. Raises InputError where that cannot
    be."""
    registry = CollectorRegistry()
    labels = {"node": node.name}
    round_ = Gauge("fedroam_node_round", "Round of the last order.", ["node"], registry=registry)
    work = Counter("fedroam_node_work", "Pieces of work, by kind.", ["node", "what"], registry=registry)
    seconds = Counter("fedroam_node_work_seconds", "Time spent on them.", ["node", "what"], registry=registry)
    lines = Counter("fedroam_node_lines", "Lines of its log: what went wrong.", ["node"], registry=registry)
    round_.labels(**labels).set(0)
    lines.labels(**labels)
    before, tell = node.during, node.tell

    @contextlib.contextmanager
    def during(what: What, round: int) -> Iterator[None]:
        round_.labels(**labels).set(round)
        began = time.monotonic()
        try:
            with before(what, round):
                yield
        finally:
            work.labels(what=what, **labels).inc()
            seconds.labels(what=what, **labels).inc(time.monotonic() - began)

    def told(line: str) -> None:
        lines.labels(**labels).inc()
        tell(line)

    observed: Callable[[What, int], AbstractContextManager[None]] = during
    node.during, node.tell = observed, told
    with _served(address, registry) as port:
        yield port


class ServerMetrics:
    """The server's numbers: which round, who attends, how accurate the models are, what went wrong."""

    def __init__(self, hub: Hub) -> None:
        self.registry, self.port = CollectorRegistry(), 0
        self._round = Gauge("fedroam_round", "The last round that is over.", registry=self.registry)
        self._rounds = Gauge("fedroam_rounds", "Rounds of the run.", registry=self.registry)
        self._accuracy = Gauge("fedroam_accuracy", "Accuracy when last measured.", registry=self.registry)
        self._nodes = Gauge("fedroam_nodes", "Nodes of the site.", registry=self.registry)
        self._attending = Gauge("fedroam_nodes_attending", "Nodes that attend now.", registry=self.registry)
        self._lines = Counter("fedroam_lines", "Lines of the log: what went wrong.", registry=self.registry)
        self._nodes.set_function(lambda: len(hub.hellos))
        self._attending.set_function(lambda: len(hub.hellos) - len(hub.missing()))

    def observe(self, round: int, rounds: int, measurement: Measurement | None) -> None:
        """A round is over."""
        self._round.set(round)
        self._rounds.set(rounds)
        if measurement is not None:
            self._accuracy.set(measurement.numbers["accuracy"])

    def told(self, line: str) -> None:
        """A line of the log."""
        self._lines.inc()


@contextlib.contextmanager
def server_metrics(hub: Hub, address: str) -> Iterator[ServerMetrics]:
    """Within it the numbers of the server are at an address (PORT or HOST:PORT). Raises InputError where that cannot
    be."""
    found = ServerMetrics(hub)
    with _served(address, found.registry) as found.port:
        yield found
