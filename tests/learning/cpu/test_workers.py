"""The pool of workers: order, failures, threads, ends."""

from __future__ import annotations

import gc
import math
import os
import signal
import threading
import time
import weakref

import pytest
import torch

from fedroam.errors import FedroamError, InputError
from fedroam.learning.cpu.workers import (
    FEW,
    Workers,
    computing_as_workers,
    cores,
    share_no_convolution,
)
from support.learners import problem
from support.waiting import eventually


def test_every_job_once_the_largest_first() -> None:
    done: list[int] = []
    workers = Workers(1)
    workers.run([3, 9, 1, 9, 5], lambda _, k: done.append(k))
    assert done == [1, 3, 4, 0, 2]
    workers.run([], lambda _, k: done.append(k))
    assert len(done) == 5
    workers.close()


def test_workers_compute_with_one_thread_and_others_keep_theirs() -> None:
    before, inside, later = torch.get_num_threads(), {}, []
    workers, both = Workers(2), threading.Barrier(2)

    def do(worker: int, k: int) -> None:
        torch.ones(100_000).sum()
        inside[worker] = torch.get_num_threads()
        both.wait()  # or one of them might do both

    workers.run([1.0] * 2, do)
    assert inside == {0: 1, 1: 1}
    assert torch.get_num_threads() == before
    thread = threading.Thread(target=lambda: later.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert later == [before]
    workers.close()


@pytest.mark.parametrize(
    ("machine", "version", "wrong"),
    [
        ("aarch64", "2.9.1+cpu", True),
        ("arm64", "2.4.0", True),
        ("aarch64", "2.13.0", False),
        ("x86_64", "2.9.1", False),
    ],
)
def test_on_arm_an_older_torch_computes_without_what_threads_cannot_share(
    machine: str, version: str, wrong: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: machine)
    monkeypatch.setattr(torch, "__version__", torch.torch_version.TorchVersion(version))
    before = torch.backends.mkldnn.set_flags(True)
    try:
        assert share_no_convolution.__wrapped__() is wrong
        assert torch.backends.mkldnn.set_flags(True)[0] is not wrong
    finally:
        torch.backends.mkldnn.set_flags(*before)


@pytest.mark.parametrize("native", [True, False])
def test_convolutions_do_not_depend_on_who_computes_beside_them(native: bool) -> None:
    """Of equal shapes at the same time, by kernels and by torch."""
    case = problem("mnist_cnn", (20, 20, 1), (12, 12, 12, 12), seed=3)
    alone, beside = (case.trained("cpu", workers=workers, native=native)[0].parameters for workers in (1, 4))
    assert torch.equal(alone, beside)


def test_serial_is_one_worker() -> None:
    used = set()
    workers = Workers(3)
    workers.run([1.0] * 9, lambda worker, _: used.add(worker), serial=True)
    assert used == {0}
    workers.close()


def test_an_error_stops_the_rest_and_keeps_its_kind() -> None:
    workers, done = Workers(1), []

    def do(_: int, k: int) -> None:
        done.append(k)
        if k == 1:
            raise InputError("row 7: no good")
        if k == 2:
            raise ZeroDivisionError("by nothing")

    with pytest.raises(InputError, match=r"^part 1: row 7: no good$"):
        workers.run([1, 1, 1], do, "part {}".format)
    assert done == [0, 1]
    with pytest.raises(
        FedroamError, match=r"^job 2: ZeroDivisionError: by nothing \(test_workers.py, line \d+\)$"
    ) as caught:
        workers.run([1, 0, 2], do)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    workers.run([1], do)
    workers.close()


def test_a_failure_ends_long_jobs_of_others() -> None:
    workers = Workers(2)

    def do(_: int, k: int) -> None:
        if k == 0:
            raise ValueError("early")
        while True:
            workers.check()
            time.sleep(0.001)

    with pytest.raises(FedroamError, match="job 0: ValueError: early"):
        workers.run([1.0, 1.0], do)
    workers.close()


def test_threads_end_with_the_pool() -> None:
    def alive() -> int:
        return sum(thread.name.startswith("fedroam-") for thread in threading.enumerate())

    gc.collect()  # what earlier tests have left
    before = alive()
    workers = Workers(2)
    workers.run([1.0], lambda *_: None)
    assert alive() == before + 2
    workers.close()
    workers.close()
    assert alive() == before
    with pytest.raises(FedroamError, match="closed"):
        workers.run([1.0], lambda *_: None)
    forgotten = Workers(2)
    forgotten.run([1.0], lambda *_: None)
    reference = weakref.ref(forgotten)
    del forgotten
    gc.collect()
    assert reference() is None
    assert alive() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_has_workers_of_its_own() -> None:
    workers = Workers(1)
    workers.run([1.0], lambda *_: None)
    child = os.fork()
    if not child:
        code = 1
        try:
            workers.run([1.0], lambda *_: None)
            code = 0
        finally:
            os._exit(code)
    ended: list[int] = []

    def over() -> bool:
        ended[:] = os.waitpid(child, os.WNOHANG)
        return bool(ended[0])

    try:
        eventually(over, "the forked process ends")
    finally:
        if not ended[0]:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    assert ended == [child, 0]
    workers.close()


def test_cores() -> None:
    assert 1 <= cores() <= (os.cpu_count() or 1)


@pytest.mark.parametrize(
    ("count", "step", "wanted"), [(7, 3, [(0, 3), (3, 6), (6, 7)]), (6, 3, [(0, 3), (3, 6)]), (0, 3, [])]
)
@pytest.mark.parametrize("work", [FEW, math.inf])
def test_parts_cover_everything_once(
    count: int, step: int, wanted: list[tuple[int, int]], work: float
) -> None:
    workers, found, names = Workers(2), [], set()

    def note(worker: int, begin: int, end: int) -> None:
        assert worker in (range(1) if work == FEW else range(2))
        found.append((begin, end))
        names.add(threading.current_thread().name)

    workers.parts(count, step, note, "part {}".format, work=work)
    assert sorted(found) == wanted
    assert all((name == threading.current_thread().name) == (work == FEW) for name in names)
    with pytest.raises(FedroamError, match=r"part 1: .*broken"):
        workers.parts(4, 2, broken, "part {}".format, work=work)
    workers.close()


@pytest.mark.parametrize("before", [False, True])
def test_this_thread_flushes_denormals_for_a_while(before: bool) -> None:
    """As workers do all the time; afterwards it computes as it did, also where something went wrong."""
    small = torch.tensor([1e-40])
    if not torch.set_flush_denormal(before):
        pytest.skip("this processor does not flush denormals")
    try:
        with computing_as_workers():
            assert float(small * 1) == 0
        assert (float(small * 1) == 0) == before
        with pytest.raises(FedroamError), computing_as_workers():
            raise FedroamError("wrong")
        assert (float(small * 1) == 0) == before
    finally:
        torch.set_flush_denormal(False)


def broken(worker: int, begin: int, end: int) -> None:
    if begin:
        raise ValueError("broken")
