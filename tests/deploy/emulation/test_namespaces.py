"""Nodes in network namespaces of their own: what links let through, what is left behind, and the same run."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

pytest.importorskip("grpc")
pytest.importorskip("cryptography")

from fedroam.deploy.emulation import cpu_shares
from fedroam.deploy.emulation import namespaces as room
from fedroam.deploy.emulation.namespaces import Namespaces, Seat, check_possible, clean, namespaces
from fedroam.errors import FedroamError, InputError
from fedroam.federation import SERVER, access_point
from support.commands import TINY, Commands
from support.tiny import tiny
from support.waiting import HANGS
from support.warm import python


def _why_not() -> str:
    """Why namespaces cannot be made here; empty where they can."""
    try:
        check_possible()
    except InputError as error:
        return str(error)
    made = subprocess.run(
        ["unshare", "-n", "true"] if shutil.which("unshare") else ["false"], capture_output=True, check=False
    )
    return "" if made.returncode == 0 else "this root may not make namespaces"


here = pytest.mark.skipif(bool(_why_not()), reason=_why_not() or "they can be made")


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ({"geteuid": lambda: 1000}, "this is user 1000"),
        ({"which": lambda name: None}, "no ip, no tc"),
        ({"platform": "darwin"}, "this is darwin"),
    ],
)
def test_what_is_lacking_is_told_in_a_line(
    found: dict[str, Any], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", found.get("geteuid", lambda: 0))
    monkeypatch.setattr(shutil, "which", found.get("which", lambda name: f"/sbin/{name}"))
    monkeypatch.setattr(sys, "platform", found.get("platform", "linux"))
    with pytest.raises(InputError, match=rf"--netns: needs root with ip and tc .*found: .*{told}"):
        check_possible()


def made(netem: tuple[float, float] | None = None) -> Namespaces:
    seats = {
        0: Seat("fedroam-0a0b0c-client-00", "198.18.0.2", "fr0a0b0c-2", 2),
        access_point(0): Seat("fedroam-0a0b0c-access-point-00", "198.18.0.3", "fr0a0b0c-3", 3),
    }
    return Namespaces("0a0b0c", "198.18.0.1", seats, netem)


def test_each_link_has_a_class_of_its_own_at_the_sender(monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand: from a device to its access point, from this machine to the device, and back; nothing else is slowed.
    What is answered and what is asked have half of it each, and all of it alone."""
    told: dict[str, list[str]] = {}
    monkeypatch.setattr(room, "_tc", lambda lines, namespace: told.setdefault(namespace, []).extend(lines))
    own, there = made(), int(access_point(0))
    own.shape(np.array([0, SERVER, 0]), np.array([there, 0, SERVER]), np.array([1e5, 2e6, np.inf]))
    device, to = "class replace dev eth0 parent", "filter add dev eth0 parent 1: protocol ip prio 2 handle"
    near, fast = "burst 1600 cburst 1600 quantum 1514", "rate 5000000000bit ceil 10000000000bit burst 6250000"
    assert told["fedroam-0a0b0c-client-00"] == [
        f"{device} 1: classid 1:4 htb rate 800000bit ceil 800000bit {near}",
        f"{device} 1:4 classid 1:4004 htb rate 400000bit ceil 800000bit {near}",
        f"{device} 1:4 classid 1:8004 htb rate 400000bit ceil 800000bit {near}",
        f"{to} 800::6 u32 match ip dst 198.18.0.3/32 match ip sport 50061 0xffff flowid 1:4004",
        f"{to} 800::7 u32 match ip dst 198.18.0.3/32 flowid 1:8004",
        f"{device} 1: classid 1:2 htb rate 10000000000bit ceil 10000000000bit burst 12500000 cburst 12500000 "
        "quantum 1514",
        f"{device} 1:2 classid 1:4002 htb {fast} cburst 12500000 quantum 1514",
        f"{device} 1:2 classid 1:8002 htb {fast} cburst 12500000 quantum 1514",
        f"{to} 800::2 u32 match ip dst 198.18.0.1/32 match ip sport 50061 0xffff flowid 1:4002",
        f"{to} 800::3 u32 match ip dst 198.18.0.1/32 flowid 1:8002",
    ]
    device, to = (line.replace("eth0", "fr0a0b0c-2") for line in (device, to))
    assert told[""] == [
        f"{device} 1: classid 1:3 htb rate 16000000bit ceil 16000000bit burst 20000 cburst 20000 quantum 1514",
        f"{device} 1:3 classid 1:4003 htb rate 8000000bit ceil 16000000bit burst 10000 cburst 20000 quantum 1514",
        f"{device} 1:3 classid 1:8003 htb rate 8000000bit ceil 16000000bit burst 10000 cburst 20000 quantum 1514",
        f"{to} 800::4 u32 match ip src 198.18.0.1/32 match ip sport 50061 0xffff flowid 1:4003",
        f"{to} 800::5 u32 match ip src 198.18.0.1/32 flowid 1:8003",
    ]
    told.clear()
    own.shape(np.array([0]), np.array([there]), np.array([5e4]))  # the device has moved on
    assert [line.split(" burst")[0] for line in told["fedroam-0a0b0c-client-00"]] == [
        "class replace dev eth0 parent 1: classid 1:4 htb rate 400000bit ceil 400000bit",
        "class replace dev eth0 parent 1:4 classid 1:4004 htb rate 200000bit ceil 400000bit",
        "class replace dev eth0 parent 1:4 classid 1:8004 htb rate 200000bit ceil 400000bit",
    ]


def test_delay_and_loss_where_the_kernel_has_netem(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(room, "_tc", lambda lines, namespace: told.extend(lines))
    made((0.02, 0.01)).shape(np.array([0]), access_point(np.array([0])), np.array([1e5]))
    assert told[3:5] == [
        "qdisc replace dev eth0 parent 1:4004 netem delay 10000us loss 1%",
        "qdisc replace dev eth0 parent 1:8004 netem delay 10000us loss 1%",
    ]


def test_the_share_of_slower_devices() -> None:
    clock = {"kind": "seconds"}
    found = cpu_shares.shares_of(tiny(clock=clock, compute={"kind": "flops", "speeds": [4.0, 1.0]}))
    assert found
    assert set(found.values()) == {0.25}
    assert len(found) < 5  # the others are the fastest
    assert cpu_shares.shares_of(tiny(clock=clock)) == {}


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """One such test at a time, whoever else tests: they look at what all runs on this machine leave."""
    if _why_not():  # nothing is left where nothing can be made, and the lock may be root's
        yield
        return
    with (Path(tempfile.gettempdir()) / "namespaces-are-tested.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def left() -> list[str]:
    """What there is of namespaces, interfaces, cgroups and locks of runs."""
    links = [each["ifname"] for each in json.loads(room._run(["ip", "-j", "link"]))]
    names = [name for name in room._names() if name.startswith("fedroam-")]
    return [*(name for name in links if re.match(r"fr[0-9a-f]{6}", name)), *names]


@pytest.fixture
def two() -> Iterator[Namespaces]:
    with namespaces({0: "client-00", 1: "client-01"}, {1: 0.25}, lambda line: None) as found:
        yield found


def within(seat: Seat, code: str) -> subprocess.Popen[str]:
    """A program in a namespace, whose output is read."""
    words = ["ip", "netns", "exec", seat.namespace, sys.executable, "-c", code]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


@here
@pytest.mark.parametrize("rate", [125_000.0, np.inf])
def test_a_link_lets_through_what_it_is_told(two: Namespaces, rate: float) -> None:
    """100 packets of 1,200 bytes by UDP from one namespace to the other: all arrive, and from the first one's leaving
    to the last one's arrival there pass, at 1 Mbps, 0.95 s at least. A busy machine makes it more, never less."""
    sender, receiver = two.seats[0], two.seats[1]
    send = (
        "import socket, time; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); print(time.monotonic())\n"
        f"for _ in range(100): s.sendto(bytes(1200), ('{receiver.address}', 5005))"
    )
    receive = (
        "import socket, time; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20); s.bind(('', 5005)); print('ready', flush=True)\n"
        f"s.settimeout({HANGS})\n"
        "for _ in range(100): s.recv(2000)\n"
        "print(time.monotonic())"
    )
    two.shape(np.array([0]), np.array([1]), np.array([rate]))
    listening = within(receiver, receive)
    assert listening.stdout is not None
    assert listening.stdout.readline() == "ready\n"
    began = float(within(sender, send).communicate(timeout=HANGS)[0])
    ended = float(listening.communicate(timeout=HANGS)[0])
    assert ended - began >= (100 * 1200 - 1600) / rate  # less the burst


@here
@pytest.mark.parametrize("sender", ["this machine", "a node"])
def test_a_stream_is_as_slow_between_this_machine_and_a_node(two: Namespaces, sender: str) -> None:
    """60,000 bytes by TCP, which gives the kernel many packets as one: at 1 Mbps 0.45 s at least, whoever sends."""
    seat, rate, size = two.seats[0], 125_000.0, 60_000
    ends = (SERVER, 0) if sender == "this machine" else (0, SERVER)
    code = (
        "import socket, time\n"
        f"s = socket.create_server(('{seat.address}', 5006)); print('ready', flush=True)\n"
        f"c, _ = s.accept(); c.settimeout({HANGS})\n"
    )
    if sender == "this machine":
        code += f"left = {size}\nwhile left: left -= len(c.recv(left))\nprint(time.monotonic())"
    else:
        code += f"c.recv(1); print(time.monotonic()); c.sendall(bytes({size}))"
    two.shape(np.array(ends[:1]), np.array(ends[1:]), np.array([rate]))
    words = ["ip", "netns", "exec", seat.namespace, sys.executable, "-c", code]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as there:
        assert there.stdout is not None
        assert there.stdout.readline() == "ready\n"
        with socket.create_connection((seat.address, 5006), timeout=HANGS) as own:
            if sender == "this machine":
                began = time.monotonic()
                own.sendall(bytes(size))
                ended = float(there.stdout.readline())
            else:
                own.sendall(b".")
                left = size
                while left:
                    left -= len(own.recv(left))
                began, ended = float(there.stdout.readline()), time.monotonic()
    assert (
        ended - began >= (size - 1600 - 1514) / rate
    )  # less the burst, and the packet that finds some of it left


@here
def test_what_is_asked_does_not_wait_for_what_is_answered(two: Namespaces) -> None:
    """A node gives 12,000 bytes to one that has called it, which takes half a second at 25 kB/s and is on its way in
    nine packets at once. One byte that it then sends there on a call of its own is there before the last of them."""
    near, far = two.seats[0], two.seats[1]
    gives = (
        "import socket\n"
        f"door = socket.create_server(('{near.address}', {room.PORT})); print('ready', flush=True)\n"
        "caller, _ = door.accept(); caller.recv(1)\n"
        f"own = socket.create_connection(('{far.address}', {room.PORT}), {HANGS})\n"
        f"caller.sendall(bytes(12_000)); own.sendall(b'?'); caller.settimeout({HANGS}); caller.recv(1)"
    )
    gets = (
        "import select, socket\n"
        f"door = socket.create_server(('{far.address}', {room.PORT}))\n"
        f"own = socket.create_connection(('{near.address}', {room.PORT}), {HANGS}); own.sendall(b'!')\n"
        "asked, _ = door.accept()\n"
        "left, order = 12_000, []\n"
        "while left or 'asked' not in order:\n"
        f"    ready = select.select([each for each in (asked, own) if each], [], [], {HANGS})[0]\n"
        "    if asked in ready and asked.recv(1): order.append('asked'); asked = None\n"
        "    if own in ready:\n"
        "        left -= len(own.recv(left))\n"
        "        if not left: order.append('given'); own.sendall(b'.'); own = None\n"
        "print(*order)"
    )
    two.shape(np.array([0]), np.array([1]), np.array([25_000.0]))
    with within(near, gives) as giving:
        assert giving.stdout is not None
        assert giving.stdout.readline() == "ready\n"
        with within(far, gets) as getting:
            assert getting.communicate(timeout=HANGS)[0].split() == ["asked", "given"]
        assert giving.wait(HANGS) == 0


@pytest.fixture
def far() -> Iterator[Namespaces]:
    """Two nodes whose links have 0.2 s for a message and its answer, and lose a tenth."""
    with namespaces({0: "client-00", 1: "client-01"}, {}, lambda line: None, 0.2, 0.1) as found:
        if not found.impaired:
            pytest.skip(f"{room.NO_NETEM}; benchmarks/in_uml.py runs this in one that has it")
        found.shape(np.array([0, 1, SERVER, 0]), np.array([1, 0, 0, SERVER]), np.full(4, np.inf))
        yield found


def impaired(device: str, namespace: str = "") -> list[dict[str, Any]]:
    """What the kernel itself says of delay and loss at an interface: one for each link."""
    inside = ["-n", namespace] if namespace else []
    told = json.loads(room._run(["tc", "-j", "-s", *inside, "qdisc", "show", "dev", device]))
    return [each for each in told if each["kind"] == "netem"]


@here
def test_links_have_delay_and_loss(far: Namespaces) -> None:
    """In both directions, to nodes and to this machine, in both halves of a link; one that is made faster or slower
    keeps them."""
    far.shape(np.array([0]), np.array([1]), np.array([1e6]))
    nodes = [impaired("eth0", far.seats[i].namespace) for i in (0, 1)]
    assert [len(links) for links in nodes] == [4, 2]
    for link in (*nodes[0], *nodes[1], *impaired(far.seats[0].interface)):
        assert link["options"]["delay"]["delay"] == pytest.approx(0.1)
        assert link["options"]["loss-random"]["loss"] == pytest.approx(0.1)


@here
def test_a_message_and_its_answer_take_the_delay_once(far: Namespaces) -> None:
    """No answer comes sooner. Those that are lost are asked for again."""
    a, b = far.seats[0], far.seats[1]
    words = ["ip", "netns", "exec", a.namespace, "ping", "-q", "-i", "0.2", "-c"]
    if shutil.which("ping") is None:
        pytest.skip("no ping here (Debian's package iputils-ping)")
    told = subprocess.run(
        [*words, "10", b.address], capture_output=True, text=True, timeout=HANGS, check=False
    )
    fastest = re.search(r"= ([\d.]+)/", told.stdout)
    assert fastest is not None, told
    assert float(fastest[1]) >= 200.0  # ms


@here
def test_links_lose_their_share(far: Namespaces) -> None:
    """Of 900 packets a tenth, by the kernel's own count, within what chance leaves but once in 1e9 times. netem holds
    1,000 on their way."""
    sends = f"for _ in range(900): s.sendto(bytes(100), ('{far.seats[1].address}', 5005))"
    code = f"import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n{sends}"
    namespace = far.seats[0].namespace
    before = sum(link["drops"] for link in impaired("eth0", namespace))
    subprocess.run(["ip", "netns", "exec", namespace, sys.executable, "-c", code], check=True)
    lost = sum(link["drops"] for link in impaired("eth0", namespace)) - before
    least, most = binom.ppf([5e-10, 1 - 5e-10], 900, 0.1)
    assert least <= lost <= most


@here
def test_a_slower_device_has_its_share_of_a_core(two: Namespaces) -> None:
    """0.3 s of a processor at a quarter of a core take 1.2 s, less what two periods of the scheduler may do."""
    if two.seats[1].cgroup is None:
        pytest.skip(cpu_shares.NONE)
    code = (
        "import sys, time; from fedroam.deploy.emulation.namespaces import joined; joined(sys.argv[2:])\n"
        "began, used = time.monotonic(), time.process_time()\n"
        "while time.process_time() - used < 0.3: pass\n"
        "print(time.monotonic() - began)"
    )
    words = [*python(), "-c", code, *two.line(1, "client-01").split()]
    assert float(subprocess.run(words, capture_output=True, check=True).stdout) >= 1.2 - 0.2


@here
def test_nodes_are_in_their_seats(two: Namespaces) -> None:
    """A process that joins is in the namespace, and in the group of its share; both go with the block."""
    code = (
        "import sys, pathlib; from fedroam.deploy.emulation.namespaces import joined; joined(sys.argv[2:])\n"
        "import os; print(os.stat('/proc/self/ns/net').st_ino, pathlib.Path('/proc/self/cgroup').read_text())"
    )
    told = subprocess.run(
        [*python(), "-c", code, *two.line(1, "client-01").split()],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    path = room.NAMESPACES / two.seats[1].namespace
    assert told.split()[0] == str(path.stat().st_ino) != str(Path("/proc/self/ns/net").stat().st_ino)
    if cpu_shares.roots():
        assert f"fedroam-{two.token}/client-01" in told
        group = two.seats[1].cgroup
        assert group is not None
        quota = next(each for each in ("cpu.cfs_quota_us", "cpu.max") if (group / each).exists())
        assert (group / quota).read_text().split()[0] == "25000"
    assert two.seats[0].cgroup is None


@here
def test_nothing_is_left_behind() -> None:
    before = left()

    def broken() -> None:
        with namespaces({0: "client-00"}, {0: 0.5}, print):
            assert len(left()) >= len(before) + 4  # a bridge, a link, a namespace, a lock
            raise ValueError("broken off")

    with pytest.raises(ValueError, match="broken off"):
        broken()
    assert left() == before


@here
def test_what_a_killed_run_has_left_is_removed_and_no_living_one_s(
    two: Namespaces, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = (
        "import time; from fedroam.deploy.emulation.namespaces import namespaces\n"
        "with namespaces({0: 'client-00'}, {0: 0.5}, print) as own: print(own.token, flush=True); time.sleep(600)"
    )
    killed = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert killed.stdout is not None
    lines = iter(killed.stdout.readline, "")
    token = next(line.strip() for line in lines if re.fullmatch(r"[0-9a-f]{6}\n", line))
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait(60)
    assert any(token in name for name in left())
    answer = Commands(tmp_path, capsys)("emulate", "--clean")
    assert (answer.code, answer.out) == (0, "removed what 1 killed emulation had left\n")
    assert not any(token in name for name in left())
    assert any(two.token in name for name in left())
    assert clean() == 0


@pytest.fixture
def locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Another place for locks, and none that a run would have anything else in."""
    for name in ("LOCKS", "NAMESPACES"):
        monkeypatch.setattr(room, name, tmp_path / name.lower())
    monkeypatch.setattr(cpu_shares, "roots", list)
    monkeypatch.setattr(room, "_remove", lambda token: None)
    (tmp_path / "locks").mkdir()
    return tmp_path / "locks"


def test_a_lock_that_nobody_holds_is_removed(locks: Path) -> None:
    (locks / "fedroam-abcdef.lock").touch()
    with room._held("012345"):
        assert clean() == 1
        assert [each.name for each in locks.iterdir()] == ["fedroam-012345.lock"]


def test_what_others_put_where_locks_lie_is_left_alone(locks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Anybody may write there, and root would empty what a link leads to."""
    victim = locks.parent / "victim"
    victim.write_text("precious")
    (locks / "fedroam-abcdef.lock").symlink_to(victim)
    assert clean() == 0
    assert victim.read_text() == "precious"
    (locks / "fedroam-abcdef.lock").unlink()
    (locks / "fedroam-abcdef.lock").touch()
    own = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    assert clean() == 0
    assert (locks / "fedroam-abcdef.lock").exists()


def test_a_lock_that_cannot_be_taken_is_told_in_a_line(locks: Path) -> None:
    """As where namespaces of a run are left, and a stranger has put a link where its lock was."""
    (locks.parent / "namespaces" / "fedroam-abcdef-client-00").mkdir(parents=True)
    path = locks / "fedroam-abcdef.lock"
    path.symlink_to(locks.parent / "victim")
    with pytest.raises(FedroamError, match=f"{path}: is not a lock that .*: delete it"):
        clean()
    assert not (locks.parent / "victim").exists()
    path.unlink()
    locks.rmdir()
    locks.touch()
    with pytest.raises(FedroamError, match=f"{path}: cannot be locked"):
        clean()


@here
def test_emulated_in_namespaces_it_is_the_simulated_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call = Commands(tmp_path, capsys)
    places = 'access_points = { kind = "uniform", number = 2 }\nfederation = { kind = "mohawk", k2 = 2 }\n'
    call.write("net.toml", TINY + places)
    out = str(tmp_path / "out")
    answer = call("emulate", str(tmp_path / "net.toml"), "--netns", "--devices", "2", "--check", "--out", out)
    assert answer.code == 0, answer.err
    assert answer.out.count("the same bits") == 6
    assert not [name for name in left() if "lock" in name]
