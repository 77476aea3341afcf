"""The pieces of a sweep by themselves: shared data, limits, costs, progress, folders."""

from __future__ import annotations

import os
import subprocess
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from fedroam.components import build
from fedroam.data import Dataset, forget, load_dataset, memory
from fedroam.errors import FedroamError, InputError
from fedroam.experiment import Experiment
from fedroam.planning import sweep_plan
from fedroam.sweep import Progress, open_sweep
from fedroam.sweep.estimate import RoughCost, _factor, _in_proportion, forward_flops, makespan, rough_cost
from fedroam.sweep.fork_server import start_context
from fedroam.sweep.limits import GIB, available_memory, limit_memory, out_of_memory, restore
from fedroam.sweep.measuring import UnitCosts, fit
from fedroam.sweep.running import pool_size, run_sweep
from fedroam.sweep.sharing import arrays_of, offer_shared, write_shared
from support.sweeps import settings
from support.waiting import HANGS


@pytest.fixture(autouse=True)
def _forget() -> Any:
    yield
    forget()


def test_shared_data_are_the_same_mapped_not_copied(tmp_path: Path) -> None:
    part = build("data", "digits")
    before = load_dataset(part)
    total, notes = write_shared(tmp_path, [part, part])
    assert notes == []
    assert len(list(tmp_path.glob("data-*"))) == 1  # equal parts are written once
    assert offer_shared(tmp_path) == total == sum(a.nbytes for a in arrays_of(before).values())
    shared = load_dataset(build("data", "digits"))
    assert shared is not before
    assert load_dataset(build("data", "digits")) is shared
    for name, array in arrays_of(before).items():
        np.testing.assert_array_equal(getattr(shared, name), array)
        assert isinstance(getattr(shared, name).base, np.memmap)
        assert type(getattr(shared, name)) is np.ndarray
    assert "fingerprint" in shared.__dict__  # kept, not computed anew
    assert shared.fingerprint == before.fingerprint
    assert (shared.class_names, shared.notes, shared.name) == (before.class_names, before.notes, before.name)
    # Another setting of the same part is another data set.
    assert len(load_dataset(build("data", {"kind": "digits", "test_share": 0.5})).y_test) > len(shared.y_test)
    # Writing into one process' view harms nobody: the file stays as it is.
    shared.x_train[:] = 0
    offer_shared(tmp_path)
    np.testing.assert_array_equal(load_dataset(part).x_train, before.x_train)


def test_shared_data_of_ones_own_with_columns_and_no_test_set(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    part = memory(
        rng.normal(size=(12, 3)),
        np.arange(12) % 3,
        test_share=0,
        columns={"station": np.array(list("abcabcabcabc"))},
    )
    before: Dataset = part.load()
    write_shared(tmp_path, [part])
    offer_shared(tmp_path)
    shared = load_dataset(part)
    assert shared is not before
    assert shared.x_test.shape == before.x_test.shape
    np.testing.assert_array_equal(shared.columns["station"], before.columns["station"])


def test_data_that_cannot_be_had_are_an_error_only_if_none_can(tmp_path: Path) -> None:
    missing = build("data", {"kind": "mnist", "root": str(tmp_path / "nowhere")})
    if "FEDROAM_DATA" in os.environ:
        pytest.skip("FEDROAM_DATA is set: MNIST may be found after all")
    with pytest.raises(InputError):
        write_shared(tmp_path / "a", [missing])
    _, notes = write_shared(tmp_path / "b", [missing, build("data", "digits")])
    assert len(notes) == 1


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("DefaultCPUAllocator: can't allocate memory"),
        RuntimeError("std::bad_alloc"),
    ],
)
def test_out_of_memory_is_recognised_through_other_errors(error: Exception) -> None:
    assert out_of_memory(error)

    def fail() -> None:
        try:
            raise error
        except Exception as inner:
            raise FedroamError("client 3, round 2: failed") from inner

    with pytest.raises(FedroamError) as outer:
        fail()
    assert out_of_memory(outer.value)
    assert not out_of_memory(ValueError("memory of better days"))


def _take(sizes: list[float], pipe: Connection) -> None:
    """In a process of its own: what becomes of arrays of these sizes (GiB) under a limit of half a GiB."""
    former = limit_memory(GIB // 2)
    for gib in sizes:
        try:
            np.ones(int(gib * GIB) // 8)
            pipe.send_bytes(b"fits")
        except MemoryError:
            pipe.send_bytes(b"refused")
    restore(former)
    np.ones(GIB * 3 // 4 // 8)
    pipe.send_bytes(b"lifted")


@pytest.mark.skipif(available_memory() is None, reason="this system has no such limit")
def test_the_memory_limit_binds_one_process_and_can_be_lifted() -> None:
    context: Any = start_context()
    ours, theirs = context.Pipe()
    process = context.Process(target=_take, args=([0.3, 0.6, 0.3], theirs))
    process.start()
    theirs.close()
    assert [ours.recv_bytes() for _ in range(4)] == [b"fits", b"refused", b"fits", b"lifted"]
    process.join()
    assert process.exitcode == 0


def test_pool_size_shares_memory_equally_and_shrinks_for_large_runs() -> None:
    small, large = RoughCost(1.0, 0.1 * GIB), RoughCost(1.0, 3.0 * GIB)
    assert pool_size(4, 8.0, 10, [small]) == (4, 2 * GIB)
    assert pool_size(4, 8.0, 3, [small]) == (3, int(8 * GIB / 3))
    assert pool_size(4, 8.0, 10, [small, large]) == (4, 2 * GIB)  # told how many: so many
    assert pool_size(0, 8.0, 10, [small, large])[0] <= 2
    assert pool_size(0, 1.0, 10, [large]) == (1, GIB)


@pytest.mark.parametrize(
    ("seconds", "workers", "expected"),
    [
        ([3, 3, 2, 2, 2], 2, 7),  # longest first is no optimum (6): 3+2+2 | 3+2
        ([5, 1, 1, 1, 1, 1], 2, 5),
        ([1, 2, 3], 1, 6),
        ([1, 2, 3], 9, 3),
        ([], 2, 0),
    ],
)
def test_makespan_by_hand(seconds: list[float], workers: int, expected: float) -> None:
    assert makespan(seconds, workers) == expected


@given(st.lists(st.floats(0, 100), min_size=1, max_size=20), st.integers(1, 8))
def test_makespan_lies_between_its_bounds(seconds: list[float], workers: int) -> None:
    lower = max(sum(seconds) / workers, max(seconds))
    assert lower - 1e-9 <= makespan(seconds, workers) <= sum(seconds) + 1e-9
    assert makespan(seconds, workers) <= (4 / 3) * lower * (1 + 1e-9) + max(seconds)


@pytest.mark.parametrize(
    ("rounds", "measured", "evaluate", "checkpoint"), [(200, 60, 10, 7), (50, 50, 5, 10), (30, 9, 4, 3)]
)
def test_unit_costs_are_found_exactly_from_exact_times(
    rounds: int, measured: int, evaluate: int, checkpoint: int
) -> None:
    """Times made of known pieces give these pieces back, and the right total for the whole run."""
    start, plain, evaluation, save, end = 0.5, 0.02, 0.03, 0.011, 0.004
    moments = [10.0, 10.0 + start]
    for t in range(1, measured + 1):
        cost = plain + evaluation * (t % evaluate == 0 or t == measured) + save * ((t - 1) % checkpoint == 0)
        moments.append(moments[-1] + cost)
    pieces = -(-measured // checkpoint) + 1
    moments.append(moments[-1] + save + end * pieces)
    experiment = Experiment(rounds=rounds, evaluate_every=evaluate, checkpoint_every=checkpoint)
    found = fit(moments, experiment)
    for got, true in zip(
        (found.start, found.round, found.evaluation, found.checkpoint, found.end),
        (start, plain, evaluation, save, end),
        strict=True,
    ):
        assert got == pytest.approx(true, rel=1e-6)
    evaluations = len({t for t in range(1, rounds + 1) if t % evaluate == 0 or t == rounds})
    # These runs are shorter than the pause between two checkpoints: only the first and the last are written.
    total = start + rounds * plain + evaluations * evaluation + 2 * (save + end)
    assert found.seconds(experiment) == pytest.approx(total, rel=1e-6)


def test_checkpoints_are_counted_as_often_as_due_or_as_the_pause_allows() -> None:
    costs = UnitCosts(start=0, round=1.0, evaluation=0, checkpoint=0.1, end=0)
    often = Experiment(rounds=100, checkpoint_every=1)  # due each second, written every five
    assert costs.seconds(often) == pytest.approx(100 + (2 + 20) * 0.1)
    rare = Experiment(rounds=100, checkpoint_every=30)  # due at 30, 60, 90 and the end
    assert costs.seconds(rare) == pytest.approx(100 + (2 + 3) * 0.1)


def test_how_wrong_an_estimate_may_be_is_what_the_measured_runs_would_have_been_wrong_by() -> None:
    assert _factor([(1.0, 2.0), (10.0, 20.0), (100.0, 200.0)]) == pytest.approx(1.0)
    # Placed by the nearest: 4 instead of 2, 20 instead of 40, and 48 instead of 24.
    assert _factor([(1.0, 2.0), (10.0, 40.0), (12.0, 24.0)]) == pytest.approx(2.0)
    assert _factor([(1.0, 2.0), (10.0, 20.0)]) is None


@pytest.mark.parametrize(
    ("network", "shape"),
    [
        *(
            (build("model", kind).build((3, 32, 32), 10), (3, 32, 32))
            for kind in ("conv5", "lenet_gn", "resnet18")
        ),
        (build("model", "cnn1d").build((196,), 10), (196,)),
        (
            nn.Sequential(
                nn.Conv2d(4, 8, 3, stride=2, groups=2, dilation=2), nn.Flatten(), nn.Linear(128, 3)
            ),
            (4, 11, 11),
        ),
        (nn.Sequential(nn.Linear(6, 6), nn.ReLU()), (5, 6)),
        (
            nn.Sequential(nn.ConvTranspose1d(2, 3, 4), nn.Conv1d(3, 5, 2)),
            (2, 9),
        ),  # a layer that torch has to count
    ],
)
@pytest.mark.parametrize("samples", [1, 3])
def test_operations_are_those_that_torch_counts(
    network: nn.Module, shape: tuple[int, ...], samples: int
) -> None:
    x = torch.zeros(samples, *shape)
    found = forward_flops(network.eval(), x)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        network(x)
    assert found == counter.get_total_flops() > 0
    assert not any(module._forward_hooks for module in network.modules())


def test_rough_costs_order_runs_sensibly() -> None:
    base = Experiment(**settings())
    cost = rough_cost(base).seconds
    assert rough_cost(base.replace(rounds=30)).seconds > 5 * cost
    assert rough_cost(base.replace(clients=40)).seconds > cost
    assert rough_cost(base.replace(model={"kind": "mlp", "hidden": [512]})).seconds > cost
    assert rough_cost(base.replace(training={"kind": "sgd", "steps": 50, "batch_size": 8})).seconds > cost
    assert rough_cost(base.replace(seed=5)) == rough_cost(base)
    nothing = rough_cost(base.replace(data={"kind": "memory", "fingerprint": "absent"}))
    assert nothing.seconds > 0  # a run that cannot be judged counts by its rounds
    assert (
        _in_proportion(2.0, [(1.0, 10.0), (100.0, 5.0)]) == 20.0
    )  # in proportion to the nearest measured one


def test_progress_tells_the_time_left_by_hand() -> None:
    now = [0.0]
    progress = Progress(
        total=5, reused=1, costs={"a": 10.0, "b": 10.0, "c": 20.0, "d": 5.0}, clock=lambda: now[0]
    )
    assert progress.seconds_left is None
    progress.begin("a", "A", rounds=10)
    progress.advance("a", 0, 0.1)
    now[0] = 5.0
    progress.advance("a", 5, None)
    assert progress.running["a"].accuracy == 0.1
    # Half of a (5 of 45 units) took 5 s: 40 units are left.
    assert progress.seconds_left == pytest.approx(40.0)
    progress.advance("a", 10, 0.7)
    now[0] = 10.0
    assert progress.end("a", "done").what == "done"
    assert progress.seconds_left == pytest.approx(35.0)
    progress.begin("b", "B", rounds=4)
    progress.advance("b", 3, None)  # taken up at round 3 from a checkpoint: no work of this session
    assert progress.seconds_left == pytest.approx(27.5)
    progress.end("b", "failed", "why")
    assert (progress.done, progress.failed, progress.accuracies) == (1, 1, {"a": 0.7})
    assert progress.seconds_left == pytest.approx(25.0)
    progress.workers = 4  # no run can be shared out: c alone takes 20 units
    assert progress.seconds_left == pytest.approx(20.0)


def test_the_time_left_is_learnt_from_runs_of_the_same_group() -> None:
    now = [0.0]
    costs = {"cheap": 10.0, "dear 1": 1.0, "dear 2": 1.0, "cheap 2": 10.0, "other": 10.0}
    alike = {"dear 1": ("dear", "x"), "dear 2": ("dear", "x"), "cheap": ("a", "y"), "cheap 2": ("b", "y")}
    progress = Progress(5, 0, costs, alike, lambda: now[0])
    progress.begin("cheap", "", rounds=10)
    progress.advance("cheap", 0, None)
    progress.advance("cheap", 10, None)
    now[0] = 10.0
    progress.end("cheap", "done")
    assert progress.seconds_left == pytest.approx(1 + 1 + 10 + 10)  # one second a unit, as far as is known
    progress.begin("dear 1", "", rounds=4)
    progress.advance("dear 1", 0, None)
    now[0] = 60.0
    assert progress.seconds_left == pytest.approx(1 + 1 + 10 + 10)  # no work seen: nothing learnt
    progress.advance("dear 1", 2, None)
    # Half a unit took 50 s: as much again, twice that for its like, and 60 s for 10.5 units for what is like neither.
    assert progress.seconds_left == pytest.approx(50 + 100 + 10 + 10 * 60 / 10.5)
    progress.advance("dear 1", 4, None)
    now[0] = 110.0
    progress.end("dear 1", "done")
    assert progress.seconds_left == pytest.approx(100 + 10 + 10 * 110 / 11)
    progress.workers = 2
    assert progress.seconds_left == pytest.approx(105.0)
    progress.begin("dear 2", "", rounds=1)
    progress.end("dear 2", "failed", "why")
    assert progress.seconds_left == pytest.approx(100.0)  # of 110 s for two workers, one run takes 100


def test_folders_that_are_no_sweep_are_refused(tmp_path: Path) -> None:
    plan = sweep_plan(settings())
    (tmp_path / "file").write_text("")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("dear")
    for name, words in (("file", "is a file"), ("full", "not the folder of a sweep")):
        with pytest.raises(InputError, match=words):
            run_sweep(plan, tmp_path / name)
    assert (tmp_path / "full" / "letter.txt").read_text() == "dear"
    for name, words in (("nothing", "no such folder"), ("full", "no sweep here")):
        with pytest.raises(InputError, match=words):
            open_sweep(tmp_path / name)
    (tmp_path / "full" / "sweep.json").write_text("{}")
    with pytest.raises(InputError, match="damaged"):
        open_sweep(tmp_path / "full")
    for wrong in ({"workers": -1}, {"memory_gib": 0.0}):
        with pytest.raises(InputError, match=r"allowed (is|are)"):
            run_sweep(plan, tmp_path / "new", **wrong)  # type: ignore[arg-type]
    assert not (tmp_path / "new").exists()


UNHEARD = """\
import signal
from multiprocessing import forkserver
from pathlib import Path
from fedroam.sweep.fork_server import warm_up

warm_up()
status = Path(f"/proc/{forkserver._forkserver._forkserver_pid}/status").read_text()
blocked = next(line.split()[1] for line in status.splitlines() if line.startswith("SigBlk:"))
print(bool(int(blocked, 16) >> (signal.SIGINT - 1) & 1), signal.pthread_sigmask(signal.SIG_BLOCK, ()))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="there is no fork server")
def test_the_fork_server_does_not_hear_of_ctrl_c_and_this_process_does() -> None:
    done = subprocess.run([sys.executable, "-c", UNHEARD], capture_output=True, text=True, timeout=HANGS)
    assert (done.stdout, done.stderr) == ("True set()\n", "")
