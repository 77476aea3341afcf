"""Numbers for Prometheus: those of the run, at this machine alone unless somebody says otherwise."""

from __future__ import annotations

import contextlib
import socket
import urllib.request
from pathlib import Path

import pytest

pytest.importorskip("grpc")
pytest.importorskip("prometheus_client")

from prometheus_client.parser import text_string_to_metric_families

from fedroam.deploy.metrics import ServerMetrics, address_of, node_metrics, server_metrics
from fedroam.deploy.node.process import Node
from fedroam.deploy.server.hub import Hub
from fedroam.errors import InputError
from fedroam.measurement import Measurement
from support.sites import LocalSite
from support.tiny import tiny
from support.waiting import HANGS


def numbers(port: int) -> dict[tuple[str, str], float]:
    """What a page says: by name and what it is about."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=HANGS) as page:
        text = page.read().decode()
    return {
        (sample.name, sample.labels.get("what", "")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_a_node_and_a_server_tell_what_they_have_done(tmp_path: Path) -> None:
    experiment = tiny(evaluate_every=1, test_share=0.0, federation="fedavg", clients=2, rounds=3)
    site, beside = LocalSite.new(tmp_path / "site", experiment), contextlib.ExitStack()
    ports: list[int] = []
    seen: list[dict[tuple[str, str], float]] = []
    served: list[ServerMetrics] = []

    def measured(node: Node) -> None:
        node.tell("a line")
        ports.append(beside.enter_context(node_metrics(node, "0")))
        node.tell("another line")

    def follow(hub: Hub) -> None:
        served.append(beside.enter_context(server_metrics(hub, "0")))

    def observe(round: int, rounds: int, measurement: Measurement | None) -> None:
        served[0].observe(round, rounds, measurement)
        seen.append(numbers(served[0].port))

    with beside:
        network = site.run(tmp_path / "network", {1: measured}, observer=observe, serving=follow)
        found = numbers(ports[0])
    assert found["fedroam_node_round", ""] == 3
    assert found["fedroam_node_work_total", "training"] == 3
    assert found["fedroam_node_work_seconds_total", "training"] > 0
    assert found["fedroam_node_work_total", "communication"] >= 6, "orders come, and answers go"
    assert found["fedroam_node_lines_total", ""] == 1
    assert found["process_resident_memory_bytes", ""] > 1e6
    assert [each["fedroam_round", ""] for each in seen] == [0, 1, 2, 3]
    assert {each["fedroam_rounds", ""] for each in seen} == {3}
    assert {(each["fedroam_nodes", ""], each["fedroam_nodes_attending", ""]) for each in seen} == {(2, 2)}
    assert [each["fedroam_accuracy", ""] for each in seen] == pytest.approx(
        network.rounds["accuracy"].tolist()
    )
    for port in (ports[0], served[0].port):
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", port), timeout=HANGS)


@pytest.mark.parametrize(
    ("text", "found"),
    [("9100", ("127.0.0.1", 9100)), ("0.0.0.0:9100", ("0.0.0.0", 9100)), ("[::]:9100", ("::", 9100))],
)
def test_numbers_are_for_this_machine_unless_a_host_is_named(text: str, found: tuple[str, int]) -> None:
    assert address_of(text) == found


@pytest.mark.parametrize("text", ["", "port", "65536", "host:", "-1", "١٢"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"--metrics .*allowed are PORT"):
        address_of(text)


def test_a_port_that_is_taken_is_told(tmp_path: Path) -> None:
    site = LocalSite.new(tmp_path / "site", tiny(federation="fedavg", clients=2))
    from fedroam.deploy.node.process import node_of

    node = node_of(site.folder, "client-00", lambda line: None)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with (
            pytest.raises(InputError, match=f"--metrics '{port}': cannot be served at"),
            node_metrics(node, str(port)),
        ):
            pass
    node.close()
