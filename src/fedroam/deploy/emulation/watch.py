"""How an emulated site is, told now and then while it runs."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from fedroam.deploy.emulation.processes import Processes
from fedroam.deploy.server.hub import Hub
from fedroam.measurement import Measurement
from fedroam.runner import Observer

EVERY = 1.0  # seconds between two looks
WEIGHED = 20.0  # seconds between two looks at memory, which costs the kernel a walk over all pages
GIB = 2**30


@dataclass
class Watch:
    """What is seen of a site: hub: its server's, once there is one. most: bytes that all processes have had together at
    most, as far as it was looked; 0 where the system does not tell. processes: how many these were, at most."""

    nodes: Processes
    hub: Hub | None = None
    most: int = 0
    processes: int = 0
    _stop: threading.Event = field(default_factory=threading.Event)
    _weighing: threading.Lock = field(default_factory=threading.Lock)

    def see(self, hub: Hub) -> None:
        """The server is there."""
        self.hub = hub

    def line(self) -> str:
        """How many nodes there are, and what they do."""
        if self.hub is None:
            return "nodes are being prepared"
        counts = self.hub.standing()
        away, idle = counts.pop("away", 0), counts.pop("idle", 0)
        total = away + idle + sum(counts.values())
        facts = [f"{total - away} of {total} nodes"]
        facts += [f"{count} {work.replace('_', ' ')}" for work, count in sorted(counts.items())]
        if self.most:
            facts.append(f"{self.most / GIB:.1f} GiB")
        return ", ".join(facts)

    def told(self, observer: Observer | None) -> Observer:
        """An observer that weighs once after the first round, when all who work are here: a short run is over before
        the thread looks."""

        def seen(done: int, rounds: int, measured: Measurement | None) -> None:
            if done and not self.most:
                self.weigh()
            if observer is not None:
                observer(done, rounds, measured)

        return seen

    def follow(self, status: Callable[[str], None]) -> None:
        """The thread: look and tell, until told to stop."""
        weighed = -WEIGHED
        while not self._stop.wait(EVERY):
            all_here = self.hub is not None and not self.hub.standing()["away"]
            if all_here and time.monotonic() - weighed >= WEIGHED:
                self.weigh()
                weighed = time.monotonic()
            status(self.line())

    def weigh(self) -> None:
        """Look at the memory of all processes."""
        with self._weighing:
            numbers = [os.getpid(), *self.nodes.living().values()]
            self.most, self.processes = max(self.most, memory(numbers)), max(self.processes, len(numbers))

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()


@contextlib.contextmanager
def watched(nodes: Processes, status: Callable[[str], None] | None) -> Iterator[Watch]:
    """Within it, `status` is told how nodes are; None: nobody is."""
    watch = Watch(nodes)
    if status is None:
        yield watch
        return
    thread = threading.Thread(target=watch.follow, args=(status,), name="watch", daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        watch.stop()
        thread.join()


def memory(processes: Iterable[int]) -> int:
    """Bytes of memory that processes have together; what several share counts once (proportional set size, Linux).

    0 where the system does not tell; a process that has ended has none.
    """
    total = 0
    for number in processes:
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{number}/smaps_rollup").read_text(encoding="ascii").splitlines():
                if line.startswith("Pss:"):
                    total += 1024 * int(line.split()[1])
    return total
