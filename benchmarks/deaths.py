"""What devices that run empty cost a schedule: rounds in which a quarter of a fleet does, planned without learning.

    python benchmarks/deaths.py [--clients 1000] [--rounds 2] [--side 60]

Devices walk in a square with `--side` m of side for each, and talk within 45 m; a round is 60 s, a model takes 2 s
alone, training 5 to 50 s. Batteries last for 300 s at the most, and begin with any share of that. Prints for each kind
of timetable and link, round by round, how many run empty, in how many plans of the round they are found, and seconds of
the processor (not of the wall clock). One by one, there would be a plan for each of those whose times depend on each
other. With `mohawk` on shared air everybody sends to few access points all the time: that is the worst case.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np

import fedroam as fr
from fedroam import simulation
from fedroam.analysis.planned_time import planned_rounds
from fedroam.clock import Timetable, schedule, timetable

MODEL = 4 * (4 * 2 + 2)  # bytes: softmax regression of 4 inputs and 2 classes
SENDS = 2.0  # s, of sending a model
LINKS: dict[str, dict[str, Any]] = {
    "free": {},
    "half duplex": {"simultaneous": 1},
    "shared": {"shared": True},
}
CASES = [
    *(("decentralized", link) for link in LINKS),
    ("ad_psgd", "free"),
    ("fedavg", "free"),
    ("mohawk", "shared"),
]


def fleet(kind: str, link: str, clients: int, rounds: int, side: float) -> fr.Experiment:
    """Devices that draw 1 W, half as much besides for training, 1 W for sending and 0.7 W for receiving."""
    x, y = np.zeros((clients, 4), dtype=np.float32), np.arange(clients) % 2
    width = float(side * np.sqrt(clients))
    points = max(1, round(width / 500))
    ways = ("d2d", "lte", "wifi")
    prices = {f"{way}_{name}": 0.0 for way in ways for name in ("alpha_up", "alpha_down", "beta")}
    prices |= {f"{way}_alpha_up": 1e3 * SENDS / (8e-6 * MODEL) for way in ways}
    prices |= {f"{way}_alpha_down": 0.7e3 * SENDS / (8e-6 * MODEL) for way in ways}
    return fr.Experiment(
        clients=clients,
        rounds=rounds,
        data=fr.data.memory(x, y, x[:10], y[:10]),
        partition="iid",
        model="softmax_regression",
        mobility={"kind": "random_walk", "width": width, "height": width},
        contacts={"kind": "closest_approach", "radius": 45.0},
        access_points={"kind": "grid", "columns": points, "rows": points},
        federation={"kind": kind, **({"k2": 4} if kind == "mohawk" else {})},
        clock={"kind": "seconds", "length": 60.0},
        compute={"kind": "flops", "speeds": tuple(8e-8 / seconds for seconds in range(5, 55, 5))},
        link={"kind": "fixed", "throughput": 8e-6 * MODEL / SENDS, **LINKS[link]},
        radio={"kind": "lte_wifi", **prices},
        battery={
            "kind": "battery",
            "capacity": 300 / 3600,
            "start_lowest": 0.0,
            "idle": 1.0,
            "training": 0.5,
        },
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--clients", type=int, default=1000, help="devices (default 1000)")
    parser.add_argument("--rounds", type=int, default=2, help="rounds of each case (default 2)")
    parser.add_argument("--side", type=float, default=60.0, help="m, of the square of each (default 60)")
    options = parser.parse_args()
    planner, plans, deaths = schedule._planner, [0], [0]

    def counting(*told: Any) -> Callable[[np.ndarray], Timetable]:
        planned = planner(*told)

        def once(dies: np.ndarray) -> Timetable:
            plans[0] += 1
            return planned(dies)

        return once

    def watching(*told: Any) -> Timetable:
        found = timetable(*told)
        deaths[0] += 0 if found.use is None else int(np.isfinite(found.use.dies).sum())
        return found

    with patch.object(schedule, "_planner", counting), patch.object(simulation, "timetable", watching):
        for kind, link in CASES:
            begun = time.process_time()
            for row in planned_rounds(fleet(kind, link, options.clients, options.rounds, options.side)):
                spent = time.process_time() - begun
                print(
                    f"{kind:<14} {link:<12} round {row['round']}: {row['transfers']:>6.0f} transfers, "
                    f"{deaths[0]:>5} run empty, {plans[0]:>4} plans, {spent:7.2f} s",
                    flush=True,
                )
                plans[0], deaths[0], begun = 0, 0, time.process_time()


if __name__ == "__main__":
    main()
