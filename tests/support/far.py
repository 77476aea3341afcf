"""A link whose ends are far apart: what goes in comes out later, and no slower than it went in."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from queue import SimpleQueue

from typing_extensions import override

from support.cutting import Port


class Far(Port):
    """A port that passes everything on to another one, each way after so many seconds; cut ends all connections."""

    def __init__(self, target: int, delay: float) -> None:
        self.delay = delay
        self._ends: list[socket.socket] = []
        super().__init__(target)

    @override
    def _join(self, near: socket.socket) -> None:
        far = self._far()
        with self._lock:
            self._ends += [near, far]
        for source, sink in ((near, far), (far, near)):
            for end in (source, sink):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            line: SimpleQueue[tuple[float, bytes]] = SimpleQueue()
            threading.Thread(target=self._in, args=(source, line), daemon=True).start()
            threading.Thread(target=self._out, args=(line, sink), daemon=True).start()

    def _in(self, source: socket.socket, line: SimpleQueue[tuple[float, bytes]]) -> None:
        data = b"x"
        while data:
            try:
                data = source.recv(65_536)
            except OSError:
                data = b""
            line.put((time.monotonic() + self.delay, data))

    def _out(self, line: SimpleQueue[tuple[float, bytes]], sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                due, data = line.get()
                time.sleep(max(0.0, due - time.monotonic()))
                if not data:
                    sink.shutdown(socket.SHUT_RDWR)
                    return
                sink.sendall(data)

    def cut(self) -> None:
        """End all connections, with what is under way."""
        with self._lock:
            for end in self._ends:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
            self._ends.clear()

    @override
    def close(self) -> None:
        super().close()
        self.cut()
