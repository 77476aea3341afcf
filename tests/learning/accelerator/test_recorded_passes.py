"""Passes that are recorded and played again, with a stand-in for what records on an accelerator."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from fedroam.learning import Job
from fedroam.learning.accelerator import batched as module
from fedroam.learning.accelerator.recorded_passes import (
    WARM_UP,
    Compute,
    CudaGraph,
    RecordedPass,
    Recordings,
    _pool,
    capture_on,
    room_on,
)
from fedroam.learning.training import SGD
from support.learners import CLASSES, SMOOTH, check_trajectory, learner_of, problem


class Rerun:
    """Like a CUDA graph: it knows the places of its inputs and outputs, and none of the tensors it is called with."""

    made = 0
    played = 0
    all: ClassVar[list[Rerun]] = []

    def __init__(self, compute: Compute, inputs: Sequence[torch.Tensor]) -> None:
        type(self).made += 1
        self.all.append(self)
        self.compute, self.inputs = compute, inputs
        self.outputs = tuple(output.clone() for output in compute(inputs))
        for output in self.outputs:  # a graph computes nothing while it is recorded
            output.fill_(99)

    def play(self) -> tuple[torch.Tensor, ...]:
        type(self).played += 1
        for other in self.all:  # whose memory it shares
            if other is not self:
                for output in other.outputs:
                    output.fill_(77)
        for place, output in zip(self.outputs, self.compute(self.inputs), strict=True):
            place.copy_(output)
        return self.outputs


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Rerun, "made", 0)
    monkeypatch.setattr(Rerun, "played", 0)
    monkeypatch.setattr(Rerun, "all", [])


def products(given: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    x, y = given
    return x @ y, x.sum()


def test_a_pass_is_recorded_when_its_sizes_come_again() -> None:
    found = RecordedPass(products, Recordings(Rerun))
    for times in range(5):
        x, y = torch.full((2, 3), float(times)), torch.arange(12.0).view(3, 4)
        product, total = found(x, y)
        assert torch.equal(product, x @ y)
        assert float(total) == 6 * times
        assert (Rerun.made, Rerun.played) == (int(times > 0), times)


def test_sizes_layouts_and_types_have_recordings_of_their_own() -> None:
    found = RecordedPass(lambda given: (given[0].float().cumsum(0),), Recordings(Rerun))
    inputs = [torch.rand(4, 4), torch.rand(4, 4).t(), torch.rand(5, 4), torch.ones(4, 4, dtype=torch.int64)]
    for _ in range(3):
        for x in inputs:
            assert torch.equal(found(x)[0], x.float().cumsum(0))
    assert (Rerun.made, Rerun.played) == (4, 8)


def doubled(recordings: Recordings) -> RecordedPass:
    return RecordedPass(lambda given: (given[0] * 2,), recordings)


def test_what_was_played_longest_ago_makes_room_unless_it_still_comes_in_every_round() -> None:
    recordings = Recordings(Rerun, most=2)
    found = doubled(recordings)

    def round_of(*sizes: int) -> int:
        recordings.begin()
        for size in sizes:
            assert torch.equal(found(torch.ones(size))[0], torch.full((size,), 2.0))
        return Rerun.made

    assert round_of(1, 2) == 0
    assert round_of(2, 1) == 2
    assert [round_of(1, 2, 3, 3) for _ in range(5)] == [2] * 5  # 3 waits: none of the others is left unused
    assert [round_of(2, 3) for _ in range(2)] == [2, 3]  # 1 was last played two rounds ago
    assert [round_of(1, 2, 3) for _ in range(3)] == [3] * 3
    assert len(recordings) == 2


def test_passes_share_the_room_for_their_recordings() -> None:
    """Bytes of what goes in and what comes out: 8 for each number."""
    recordings = Recordings(Rerun, room=8 * 100)
    some, others = doubled(recordings), doubled(recordings)
    played = []
    for _ in range(4):
        recordings.begin()
        for each, size in ((some, 60), (others, 60), (others, 40), (others, 1), (some, 101)):
            before = Rerun.played
            assert torch.equal(each(torch.ones(size))[0], torch.full((size,), 2.0))
            played.append(Rerun.played > before)
        assert recordings.size <= 800
    assert played == [False] * 5 + [True, False, True, False, False] * 3
    recordings.begin()
    recordings.begin()
    recordings.begin()
    others(torch.ones(60))
    assert (len(recordings), recordings.size) == (2, 800)  # the 60 of the first pass are gone, 40 are enough


def test_a_recording_that_makes_no_room_by_going_stays() -> None:
    recordings = Recordings(Rerun, room=8 * 10)
    found = doubled(recordings)
    for sizes in ((4, 5), (4, 5), (5,), (5, 9), (5, 9), (5, 9)):
        recordings.begin()
        for size in sizes:
            found(torch.ones(size))
    assert len(recordings) == 2  # 9 is too large as long as 5 is played: it is not worth the loss of 4


def test_what_cannot_be_recorded_is_computed() -> None:
    tried = []

    def refuses(compute: Compute, inputs: Sequence[torch.Tensor]) -> Rerun:
        tried.append(compute)
        raise RuntimeError("operation not permitted when stream is capturing")

    found = RecordedPass(products, Recordings(refuses))
    ones = torch.ones(2, 2)
    assert float(found(ones, ones)[1]) == 4
    with pytest.warns(UserWarning, match=r"cannot be recorded \(operation not permitted"):
        assert float(found(ones, ones)[1]) == 4
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it is told once
        assert [float(found(ones, ones)[1]) for _ in range(2)] == [4, 4]
    assert len(tried) == 1


def test_a_pass_that_cannot_be_recorded_ends_recording_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    case = problem(sizes=(20, 11), training=SGD(lr=0.02, batch_size=8, steps=4))
    truth = case.trained("batched")[0]
    monkeypatch.setattr(module, "capture_on", lambda device: Rerun)
    learner, models = learner_of(case.task, "batched"), case.start()
    learner.train(models, case.jobs(1))
    assert Rerun.made == 1

    def refuses(compute: Compute, inputs: Sequence[torch.Tensor]) -> Rerun:
        raise RuntimeError("operation not permitted when stream is capturing")

    other, ones = RecordedPass(products, learner.recordings), torch.ones(2, 2)
    learner.recordings.record = refuses
    other(ones, ones)
    with pytest.warns(UserWarning, match="cannot be recorded"):
        other(ones, ones)
    assert learner.recordings.record is None
    assert not len(learner.recordings)
    learner.train(models, case.jobs(2))
    assert Rerun.made == 1
    assert torch.equal(models.parameters, truth.parameters)


class Stands:
    """In place of what torch has for CUDA: notes which stream is the current one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.current, cuda = "usual", torch.cuda
        for name, value in {
            "Stream": lambda device: Waits(),
            "CUDAGraph": object,
            "current_stream": lambda device: Waits(self.current),
            "set_stream": lambda stream: setattr(self, "current", stream.name),
            "stream": lambda stream: contextlib.nullcontext(),
            "device": lambda device: contextlib.nullcontext(),
            "graph": self.graph,
            "graph_pool_handle": object,
        }.items():
            monkeypatch.setattr(cuda, name, value)

    @contextlib.contextmanager
    def graph(self, graph: object, pool: object) -> Iterator[None]:
        """torch leaves its stream only where the recording ends well."""
        before, self.current = self.current, "recording"
        yield
        self.current = before


class Waits:
    def __init__(self, name: str = "aside") -> None:
        self.name = name

    def wait_stream(self, other: Waits) -> None:
        return


def test_a_recording_that_fails_leaves_the_stream_and_the_memory_of_recordings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stands, calls = Stands(monkeypatch), []

    def breaks(given: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        calls.append(given)
        if len(calls) > WARM_UP:
            raise RuntimeError("operation not permitted when stream is capturing")
        return ()

    _pool.cache_clear()
    here, ones = torch.device("cpu"), torch.ones(2, 2)
    CudaGraph(products, [ones, ones])
    pool = _pool(here)
    assert (stands.current, _pool(here)) == ("usual", pool)
    with pytest.raises(RuntimeError, match="not permitted"):
        CudaGraph(breaks, [ones])
    assert stands.current == "usual"
    assert _pool(here) is not pool
    _pool.cache_clear()


def test_where_memory_is_too_short_for_a_recording_the_pass_is_computed() -> None:
    def full(compute: Compute, inputs: Sequence[torch.Tensor]) -> Rerun:
        raise torch.OutOfMemoryError("CUDA out of memory")

    recordings = Recordings(full)
    found, ones = RecordedPass(products, recordings), torch.ones(2, 2)
    found(ones, ones)
    with pytest.warns(UserWarning, match=r"cannot be recorded \(CUDA out of memory"):
        assert float(found(ones, ones)[1]) == 4
    assert recordings.record is None


def test_memory_that_ran_out_is_not_hidden() -> None:
    def full(given: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        raise torch.OutOfMemoryError("CUDA out of memory")

    found = RecordedPass(full, Recordings(Rerun))
    with pytest.raises(torch.OutOfMemoryError):
        found(torch.ones(2, 2))


def test_batches_of_like_shape_share_a_recording_however_many_steps_are_planned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = problem(sizes=(8, 16, 24), training=SGD(lr=0.02, batch_size=8, epochs=2))
    monkeypatch.setattr(module, "capture_on", lambda device: Rerun)
    learner, models = learner_of(case.task, "batched"), case.start()
    for client in range(3):
        learner.train(models, case.jobs(1, [client]))
    assert Rerun.made == 1


def test_nothing_is_recorded_on_a_processor() -> None:
    assert capture_on(torch.device("cpu")) is None
    assert capture_on(torch.device("cuda")) is not None
    assert room_on(torch.device("cpu")) is None


@pytest.mark.parametrize("network", ["batched", "autograd"])
@pytest.mark.parametrize(
    "training",
    [
        SGD(lr=0.02, batch_size=8, steps=5),
        SGD(lr=0.01, momentum=0.8, weight_decay=0.3, batch_size=8, epochs=3),
    ],
    ids=["steps", "momentum and decay"],
)
@settings(max_examples=3)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_engine_computes_the_same_bits(network: str, training: SGD, seed: int) -> None:
    """Also of an objective that is handed tensors, and in passes of several sizes."""
    shape, make = SMOOTH[network]
    case = problem(make, shape, (20, 0, 7, 1, 11), training=training, seed=seed)
    with pytest.MonkeyPatch.context() as patch:
        plain, losses = case.trained("batched", rounds=3)
        patch.setattr(module, "capture_on", lambda device: Rerun)
        Rerun.made = Rerun.played = 0
        check_trajectory(case, "batched")
        recorded, recorded_losses = case.trained("batched", rounds=3)
        played = Rerun.played
        assert Rerun.made > 0 and played > Rerun.made  # noqa: PT018
        case.trained("batched", rounds=3, recorded=False)
    assert Rerun.played == played
    assert torch.equal(recorded.parameters, plain.parameters)
    assert repr(recorded_losses) == repr(losses)


class Pulled:
    """An objective that is handed a vector for the job, and one for each sample."""

    def loss(
        self, network: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, **handed: torch.Tensor
    ) -> torch.Tensor:
        logits = network(x)
        away = (logits - handed["centre"]).pow(2).mean() + (logits * handed["own"]).mean()
        return functional.cross_entropy(logits, y) + 0.3 * away


def test_what_objectives_are_handed_reaches_recordings(monkeypatch: pytest.MonkeyPatch) -> None:
    shape, make = SMOOTH["autograd"]
    case = problem(
        make, shape, (20, 7, 11), training=SGD(lr=0.02, batch_size=8, epochs=2), objective=Pulled()
    )

    def hand(job: Job) -> Job:
        draws = torch.Generator().manual_seed(job.client)
        each = torch.randn(len(job.samples), CLASSES, generator=draws)
        return replace(job, given={"centre": torch.randn(CLASSES, generator=draws)}, each={"own": each})

    monkeypatch.setattr(module, "capture_on", lambda device: Rerun)
    check_trajectory(case, "batched", change=hand)
    assert Rerun.played > 0


def test_dropout_and_buffers_reach_recordings(monkeypatch: pytest.MonkeyPatch) -> None:
    def network() -> torch.nn.Module:
        return torch.nn.Sequential(
            torch.nn.Linear(12, 6),
            torch.nn.BatchNorm1d(6),
            torch.nn.Dropout(0.4),
            torch.nn.Linear(6, CLASSES),
        )

    case = problem(network, sizes=(24, 16, 24), training=SGD(lr=0.02, batch_size=8, epochs=2))
    learner = learner_of(case.task, "batched")
    assert learner.recordings.record is None  # of a processor
    monkeypatch.setattr(module, "capture_on", lambda device: Rerun)
    check_trajectory(case, "batched")
    assert Rerun.played > 0
