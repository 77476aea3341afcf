"""What is timed, and how: our engine and the plain loop in turn, so that both meet the same disturbances."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch.nn import functional
from typing_extensions import override

from fedroam.bench.workloads import WORKLOADS, Ours, Plain
from fedroam.data import memory
from fedroam.experiment import Experiment
from fedroam.learning import Entry, Job, Layout, Learner, Models, Scores, mix
from fedroam.learning.cpu.workers import Workers
from fedroam.learning.training import SGD
from fedroam.measurement import Measurement
from fedroam.randomness import stream
from fedroam.runner import run
from fedroam.scene import Scene, prepare

STAT = Path("/proc/stat")  # of Linux: what the cores did so far
QUIET = 0.85  # the engine gets at least this share of the cores on a quiet machine


class Others:
    """Watches, from its making on, what other programs take of the cores; only where the system tells it (Linux)."""

    def __init__(self) -> None:
        self.before, self.wall = self._taken(), time.perf_counter()

    def left(self) -> float | None:
        """The share of the machine's cores that others have left since; None where that is not known."""
        now, wall = self._taken(), time.perf_counter() - self.wall
        if now is None or self.before is None or not wall:
            return None
        return 1 - max(0.0, now - self.before) / (wall * (os.cpu_count() or 1))

    @staticmethod
    def _taken() -> float | None:
        """Seconds of all cores so far that neither were idle nor this program's."""
        try:
            fields = STAT.read_text(encoding="ascii").splitlines()[0].split()
            user, nice, system, _, _, *interrupts = (int(field) for field in fields[1:9])
        except (OSError, ValueError, IndexError):
            return None
        ticks = os.sysconf("SC_CLK_TCK")
        return (user + nice + system + sum(interrupts)) / ticks - sum(os.times()[:4])


@dataclasses.dataclass(frozen=True)
class Result:
    """One line of the table. value and target in `unit`; `more_is_better` says which side of the target is good.

    times: seconds of each repeat, by what was timed. busy: the share of the cores that the engine got while it was
    timed (or, where it does not ask for all, that others left it), None where that was not watched. Where other
    programs take their part, torch's threads wait for each other, the plain loop becomes many times slower, and ratios
    against it are far too good. share: the FLOP/s over those of the machine's best convolution, None where there are
    none; least_share: what it should be at least.
    """

    name: str
    about: str
    value: float
    target: float | None
    unit: str
    more_is_better: bool = True
    detail: str = ""
    times: dict[str, list[float]] = dataclasses.field(default_factory=dict)
    busy: float | None = None
    share: float | None = None
    least_share: float = 0.0

    @property
    def disturbed(self) -> bool:
        """Whether other programs ran at the same time, so that the result means little."""
        return self.busy is not None and self.busy < QUIET

    @property
    def reached(self) -> bool | None:
        """Whether the target is reached; None where there is none."""
        if self.target is None:
            return None
        good = self.value >= self.target if self.more_is_better else self.value <= self.target
        return good and (self.share is None or self.share >= self.least_share)


def seconds_of(work: Callable[[], object]) -> float:
    """How long a call takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def in_turn(repeats: int, **works: Callable[[], object]) -> dict[str, list[float]]:
    """Seconds of each call, `repeats` times in turn, after one round to warm up."""
    for work in works.values():
        work()
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            times[name].append(seconds_of(work))
    return times


def ratio(times: dict[str, list[float]], slow: str, fast: str) -> float:
    """Median of the ratios of neighbours in time."""
    return statistics.median(a / b for a, b in zip(times[slow], times[fast], strict=True))


def peak(workers: int, repeats: int = 3) -> float:
    """FLOP/s of a large convolution on every core at once: what this machine can do at best, now."""
    pool = Workers(workers)
    images, channels, side = 8, 128, 32
    flops = 2.0 * images * side * side * channels * channels * 9

    def channels_last(*shape: int) -> torch.Tensor:
        return torch.zeros(shape).normal_(generator=torch.Generator().manual_seed(0)).permute(0, 3, 1, 2)

    x, weight = channels_last(images, side, side, channels), channels_last(channels, 3, 3, channels)

    @torch.no_grad()
    def do(_worker: int, _k: int) -> None:
        for _ in range(5):
            functional.conv2d(x, weight, padding=1)

    calls = [1.0] * (2 * pool.count)
    best = min(seconds_of(lambda: pool.run(calls, do)) for _ in range(repeats + 1))
    pool.close()
    return 5 * flops * len(calls) / best


def training(name: str, repeats: int, workers: int) -> list[Result]:
    """A workload's speed over the plain loop, and its share of the peak measured just before and after."""
    workload = WORKLOADS[name]
    ours = Ours(workload, workers=workers)
    plain = Plain(workload, ours.x, ours.y)
    top = peak(workers)
    shares: list[float] = []

    def engine() -> None:
        cpu, wall = time.process_time(), seconds_of(ours.round)
        shares.append((time.process_time() - cpu) / (wall * workers))

    times = in_turn(repeats, plain=plain.round, engine=engine)
    top = max(top, peak(workers))
    ours.learner.close()
    work = workload.flops * workload.steps * workload.clients
    median = statistics.median(times["engine"])
    share, over = work / median / top, ratio(times, "plain", "engine")
    detail = (
        f"{workload.clients} clients x {workload.steps} steps of {workload.batch}: "
        f"plain {statistics.median(times['plain']):.3f} s, engine {median:.3f} s "
        f"(fastest {min(times['plain']):.3f} and {min(times['engine']):.3f}), "
        f"{work / median / 1e9:.0f} of {top / 1e9:.0f} GFLOP/s ({100 * share:.0f}%)"
    )
    busy = statistics.median(shares[1:])
    return [
        Result(
            *(
                name,
                workload.about,
                over,
                workload.target,
                "x",
                True,
                detail,
                times,
                busy,
                share,
                workload.share,
            )
        )
    ]


def mixing(repeats: int) -> list[Result]:
    """F: X[1000, 100000] by a sparse W with 7.5 entries a row."""
    rows, columns, degree = 1000, 100_000, 6.5
    draws = stream(0, "benchmark")
    near = np.triu(draws.random((rows, rows)) < degree / rows, 1)
    graph = near | near.T | np.eye(rows, dtype=bool)
    weights = sparse.csr_array(graph / graph.sum(1, keepdims=True))
    # As models of a run lie: rows that begin at cache lines, where an array of numpy begins between two.
    layout = Layout((Entry("all", (columns,), 0, columns),), ())
    models = Models.empty(layout, rows, momentum=False, cleared=False)
    matrix = models.parameters
    matrix.copy_(torch.from_numpy(draws.standard_normal((rows, columns), dtype=np.float32)))
    # What has to be moved at least: each value is read once and written once, where it stands.
    others = Others()
    times = in_turn(repeats, mix=lambda: mix(models, weights), in_place=lambda: matrix.mul_(1.0))
    left = others.left()
    value, least = (1e3 * statistics.median(times[name]) for name in ("mix", "in_place"))
    detail = f"best {1e3 * min(times['mix']):.0f} ms; multiplying X in place {least:.0f} ms"
    about = "mixing, X[1000, 100000], degree 7.5"
    return [Result("F", about, value, 40.0, "ms", False, detail, times, left)]


def evaluation(repeats: int, workers: int) -> list[Result]:
    """20 models of workload A on one test set: over the plain loop, and its FLOP/s over those of training."""
    workload = dataclasses.replace(WORKLOADS["A"], steps=5)
    ours = Ours(workload, workers=workers)
    plain = Plain(workload, ours.x, ours.y)
    others = Others()
    times = in_turn(repeats, plain=plain.evaluate, engine=ours.evaluate, training=ours.round)
    left = others.left()
    ours.learner.close()
    trained = workload.clients * workload.steps * workload.flops
    # multiplications and additions of one sample's forward pass
    tested = workload.clients * len(ours.y) * 0.96e6
    share = statistics.median(
        (tested / e) / (trained / t) for e, t in zip(times["engine"], times["training"], strict=True)
    )
    detail = f"20 models x {len(ours.y)} samples: {statistics.median(times['engine']):.3f} s"
    over = ratio(times, "plain", "engine")
    about = "20 models of A, FLOP/s over training's"
    return [
        Result("evaluation", about, share, 1.0, "x", True, detail, times, left),
        Result(
            "evaluation", "20 models of A, over the plain loop", over, None, "x", True, detail, times, left
        ),
    ]


class _Clocked(Learner):
    """A learner that notes the time spent in it."""

    def __init__(self, learner: Learner) -> None:
        self.learner, self.task, self.notes, self.seconds = learner, learner.task, learner.notes, 0.0

    @contextlib.contextmanager
    def _clock(self) -> Iterator[None]:
        begin = time.perf_counter()
        yield
        self.seconds += time.perf_counter() - begin

    @override
    def open(self) -> None:
        self.learner.open()

    @override
    def close(self) -> None:
        self.learner.close()

    @override
    def train(self, models: Models, jobs: Sequence[Job]) -> np.ndarray:
        with self._clock():
            return self.learner.train(models, jobs)

    @override
    def evaluate(self, *arguments: Any) -> Scores:
        with self._clock():
            return self.learner.evaluate(*arguments)

    @override
    def features(self, *arguments: Any) -> list[torch.Tensor]:
        with self._clock():
            return self.learner.features(*arguments)


def overhead(repeats: int, workers: int) -> list[Result]:
    """The share of a round of workload A that goes to movement, contacts, mixing and all that is recorded of it.

    The rounds are those of a run with its folder, from one to the next; how often it evaluates and writes checkpoints
    is left to whoever runs one, so here it does so at its ends alone.
    """
    workload, ours = WORKLOADS["A"], repeats + 1
    draws = stream(0, "benchmark")
    x = draws.standard_normal((10_000, 28, 28, 1), dtype=np.float32)
    experiment = Experiment(
        clients=workload.clients,
        rounds=ours + 1,  # the last one is evaluated, too
        data=memory(x, draws.integers(0, 10, len(x))),
        partition="iid",
        model=workload.model,
        training=SGD(lr=0.01, batch_size=workload.batch, steps=workload.steps),
        engine={"kind": "auto", "workers": workers},
        mobility={"kind": "random", "mobile": workload.clients},
        evaluate_every=ours + 1,
        checkpoint_every=ours + 1,
    )
    clocks: list[_Clocked] = []
    ends: list[tuple[float, float]] = []

    def clocked(experiment: Experiment) -> Scene:
        scene = prepare(experiment)
        clocks.append(_Clocked(scene.learner))
        return dataclasses.replace(scene, learner=clocks[-1])

    def ended(round: int, rounds: int, measurement: Measurement | None) -> None:
        ends.append((time.perf_counter(), clocks[-1].seconds))

    others = Others()
    with tempfile.TemporaryDirectory() as folder:
        run(experiment, Path(folder) / "run", stage=clocked, observer=ended)
    left = others.left()
    rounds = [b - a for (a, _), (b, _) in itertools.pairwise(ends[1:-1])]
    computed = [b - a for (_, a), (_, b) in itertools.pairwise(ends[1:-1])]
    value = statistics.median(100 * (1 - b / a) for a, b in zip(rounds, computed, strict=True))
    detail = f"of {1e3 * statistics.median(rounds):.0f} ms"
    times = {"round": rounds}
    return [Result("overhead", "all but training, round of A", value, 2.0, "%", False, detail, times, left)]
