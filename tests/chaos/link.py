"""A link between a node and the server that can be cut, damaged, held up, slowed down and stalled while it is used."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import Literal

Direction = Literal["to the server", "to the node"]
POLL = 0.2  # seconds between two looks at whether it is over


class Link:
    """A port of this machine that passes everything on to another one, as it is told to.

    cut, damage: after so many more bytes in a direction. delay: seconds that everything waits. rate: bytes/s, both
    ways. stalled: nothing passes to the server. struck: whether what it was told has befallen any byte.
    """

    def __init__(self, target: int) -> None:
        self.target, self._over = target, threading.Event()
        self._lock, self._threads, self._ends = (
            threading.Lock(),
            [threading.Thread()][:0],
            set[socket.socket](),
        )
        self.clear()
        self._server = socket.create_server(("127.0.0.1", 0))
        self._server.settimeout(POLL)
        self.port: int = self._server.getsockname()[1]
        self._threads.append(threading.Thread(target=self._accept, daemon=True))
        self._threads[0].start()

    def clear(self) -> None:
        """From now on everything passes."""
        with self._lock:
            self.cut: tuple[Direction, int] | None = None
            self.damage: int | None = None
            self.delay, self.rate, self.stalled, self.struck = 0.0, 0.0, False, False

    def close(self) -> None:
        """End every connection, and wait until nothing is left of them."""
        self._over.set()
        self._hang_up()
        for thread in self._threads:
            thread.join()
        self._server.close()

    def _hang_up(self) -> None:
        with self._lock:
            for end in self._ends:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while not self._over.is_set():
            try:
                near, _ = self._server.accept()
            except TimeoutError:
                continue
            try:
                far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:  # the server has gone
                near.close()
                continue
            left = [2]
            with self._lock:
                self._ends |= {near, far}
                self._threads = [thread for thread in self._threads if thread.is_alive()]
            ways: tuple[tuple[socket.socket, socket.socket, Direction], ...] = (
                (near, far, "to the server"),
                (far, near, "to the node"),
            )
            for way in ways:
                thread = threading.Thread(target=self._pass, args=(*way, left), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _pass(
        self, source: socket.socket, sink: socket.socket, direction: Direction, left: list[int]
    ) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(4096):
                told = self._told(data, direction)
                if told is None:
                    break
                sink.sendall(told)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        with self._lock:
            left[0] -= 1
            if not left[0]:  # nobody else uses them any more
                for end in (source, sink):
                    self._ends.discard(end)
                    end.close()

    def _told(self, data: bytes, direction: Direction) -> bytes | None:
        """What becomes of some bytes; None: the connection is cut."""
        while self.stalled and direction == "to the server" and not self._over.is_set():
            self.struck = True
            time.sleep(POLL / 4)
        if self.delay or self.rate:
            self.struck = True
            time.sleep(self.delay + (len(data) / self.rate if self.rate else 0.0))
        with self._lock:
            if self.cut is not None and self.cut[0] == direction:
                after = self.cut[1] - len(data)
                self.cut = (direction, after)
                if after <= 0:
                    self.cut, self.struck = None, True
                    return None
            if self.damage is not None and direction == "to the server":
                self.damage -= len(data)
                if self.damage <= 0:
                    data = bytes([*data[:-1], data[-1] ^ 1])
                    self.damage, self.struck = None, True
        return data
