"""What links and shares of a core are really like in `fedroam emulate --netns`, held against closed forms.

    python benchmarks/in_uml.py --out found python benchmarks/emulated_links.py --record '$OUT/emulated-links.json'

Delay by ping, rate by a transfer of known size over TCP, loss by packets that arrive, the share by a loop; then small
runs of MOHAWK whose links get slower with distance: as they are, with a setup, and with loss, each held against its
simulation. Needs root and a kernel with netem: that of a machine of its own, or of `in_uml.py`.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from fedroam.analysis.agreement import agreement, round_times
from fedroam.components import build
from fedroam.deploy.emulation import emulate
from fedroam.deploy.emulation.namespaces import Namespaces, Seat, namespaces
from fedroam.experiment import Experiment
from fedroam.runner import run

LINK = {
    "kind": "path_loss",
    "exponent": 2.0,
    "shadowing": 0.0,
    "steps": [[-100.0, 0.03], [-58.0, 0.06], [-49.5, 0.12]],
}
PACKET, CONTENT = 1514, 1448  # bytes of a whole packet of TCP: on the line, and of content
BURST = 1600  # bytes that a slow class lets through at once; one packet more may begin
RECEIVE = """
import socket, sys, time
s = socket.socket(); s.bind(('', 5005)); s.listen(1); print('ready', flush=True)
c = s.accept()[0]; began = time.monotonic(); size = 0
while piece := c.recv(65536): size += len(piece)
print(size, time.monotonic() - began)
"""
SEND = """
import socket, sys
s = socket.create_connection((sys.argv[1], 5005)); s.sendall(bytes(int(sys.argv[2])))
"""
COUNT = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.setsockopt(socket.SOL_SOCKET, 33, 1 << 24)
s.bind(('', 5005)); print('ready', flush=True); s.settimeout(5); count = 0
try:
    while s.recv(2000): count += 1
except TimeoutError:
    print(count)
"""
SHOUT = """
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for k in range(int(sys.argv[2])):
    s.sendto(bytes(100), (sys.argv[1], 5005))
    if k % 100 == 99: time.sleep(0.02)
"""
LOOP = """
import sys, time
from fedroam.deploy.emulation.namespaces import joined
joined(sys.argv[2:])
began, used = time.monotonic(), time.process_time()
while time.process_time() - used < 1.0: pass
print(time.monotonic() - began)
"""


def two(setup: float = 0.0, loss: float = 0.0) -> Any:
    """Two nodes, of which the second has a quarter of a core."""
    return namespaces({0: "client-00", 1: "client-01"}, {1: 0.25}, print, setup, loss)


def within(seat: Seat, *words: str) -> list[str]:
    """A command in a node's namespace."""
    return ["ip", "netns", "exec", seat.namespace, *words]


def said(words: list[str]) -> str:
    """What a command says."""
    return subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout


def from_first_to_second(net: Namespaces, receive: str, send: str, amount: int) -> list[float]:
    """The numbers that the second node tells of what the first one sends it."""
    python, there = [sys.executable, "-c"], net.seats[1]
    listening = subprocess.Popen(within(there, *python, receive), stdout=subprocess.PIPE, text=True)
    assert listening.stdout is not None
    listening.stdout.readline()
    said(within(net.seats[0], *python, send, there.address, str(amount)))
    return [float(word) for word in listening.communicate()[0].split()]


def both_ways(net: Namespaces, rate: float) -> None:
    """Links of one rate (bytes/s) between the two."""
    net.shape(np.array([0, 1]), np.array([1, 0]), np.full(2, rate))


def delay(setup: float) -> dict[str, float]:
    """A message and its answer, ms, where `setup` is so many seconds."""
    with two(setup) as net:
        both_ways(net, np.inf)
        told = said(within(net.seats[0], "ping", "-q", "-i", "0.2", "-c", "20", net.seats[1].address))
    least, mean, most = re.search(r"= ([\d.]+)/([\d.]+)/([\d.]+)/", told).groups()  # type: ignore[union-attr]
    return {"told": 1e3 * setup, "least": float(least), "mean": float(mean), "most": float(most)}


def rate(distance: float) -> dict[str, float]:
    """A transfer that is to take 10 s, over the link of that distance."""
    told = float(build("link", LINK).rate(np.array([distance]), 0, np.array([[0, 1]]))[0])
    with two() as net:
        both_ways(net, told)
        size, seconds = from_first_to_second(net, RECEIVE, SEND, int(10 * told))
    line = PACKET / CONTENT * size - BURST - PACKET
    return {"metres": distance, "told": told, "seconds": seconds, "closed_form": line / told}


def lost(share: float, packets: int = 20_000) -> dict[str, float]:
    """Packets of UDP that do not arrive, with Wilson's 95 % interval."""
    with two(0.0, share) as net:
        both_ways(net, np.inf)
        (arrived,) = from_first_to_second(net, COUNT, SHOUT, packets)
    found, z = 1 - arrived / packets, 1.96
    middle = (found + z * z / (2 * packets)) / (1 + z * z / packets)
    half = z * np.sqrt(found * (1 - found) / packets + z * z / (4 * packets**2)) / (1 + z * z / packets)
    return {"told": share, "packets": packets, "lost": found, "low": middle - half, "high": middle + half}


def share() -> dict[str, float]:
    """Seconds that a loop of one second of a processor takes with a quarter of a core, and with all of it."""
    with two() as net:
        names = {"whole": net.line(0, "client-00"), "quarter": net.line(1, "client-01")}
        return {
            what: float(said([sys.executable, "-c", LOOP, *line.split()])) for what, line in names.items()
        }


def played(home: Path, rounds: int, **link: float) -> dict[str, Any]:
    """A run on this network, held against its simulation."""
    experiment = Experiment(
        name="emulated-links",
        clients=4,
        rounds=rounds,
        evaluate_every=1,
        data={"kind": "digits", "test_share": 0.5},
        model={"kind": "mlp", "hidden": [32]},
        mobility={"kind": "random", "mobile": 4},
        access_points={"kind": "uniform", "number": 2},
        federation={"kind": "mohawk", "k2": 2},
        clock={"kind": "seconds", "length": 0.5, "wait": "all"},
        link=LINK | link,
        compute={"kind": "flops", "speeds": [1e-3, 2e-4]},
    )

    def tell(done: int, of: int, measured: object) -> None:
        print(f"{link}: round {done} of {of}", flush=True)

    network = emulate(experiment, home / "network", netns=True, observer=tell, tell=print)
    simulated = run(experiment, home / "simulated")
    times = round_times(network, simulated)
    assert times is not None
    return {
        "link": link,
        "seconds": times.round(2).to_dict("list"),
        "agreement": {
            each.what: {"values": each.values, "difference": each.difference, "identical": each.identical}
            for each in agreement(network, simulated)
        },
    }


def main() -> int:
    """Measure all."""
    reader = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    reader.add_argument("--rounds", type=int, default=2)
    reader.add_argument("--record", type=Path)
    given = reader.parse_args()
    found: dict[str, Any] = {"kernel": platform.release()}

    def keep(**more: Any) -> None:
        found.update(more)
        text = json.dumps(found, indent=1)
        print(text, flush=True)
        if given.record:
            given.record.write_text(text + "\n", encoding="utf-8")

    keep(delay=[delay(setup) for setup in (0.02, 0.1)])
    keep(rate=[rate(metres) for metres in (10.0, 50.0, 200.0)])
    keep(loss=[lost(share) for share in (0.01, 0.1)])
    keep(share=share())
    for link in ({}, {"setup": 0.3}, {"loss": 0.02}):
        with tempfile.TemporaryDirectory() as home:
            keep(runs=[*found.get("runs", []), played(Path(home), given.rounds, **link)])
    return 0


if __name__ == "__main__":
    sys.exit(main())
