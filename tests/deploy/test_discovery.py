"""The server found on the local network: an address, which proves nothing; who it is, its certificate says."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("grpc")
pytest.importorskip("cryptography")
pytest.importorskip("zeroconf")

import zeroconf

from fedroam.cli import main
from fedroam.deploy import discovery
from fedroam.deploy.connections import unreachable
from fedroam.deploy.discovery import KIND, MOST, announced, found, heard, instance
from fedroam.deploy.node.process import Node
from fedroam.deploy.site.file import FILE, Site, SiteNode, checked_movement, read_site
from fedroam.deploy.site.founding import found_site
from fedroam.errors import FedroamError
from fedroam.recording import Run
from fedroam.runner import run
from support.losing import same_runs
from support.sites import LocalSite, free_port, states
from support.tiny import tiny
from support.waiting import HANGS

HERE = ("127.0.0.1",)  # the loopback alone: nothing of a test goes on a network
LONG = 60.0  # seconds for an answer that will come, however busy the machine is
EXPERIMENT = tiny(federation="fedavg", clients=2, rounds=2, evaluate_every=1)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return found_site(tmp_path / "lab", EXPERIMENT, address="127.0.0.1:1")


@pytest.fixture
def liar(site: Site) -> Iterator[zeroconf.Zeroconf]:
    """Somebody else on the network, who may say anything."""
    speaking = zeroconf.Zeroconf(interfaces=list(HERE))
    yield speaking
    speaking.close()


def says(liar: zeroconf.Zeroconf, site: Site, port: int, addresses: list[str]) -> None:
    liar.register_service(
        zeroconf.ServiceInfo(
            KIND, instance(site), port=port, parsed_addresses=addresses, server="liar.local."
        )
    )


def test_what_is_announced_is_found_and_nothing_else(site: Site, tmp_path: Path) -> None:
    other = found_site(tmp_path / "other", EXPERIMENT, address="127.0.0.1:1")
    assert other.name == site.name
    assert found(site, HERE, 0.5) == []
    told: list[str] = []
    with announced(site, "127.0.0.1:0", 5123, told.append, HERE):
        assert found(site, HERE, LONG) == ["127.0.0.1:5123"]
        assert found(other, HERE, 0.5) == [], "a site of the same name is another one"
        assert told == []
        with announced(site, "127.0.0.1:0", 5124, told.append, HERE, patience=LONG):
            assert told == ["server: somebody else is announced on the local network by its name"]
            assert found(site, HERE, LONG) == ["127.0.0.1:5123"]
    assert found(site, HERE, 0.5) == []


def test_a_name_is_announced_by_its_addresses(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def known(host: str, *_: object, **__: object) -> list[tuple[object, ...]]:
        assert host == "computer"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.7", 0))]

    with monkeypatch.context() as here:
        here.setattr("fedroam.deploy.connections.socket.getaddrinfo", known)
        service = discovery._service(site, None, "computer:50061", 50061)
    assert service.parsed_addresses() == ["192.0.2.7"]
    assert discovery._service(site, None, "192.0.2.8:1", 1).parsed_addresses() == ["192.0.2.8"]


@pytest.mark.parametrize(
    ("host", "found", "told"),
    [
        ("computer", ["127.0.1.1"], "127.0.1.1"),
        ("computer", ["::1", "127.0.1.1"], "127.0.1.1"),
        ("computer", ["127.0.1.1", "192.0.2.7"], ""),
        ("computer", [], ""),
        ("127.0.0.1", ["127.0.0.1"], ""),
        ("localhost", ["127.0.0.1"], ""),
    ],
)
def test_a_name_that_no_other_machine_finds_is_known(
    host: str, found: list[str], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Debian has it in /etc/hosts, a machine's own name is 127.0.1.1."""
    places = [(0, 0, 0, "", (each, 0)) for each in found]
    monkeypatch.setattr("fedroam.deploy.connections.socket.getaddrinfo", lambda *_, **__: places)
    assert unreachable(host) == told


def test_names_are_short_enough_for_any_site(tmp_path: Path) -> None:
    site = found_site(tmp_path / "lab", EXPERIMENT, address="127.0.0.1:1", name="a" * 40)
    assert len(instance(site).partition(".")[0]) <= 63
    told: list[str] = []
    with announced(site, "127.0.0.1:0", 5123, told.append, HERE):
        assert found(site, HERE, LONG) == ["127.0.0.1:5123"]


def test_who_tells_of_many_addresses_is_heard_in_part(site: Site, liar: zeroconf.Zeroconf) -> None:
    says(liar, site, 5125, [f"10.0.0.{k}" for k in range(1, 40)] + ["fd00::1"])
    heard = found(site, HERE, LONG)
    assert len(heard) == MOST
    assert heard[0] == "10.0.0.1:5125"


def test_what_listens_everywhere_is_announced_where_others_reach_it(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[list[str]] = []
    lines: list[str] = []

    class Silent:
        def __init__(self, **options: object) -> None:
            pass

        def register_service(self, info: zeroconf.ServiceInfo) -> None:
            told.append(info.parsed_addresses())

        def close(self) -> None:
            pass

    monkeypatch.setattr(discovery, "Zeroconf", Silent)
    monkeypatch.setattr(discovery, "_outward", lambda: ["192.168.1.10", "fd00::1"])
    for address in ("[::]:50061", "0.0.0.0:50061", "10.1.2.3:50061"):
        with announced(site, address, 50061, lines.append):
            pass
    assert lines == []
    assert told == [["192.168.1.10", "fd00::1"], ["192.168.1.10", "fd00::1"], ["10.1.2.3"]]
    with announced(site, "x y:1", 1, lines.append):
        (line,) = lines
    assert line.startswith("server: the local network cannot be told of 'x y:1'")


def test_nodes_find_a_server_that_their_site_has_elsewhere_and_no_liar(
    tmp_path: Path,
) -> None:
    """The address in site.toml leads nowhere, and one that is told leads to who is not the server."""
    local = LocalSite.new(tmp_path / "site", EXPERIMENT)
    site = read_site(local.folder / FILE)
    nowhere = free_port()
    tried = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as trap:
        trap.settimeout(300.0)

        def fall() -> None:
            """Who answers anything hangs up, and has heard nothing that it can read."""
            while True:
                try:
                    caller, _ = trap.accept()
                except OSError:
                    return
                with caller:
                    heard.append(caller.recv(4096))
                tried.set()

        heard: list[bytes] = []
        threading.Thread(target=fall, daemon=True).start()

        def seek(node: Node) -> None:
            node.find = lambda: [f"127.0.0.1:{trap.getsockname()[1]}", *found(site, HERE, LONG)]

        heard_of: list[str] = []
        with contextlib.ExitStack() as announcing:

            def link(port: int) -> int:
                announcing.enter_context(announced(site, "127.0.0.1:0", port, heard_of.append, HERE))
                return nowhere  # which is what site.toml says

            network = local.run(tmp_path / "network", dict.fromkeys((0, 1), seek), link=link)
    assert tried.is_set()
    assert heard_of == []
    assert all(body[:1] == b"\x16" for body in heard if body), "a TLS handshake, and no more"
    same_runs(network, run(EXPERIMENT, tmp_path / "simulated"))


def test_the_commands_announce_and_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    local = LocalSite.new(tmp_path / "site", EXPERIMENT, retry=0.0, away=0.0)
    local.at(free_port())
    path, told = str(local.folder / FILE), []

    @contextlib.contextmanager
    def announced(site: Site, address: str, port: int, tell: Callable[[str], None]) -> Iterator[None]:
        told.append((site.server.serial, address, port > 0))
        yield
        told.append("over")

    monkeypatch.setattr(discovery, "announced", announced)
    site = read_site(local.folder / FILE)
    words = ["deploy", "--site", path, "--out", str(tmp_path / "run"), "--patience", "0", "--quiet"]
    assert main([*words, "--address", "127.0.0.1:0", "--announce"]) == 0
    assert told == [(site.server.serial, "127.0.0.1:0", True), "over"]
    site.model_copy(update={"limits": site.limits.model_copy(update={"retry": HANGS})}).write(local.folder)

    def looked_for(site: Site) -> list[str]:
        raise FedroamError("looked for it")

    monkeypatch.setattr(discovery, "found", looked_for)
    assert main(["node", "--site", path, "--name", "client-00", "--discover", "--quiet"]) == 1
    assert "looked for it" in capsys.readouterr().err


# --- peers ----------------------------------------------------------------------------------------------------------

PEERS = tiny(
    contacts={"kind": "radius", "radius": float("inf")},
    clients=3,
    rounds=2,
    evaluate_every=1,
    mobility="static",
)


def peers(folder: Path, **how: Any) -> LocalSite:
    """how: a minute for each ping, by default, as all answer."""
    local = LocalSite.new(folder, PEERS)
    found = read_site(local.folder / FILE)
    told = {"by": "discovery", "patience": 60.0, **how}
    found.model_copy(update={"movement": checked_movement(told, "test")}).write(local.folder)
    return local


SOME_SILENT = {"patience": 10.0, "pings": 1}  # where somebody does not answer, that is waited for


def here(node: Node) -> None:
    node.on_the_network(HERE, LONG)


def met(network: Run) -> dict[int, list[tuple[int, int]]]:
    found: dict[int, list[tuple[int, int]]] = {t: [] for t in range(PEERS.rounds + 1)}
    for t, i, j in network.contacts[["round", "i", "j"]].itertuples(index=False):
        found[t].append((i, j))
    return found


def test_peers_that_are_found_are_in_contact(tmp_path: Path) -> None:
    local = peers(tmp_path / "site")
    network = local.run(tmp_path / "network", dict.fromkeys(range(3), here))
    assert local.lines == local.heard == []
    everybody = [(0, 1), (0, 2), (1, 2)]
    assert met(network) == dict.fromkeys(range(3), everybody)
    site = read_site(local.folder / FILE)
    where = {local.nodes[0].neighbours.found[k] for k in (1, 2)}  # type: ignore[union-attr]
    assert where == {f"127.0.0.1:{local.nodes[k].hello.port}" for k in (1, 2)}
    # That is what a simulation has in which all meet; where they stand differs.
    simulated = run(PEERS, tmp_path / "simulated")
    for (_, one), (_, other) in zip(states(network), states(simulated), strict=True):
        for name in ("models.parameters", "bytes_sent"):
            assert (one[name] == other[name]).all()
    assert found_again(site) == [[], [], []], "who is gone is not found"


def found_again(site: Site) -> list[list[str]]:
    return heard(site, [*site.clients.values()], HERE, 0.5)


def test_a_stranger_who_takes_a_name_keeps_its_peer_alone_and_no_more(
    tmp_path: Path, liar: zeroconf.Zeroconf
) -> None:
    local = peers(tmp_path / "site", **SOME_SILENT)
    site = read_site(local.folder / FILE)
    name = instance(site, site.clients[2])
    liar.register_service(
        zeroconf.ServiceInfo(
            KIND, name, port=free_port(), parsed_addresses=["127.0.0.1"], server="liar.local."
        )
    )

    def robbed(node: Node) -> None:
        here(node)
        own = node.site.node(node.name)
        node.announce = lambda address, port: announced(
            node.site, address, port, node.tell, HERE, own, patience=LONG
        )

    network = local.run(tmp_path / "network", {0: here, 1: here, 2: robbed})
    assert local.heard == ["peer-02: peer-02: somebody else is announced on the local network by its name"]
    assert all(pairs == [(0, 1)] for pairs in met(network).values())


def test_who_is_not_found_or_is_another_is_no_contact(tmp_path: Path, liar: zeroconf.Zeroconf) -> None:
    """Peer 2 does not tell where it is; a liar does, and leads to peer 1's door, which is not peer 2."""
    local = peers(tmp_path / "site", **SOME_SILENT)
    site = read_site(local.folder / FILE)
    told = threading.Event()

    def silent(node: Node) -> None:
        here(node)
        node.announce = lambda address, port: contextlib.nullcontext()

    def misled(node: Node) -> None:
        here(node)
        honest = node.search

        def search(nodes: Sequence[SiteNode]) -> Mapping[int, Sequence[str]]:
            if not told.is_set():
                told.set()
                port = local.nodes[1].hello.port
                liar.register_service(
                    zeroconf.ServiceInfo(
                        KIND,
                        instance(site, site.clients[2]),
                        port=port,
                        parsed_addresses=["127.0.0.1"],
                        server="liar.local.",
                    )
                )
            found = honest(nodes)
            trapped.append(2 in found and bool(found[2]))
            return found

        node.search = search

    trapped: list[bool] = []
    network = local.run(tmp_path / "network", {0: misled, 1: here, 2: silent})
    assert any(trapped), "peer 0 was told of a door that is said to be peer 2's"
    assert all(pairs == [(0, 1)] for pairs in met(network).values())
    assert network.rounds["active"].tolist() == [0, 3, 3]
