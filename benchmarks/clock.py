"""What scheduling a day of movement costs: `fedroam clock` for a fleet in a town, before anything is learnt.

    python benchmarks/clock.py [--rounds 20]

1,000 and 10,000 devices walk and cycle (random walk, up to 50 m a minute, a fifth of them 88 to 175 m) in a square with
100 m of side for each, and talk within 45 m; a day is 1,440 rounds of 60 s. On a free link transfers do not disturb
each other; on shared air those in reach of each other share it. Either way a model takes 2 s alone. Only `--rounds`
rounds are played, after one that warms up and may compile, and the day is 1,440 times their mean, with all pauses of
the garbage collector, and what came before. Prints seconds of the processor (not of the wall clock), those up to the
end of the first round beside them, and the peak of the memory, each case in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from itertools import islice

import numpy as np

DAY = 1440  # rounds of 60 s
SIDE = 100.0  # m, of the square that each device has
MODEL = 2.0  # s, of sending a model


def measured(clients: int, shared: bool, rounds: int) -> dict[str, float]:
    """Seconds of the processor up to the end of the first round, and in a round after it (mean, median), transfers in a
    round, and bytes at the peak of the memory."""
    import fedroam as fr
    from fedroam.analysis.planned_time import planned_rounds

    x, y = np.zeros((clients, 4), dtype=np.float32), np.arange(clients) % 2
    side = float(SIDE * np.sqrt(clients))
    model = 4 * (4 * 2 + 2)  # bytes: softmax regression of 4 inputs and 2 classes
    experiment = fr.Experiment(
        clients=clients,
        rounds=DAY,
        data=fr.data.memory(x, y, x[:10], y[:10]),
        partition="iid",
        model="softmax_regression",
        mobility={"kind": "random_walk", "width": side, "height": side},
        contacts={"kind": "closest_approach", "radius": 45.0},
        clock={"kind": "seconds", "length": 60.0},
        link={"kind": "fixed", "throughput": 8e-6 * model / MODEL, "shared": shared},
    )
    played = islice(planned_rounds(experiment), rounds + 1)
    next(played)
    first = time.process_time()
    seconds, transfers, begun = [], [], time.process_time()
    for row in played:
        seconds.append(time.process_time() - begun)
        transfers.append(row["transfers"])
        begun = time.process_time()
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "first": first,
        "mean": statistics.mean(seconds),
        "median": statistics.median(seconds),
        "transfers": statistics.mean(transfers),
        "peak": peak,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20, help="rounds to take the mean of")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        print(json.dumps(measured(rounds=options.rounds, **json.loads(options.case))))
        return
    print(
        f"{'devices':>8} {'link':>7} {'transfers':>10} {'first, s':>9} {'ms a round':>11} {'median':>7} {'s a day':>8} "
        f"{'GiB':>6}"
    )
    for clients in (1000, 10_000):
        for shared in (False, True):
            case = json.dumps({"clients": clients, "shared": shared})
            command = [sys.executable, __file__, "--rounds", str(options.rounds), "--case", case]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            found = json.loads(done.stdout)
            print(
                f"{clients:>8} {'shared' if shared else 'free':>7} {found['transfers']:>10.0f} "
                f"{found['first']:>9.1f} {1e3 * found['mean']:>11.1f} {1e3 * found['median']:>7.1f} "
                f"{found['first'] + DAY * found['mean']:>8.0f} {found['peak'] / 2**30:>6.2f}"
            )


if __name__ == "__main__":
    main()
