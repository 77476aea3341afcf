"""How many updates an access point takes in a minute of one core, and whether it lets go of what it took.

    python benchmarks/access_point_load.py --record docs/records/access-point-load.json

The access point is a process of its own on one core, as `fedroam node` begins it, with its keys, its checks and its
memory on disk; devices are channels of this process, each with its own certificate. In each round it is told which
updates to take, takes one of 0.5 MB from each device, and aggregates them. An update is 8 messages or more, so that 36
rounds of 36 devices are more than 10,000. What it takes of its core is counted in seconds of that core, whatever else
the machine does. Before that, devices come by the dozen, connect, send the first piece of an update, and wait, in the
midst of their call.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedroam.deploy.connections import HOLDER_SERVICE, dialled
from fedroam.deploy.messages import Gift, Order, encode, packed, sum_of
from fedroam.deploy.node.holding import packed_sums
from fedroam.deploy.node.neighbours import Listener
from fedroam.deploy.node.process import node_of
from fedroam.deploy.site.file import FILE, Limits, read_site
from fedroam.deploy.site.founding import found_site
from fedroam.deploy.site.identity import credentials
from fedroam.deploy.transfers import Talk, brought
from fedroam.experiment import Experiment
from fedroam.randomness import stream

AT = "127.0.0.1:0"
NAME = "access-point-00"
CHUNK = 65_536  # bytes
SESSION = "0" * 16
WARM = 6  # rounds after which nothing should grow any more


def experiment(devices: int) -> Experiment:
    """Devices with one access point, and a model of 127,510 numbers."""
    return Experiment(
        clients=devices,
        rounds=1,
        data={"kind": "digits", "test_share": 0.5},
        partition={"kind": "iid"},
        model={"kind": "mlp", "hidden": [1700]},
        access_points={"kind": "grid", "columns": 1, "rows": 1},
        mobility={"kind": "static"},
        federation={"kind": "mohawk"},
    )


def access_point(folder: Path) -> None:
    """The access point's process: it is told of rounds by lines, and tells what each has cost."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    torch.set_num_threads(1)
    node = node_of(folder, NAME, lambda line: print(line, file=sys.stderr))
    door = Listener(node.own, node.callers, node.holding, node.tell)
    print(json.dumps({"port": door.start(AT), "size": node.holding.size, **standing()}), flush=True)
    for line in sys.stdin:
        told = json.loads(line)
        round, ends, names = told["round"], told["ends"], told["names"]
        order = Order(order=f"{SESSION}-{round}", work="open", round=round, rows=len(ends))
        grants = {"end": np.array(ends), "model": packed_sums(names), "puts": np.ones(len(ends), bool)}
        if told["aggregate"]:
            node.holding.keep(names[0], node.holding.body(names[0]), "given")
            order = order.model_copy(update={"work": "aggregate", "models": [names[0]]})
            node.holding.aggregate(order, {"end": np.array(ends), "model": packed_sums(names)})
        else:
            node.holding.begin(order)
            node.holding.open(order, grants)
        print(json.dumps(standing()), flush=True)
    door.stop()


def standing() -> dict[str, Any]:
    """What the process has used of its core (s), and has of memory (bytes) and open files now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "cpu": used.ru_utime + used.ru_stime,
        "memory": pages * resource.getpagesize(),
        "handles": sum(1 for _ in Path("/proc/self/fd").iterdir()),
    }


class Devices:
    """Devices of a site that bring updates."""

    def __init__(self, folder: Path, process: subprocess.Popen[str]) -> None:
        self.process, self.site = process, read_site(folder / FILE)
        self.begun = self._heard()
        self.size = self.begun["size"]
        there = self.site.node(NAME)
        assert there is not None
        self.calls = [
            dialled(
                self.site, credentials(folder, self.site, node.name), there, f"127.0.0.1:{self.begun['port']}"
            ).stream_stream(f"/{HOLDER_SERVICE}/put")
            for node in self.site.clients.values()
        ]

    def tell(
        self, round: int, ends: list[int], names: list[str], *, aggregate: bool = False
    ) -> dict[str, Any]:
        """Tell the access point, and hear how it is."""
        line = json.dumps({"round": round, "ends": ends, "names": names, "aggregate": aggregate})
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self._heard()

    def bring(self, device: int, round: int, body: bytes) -> int:
        """Bring an update; the messages that it took."""
        name = sum_of(body)

        def gift(offset: int) -> Gift:
            return Gift(round=round, model=name, offset=offset)

        with Talk(self.calls[device], 300.0) as talk:
            steps = list(brought(talk, gift, body, 0, lambda: CHUNK, lambda size: None))
        assert steps[-1].taken.over
        return len(steps)

    def begin(self, device: int, round: int, body: bytes) -> Talk:
        """Bring the first piece of an update; the call that waits."""
        talk = Talk(self.calls[device], 300.0)
        talk.ask(encode(Gift(round=round, model=sum_of(body), offset=0), body[:CHUNK]))
        talk.answer()
        return talk

    def _heard(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found


def update(device: int, round: int, numbers: int) -> bytes:
    """An update that no other is like."""
    drawn = stream(0, "load", round, device).random(numbers, dtype=np.float32)
    return packed({"parameters": drawn, "buffers": np.zeros(0, np.float32)})


def measured(devices: int, rounds: int) -> dict[str, Any]:
    """Run it."""
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home) / "site"
        found_site(folder, experiment(devices), address=AT, limits=Limits(chunk=CHUNK), listening=AT)
        words = [sys.executable, __file__, "--serve", str(folder)]
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            return _measured(Devices(folder, process), devices, rounds)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait()


def _measured(fleet: Devices, devices: int, rounds: int) -> dict[str, Any]:
    numbers = (fleet.size - len(update(0, 0, 0))) // 4 + 16
    while len(update(0, 0, numbers)) > fleet.size:
        numbers -= 1
    every = list(range(devices))
    waiting = [fleet.begun["memory"]]
    with ThreadPoolExecutor(8) as crew:
        bodies = [update(i, 1, numbers) for i in every]
        names = [sum_of(body) for body in bodies]
        fleet.tell(1, every, names)
        talks: list[Talk] = []
        for some in (every[: devices // 2], every[devices // 2 :]):
            talks += crew.map(lambda i: fleet.begin(i, 1, bodies[i]), some)
            waiting.append(fleet.tell(1, every, names)["memory"])
        for talk in talks:
            talk.__exit__()
        told, messages, began = [], 0, time.monotonic()
        for round in range(2, rounds + 2):
            bodies = [update(i, round, numbers) for i in every]
            names = [sum_of(body) for body in bodies]
            fleet.tell(round, every, names)
            messages += sum(crew.map(lambda i: fleet.bring(i, round, bodies[i]), every))  # noqa: B023
            told.append(fleet.tell(round, every, names, aggregate=True))
    took, (warm, last) = time.monotonic() - began, (told[min(WARM, rounds) - 1], told[-1])
    updates = devices * rounds
    return {
        "devices": devices,
        "rounds": rounds,
        "update_bytes": fleet.size,
        "updates": updates,
        "messages": messages,
        "core_seconds": round_(last["cpu"] - fleet.begun["cpu"]),
        "updates_a_core_minute": round_(60 * updates / (last["cpu"] - fleet.begun["cpu"])),
        "updates_a_minute": round_(60 * updates / took),
        "memory": {"begun": waiting[0], "half_wait": waiting[1], "all_wait": waiting[2]},
        "memory_by_rounds": {str(k): told[k - 1]["memory"] for k in range(WARM, rounds + 1, WARM)},
        "handles_warm": warm["handles"],
        "handles_end": last["handles"],
    }


def round_(number: float) -> float:
    """Three digits."""
    return float(f"{number:.3g}")


if __name__ == "__main__":
    reader = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    reader.add_argument("--devices", type=int, default=36)
    reader.add_argument("--rounds", type=int, default=36)
    reader.add_argument("--record", type=Path)
    reader.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    given = reader.parse_args()
    if given.serve:
        access_point(given.serve)
        sys.exit()
    found = measured(given.devices, given.rounds)
    print(json.dumps(found, indent=2))
    if given.record:
        given.record.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
