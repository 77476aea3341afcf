"""What a round of movement, contacts and mixing weights costs, by the number of clients.

    python benchmarks/movement.py [--rounds 15]

48 clients in the world of de Heredia (500 m, R = 45 m, p = 0.2); the others at a density that gives a mean degree
of about 10. Prints medians over rounds, in milliseconds, single process.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from fedroam.components import build
from fedroam.contacts import degrees
from fedroam.mixing import Facts
from fedroam.mobility import World

RADIUS = 45.0


def cost(clients: int, side: float, rounds: int) -> tuple[np.ndarray, float]:
    """Seconds for movement, contacts and mixing (median over rounds), and the mean degree."""
    mobility: Any = build("mobility", {"kind": "random_walk", "width": side, "height": side})
    contacts: Any = build("contacts", {"kind": "closest_approach", "radius": RADIUS})
    mixing: Any = build("mixing", "mobility_aware")
    world = World(0, clients, np.ones((clients, 1), dtype=np.int64), RADIUS)
    state, seconds, degree = mobility.start(world), [], []
    for t in range(1, rounds + 2):
        clock = [time.perf_counter()]
        state, paths = mobility.step(state, world, t)
        clock.append(time.perf_counter())
        graph = contacts.meet(paths)
        clock.append(time.perf_counter())
        mixing.weights(graph, Facts(samples=world.class_counts[:, 0], speed=paths.length))
        clock.append(time.perf_counter())
        seconds.append(np.diff(clock))
        degree.append(degrees(graph).mean())
    return np.median(seconds[1:], axis=0), float(np.mean(degree))  # the first round warms up


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15, help="rounds to take the median of")
    rounds = parser.parse_args().rounds
    print(
        f"{'clients':>8} {'degree':>7} {'movement':>9} {'contacts':>9} {'mixing':>8} {'all':>9}  (ms per round)"
    )
    for clients in (48, 1000, 10_000, 100_000):
        side = 500.0 if clients == 48 else 36.0 * np.sqrt(clients)
        parts, degree = cost(clients, float(side), rounds)
        move, meet, mix = 1e3 * parts
        print(f"{clients:>8} {degree:>7.2f} {move:>9.2f} {meet:>9.2f} {mix:>8.2f} {move + meet + mix:>9.2f}")


if __name__ == "__main__":
    main()
