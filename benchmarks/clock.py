"""What scheduling a day of movement costs: `fedroam clock` for a fleet in a town, before anything is learnt.

    python benchmarks/clock.py [--rounds 20] [--batteries] [--json PATH]

1,000 and 10,000 devices walk and cycle (random walk, up to 50 m a minute, a fifth of them 88 to 175 m) in a square with
100 m of side for each, and talk within 45 m; a day is 1,440 rounds of 60 s. On a free link transfers do not disturb
each other; on shared air those in reach of each other share it. Either way a model takes 2 s alone. With `--batteries`
each device draws 1 W for being on, 1 W more for sending and 0.7 W for receiving, from a battery of 30 Wh that begins
with any share of that: some run empty in each round, and nobody charges. Only `--rounds` rounds are played, after one
that warms up and may compile, and the day is 1,440 times their mean, with all pauses of the garbage collector, and what
came before: with batteries it is less, as ever fewer are left. Prints seconds of the processor and of the wall clock
(which tells only where nothing else runs), those of the processor up to the end of the first round beside them, and the
peak of the memory, each case in a process of its own. `--json` keeps it as a record.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

DAY = 1440  # rounds of 60 s
SIDE = 100.0  # m, of the square that each device has
MODEL = 2.0  # s, of sending a model
BYTES = 4 * (4 * 2 + 2)  # of a model: softmax regression of 4 inputs and 2 classes
BATTERY = 30.0  # Wh


def draining() -> dict[str, Any]:
    """Batteries, and what they are drawn by."""
    prices = {
        f"{way}_{name}": 0.0 for way in ("d2d", "lte", "wifi") for name in ("alpha_up", "alpha_down", "beta")
    }
    megabits = 8e-6 * BYTES
    sending = {"d2d_alpha_up": 1e3 * MODEL / megabits, "d2d_alpha_down": 0.7e3 * MODEL / megabits}
    return {
        "radio": {"kind": "lte_wifi", **prices, **sending},
        "battery": {"kind": "battery", "capacity": BATTERY, "start_lowest": 0.0, "idle": 1.0},
    }


def measured(clients: int, shared: bool, batteries: bool, rounds: int, began: float) -> dict[str, float]:
    """Seconds of the processor up to the end of the first round, and in a round after it (mean, median), of the wall
    clock likewise (first, from when the process was begun, mean), transfers in a round, devices that run empty in it,
    and bytes at the peak of the memory."""
    import fedroam as fr
    from fedroam import simulation
    from fedroam.analysis.planned_time import planned_rounds
    from fedroam.clock import Timetable, timetable

    x, y = np.zeros((clients, 4), dtype=np.float32), np.arange(clients) % 2
    side = float(SIDE * np.sqrt(clients))
    experiment = fr.Experiment(
        clients=clients,
        rounds=DAY,
        data=fr.data.memory(x, y, x[:10], y[:10]),
        partition="iid",
        model="softmax_regression",
        mobility={"kind": "random_walk", "width": side, "height": side},
        contacts={"kind": "closest_approach", "radius": 45.0},
        clock={"kind": "seconds", "length": 60.0},
        link={"kind": "fixed", "throughput": 8e-6 * BYTES / MODEL, "shared": shared},
        **(draining() if batteries else {}),
    )
    deaths: list[int] = []

    def watching(*told: Any) -> Timetable:
        found = timetable(*told)
        deaths.append(0 if found.use is None else int(np.isfinite(found.use.dies).sum()))
        return found

    simulation.timetable = watching
    played = islice(planned_rounds(experiment), rounds + 1)
    next(played)
    first, first_wall = time.process_time(), time.time() - began
    seconds, transfers, begun, since = [], [], time.process_time(), time.perf_counter()
    for row in played:
        seconds.append(time.process_time() - begun)
        transfers.append(row["transfers"])
        begun = time.process_time()
    wall = (time.perf_counter() - since) / rounds
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "first": first,
        "mean": statistics.mean(seconds),
        "median": statistics.median(seconds),
        "wall_first": first_wall,
        "wall_mean": wall,
        "transfers": statistics.mean(transfers),
        "empty": statistics.mean(deaths[1:]),
        "peak": peak,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20, help="rounds to take the mean of")
    parser.add_argument("--batteries", action="store_true", help="devices have batteries, and some run empty")
    parser.add_argument("--clients", type=int, nargs="*", default=[1000, 10_000], help="numbers of devices")
    parser.add_argument("--json", type=Path, metavar="PATH", help="keep the figures there as JSON")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        print(json.dumps(measured(rounds=options.rounds, **json.loads(options.case))))
        return
    print(
        f"{'devices':>8} {'link':>7} {'transfers':>10} {'first, s':>9} {'ms a round':>11} {'median':>7} {'s a day':>8} "
        f"{'wall':>6} {'GiB':>6} {'empty a round':>14}"
    )
    figures = []
    for clients in options.clients:
        for shared in (False, True):
            case = {"clients": clients, "shared": shared, "batteries": options.batteries}
            begun = json.dumps(case | {"began": time.time()})
            command = [sys.executable, __file__, "--rounds", str(options.rounds), "--case", begun]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            found = json.loads(done.stdout)
            figures.append(case | found)
            print(
                f"{clients:>8} {'shared' if shared else 'free':>7} {found['transfers']:>10.0f} "
                f"{found['first']:>9.1f} {1e3 * found['mean']:>11.1f} {1e3 * found['median']:>7.1f} "
                f"{found['first'] + DAY * found['mean']:>8.0f} "
                f"{found['wall_first'] + DAY * found['wall_mean']:>6.0f} {found['peak'] / 2**30:>6.2f} "
                f"{found['empty']:>14.1f}",
                flush=True,
            )
    if options.json is not None:
        from fedroam.clock.sending import compiled

        told = {"cores": os.cpu_count(), "machine": platform.machine(), "compiled": compiled() is not None}
        options.json.write_text(
            json.dumps(told | {"rounds": options.rounds, "cases": figures}, indent=2) + "\n"
        )


if __name__ == "__main__":
    main()
