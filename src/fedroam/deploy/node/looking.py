"""What a node finds out of where it is: who answers it, how soon, and whose Wi-Fi it hears."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import Any

from fedroam.deploy.connections import HOLDER_SERVICE
from fedroam.deploy.messages import Header, Order, Ping, Refused, decode, encode
from fedroam.deploy.node.neighbours import Neighbours
from fedroam.deploy.site.file import SiteNode
from fedroam.errors import MissingExtraError

try:
    import grpc
except ImportError:
    raise MissingExtraError("learning over a network", "deploy") from None

import numpy as np

# Where nodes may be, host:port, by their number; those of whom nobody tells are left out.
Search = Callable[[Sequence[SiteNode]], Mapping[int, Sequence[str]]]
NETWORK = Path("/proc/net")
IW = "iw"
SYSTEM = ("/usr/sbin", "/sbin")
FRESH = 30_000  # milliseconds since a beacon was heard, for which it tells anything
WAIT = 5.0  # seconds for an answer of `iw`


def look(
    neighbours: Neighbours, order: Order, arrays: Mapping[str, np.ndarray], search: Search
) -> dict[str, np.ndarray]:
    """Ask those that an order names whether they answer, where it says or where they are found.

    The answer: `seconds`, float64 [nodes], the median time to an answer, NaN where not all came; `signal`, float64
    [nodes], dBm, of those that this node hears, by a BSSID of theirs, and of the one whose Wi-Fi it has joined; NaN for
    all others.
    """
    ends = arrays["end"].tolist()
    holders = neighbours.callers.site_now().holders
    if order.search:
        found = search([holders[end] for end in ends if end in holders])
        addresses = {end: list(found.get(end, ())) for end in ends}
    else:
        places = zip(arrays["host"].tolist(), arrays["port"].tolist(), strict=True)
        addresses = {end: [f"{order.hosts[h]}:{port}"] for end, (h, port) in zip(ends, places, strict=True)}
    at, took = _asked(neighbours, addresses, order.pings, order.patience)
    # Who is slow to connect may be there the next time: of whom nothing has answered, all stay that were told now.
    neighbours.keep_only({end: [at[end]] if end in at else some for end, some in addresses.items()})
    joined = signals()
    radios = {end: holders[end].bssid or () for end in ends if end in holders}
    heard = scanned() if any(radios.values()) else {}
    levels = {end: [heard[radio] for radio in some if radio in heard] for end, some in radios.items()}
    signal = [
        max(levels.get(end) or [joined.get(plain_host(at[end]), np.nan)]) if end in at else np.nan
        for end in ends
    ]
    if order.search:
        neighbours.found.update(at)
    seconds = [float(np.median(took[end])) if end in took else np.nan for end in ends]
    return {"seconds": np.array(seconds, np.float64), "signal": np.array(signal, np.float64)}


def _asked(
    neighbours: Neighbours, addresses: Mapping[int, Sequence[str]], pings: int, patience: float
) -> tuple[dict[int, str], dict[int, list[float]]]:
    """Where those are that answer every time, and how long each answer took, s.

    All are called at once, which makes the connections, and those who answered one after the other, so that none makes
    another one slow. What comes in between then comes to all alike.
    """
    message, calls = encode(Ping()), []
    for end, some in addresses.items():
        for address in some:
            with contextlib.suppress(Refused):
                call = neighbours.channel(end, address).unary_unary(f"/{HOLDER_SERVICE}/ping")
                calls.append(
                    (end, address, call, call.future(message, timeout=patience, wait_for_ready=True))
                )
    at, ready = dict[int, str](), dict[int, Any]()
    for end, address, call, waiting in calls:
        with contextlib.suppress(grpc.RpcError, Refused):
            decode(waiting.result(), Header)
            if end not in at:
                at[end], ready[end] = address, call
    took: dict[int, list[float]] = {end: [] for end in ready}
    for _ in range(pings):
        for end, call in list(ready.items()):
            if neighbours.stopping.is_set():
                return {}, {}
            began = time.monotonic()
            try:
                decode(call(message, timeout=patience), Header)
                took[end].append(time.monotonic() - began)
            except (grpc.RpcError, Refused):
                del ready[end], took[end], at[end]
    return at, took


def signals(network: Path = NETWORK) -> dict[str, float]:
    """How strongly each wireless interface of this machine hears its access point, dBm, by the address of that: the
    gateway of its default route. Nothing where the kernel does not tell."""
    try:
        levels = [line.split() for line in (network / "wireless").read_text().splitlines()[2:]]
        routes = [line.split() for line in (network / "route").read_text().splitlines()[1:]]
    except (OSError, UnicodeDecodeError):
        return {}
    found = {}
    with contextlib.suppress(ValueError, IndexError):  # a kernel that writes them otherwise
        heard = {each[0].rstrip(":"): float(each[3]) for each in levels}
        for interface, target, gateway, *_ in routes:
            if int(target, 16) == 0 and int(gateway, 16) and heard.get(interface, 0.0) < 0:
                address = ip_address(bytes.fromhex(gateway)[::-1])
                found[str(address)] = heard[interface]
    return found


def scanned(network: Path = NETWORK) -> dict[str, float]:
    """How strongly the wireless interfaces of this machine hear access points, joined or not, dBm, by BSSID: what `iw`
    tells of the last half minute. Nothing where there is no `iw`, or no such interface.

    Afterwards they are asked to listen anew, for the next time, which only root may ask for; where somebody else on
    this machine does so now and then, its beacons are found all the same.
    """
    found: dict[str, float] = {}
    with contextlib.suppress(OSError, UnicodeDecodeError, subprocess.SubprocessError):
        names = [
            line.partition(":")[0].strip() for line in (network / "wireless").read_text().splitlines()[2:]
        ]
        for name in filter(None, names):
            for bssid, level in beacons(_iw(name, "dump")).items():
                found[bssid] = max(level, found.get(bssid, level))
            _iw(name, "trigger")
    return found


def listener() -> str | None:
    """Where `iw` is on this machine; Debian keeps it where only root's shell looks."""
    return shutil.which(IW, path=os.pathsep.join([os.environ.get("PATH", os.defpath), *SYSTEM]))


def _iw(interface: str, what: str) -> str:
    words = [listener() or IW, "dev", interface, "scan", what]
    return subprocess.run(words, capture_output=True, timeout=WAIT, check=False).stdout.decode(
        errors="replace"
    )


def beacons(text: str) -> dict[str, float]:
    """The levels, dBm, by BSSID, in what `iw dev NAME scan dump` prints: one block an access point, of which those
    count that were heard lately."""
    found = {}
    for block in re.split(r"^BSS ", text, flags=re.MULTILINE)[1:]:
        bssid = re.match(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}", block)
        level = re.search(r"^\s+signal: (-\d{1,3}(\.\d+)?) dBm$", block, re.MULTILINE)
        age = re.search(r"^\s+last seen: (\d{1,9}) ms ago$", block, re.MULTILINE)
        if bssid and level and age and int(age[1]) <= FRESH:
            found[bssid[0]] = float(level[1])
    return found


def plain_host(address: str) -> str:
    """The host of host:port, an IPv4 address in the words of IPv6 as what it is."""
    host = address.rpartition(":")[0].strip("[]")
    try:
        found = ip_address(host)
    except ValueError:
        return host
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return str(mapped or found)
