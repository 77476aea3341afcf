"""Addresses of a Ray cluster: who is there, and whether two are one. Needs no cluster."""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fedroam.errors import InputError
from fedroam.execution import address, cluster
from fedroam.execution.address import check_reachable, check_same, place
from fedroam.terminal.interrupts import STOPPED
from support.commands import Commands
from support.ray_nodes import installed_ray
from support.sites import free_port

SETTINGS = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])  # of HTTP/2, empty
UP = "allowed is the address of a Ray cluster that is up"


@contextlib.contextmanager
def listener(answer: bytes | None) -> Iterator[int]:
    """The port of somebody who says this to whoever speaks to him; None: nothing, for ever."""
    with contextlib.closing(socket.create_server(("", 0))) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):  # the server is closed
                while True:
                    line, _ = server.accept()
                    kept.append(line)
                    if answer is not None:
                        line.recv(100)
                        line.sendall(answer)
                        line.shutdown(socket.SHUT_WR)

        kept: list[socket.socket] = []
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
        for line in kept:
            line.close()


@pytest.fixture(autouse=True)
def no_address_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.delenv("RAY_USE_TLS", raising=False)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("10.0.0.5:6379", ("10.0.0.5", 6379)),
        ("head:6379", ("head", 6379)),
        ("[::1]:6379", ("::1", 6379)),
        ("ray://head:10001", ("head", 10001)),
        *[(text, None) for text in ("head", "10.0.0.5", "::1:6379", ":6379", "[]:1", "head:x", "head:0")],
        *[(text, None) for text in ("head:65536", "head:²", "tcp://head:6379", "auto", "")],
    ],
)
def test_places(text: str, found: address.Place | None) -> None:
    assert place(text) == found
    if found is not None:
        assert address.told_place(found) == text.removeprefix("ray://")


def test_nobody_listens() -> None:
    port = free_port()
    for given in (f"127.0.0.1:{port}", f"localhost:{port}", f"ray://127.0.0.1:{port}", f"[::1]:{port}"):
        with pytest.raises(InputError, match=r"^--ray .*: (nobody listens there|no connection)") as told:
            check_reachable(given, "--ray")
        assert str(told.value).startswith(f"--ray {given}")
        assert UP in str(told.value)


def test_no_such_host_and_no_address() -> None:
    for given in ("nosuch.invalid:6379", f"{'x' * 70}.invalid:6379"):
        with pytest.raises(InputError, match=r": no such host \(.*" + UP):
            check_reachable(given, "--ray")
    with pytest.raises(InputError, match=r"^--ray head: is no address; allowed is local, auto, HOST:PORT or"):
        check_reachable("head", "--ray")


def test_a_listener_that_says_nothing_or_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(address, "ANSWER", 0.2)
    with listener(None) as port, pytest.raises(InputError, match=f"no answer in 0.2 s; {UP}"):
        check_reachable(f"127.0.0.1:{port}", "--ray")
    monkeypatch.undo()
    for said in (b"HTTP/1.1 400 Bad Request\r\n\r\n", b"", SETTINGS[:3]):
        with listener(said) as port, pytest.raises(InputError, match="does not speak as Ray does"):
            check_reachable(f"127.0.0.1:{port}", "--ray")


def test_whoever_speaks_as_ray_does_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    with listener(SETTINGS) as port:
        assert check_reachable(f"127.0.0.1:{port}", "--ray")
        assert check_reachable(f"ray://127.0.0.1:{port}", "--ray")
        # Another Ray, which has not what is asked of it, and so finds none of the clusters of other tests either.
        for module in ("ray._private", "ray._private.services"):
            monkeypatch.setitem(sys.modules, module, None)
        assert check_reachable(f"127.0.0.1:{port}", "--ray")
        assert not check_reachable("auto", "--ray")
    with listener(b"") as port:  # with TLS nobody speaks before a handshake
        monkeypatch.setenv("RAY_USE_TLS", "1")
        assert check_reachable(f"127.0.0.1:{port}", "--ray")
    assert not check_reachable("local", "--ray")


def test_the_address_of_the_environment_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{port}")
    with pytest.raises(InputError, match=rf"^--ray 127.0.0.1:{port}, which is RAY_ADDRESS.*: nobody listens"):
        check_reachable("auto", "--ray")
    monkeypatch.setenv("RAY_ADDRESS", "head")
    with pytest.raises(InputError, match=r"^--ray head, which is RAY_ADDRESS: is no address"):
        check_reachable("auto", "--ray")
    monkeypatch.setenv("RAY_ADDRESS", "local")
    assert not check_reachable("auto", "--ray")


def test_a_dead_cluster_that_ray_finds_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    services = pytest.importorskip("ray._private.services")
    there = f"127.0.0.1:{free_port()}"
    monkeypatch.setattr(services, "canonicalize_bootstrap_address", lambda asked: there)
    with pytest.raises(InputError, match=f"^--ray {there}, which Ray found by itself: nobody listens"):
        check_reachable("auto", "--ray")


def connected(there: str | None) -> Any:
    """A Ray that is connected to this place; None: that does not tell."""
    return SimpleNamespace(
        is_initialized=lambda: True, get_runtime_context=lambda: SimpleNamespace(gcs_address=there)
    )


@pytest.mark.parametrize("connection", [check_same, lambda *given: cluster.connect(*given[:2], 1, given[2])])
def test_an_address_other_than_that_to_which_the_process_is_connected_is_refused(
    connection: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unanswered(*_: object, **__: object) -> None:
        raise TimeoutError

    monkeypatch.setattr(socket, "create_connection", unanswered)  # nothing is sent to any other machine
    ray = connected("203.0.113.7:6379")
    for given in ("203.0.113.7:6380", "203.0.113.8:6379", "nosuch.invalid:6379"):
        with pytest.raises(
            InputError, match=rf"^--ray {given}: .* connected to Ray at 203.0.113.7:6379 already"
        ):
            connection(ray, given, "--ray")


def test_addresses_that_are_the_same_or_cannot_be_compared_are_not() -> None:
    ray = connected("203.0.113.7:6379")
    for given in ("203.0.113.7:6379", "local", "auto", "ray://203.0.113.8:10001"):
        assert cluster.connect(ray, given, 1, "--ray") is False
    check_same(connected("127.0.0.1:6379"), "localhost:6379", "--ray")
    for untold in (connected(None), SimpleNamespace()):
        check_same(untold, "203.0.113.8:6379", "--ray")


WORDS = {
    "run": ["run", "tiny.toml", "--set", "execution.kind=ray", "--set", "execution.address={}"],
    "sweep": ["sweep", "tiny.toml", "--seeds", "2", "--ray", "{}"],
}


@pytest.mark.parametrize("command", WORDS)
def test_commands_end_with_one_line_and_leave_nothing(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    installed_ray()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(address, "ANSWER", 0.2)
    fr = Commands(tmp_path, capsys)
    what = "--ray" if command == "sweep" else "execution.address ="
    with listener(None) as silent:
        cases = {
            f"127.0.0.1:{free_port()}": "nobody listens there",
            f"127.0.0.1:{silent}": "no answer in 0.2 s",
            "nosuch.invalid:6379": "no such host",
        }
        for given, wrong in cases.items():
            answer = fr(*[word.format(given) for word in WORDS[command]])
            assert (answer.code, answer.err.count("\n")) == (2, 1)
            assert answer.err.startswith(f"error: {what} {given}")
            assert wrong in answer.err
    assert not {path.name for path in fr.folder.iterdir()} & {"runs", "sweeps"}


@pytest.mark.parametrize("command", WORDS)
def test_ctrl_c_while_a_cluster_is_waited_for_names_nothing_to_go_on_with(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def pressed(*_: object) -> None:
        raise KeyboardInterrupt

    installed_ray()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cluster, "check_reachable", pressed)
    answer = Commands(tmp_path, capsys)(*[word.format("203.0.113.7:6379") for word in WORDS[command]])
    assert (answer.code, answer.err) == (STOPPED, "stopped; the same command goes on\n")
