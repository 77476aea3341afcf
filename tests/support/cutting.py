"""A link that fails: what passes through it is cut off, or damaged, after a number of bytes that is drawn."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Literal

from typing_extensions import override

from fedroam.randomness import stream

Fault = Literal["cut", "damage"]


class Port:
    """A port of this machine that joins whoever connects to it with another one. `_join` says how."""

    def __init__(self, target: int) -> None:
        self._target, self._lock = target, threading.Lock()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._server.accept()
                try:
                    self._join(near)
                except OSError:  # nobody is behind it
                    near.close()

    def _far(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self._target))

    def _join(self, near: socket.socket) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """End it."""
        self._server.close()


class CuttingLink(Port):
    """A port that passes everything on to another one; the first `faults` connections fail.

    Each after 1 to `most` bytes from the node to the server, drawn from a seed: it is cut, or a bit is turned.
    """

    def __init__(self, target: int, seed: int, faults: int, most: int) -> None:
        self._draws = stream(seed, "cuts")
        self._left, self._most, self.done = faults, most, 0
        super().__init__(target)

    @override
    def _join(self, near: socket.socket) -> None:
        far = self._far()
        with self._lock:
            failing = self._left > 0
            self._left -= failing
            after = int(self._draws.integers(1, self._most)) if failing else None
            kind: Fault = "cut" if self._draws.random() < 0.5 else "damage"
        for each in ((near, far, after, kind), (far, near, None, kind)):
            threading.Thread(target=self._pass, args=each, daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, after: int | None, kind: Fault) -> None:
        passed = 0
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                if after is not None and passed + len(data) >= after:
                    self.done += 1
                    if kind == "cut":
                        sink.sendall(data[: after - passed])
                        break
                    damaged = bytearray(data)
                    damaged[min(after - passed, len(data)) - 1] ^= 1
                    data, after = bytes(damaged), None
                sink.sendall(data)
                passed += len(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


class Gate(Port):
    """A port that passes everything on to another one, as long as it is open."""

    def __init__(self, target: int) -> None:
        self._open = True
        self._ends: list[socket.socket] = []
        super().__init__(target)

    @override
    def _join(self, near: socket.socket) -> None:
        with self._lock:
            if not self._open:
                near.close()
                return
            far = self._far()
            self._ends += [near, far]
        for ends in ((near, far), (far, near)):
            threading.Thread(target=self._pass, args=ends, daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                sink.sendall(data)

    def shut(self) -> None:
        """Nothing goes through from now on, and nobody is told."""
        with self._lock:
            self._open = False
            for end in self._ends:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()
            self._ends.clear()

    def open(self) -> None:
        """All goes through again."""
        with self._lock:
            self._open = True

    @override
    def close(self) -> None:
        super().close()
        self.shut()
