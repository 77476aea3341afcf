"""What a hierarchical federation of many devices and access points costs in memory and time, round by round.

    python benchmarks/hierarchical_memory.py                                    # 10,000 x 1,000, Conv5, 24 rounds
    python benchmarks/hierarchical_memory.py --devices 1000 --access-points 100 --samples 8 --epochs 1 --rounds 6

Devices come and go so that 3.5% are there at a time and 43% of them an hour later, as in the month of check-ins that
stands in for the one of Farcas et al. Images are noise, 32 x 32 in colour. Everything is as in a run: movement,
training, exchange, accounting, evaluation every --evaluate-every rounds, a checkpoint every --checkpoint-every.
Memory does not depend on --samples and --epochs, nor on --idle, which trains nothing at all; time depends on little
else. With training as in the paper a round is 350 devices x 500 images x 5 epochs: 24 of them take some hours. So a
line tells how far a round has come, every --every seconds, and each round how long the rest will take; Ctrl-C ends
with the numbers so far. Peak memory is that of the whole process; the exit code is 1 where it is above --limit or
training takes less than --share of the rounds' time (not with --idle), 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedroam.components import Part, build, register
from fedroam.data import memory
from fedroam.experiment import Experiment
from fedroam.learning import Engine, Learner, Models, Task
from fedroam.measurement import Measurement
from fedroam.randomness import stream
from fedroam.runner import run
from fedroam.terminal.interrupts import Interrupted

GIB = 2**30
IDLE: list[bool] = []  # not empty: devices give back what they get
TRAINED: list[tuple[float, int, int]] = []  # seconds, devices and rows of models of each round


PORTION = 32  # devices; each portion keeps every core busy for many jobs, so that little is lost at its end


class Watched:
    """A learner that notes how long each round's training took, and tells how far it has come."""

    every = 60.0  # seconds between two words

    def __init__(self, learner: Learner) -> None:
        self.learner, self.notes = learner, learner.notes

    def train(self, models: Models, jobs: Any) -> np.ndarray:
        """Train in portions, and note the time."""
        clock = said = time.perf_counter()
        losses = np.zeros(len(jobs))
        for begin in range(0, 0 if IDLE else len(jobs), PORTION):
            end = min(begin + PORTION, len(jobs))
            losses[begin:end] = self.learner.train(models, jobs[begin:end])
            now = time.perf_counter()
            if now - said >= self.every and end < len(jobs):
                spent, said = now - clock, now
                rest = spent / end * (len(jobs) - end)
                print(
                    f"       ... {end} of {len(jobs)} devices after {span(spent)}, {span(rest)} left of this round",
                    flush=True,
                )
        TRAINED.append((time.perf_counter() - clock, len(jobs), len(models)))
        return losses

    def __getattr__(self, name: str) -> Any:
        return getattr(self.learner, name)


@register("engine", "watched")
class WatchedEngine(Part):
    """The engine that `auto` chooses, watched."""

    def build(self, task: Task) -> Learner:
        """See `Engine.build`."""
        engine: Engine = build("engine", "auto")  # type: ignore[assignment]
        return Watched(engine.build(task))


def experiment(chosen: argparse.Namespace) -> Experiment:
    """The run: as Farcas et al., Sec. 4.1, but for movement, data, and how much of them there is."""
    draws = stream(0, "benchmark images")
    images = max(2000, chosen.samples)
    x = torch.from_numpy(draws.standard_normal((images, 3, 32, 32), dtype=np.float32)).numpy()
    y = np.arange(images) % 10
    held = {"alpha": 0.1, "samples_per_client": chosen.samples, "sharing": "replacement"}
    return Experiment(
        name="hierarchical-memory",
        clients=chosen.devices,
        rounds=chosen.rounds,
        evaluate_every=chosen.evaluate_every,
        checkpoint_every=chosen.checkpoint_every,
        record_movement="none",
        data=memory(x, y, x[:500], y[:500], layout="channels_first"),
        partition={"kind": "client_dirichlet", **held},
        model=chosen.model,
        training={"kind": "sgd", "lr": 0.01, "batch_size": 8, "epochs": chosen.epochs},
        engine="watched",
        mobility={"kind": "random_walk", "width": 17_500.0, "height": 17_500.0, "max_speed": 3000.0},
        # on a share p of the time, for 1 / 0.57 rounds at a stretch
        activity={
            "kind": "on_off",
            "mean_on": 1.75,
            "mean_off": 1.75 * (1 - chosen.present) / chosen.present,
        },
        access_points={"kind": "uniform", "number": chosen.access_points},
        federation={"kind": chosen.method, "k2": chosen.k2},
    )


def span(seconds: float) -> str:
    """`1:02:03`."""
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def resident() -> float:
    """GiB of this process that lie in memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / GIB


def peak() -> float:
    """The most GiB of this process that have lain in memory so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / GIB


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--devices", type=int, default=10_000)
    parser.add_argument("--access-points", type=int, default=1000)
    parser.add_argument("--present", type=float, default=0.035, help="share of the devices there at a time")
    parser.add_argument("--method", default="mohawk", help="kind of federation")
    parser.add_argument("--model", default="conv5")
    parser.add_argument("--k2", type=int, default=10, help="rounds between global aggregations")
    parser.add_argument("--rounds", type=int, default=24)
    parser.add_argument("--samples", type=int, default=500, help="images of each device")
    parser.add_argument("--epochs", type=int, default=5, help="local epochs, k1")
    parser.add_argument("--evaluate-every", type=int, default=10)
    parser.add_argument("--checkpoint-every", type=int, default=10)
    parser.add_argument("--limit", type=float, default=12.0, help="GiB that are allowed")
    parser.add_argument(
        "--share", type=float, default=0.9, help="least share of training in the rounds' time"
    )
    parser.add_argument("--every", type=float, default=60.0, help="seconds between two words within a round")
    parser.add_argument(
        "--idle", action="store_true", help="no training: memory, and the time of all the rest"
    )
    chosen = parser.parse_args()
    IDLE.extend([True] * chosen.idle)
    Watched.every = chosen.every
    described, clock = experiment(chosen), [time.perf_counter()]
    print(
        f"{chosen.devices:,} devices, {chosen.access_points:,} access points, {chosen.model}, k2 = {chosen.k2}, "
        + ("no training" if chosen.idle else f"{chosen.samples} images x {chosen.epochs} epochs a device")
        + f"; {chosen.rounds} rounds on {os.cpu_count()} cores"
    )
    print(
        f"{'round':>6} {'devices':>8} {'rows':>6} {'GiB now':>8} {'GiB peak':>9} {'training':>9} {'rest':>7}  (seconds)"
    )

    def tell(round: int, rounds: int, found: Measurement | None) -> None:
        now = time.perf_counter()
        seconds, devices, rows = TRAINED[-1] if TRAINED else (0.0, 0, 1)
        rest = now - clock[-1] - seconds
        clock.append(now)
        ahead = (now - clock[1]) / round * (rounds - round) if round else 0.0
        print(
            f"{round:>6} {devices:>8} {rows:>6} {resident():>8.2f} {peak():>9.2f} {seconds:>9.2f} {rest:>7.2f}"
            + (f"  {span(ahead)} left" if 0 < round < rounds else ""),
            flush=True,
        )

    before, stopped = resident(), False
    with tempfile.TemporaryDirectory() as folder:
        try:
            run(described, Path(folder) / "run", observer=tell)
        except Interrupted:
            stopped = True
    done = len(clock) - 2  # beside the start and round 0
    if done < 1:
        return 130
    whole, training = clock[-1] - clock[1], sum(seconds for seconds, _, _ in TRAINED[:done])
    share = training / whole
    print(
        f"rounds: {done} of {chosen.rounds} in {span(whole)}, at most {max(row for _, _, row in TRAINED)} rows"
    )
    print(f"peak memory: {peak():.2f} GiB of {chosen.limit:g} allowed (the program alone: {before:.2f})")
    print(
        f"training: {100 * share:.1f}% of the rounds' time, all the rest {(whole - training) / done:.2f} s a round"
    )
    if stopped:
        return 130
    return int(peak() > chosen.limit or (share < chosen.share and not chosen.idle))


if __name__ == "__main__":
    sys.exit(main())
