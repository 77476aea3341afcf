"""How long a model is on its way where a message and its answer take a while, however fast the link is.

    PYTHONPATH=tests python benchmarks/long_links.py --record docs/records/long-links.json

All is on this machine, over real connections with their keys and checks, through a port that passes on what comes in
after so many seconds, each way, and no slower than it came. A device fetches a model from an access point and brings
one to it, by the calls of a run; the server gives one along with an order, and gets one as the answer. The least of
several is told: whatever else the machine does makes it longer.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fedroam.deploy.messages import NO_ORDER, Order, named, packed
from fedroam.deploy.node.holding import Holding, packed_sums
from fedroam.deploy.node.neighbours import Listener, Neighbours
from fedroam.deploy.node.process import Node, node_in
from fedroam.deploy.node.share import NO_SAMPLES, hello_of, samples_sum
from fedroam.deploy.server.hub import Asked, Hub
from fedroam.deploy.site.file import FILE, Limits, read_site
from fedroam.deploy.site.founding import found_site
from fedroam.deploy.site.identity import Callers, credentials
from fedroam.experiment import Experiment
from fedroam.scene import prepare
from support.far import Far

HERE = "127.0.0.1"
DOOR, DEVICE = "access-point-00", "client-00"


def experiment(size: int) -> Experiment:
    """A device and an access point, and a model of so many bytes: 75 numbers for each neuron of its hidden layer."""
    return Experiment(
        clients=1,
        rounds=1,
        data={"kind": "digits", "test_share": 0.5},
        model={"kind": "mlp", "hidden": [max(1, size // 300)]},
        access_points={"kind": "grid", "columns": 1, "rows": 1},
        mobility={"kind": "static"},
        federation={"kind": "mohawk"},
    )


def least(of: int, work: Callable[[int], None]) -> float:
    """Seconds that something took, when it took least; it is told its how manieth time it is, from 1."""
    found = []
    for k in range(1, of + 1):
        began = time.monotonic()
        work(k)
        found.append(time.monotonic() - began)
    return min(found)


def measured(turn: float, size: int, chunk: int, times: int) -> dict[str, float]:
    """Seconds of a fetched and a brought model, and of an order with its answer."""
    with tempfile.TemporaryDirectory() as home, contextlib.ExitStack() as held:
        folder, own = Path(home) / "site", experiment(size)
        found_site(folder, own, address=f"{HERE}:1", limits=Limits(chunk=chunk), listening=f"{HERE}:0")
        scene = prepare(own)
        scene.learner.close()
        site = read_site(folder / FILE)
        name, body = named(scene.start_models([0]), 0)

        def tell(line: str) -> None:
            print(line, flush=True)

        there, device = site.named(DOOR), site.named(DEVICE)
        holding = Holding.of(scene, there.number)
        door = Listener(credentials(folder, site, DOOR), Callers(folder, "access_point", tell), holding, tell)
        held.callback(door.stop)
        far = Far(door.start(f"{HERE}:0"), turn / 2)
        here = Holding.of(scene, device.number)
        others = Neighbours(
            credentials(folder, site, DEVICE), Callers(folder, "client", tell), here, tell, threading.Event()
        )
        held.callback(others.close)

        def carried(puts: bool) -> Callable[[int], None]:
            def once(number: int) -> None:
                order = Order(order=NO_ORDER, work="open", round=2 * number + puts, rows=1)
                arrays = {"end": np.array([device.number]), "model": packed_sums([name])}
                for one in (holding, here):
                    one.begin(order)
                holding.open(order, arrays | {"puts": np.array([puts])})
                (here if puts else holding).keep(name, body)
                way = {"host": np.array([0]), "port": np.array([far.port]), "puts": np.array([puts])}
                errand = order.model_copy(update={"work": "carry", "hosts": [HERE]})
                done = others.carry(errand, arrays | way | {"end": np.array([there.number])})
                assert done["arrived"].all()

            return once

        found = {"fetched": 0.0, "brought": 0.0}
        for what, puts in (("fetched", False), ("brought", True)):
            carried(puts)(0)  # which makes the connection
            found[what] = least(times, carried(puts))
        found["ordered"] = held.enter_context(served(folder, own, scene, turn, body, times, tell))
        return {what: float(f"{seconds:.3g}") for what, seconds in found.items()}


@contextlib.contextmanager
def served(
    folder: Path,
    own: Experiment,
    scene: Any,
    turn: float,
    body: bytes,
    times: int,
    tell: Callable[[str], None],
) -> Iterator[float]:
    """Seconds of an order that carries a model, and of an answer that does."""
    site, layout = read_site(folder / FILE), scene.task.layout
    hellos = {
        number: hello_of(own, layout, NO_SAMPLES if node.client is None else samples_sum(scene, node.client))
        for number, node in site.holders.items()
    }
    hub = Hub(folder, credentials(folder, site, "server"), hellos, tell)
    far = Far(hub.start(f"{HERE}:0"), turn / 2)
    site.model_copy(update={"address": f"{HERE}:{far.port}"}).write(folder)
    node: Node = node_in(scene, folder, DEVICE, tell)
    assert node.share is not None
    values = np.frombuffer(body, np.uint8)
    expected = {"values": ("bool", values.shape)}
    given = packed({"values": values > 127})
    node.share.expected = lambda order: expected  # type: ignore[method-assign]
    node._work = lambda order, arrays: arrays  # type: ignore[method-assign]
    threading.Thread(target=node.run, daemon=True).start()
    try:
        number = site.named(DEVICE).number
        while number in hub.missing():
            time.sleep(0.01)

        def once(round: int) -> None:
            order = Order(order=NO_ORDER, work="judge", round=round)
            answer = hub.ask({number: Asked(order, given, expected, lambda arrays: None)})
            assert answer[number] is not None

        once(0)
        yield least(times, once)
    finally:
        hub.stop(done=True)


def main() -> None:
    """Measure all."""
    reader = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    reader.add_argument("--turns", type=float, nargs="+", default=[0.0, 0.02, 0.1], help="s")
    reader.add_argument(
        "--sizes", type=int, nargs="+", default=[250_000, 2_000_000, 10_000_000], help="bytes"
    )
    reader.add_argument("--chunk", type=int, default=Limits().chunk)
    reader.add_argument("--times", type=int, default=3)
    reader.add_argument("--record", type=Path)
    given = reader.parse_args()
    found = []
    for size in given.sizes:
        for turn in given.turns:
            seconds = measured(turn, size, given.chunk, given.times)
            found.append({"turn": turn, "bytes": size, "chunk": given.chunk, "seconds": seconds})
            print(json.dumps(found[-1]), flush=True)
    if given.record:
        given.record.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
