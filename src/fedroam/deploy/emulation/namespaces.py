"""A network of this machine's own: each node in a network namespace, on one bridge, its links as slow as they are told.

Needs root and `ip` and `tc` of iproute2. All that is made carries the name of this run, which holds a lock for as long
as it lives: what a run leaves behind that was killed is known by a lock that nobody holds, and is removed by the next.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import math
import os
import re
import secrets
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fedroam.deploy.emulation import cpu_shares
from fedroam.errors import FedroamError, InputError, one_line
from fedroam.federation import SERVER
from fedroam.writing import take_lock

# Addresses for tests of networks (RFC 2544), which nobody else routes; each run has a piece of them.
RANGE = ipaddress.IPv4Network("198.18.0.0/15")
PIECE = 22  # bits of a run's prefix: 1,021 nodes
MOST = 2 ** (32 - PIECE) - 3
NAMESPACES, LOCKS = Path("/run/netns"), Path("/run/lock")
PREFIX = "fedroam-"  # of namespaces, locks and cgroups
WAYS = "root with ip and tc (Debian's package iproute2), on Linux"
# Otherwise many packets that the kernel has not yet cut pass a slow link as one.
WHOLE = "gso_max_segs 1"
SLOWEST, FASTEST = 8, 10**10  # bit/s that a class may have
# Where nodes listen, each at its own address: what a node that is called answers is known by it.
PORT = 50061
# The two classes that share a link's: what is added to its number, and which packets are theirs, in this order.
HALVES = {0x4000: f"match ip sport {PORT} 0xffff ", 0x8000: ""}
NO_NETEM = "this kernel has no netem: links have their rates (htb), and neither delay nor loss"


def check_possible() -> None:
    """Raise InputError where namespaces cannot be made here."""
    lacks = []
    if sys.platform != "linux":
        lacks.append(f"this is {sys.platform}")
    elif os.geteuid() != 0:
        lacks.append(f"this is user {os.geteuid()}")
    lacks += [f"no {program}" for program in ("ip", "tc") if shutil.which(program) is None]
    if lacks:
        raise InputError(f"--netns: needs {WAYS}; found: {', '.join(lacks)}; --paced needs none of it")


@dataclass(frozen=True)
class Seat:
    """Where a node is: its namespace, its address, the interface of this machine that leads to it, its number among
    the classes of each link, and the cgroup of its processor's share, if it has one."""

    namespace: str
    address: str
    interface: str
    index: int
    cgroup: Path | None = None


@dataclass
class Namespaces:
    """The namespaces of a run. token: its name; address: this machine's own on the bridge; seats: of nodes by number.

    netem: delay (s, of a message and its answer together) and loss (share of the packets) of all links, where the
    kernel has netem; None where it has not.
    """

    token: str
    address: str
    seats: Mapping[int, Seat]
    netem: tuple[float, float] | None = None
    _classes: dict[tuple[int, int], int] = field(default_factory=dict)

    @property
    def impaired(self) -> bool:
        """Whether links have delay and loss."""
        return self.netem is not None

    @property
    def bridge(self) -> str:
        """The name of the bridge."""
        return f"fr{self.token}"

    def shape(self, sender: np.ndarray, receiver: np.ndarray, rate: np.ndarray) -> None:
        """From now on models go from senders to receivers (int64 [transfers], `SERVER` for this machine) at these rates
        (float64 [transfers], bytes/s)."""
        lines: dict[int, list[str]] = {}
        for a, b, speed in zip(sender.tolist(), receiver.tolist(), rate.tolist(), strict=True):
            lines.setdefault(a, []).extend(self._link(a, b, speed))
        for a, some in lines.items():
            _tc(some, "" if a == SERVER else self.seats[a].namespace)

    def _link(self, sender: int, receiver: int, rate: float) -> Iterator[str]:
        """The lines by which traffic to one receiver has a class of its own: whatever else is sent is not slowed.

        What the sender answers where it is called, and what it says where it calls, share the class half and half, and
        each has all of it while the other is silent: else what two send each other at once would come one after the
        other, as the few bytes by which a model is asked for would wait for the one that goes the same way.
        """
        index = 1 if receiver == SERVER else self.seats[receiver].index
        outwards = sender == SERVER
        device = self.seats[receiver].interface if outwards else "eth0"
        there = f"src {self.address}" if outwards else f"dst {self._address(receiver)}"
        bits = min(max(8 * rate, SLOWEST), FASTEST) if math.isfinite(rate) else FASTEST
        link = f"1:{index + 1:x}"
        yield f"class replace dev {device} parent 1: classid {link} htb {_limits(bits, bits)}"
        halves = {f"1:{half + index + 1:x}": which for half, which in HALVES.items()}
        for half in halves:
            yield f"class replace dev {device} parent {link} classid {half} htb {_limits(bits / 2, bits)}"
        if (sender, receiver) not in self._classes:
            self._classes[sender, receiver] = index
            if self.netem is not None:
                delay, loss = self.netem
                more = f"netem delay {1e6 * delay / 2:.0f}us loss {100 * loss:g}%"
                yield from (f"qdisc replace dev {device} parent {half} {more}" for half in halves)
            for k, (half, which) in enumerate(halves.items()):
                yield (
                    f"filter add dev {device} parent 1: protocol ip prio 2 handle 800::{2 * index + k:x} "
                    f"u32 match ip {there}/32 {which}flowid {half}"
                )

    def _address(self, number: int) -> str:
        return self.address if number == SERVER else self.seats[number].address

    def line(self, number: int, name: str) -> str:
        """What the fork server is told of a node: its name, its namespace, and the file by which it joins a cgroup."""
        seat = self.seats[number]
        joins = "-" if seat.cgroup is None else str(seat.cgroup / cpu_shares.JOIN)
        return f"{name} {NAMESPACES / seat.namespace} {joins}"


@contextlib.contextmanager
def namespaces(
    nodes: Mapping[int, str],
    shares: Mapping[int, float],
    tell: Callable[[str], None],
    delay: float = 0.0,
    loss: float = 0.0,
) -> Iterator[Namespaces]:
    """Namespaces for nodes (names by number), for as long as the block lasts, and what is left of killed runs gone.

    shares: of a processor's core, of nodes that are slower than that. delay, loss: of all links, as `Namespaces.netem`
    says, where the kernel has netem. tell: is told what cannot be had. Raises InputError where namespaces cannot be
    made here.
    """
    check_possible()
    clean()
    if len(nodes) > MOST:
        raise InputError(f"--netns: {len(nodes)} nodes; allowed are {MOST}")
    token = secrets.token_hex(3)
    with _held(token):
        try:
            yield _made(token, nodes, shares, tell, delay, loss)
        finally:
            _remove(token)


def _made(
    token: str,
    nodes: Mapping[int, str],
    shares: Mapping[int, float],
    tell: Callable[[str], None],
    delay: float,
    loss: float,
) -> Namespaces:
    piece = _free_piece()
    hosts = iter(piece.hosts())
    own = str(next(hosts))
    groups = cpu_shares.made(f"{PREFIX}{token}", {nodes[i]: share for i, share in shares.items()}, tell)
    seats = {
        number: Seat(f"{PREFIX}{token}-{name}", str(next(hosts)), f"fr{token}-{k}", k, groups.get(name))
        for k, (number, name) in enumerate(sorted(nodes.items()), 2)
    }
    found = Namespaces(token, own, seats)
    lines = [
        f"link add {found.bridge} type bridge",
        f"addr add {own}/{PIECE} dev {found.bridge}",
        f"link set {found.bridge} up {WHOLE}",  # what this machine sends is cut where it leaves it
    ]
    for seat in seats.values():
        lines += [
            f"netns add {seat.namespace}",
            f"link add {seat.interface} type veth peer name eth0 netns {seat.namespace}",
            f"link set {seat.interface} master {found.bridge}",
            f"link set {seat.interface} up {WHOLE}",
        ]
    _ip(lines)
    for seat in seats.values():
        inside = [f"addr add {seat.address}/{PIECE} dev eth0", "link set lo up", f"link set eth0 up {WHOLE}"]
        _ip(inside, seat.namespace)
        _tc([_root("eth0")], seat.namespace)
    _tc([_root(seat.interface) for seat in seats.values()], "")
    if _has_netem(seats):
        found.netem = (delay, loss)
    else:
        tell(NO_NETEM)
    return found


def _limits(rate: float, ceil: float) -> str:
    """What a class has for sure and has at most, bit/s. A burst is what a timer's tick lets through, and a packet at
    least."""
    burst, most = (max(1600, int(each / 8 / 100)) for each in (rate, ceil))
    return f"rate {max(rate, SLOWEST):.0f}bit ceil {ceil:.0f}bit burst {burst} cburst {most} quantum 1514"


def _root(device: str) -> str:
    # Whatever no class is for goes as fast as it can.
    return f"qdisc add dev {device} root handle 1: htb"


def _has_netem(seats: Mapping[int, Seat]) -> bool:
    """Whether the kernel has netem: tried where it disturbs nobody."""
    first = next(iter(seats.values())).namespace
    words = ["tc", "-n", first, "qdisc", "add", "dev", "lo", "root", "netem", "delay", "0"]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


def _free_piece() -> ipaddress.IPv4Network:
    """A piece of the range of which this machine has no address."""
    taken = [
        ipaddress.ip_address(each["local"])
        for link in json.loads(_run(["ip", "-j", "-4", "addr"]) or "[]")
        for each in link.get("addr_info", ())
    ]
    for piece in RANGE.subnets(new_prefix=PIECE):
        if not any(address in piece for address in taken):
            return piece
    raise FedroamError(f"--netns: all of {RANGE} is taken on this machine: fedroam emulate --clean")


# --- what is left behind ----------------------------------------------------------------------------------------------


def clean() -> int:
    """Remove what runs that were killed have left behind; how many runs these were."""
    tokens = {
        found[1]
        for name in _names()
        if (found := re.fullmatch(rf"{PREFIX}([0-9a-f]{{6}})(-.*|\.lock)?", name))
    }
    count = 0
    for token in sorted(tokens):
        with contextlib.suppress(BlockingIOError), _held(token):
            _remove(token)
            count += 1
    return count


def _names() -> Iterable[str]:
    for folder in (NAMESPACES, LOCKS, *cpu_shares.roots()):
        with contextlib.suppress(OSError):
            # Where locks lie anybody may put anything, under any name.
            yield from (each.name for each in folder.iterdir() if folder != LOCKS or _own(each))


def _own(path: Path) -> bool:
    """Whether a file is one of this user's, and no link; False where there is none."""
    with contextlib.suppress(FileNotFoundError):
        found = path.lstat()
        return stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
    return False


@contextlib.contextmanager
def _held(token: str) -> Iterator[None]:
    """Hold the lock of a run. Raises BlockingIOError where it lives, and FedroamError where something else has the name
    of its lock, or the lock cannot be written."""
    path = LOCKS / f"{PREFIX}{token}.lock"
    try:
        LOCKS.mkdir(parents=True, exist_ok=True)
        if os.path.lexists(path) and not _own(path):
            raise FedroamError(f"{path}: is not a lock that this user's fedroam has made: delete it")
        lock = take_lock(path)
    except OSError as error:
        raise FedroamError(f"{path}: cannot be locked ({error.strerror or error})") from None
    if lock is None:
        raise BlockingIOError(f"{path}: another process holds it")
    with lock:
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _remove(token: str) -> None:
    """Remove a run's namespaces, with the ends of their links, its bridge and its cgroups."""
    with contextlib.suppress(OSError):
        for each in NAMESPACES.iterdir():
            if each.name.startswith(f"{PREFIX}{token}-"):
                _quietly(["ip", "netns", "del", each.name])
    # A namespace in which a process still ends is gone when that is; its interfaces go now.
    for link in json.loads(_run(["ip", "-j", "link"]) or "[]"):
        if re.fullmatch(rf"fr{token}(-\d+)?", str(link["ifname"])):
            _quietly(["ip", "link", "del", str(link["ifname"])])
    cpu_shares.remove(f"{PREFIX}{token}")


# --- commands ---------------------------------------------------------------------------------------------------------


def _ip(lines: Sequence[str], namespace: str = "") -> None:
    _run(["ip", *(("-n", namespace) if namespace else ()), "-batch", "-"], lines)


def _tc(lines: Sequence[str], namespace: str = "") -> None:
    _run(["tc", *(("-n", namespace) if namespace else ()), "-batch", "-"], lines)


def _run(words: Sequence[str], lines: Sequence[str] = ()) -> str:
    """What a command says. Raises FedroamError where it fails."""
    told = "".join(f"{line}\n" for line in lines)
    found = subprocess.run(words, input=told, capture_output=True, text=True, check=False)
    if found.returncode:
        raise FedroamError(f"--netns: {' '.join(words[:4])}: {one_line(found.stderr)[:300]}")
    return found.stdout


def _quietly(words: Sequence[str]) -> None:
    subprocess.run(words, capture_output=True, check=False)


def enter(namespace: str) -> None:
    """Let this process be in a network namespace from now on."""
    import ctypes

    with Path(namespace).open("rb") as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), 0):
            number = ctypes.get_errno()
            raise FedroamError(f"{namespace}: cannot be entered ({os.strerror(number)})")


def joined(words: Any) -> None:
    """Enter the namespace, and join the cgroup, of a line that the fork server was told (`Namespaces.line`)."""
    namespace, joins = words
    if joins != "-":
        Path(joins).write_text(str(os.getpid()), encoding="ascii")
    enter(namespace)
