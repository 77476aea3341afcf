"""Devices are where they are answered: at the access point that answers quickest, in contact with peers that answer."""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("grpc")
pytest.importorskip("cryptography")

from fedroam.cli import main
from fedroam.deploy.messages import NO_ORDER, Order, Refused
from fedroam.deploy.node import looking
from fedroam.deploy.node.looking import beacons, look, plain_host, scanned, signals
from fedroam.deploy.node.neighbours import Listener, Neighbours
from fedroam.deploy.node.process import node_of
from fedroam.deploy.server import sight
from fedroam.deploy.server.sight import Turning, replay
from fedroam.deploy.site.file import FILE, Movement, checked_movement, read_site
from fedroam.errors import FedroamError, InputError
from fedroam.experiment import Experiment
from fedroam.recording import Run, open_run
from fedroam.recording.looks import LOOKS, note_looks, read_looks
from fedroam.runner import run
from fedroam.traces import read_trace
from support.losing import same_movement, same_runs
from support.sites import LocalSite, free_port
from support.tiny import same_tables, tiny

EVERY = {"evaluate_every": 1, "test_share": 0.0, "clients": 3, "rounds": 5, "mobility": "static"}
TWO = {"kind": "grid", "columns": 2, "rows": 1}
MOHAWK = tiny(**EVERY, federation={"kind": "mohawk", "k2": 2}, access_points=TWO)
PEERS = tiny(**EVERY, contacts={"kind": "radius", "radius": float("inf")})
FIRST, SECOND = -2, -3  # the two access points, as holders
Slow = Callable[[int, int, int], float | None]


def site_of(folder: Path, experiment: Experiment, by: str = "answers", **how: Any) -> LocalSite:
    site = LocalSite.new(folder, experiment, away=0.5)
    told = checked_movement({"by": by, "pings": 1, "patience": 60.0, **how}, "test")
    found = read_site(site.folder / FILE)
    found.model_copy(update={"movement": told}).write(site.folder)
    return site


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Callable[[Slow], None]:
    """Sets how long who takes to answer whom in which round, s, whatever this machine takes; None for no answer. Who
    does not answer at all is never made to."""

    def apply(seconds: Slow) -> None:
        honest = looking._asked

        def asked(
            own: Neighbours, addresses: Any, *rest: Any
        ) -> tuple[dict[int, str], dict[int, list[float]]]:
            at, took = honest(own, addresses, *rest)
            told = {end: seconds(own.holding.number, end, own.holding.round) for end in took}
            kept = {end: [value] for end, value in told.items() if value is not None}
            return {end: at[end] for end in kept}, kept

        monkeypatch.setattr(looking, "_asked", asked)

    return apply


def belongs(network: Run) -> list[list[int]]:
    """By round, the access point of each device, -1 for none."""
    names = [f"client-{i:02d}" for i in range(3)]
    numbers = {"": -1, "access-point-00": 0, "access-point-01": 1}
    found = read_looks(network.folder / LOOKS)
    return [[numbers[each.belongs.get(name, "")] for name in names] for each in found.values()]


# --- the rule ---------------------------------------------------------------------------------------------------


def turned(rows: list[list[float]], rule: Movement, signal: list[list[float]] | None = None) -> list[int]:
    """The access point of one device after each look, -1 while it is away."""
    now, found = Turning.nowhere(1), []
    for k, row in enumerate(rows):
        level = np.array([signal[k]]) if signal else np.full((1, len(row)), np.nan)
        now = now.after(np.array([row]), level, rule)
        found.append(int(now.near[0]) if now.present[0] else -1)
    return found


N = float("nan")


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ([[2, 1], [2, 1]], [1, 1]),
        # 30 % quicker is 0.7 of 1: once is noise, twice in succession is not.
        ([[1, 2], [1, 0.7], [1, 0.7]], [0, 0, 1]),
        ([[1, 2], [1, 0.71], [1, 0.71], [1, 0.71]], [0, 0, 0, 0]),
        ([[1, 2], [1, 0.5], [1, 0.9], [1, 0.5], [1, 0.5]], [0, 0, 0, 0, 1]),
        # Two that take turns in being quicker are not one that is quicker twice.
        ([[1, 2, 2], [1, 0.5, 0.6], [1, 0.6, 0.5], [1, 0.6, 0.5]], [0, 0, 0, 2]),
        # Its own one does not answer: at once, and it is not kept in mind.
        ([[1, 2], [N, 2], [1, 2], [1, 2]], [0, 1, 1, 0]),
        # Away, and back: it begins where it was, and counts anew.
        ([[1, 2], [1, 0.5], [N, N], [1, 0.5], [1, 0.5]], [0, 0, -1, 0, 1]),
        ([[N, N], [N, N]], [-1, -1]),
    ],
)
def test_a_device_turns_to_what_is_quicker_for_long(rows: list[list[float]], found: list[int]) -> None:
    assert turned(rows, Movement(by="answers")) == found


def test_how_much_quicker_and_for_how_long_are_options() -> None:
    rows = [[1.0, 2.0], [1.0, 0.85], [1.0, 0.85], [1.0, 0.85]]
    assert turned(rows, Movement(by="answers", quicker=0.1, times=3)) == [0, 0, 0, 1]
    assert turned(rows, Movement(by="answers", quicker=0.1, times=1)) == [0, 1, 1, 1]
    with pytest.raises(InputError, match=re.escape("site.toml: quicker = 1.5")):
        checked_movement({"by": "answers", "quicker": 1.5}, "site.toml")


def test_by_signal_a_device_is_at_the_one_that_it_has_joined_if_that_answers() -> None:
    rule = Movement(by="signal")
    level = [[N, -60.0], [N, -80.0], [-50.0, N], [N, N], [N, N]]
    rows = [[1.0, 9.0], [1.0, N], [9.0, 1.0], [9.0, 1.0], [9.0, 1.0]]
    assert turned(rows, rule, level) == [1, 0, 0, 0, 1]
    assert turned(rows, Movement(by="answers"), level)[0] == 0, "only where the site says so"


def test_no_device_wanders_by_noise() -> None:
    """Answers of equal access points, a third of them delayed by anything, move nobody in a thousand rounds but a few
    times: two independent outliers of one kind in succession are rare, and medians of five rarer."""
    draws = np.random.default_rng(7)
    single = 0.001 * (1 + 0.1 * draws.random((1000, 20, 2, 5))) + 0.01 * (
        draws.random((1000, 20, 2, 5)) < 0.1
    )
    now, moves = Turning.nowhere(20), 0
    nothing = np.full((20, 2), np.nan)
    for row in np.median(single, axis=3):
        after = now.after(row, nothing, Movement(by="answers"))
        moves += int((after.near != now.near).sum())
        now = after
    assert moves <= 20 + 20, (
        "each chooses once; P(median of 5 delayed) = 0.0086, twice: 7e-5 a round and device"
    )


def simulated_again(site: LocalSite, network: Run, out: Path, told: Callable[[], str]) -> Run:
    """By the command that the end of `fedroam deploy` tells; its states and tables are those of the network."""
    words = ["--site", str(site.folder / FILE), "--out", str(network.folder), "--resume"]
    assert main(["deploy", *words]) == 0, "it is done, and says how it is simulated"
    (command,) = re.findall(r"the same movement, simulated: (.*)", told().replace("\n", ""))
    assert main([*shlex.split(command)[1:], "--out", str(out), "--quiet", "--no-report"]) == 0
    again = open_run(out / "seed-0")
    assert again.where == "simulation"
    same_movement(network, again)
    return again


# --- on a network -------------------------------------------------------------------------------------------------


def wandering(client: int, door: int, round: int) -> float:
    """The first access point is the quicker one for clients 0 and 1; from round 2 on it is slow for client 0."""
    near = SECOND if client == 2 or (client == 0 and round >= 2) else FIRST
    return 0.001 if door == near else 0.1


def test_a_device_wanders_when_its_access_point_slows_and_a_simulation_replays_it(
    tmp_path: Path, slow: Callable[[Slow], None], capsys: pytest.CaptureFixture[str]
) -> None:
    slow(wandering)
    site = site_of(tmp_path / "site", MOHAWK)
    network = site.run(tmp_path / "network")
    assert site.lines == site.heard == []
    assert belongs(network) == [[0, 0, 1], [0, 0, 1], [0, 0, 1], [1, 0, 1], [1, 0, 1], [1, 0, 1]]
    assert network.world["movement"] == "answers"
    assert network.where == "network, movement by answers"
    trace = read_trace(network.folder / "movement" / sight.TRACE)
    assert trace.names == ("client-00", "client-01", "client-02")
    assert trace.venues == ("access-point-00", "access-point-01")
    simulated_again(site, network, tmp_path / "simulated", lambda: capsys.readouterr().out)


def test_doors_that_hold_back_are_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Measured in earnest: one door answers after two seconds, for whoever asks it."""
    honest = Listener._ping

    async def ping(own: Listener, request: bytes, context: Any) -> bytes:
        found = await honest(own, request, context)
        await asyncio.sleep(2.0 if own._holding.number == FIRST else 0.0)
        return found

    monkeypatch.setattr(Listener, "_ping", ping)
    site = site_of(tmp_path / "site", MOHAWK.replace(rounds=1), pings=3)
    network = site.run(tmp_path / "network")
    assert belongs(network) == [[1, 1, 1], [1, 1, 1]]
    (looked, _) = read_looks(network.folder / LOOKS).values()
    assert all(row["access-point-00"] >= 2.0 for row in looked.seconds.values())


def test_whom_no_access_point_answers_is_away(tmp_path: Path, slow: Callable[[Slow], None]) -> None:
    """In rounds 2 and 3 client 0 hears nobody: it gets no model then, and its update waits until it is back."""
    slow(lambda client, door, round: None if client == 0 and round in (2, 3) else wandering(1, door, round))
    site = site_of(tmp_path / "site", MOHAWK)
    network = site.run(tmp_path / "network")
    assert belongs(network) == [[0, 0, 0], [0, 0, 0], [-1, 0, 0], [-1, 0, 0], [0, 0, 0], [0, 0, 0]]
    present = network.positions.pivot(index="round", columns="client", values="present")[0]
    assert present.tolist() == [True, True, False, False, True, True]
    assert network.rounds["active"].tolist() == [0, 3, 3, 2, 2, 3]
    same_tables(
        *(
            {"rounds": each.rounds}
            for each in (
                network,
                run(MOHAWK.replace(**replay(network.folder, MOHAWK)), tmp_path / "again"),
            )
        )
    )


def test_where_all_doors_are_dead_everybody_is_away_and_the_run_goes_on(tmp_path: Path) -> None:
    site = site_of(tmp_path / "site", MOHAWK.replace(rounds=2), patience=0.5)
    network = site.run(tmp_path / "network", clients=[0, 1, 2], patience=1.0)
    assert network.done
    assert network.rounds["active"].tolist() == [0, 0, 0]
    assert belongs(network) == [[-1, -1, -1]] * 3
    assert "no device was ever there: no trace of where all were is kept" in site.lines
    assert not (network.folder / "movement" / sight.TRACE).exists()


def test_an_access_point_that_dies_is_left_at_once(tmp_path: Path, slow: Callable[[Slow], None]) -> None:
    slow(wandering)
    site = site_of(tmp_path / "site", MOHAWK, patience=10.0)

    def ending(round: int, rounds: int, measured: object) -> None:
        if round == 2:
            site.nodes[SECOND].stop()
            site.threads[SECOND].join()

    network = site.run(tmp_path / "network", observer=ending)
    assert network.done
    found = belongs(network)
    assert found[2] == [0, 0, 1]
    assert found[3:] == [[0, 0, 0]] * 3, "client 0 would have gone there, and client 2 was there"


def test_a_server_that_is_begun_anew_goes_on_with_what_was_found(
    tmp_path: Path, slow: Callable[[Slow], None]
) -> None:
    """Also within the two rounds in which a device makes up its mind; what had been found is not asked for again."""
    slow(wandering)
    experiment = MOHAWK.replace(checkpoint_every=2)
    whole = site_of(tmp_path / "whole", experiment).run(tmp_path / "uninterrupted")
    site = site_of(tmp_path / "site", experiment)

    def broken(round: int, rounds: int, measured: object) -> None:
        if round == 3:  # the newest checkpoint is that of round 2
            raise FedroamError("broken off")

    with pytest.raises(FedroamError, match="broken off"):
        site.run(tmp_path / "network", observer=broken)
    slow(lambda client, door, round: wandering(client, door, round) if round > 3 else 9.0)
    with pytest.raises(
        InputError, match="was begun with movement by 'answers', and would go on with the movement of"
    ):
        run(experiment, tmp_path / "network", existing="resume")
    network = site.run(tmp_path / "network", existing="resume")
    same_runs(network, whole)
    assert belongs(network) == belongs(whole)


def test_a_node_that_tells_what_cannot_be_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = looking.look

    def lying(own: Neighbours, order: Any, arrays: Any, search: Any) -> dict[str, np.ndarray]:
        found = honest(own, order, arrays, search)
        return {**found, "seconds": found["seconds"] * 0 - 1.0} if own.holding.number == 1 else found

    monkeypatch.setattr("fedroam.deploy.node.process.look", lying)
    site = site_of(tmp_path / "site", MOHAWK.replace(rounds=1))
    network = site.run(tmp_path / "network")
    assert [row[1] for row in belongs(network)] == [-1, -1]
    assert any("client-01 sent seconds that cannot be" in line for line in site.lines)
    for bad in ({"seconds": [np.inf]}, {"signal": [3.0]}):
        with pytest.raises(Refused, match="cannot be"):
            sight._plausible(
                {
                    "seconds": np.zeros(1),
                    "signal": np.full(1, -50.0),
                    **{k: np.array(v) for k, v in bad.items()},
                }
            )


def test_no_connection_stays_to_where_nobody_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor where a node was before, nor to all the addresses of which somebody tells, others each time."""
    local = site_of(tmp_path / "site", MOHAWK, by="discovery")
    node = node_of(local.folder, "client-00", lambda line: None)
    own = Neighbours(node.own, node.callers, node.holding, node.tell, node.stopping)

    def asked(own: Neighbours, addresses: Any, *_: Any) -> tuple[dict[int, str], dict[int, list[float]]]:
        """Nobody answers but at port 1."""
        for end, some in addresses.items():
            for address in some:
                own.channel(end, address)
        at = {end: "[::1]:1" for end, some in addresses.items() if "[::1]:1" in some}
        return at, {end: [0.001] for end in at}

    def kept(*told: int, of_second: Sequence[int] = ()) -> list[tuple[int, int]]:
        """The ports to which there are connections, after a look for which these were told of the access points."""
        ports = {FIRST: told, SECOND: of_second}
        found = {end: [f"[::1]:{port}" for port in some] for end, some in ports.items()}
        order = Order(order=NO_ORDER, work="look", round=1, rows=2, search=True, pings=1)
        look(own, order, {"end": np.array([FIRST, SECOND])}, lambda nodes: found)
        return [(end, int(address.rpartition(":")[2])) for end, address, _ in own._channels]

    monkeypatch.setattr(looking, "_asked", asked)
    assert kept(7, 8, of_second=[7]) == [(FIRST, 7), (FIRST, 8), (SECOND, 7)]
    stranger = own.channel(FIRST, "[::1]:8")
    assert kept(8, 9) == [(FIRST, 8), (FIRST, 9)]
    assert own.channel(FIRST, "[::1]:8") is stranger, "it may be slow to connect"
    assert kept(8, 1, 2) == [(FIRST, 1)]
    with pytest.raises(ValueError, match="closed channel"):
        stranger.unary_unary("/ping")(b"")
    site = read_site(local.folder / FILE)
    site.changed(site.named("access-point-00").model_copy(update={"serial": "abc"})).write(local.folder)
    assert kept(1) == [(FIRST, 1)]
    ((_, _, host),) = own._channels
    assert host.startswith("sabc.access-point-00."), "it has been enrolled anew"
    own.found.clear()
    order = Order(order=NO_ORDER, work="carry", round=1, rows=1, hosts=["127.0.0.1"])
    row = {"end": FIRST, "host": 0, "port": free_port(), "puts": False}
    arrays = {name: np.array([value]) for name, value in row.items()}
    own.carry(order, {**arrays, "model": np.zeros((1, 32), np.uint8)})
    assert [address for _, address, _ in own._channels] == [f"127.0.0.1:{row['port']}"]
    own.close()
    node.close()


def test_peers_meet_whom_they_answer_both_ways(
    tmp_path: Path, slow: Callable[[Slow], None], capsys: pytest.CaptureFixture[str]
) -> None:
    slow(lambda own, other, round: None if (own, other) == (0, 2) or round == 3 else 0.001)
    site = site_of(tmp_path / "site", PEERS)
    network = site.run(tmp_path / "network")
    assert site.lines == []
    met = network.contacts.groupby("round").apply(lambda rows: [*zip(rows["i"], rows["j"], strict=True)])
    assert met.to_dict() == {t: [(0, 1), (1, 2)] for t in (0, 1, 2, 4, 5)}
    assert network.rounds["active"].tolist() == [0, 3, 3, 3, 3, 3], "who meets nobody learns by itself"
    assert network.rounds.set_index("round")["degree_mean"][3] == 0.0
    simulated_again(site, network, tmp_path / "simulated", lambda: capsys.readouterr().out)


@pytest.mark.parametrize(
    ("order", "mixing"), [("move_then_mix", "contact_duration"), ("mix_then_move", "metropolis")]
)
def test_what_peers_have_found_is_simulated_in_either_order(
    order: str, mixing: str, tmp_path: Path, slow: Callable[[Slow], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """Also by weights that ask for the radio range; and one of the peers is dead from the beginning."""
    slow(lambda own, other, round: None if (own + other + round) % 3 == 0 else 0.001)
    experiment = PEERS.replace(
        clients=4,
        mixing=mixing,
        contacts={"kind": "radius", "radius": 7.0},
        federation={"kind": "decentralized", "order": order},
    )
    site = site_of(tmp_path / "site", experiment)
    network = site.run(tmp_path / "network", clients=[0, 1, 3], patience=1.0)
    assert len(network.contacts["round"].unique()) >= 4
    again = simulated_again(site, network, tmp_path / "simulated", lambda: capsys.readouterr().out)
    assert not again.positions.query("client == 2")["present"].any()
    assert again.world["reach"] == network.world["reach"] == 7.0


# --- what a board knows of its Wi-Fi --------------------------------------------------------------------------------

WIRELESS = """Inter-| sta-|   Quality        |   Discarded packets               | Missed | WE
 face | tus | link level noise |  nwid  crypt   frag  retry   misc | beacon | 22
 wlan0: 0000   54.  -56.  -256        0      0      0      0      0        0
"""
ROUTES = """Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
wlan0\t00000000\t0104A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0
eth0\t00000000\t0101A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0
wlan0\t0004A8C0\t00000000\t0001\t0\t0\t600\t00FFFFFF\t0\t0\t0
"""


def test_the_signal_of_the_wifi_that_is_joined_is_that_of_its_gateway(tmp_path: Path) -> None:
    assert signals(tmp_path) == {}
    (tmp_path / "wireless").write_text(WIRELESS)
    assert signals(tmp_path) == {}
    (tmp_path / "route").write_text(ROUTES)
    assert signals(tmp_path) == {"192.168.4.1": -56.0}
    for damaged in ("\n\nwlan0:\n", "\n\nwlan0: 0 0 x\n", "\n\n\n"):
        (tmp_path / "wireless").write_text(damaged)
        assert signals(tmp_path) == {}


# As `iw` 5.19 prints it, with what stands between left out.
DUMP = """BSS b8:27:eb:00:00:01(on wlan0) -- associated
	last seen: 1234.567s [boottime]
	TSF: 16813452288 usec (0d, 04:40:13)
	freq: 2412
	signal: -47.00 dBm
	last seen: 156 ms ago
	SSID: hall
BSS b8:27:eb:00:00:02(on wlan0)
	freq: 5180
	signal: -71.00 dBm
	last seen: 29999 ms ago
	SSID: signal: -1.00 dBm
	RSN:	 * Version: 1
BSS b8:27:eb:00:00:03(on wlan0)
	signal: -40.00 dBm
	last seen: 30001 ms ago
BSS b8:27:eb:00:00:04(on wlan0)
	signal: 12/100
	last seen: 1 ms ago
BSS 00:00
"""
IW = """#!/bin/sh
echo "$@" >> {told}
case "$*" in
  "dev wlan0 scan dump") cat {dump} ;;
  *) echo "command failed: Operation not permitted (-1)" >&2; exit 255 ;;
esac
"""


def test_what_is_heard_lately_counts() -> None:
    assert beacons(DUMP) == {"b8:27:eb:00:00:01": -47.0, "b8:27:eb:00:00:02": -71.0}
    assert beacons("") == beacons("command failed: No such device (-19)") == {}


def test_a_board_listens_to_access_points_that_it_has_not_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, dump, iw = tmp_path / "told", tmp_path / "dump", tmp_path / "iw"
    monkeypatch.setattr(looking, "IW", str(iw))
    assert scanned(tmp_path) == {}, "without wireless interfaces"
    (tmp_path / "wireless").write_text(WIRELESS)
    assert scanned(tmp_path) == {}, "without iw"
    dump.write_text(DUMP)
    iw.write_text(IW.format(told=told, dump=dump))
    iw.chmod(0o755)
    assert scanned(tmp_path) == beacons(DUMP)
    assert told.read_text().splitlines() == ["dev wlan0 scan dump", "dev wlan0 scan trigger"]


def test_iw_is_found_where_a_users_shell_does_not_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(looking, "SYSTEM", (str(tmp_path / "sbin"),))
    assert looking.listener() is None
    (tmp_path / "sbin").mkdir()
    (tmp_path / "sbin" / "iw").write_text("#!/bin/sh\n")
    (tmp_path / "sbin" / "iw").chmod(0o755)
    assert looking.listener() == str(tmp_path / "sbin" / "iw")


@pytest.mark.parametrize("radios", [True, False])
def test_a_device_without_iw_says_that_it_hears_no_radio(
    radios: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedroam.deploy.node.process.listener", lambda: None)
    local, lines = site_of(tmp_path / "site", MOHAWK, by="signal"), list[str]()
    site = read_site(local.folder / FILE)
    if radios:
        heard = site.named("access-point-00").model_copy(update={"bssid": ("b8:27:eb:00:00:01",)})
        site.changed(heard).write(local.folder)
    node_of(local.folder, "client-00", lines.append).close()
    node_of(local.folder, "access-point-00", lines.append).close()
    told = ["there is no iw here (apt install iw), so that no radio of an access point is heard"]
    assert lines == (told if radios else [])


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("192.168.4.1:1", "192.168.4.1"),
        ("[::ffff:10.0.0.1]:5", "10.0.0.1"),
        ("[::1]:5", "::1"),
        ("hut:5", "hut"),
    ],
)
def test_an_address_is_compared_without_its_port(address: str, host: str) -> None:
    assert plain_host(address) == host


def test_what_a_board_hears_reaches_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All have joined the Wi-Fi of 127.0.0.1, where both access points are: the first is taken."""
    monkeypatch.setattr(looking, "signals", lambda: {"127.0.0.1": -61.0})
    site = site_of(tmp_path / "site", MOHAWK.replace(rounds=1), by="signal")
    network = site.run(tmp_path / "network")
    assert belongs(network) == [[0, 0, 0]] * 2
    (looked, _) = read_looks(network.folder / LOOKS).values()
    assert looked.signal["client-02"] == {"access-point-00": -61.0, "access-point-01": -61.0}


def test_the_loudest_access_point_is_taken_though_nobody_has_joined_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = {"b8:27:eb:00:00:01": -80.0, "b8:27:eb:00:00:02": -62.0, "b8:27:eb:00:00:03": -60.0}
    monkeypatch.setattr(looking, "scanned", lambda: heard)
    local = site_of(tmp_path / "site", MOHAWK.replace(rounds=1), by="signal")
    site = read_site(local.folder / FILE)
    for name, radios in (("access-point-00", [*heard][:2]), ("access-point-01", [*heard][2:])):
        site = site.changed(site.named(name).model_copy(update={"bssid": tuple(radios)}))
    site.write(local.folder)
    assert read_site(local.folder / FILE) == site
    network = local.run(tmp_path / "network")
    assert belongs(network) == [[1, 1, 1]] * 2
    (looked, _) = read_looks(network.folder / LOOKS).values()
    assert looked.signal["client-02"] == {"access-point-00": -62.0, "access-point-01": -60.0}


def test_another_access_point_must_be_louder_for_some_time() -> None:
    """Worked by hand: louder by 6 dB twice in succession; one that is not heard any more is left at once."""
    rule, both, none = Movement(by="signal", stronger=6.0, times=2), np.array([[0.001, 0.001]]), np.nan
    now, found = Turning.nowhere(1), []
    for level in (
        [-50, -70],
        [-60, -55],
        [-60, -54],
        [-60, -55],
        [-60, -54],
        [-61, -54],
        [-50, none],
        [none, none],
    ):
        now = now.after(both, np.array([level], dtype=float), rule)
        found.append(int(now.near[0]))
    assert found == [0, 0, 0, 0, 0, 1, 0, 0]


# --- what is refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("by", "changes", "told"),
    [
        ("answers", {"federation": "fedavg"}, "all models of this site go through the server"),
        ("answers", {"federation": {"kind": "macfl", "access": "ring"}}, "federation.access = 'ring'; allowed"),
        ("signal", {"federation": "decentralized"}, "peers have no access points; allowed are 'answers', 'discovery'"),
        ("telepathy", {}, "--movement: by = 'telepathy': Input should be 'experiment', 'answers'"),
    ],
)  # fmt: skip
def test_movement_that_says_nothing_is_refused(
    by: str, changes: dict[str, Any], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "it.toml"
    file.write_text(MOHAWK.replace(**changes).toml())
    words = ["site", "init", str(tmp_path / "lab"), "--experiment", str(file), "--address", "127.0.0.1:1"]
    assert main([*words, "--movement", by]) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "lab").exists()


def test_a_site_says_how_devices_find_out_where_they_are(tmp_path: Path) -> None:
    file = tmp_path / "it.toml"
    file.write_text(MOHAWK.toml())
    words = ["site", "init", str(tmp_path / "lab"), "--experiment", str(file), "--address", "127.0.0.1:1"]
    assert main([*words, "--movement", "answers"]) == 0
    assert read_site(tmp_path / "lab" / FILE).movement == Movement(by="answers")


def test_access_points_at_one_place_are_refused(tmp_path: Path) -> None:
    places = tmp_path / "places.csv"
    places.write_text("x,y\n1,1\n1,1\n")
    experiment = MOHAWK.replace(access_points={"kind": "file", "path": str(places)})
    with pytest.raises(InputError, match="two access points stand at one place"):
        site_of(tmp_path / "site", experiment).run(tmp_path / "network")


def test_a_line_that_a_kill_cut_off_is_replaced(tmp_path: Path) -> None:
    note_looks(tmp_path, 0, {"a": {"b": 0.5}}, {}, {"a": "b"})
    with (tmp_path / LOOKS).open("a") as file:
        file.write('{"round": 1, "sec')
    assert [*read_looks(tmp_path / LOOKS)] == [0]
    note_looks(tmp_path, 1, {}, {}, {})
    note_looks(tmp_path, 0, {}, {}, {"a": "c"})
    found = read_looks(tmp_path / LOOKS)
    assert [*found] == [0, 1]
    assert found[0].belongs == {"a": "c"}
    (tmp_path / LOOKS).write_text('{"round": -1}\n')
    with pytest.raises(InputError, match=re.escape(f"{LOOKS}, line 1")):
        read_looks(tmp_path / LOOKS)
