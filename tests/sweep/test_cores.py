"""Runs of a sweep take the cores that nobody else needs; their numbers stay the same."""

from __future__ import annotations

import json
from collections import deque
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from fedroam.errors import InputError
from fedroam.learning.cpu.workers import MOST_WORKERS, Workers, cores, shared_workers
from fedroam.planning import sweep_plan
from fedroam.runner import run
from fedroam.sweep import Event, Progress, messages
from fedroam.sweep.fork_server import start_context
from fedroam.sweep.limits import GIB, available_memory, limit_memory, out_of_memory, restore
from fedroam.sweep.local import A_THREAD, WorkerHandle, WorkerPool
from fedroam.sweep.running import run_sweep
from fedroam.sweep.worker import Setup, WorkerShare
from support.scripts import benchmark
from support.sweeps import same, settings
from support.tiny import own_data, tiny


@pytest.mark.parametrize("model", ["softmax_regression", {"kind": "mlp", "hidden": (8,)}, "mnist_cnn"])
def test_threads_that_come_and_go_change_no_number(model: Any, tmp_path: Path) -> None:
    image = {} if model != "mnist_cnn" else {"data": own_data((1, 28, 28))}
    experiment = tiny(model=model, engine={"kind": "cpu", "workers": 1}, rounds=5, **image)
    told = iter([1, 3, 2, 2, 5, 1, 4])
    asked: list[int] = []

    def allowed() -> int:
        asked.append(next(told))
        return asked[-1]

    before = shared_workers().count
    alone = run(experiment, tmp_path / "alone")
    shared = run(experiment, tmp_path / "shared", cores=allowed)
    assert asked == [1, 3, 2, 2, 5, 1, 4]  # before each round and at the end
    assert shared_workers().count == before
    assert benchmark("kill_and_resume").differences(alone.folder, shared.folder) == []


def test_workers_may_become_more_and_fewer() -> None:
    workers, seen = Workers(1), list[int]()
    for count in (1, 4, 2, 3):
        workers.resize(count)
        seen.clear()

        def do(worker: int, k: int, seen: list[int] = seen) -> None:
            seen.append(worker)

        workers.run([1.0] * 50, do)
        assert len(seen) == 50
        assert set(seen) <= set(range(count))
    assert len(workers._threads) == 4
    workers.resize(0)
    assert workers.count == cores()
    for wrong in (-1, MOST_WORKERS + 1):
        with pytest.raises(InputError, match="allowed are 0"):
            workers.resize(wrong)
    workers.close()


class _Pipe:
    """Keeps what a worker is told."""

    def __init__(self) -> None:
        self.told: list[messages.Message] = []

    def send_bytes(self, data: bytes) -> None:
        self.told.append(messages.decode(data))

    def close(self) -> None:
        """Nothing more is told."""

    def shares(self) -> list[tuple[int, int | None]]:
        return [(each.cores, each.memory) for each in self.told if isinstance(each, messages.Share)]


def _pool(count: int, cores: int, memory: int | None = None) -> tuple[WorkerPool[Any], list[_Pipe]]:
    """A pool whose workers are pipes, each with a run."""
    pool = WorkerPool[Any](count, Setup(memory=memory), cores)
    pipes = [_Pipe() for _ in range(count)]
    for k, pipe in enumerate(pipes):
        worker = WorkerHandle[Any](cast(BaseProcess, None), cast(Connection, pipe), ready=True)
        worker.task, worker.begun = _task(k), k
        pool._workers.append(worker)
    return pool, pipes


def _task(k: int) -> messages.RunTask:
    return messages.RunTask(str(k), "", "", "resume", "", k, 1, 0, "")


def test_nobody_is_told_anything_while_each_has_a_core() -> None:
    pool, pipes = _pool(3, 3)
    for waiting in (5, 1, 0):
        pool._share_out(waiting)
    assert [pipe.told for pipe in pipes] == [[], [], []]


def test_cores_of_runs_that_are_over_go_to_the_others() -> None:
    pool, pipes = _pool(4, 4, memory=GIB)
    pool._workers[1].task = None
    pool._share_out(0)
    # Who has nothing to do leaves; the run that was begun last gets what is over.
    assert pipes[1].told == [messages.Close()]
    assert [pipe.shares() for pipe in pipes] == [
        [(1, 4 * GIB // 3)], [], [(1, 4 * GIB // 3)], [(2, 4 * GIB // 3)],
    ]  # fmt: skip
    pool._workers[3].task = None
    pool._share_out(0)
    assert pipes[0].shares()[1:] == pipes[2].shares()[1:] == [(2, 2 * GIB)]
    pool._share_out(0)
    assert len(pipes[0].shares()) == 2  # told once
    pool._workers[0].task = None
    pool._share_out(0)
    assert pipes[2].shares()[2:] == [(4, 4 * GIB)]


def test_cores_for_whose_workers_there_is_no_memory_are_shared_from_the_start() -> None:
    pool, pipes = _pool(2, 7, memory=GIB)
    pool._share_out(9)
    assert [pipe.shares() for pipe in pipes] == [[(3, GIB)], [(4, GIB)]]
    pool._workers[0].task, pool._workers[0].begun = _task(9), 9
    pool._share_out(8)
    assert [pipe.shares() for pipe in pipes] == [[(3, GIB), (4, GIB)], [(4, GIB), (3, GIB)]]


def test_a_run_that_is_tried_again_gets_its_core_back() -> None:
    pool, pipes = _pool(2, 2)
    pool._workers[0].task = None
    pool._share_out(0)
    assert pipes[1].shares() == [(2, None)]
    pool._share_out(1)
    assert pipes[1].shares() == [(2, None), (1, None)]


def test_threads_take_no_more_than_there_is_memory_for() -> None:
    pool, pipes = _pool(2, 16, memory=3 * A_THREAD)
    pool._share_out(0)
    assert [pipe.shares() for pipe in pipes] == 2 * [[(3, 3 * A_THREAD)]]


@pytest.mark.parametrize("stopped", [False, True])
def test_a_run_with_too_little_memory_for_several_threads_is_tried_with_one(stopped: bool) -> None:
    pool, pipes = _pool(2, 4)
    waiting, told = deque[Any](), list[messages.Message]()
    pool._share_out(0)
    for again in (False, True):
        worker = pool._workers[0]
        failed = messages.Failed("out of memory", out_of_memory=True)
        pool._handle_message(worker, failed, waiting, lambda _, message: told.append(message), stopped)
        assert (worker.ready, worker.leaving, worker.task) == (False, True, None)
        if again:
            break
        assert [task.digest for task in waiting] == ([] if stopped else ["0"])
        pool._workers[0] = WorkerHandle[Any](cast(BaseProcess, None), cast(Connection, pipes[0]), ready=True)
        pool._workers[0].task, pool._workers[0].begun = _task(0), 9
        waiting.clear()
        pool._share_out(0)
        assert pipes[0].shares() == [(2, None), (1, None)]
    kinds = [type(message) for message in told]
    assert kinds == [messages.Stopped if stopped else messages.Again, messages.Failed]


def test_a_thread_that_cannot_start_is_want_of_memory() -> None:
    assert out_of_memory(RuntimeError("can't start new thread"))


class _Ended:
    """A process that has ended with a code."""

    def __init__(self, exitcode: int) -> None:
        self.exitcode = exitcode

    def join(self, timeout: float | None = None) -> None:
        """It has."""

    def is_alive(self) -> bool:
        return False


def test_workers_that_die_as_they_leave_are_no_failed_starts() -> None:
    pool, _ = _pool(5, 5)
    for worker in pool._workers[1:]:
        worker.task = None
        worker.process = cast(BaseProcess, _Ended(3))
    pool._share_out(0)
    leaving = [worker for worker in pool._workers if worker.leaving]
    assert len(leaving) == 4
    assert pool._staying() == 1
    for worker in leaving:
        pool._handle_death(worker, deque(), lambda task, message: None, stopped=False)
    assert [worker.task is not None for worker in pool._workers] == [True]


def test_runs_that_are_measured_keep_to_one_core() -> None:
    pool, pipes = _pool(2, 2)
    for worker in pool._workers:
        worker.task = messages.MeasureTask("", "", "", "", 1.0, "")
    pool._workers[0].task = None
    pool._share_out(0)
    assert pipes[1].told == []


def _take(pipe: Connection) -> None:
    """In a process of its own: what becomes of an array of 3/4 GiB as shares change."""
    former = limit_memory(GIB // 2)
    share = WorkerShare(GIB // 2)
    for told in (None, messages.Share(2, GIB), messages.Share(1, GIB // 2)):
        if told is not None:
            share.change(told)
        try:
            np.ones(GIB * 3 // 4 // 8)
            pipe.send_bytes(b"fits")
        except MemoryError:
            pipe.send_bytes(b"refused")
    pipe.send_bytes(f"{share.cores} {share.memory}".encode())
    restore(former)


@pytest.mark.skipif(available_memory() is None, reason="this system has no such limit")
def test_memory_is_given_and_not_taken_back() -> None:
    context: Any = start_context()
    ours, theirs = context.Pipe()
    process = context.Process(target=_take, args=(theirs,))
    process.start()
    theirs.close()
    assert [ours.recv_bytes() for _ in range(3)] == [b"refused", b"fits", b"fits"]
    assert ours.recv_bytes().decode() == f"1 {GIB}"
    process.join()
    assert process.exitcode == 0


WATCHING = '''
import json
import threading
import time
from pathlib import Path

from fedroam.components import field, register
from fedroam.mobility.grid import Static


@register("mobility", "watching")
class Watching(Static):
    """Keeps which threads of the engine there are. From round 2 on it waits until the other run is over, and a moment
    in each round until there are two."""

    folder: str = field("", "where", identity=False)

    def step(self, state, world, round):
        folder = Path(self.folder)
        if world.clients == 5:
            while round >= 2 and not (folder / "over").exists():
                time.sleep(0.02)
            names = sorted({each.name for each in threading.enumerate() if each.name.startswith("fedroam-")})
            with (folder / "seen").open("a") as file:
                file.write(json.dumps(names) + chr(10))
            if round >= 2 and "fedroam-1" not in names and not (folder / "seen enough").exists():
                time.sleep(0.1)
        return super().step(state, world, round)
'''


def test_the_last_run_of_a_sweep_takes_all_cores(tmp_path: Path) -> None:
    file = tmp_path / "watching.py"
    file.write_text(WATCHING)
    plan = sweep_plan(
        settings(
            mobility={"kind": "watching", "folder": str(tmp_path)},
            rounds=120,
            evaluate_every=60,
            checkpoint_every=60,
            use=[str(file)],
        ),
        over=["clients=4,5"],
    )

    def observe(progress: Progress, event: Event) -> None:
        if event.what == "done":
            (tmp_path / "over").touch()

    shared = run_sweep(plan, tmp_path / "two", workers=2, observer=observe)
    assert shared.done
    seen = [json.loads(line) for line in (tmp_path / "seen").read_text().splitlines()]
    assert "fedroam-1" not in seen[0]
    assert "fedroam-1" in seen[-1]
    (tmp_path / "seen enough").touch()
    same(shared, run_sweep(plan, tmp_path / "one", workers=1))
