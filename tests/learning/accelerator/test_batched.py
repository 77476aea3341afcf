"""The batched engine, on the CPU: the same code that runs on an accelerator."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from fedroam.components import build
from fedroam.errors import FedroamError
from fedroam.learning import Anchor, Job, Models
from fedroam.learning.accelerator import batched as module
from fedroam.learning.training import SGD
from support.learners import (
    CLASSES,
    SMOOTH,
    Problem,
    check_steps,
    check_trajectory,
    clear,
    learner_of,
    problem,
)
from support.rounding import UNIT
from support.tiny import tiny

SIZES = (20, 0, 7, 1, 11)
seeds = st.integers(0, 2**32 - 1)
TRAININGS = {
    "full batch, epochs": SGD(lr=0.02, epochs=3, momentum=0.9),
    "steps": SGD(lr=0.02, batch_size=8, steps=5),
    "drop last": SGD(lr=0.02, batch_size=8, epochs=2, drop_last=True),
    "momentum kept, decay": SGD(lr=0.01, momentum=0.8, weight_decay=0.3, batch_size=8, epochs=2),
    "momentum reset": SGD(lr=0.01, momentum=0.9, momentum_state="reset", batch_size=8),
    "decaying rate": SGD(lr=0.02, lr_decay=0.5, batch_size=8),
}


def batches_all(case: Problem) -> bool:
    """Whether the problem is computed in batched passes, not one client after the other."""
    learner = learner_of(case.task, "batched")
    learner.train(case.start(), case.jobs(1))
    assert learner._ways
    return all(way.batched for way in learner._ways.values())


@pytest.mark.parametrize("training", TRAININGS)
@pytest.mark.parametrize("network", ["batched", "autograd"])
@settings(max_examples=2)
@given(seed=seeds)
def test_every_training(network: str, training: str, seed: int) -> None:
    shape, make = SMOOTH[network]
    case = problem(make, shape, SIZES, training=TRAININGS[training], seed=seed)
    assert batches_all(case)
    check_trajectory(case, "batched")
    check_trajectory(case, "batched", samples=9)  # never more than one or two at a time


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("mnist_cnn", {"shape": (20, 20, 1)}),
        ("lenet_gn", {"shape": (9, 11, 3)}),
        ("cnn1d", {"shape": (14,)}),
        ("mlp", {"shape": (4, 4, 3), "hidden": (9, 7)}),
    ],
)
@settings(max_examples=2)
@given(seed=seeds)
def test_every_small_model(kind: str, fields: dict[str, Any], seed: int) -> None:
    training = SGD(lr=0.05, momentum=0.5, batch_size=16, steps=1)
    check_steps(problem(kind, sizes=SIZES, training=training, seed=seed, **fields), "batched")


@pytest.mark.parametrize("dropout", [nn.Dropout(0.3), nn.Dropout2d(0.3)], ids=["entries", "channels"])
def test_dropout_draws_the_masks_of_each_client(dropout: nn.Module) -> None:
    def network() -> nn.Module:
        layers = [nn.Conv2d(1, 4, 3), dropout, nn.Tanh(), nn.Flatten(), nn.Linear(4 * 36, CLASSES)]
        return nn.Sequential(*layers)

    case = problem(network, (8, 8, 1), (30, 9, 21), training=SGD(lr=0.02, epochs=2, batch_size=8))
    learner = learner_of(case.task, "batched")
    assert learner.fills
    assert batches_all(case)
    check_trajectory(case, "batched")


def test_values_may_be_changed_in_place() -> None:
    def network() -> nn.Module:
        return nn.Sequential(
            *(nn.Conv2d(3, 6, 3), nn.ReLU(inplace=True), nn.GroupNorm(2, 6), nn.ReLU(inplace=True)),
            *(nn.MaxPool2d(2), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(54, CLASSES)),
        )

    case = problem(network, (8, 8, 3), (9, 5), training=SGD(lr=0.02, steps=1, batch_size=32))
    assert batches_all(case)
    check_steps(case, "batched")
    learner = learner_of(case.task, "batched", precision="bfloat16")
    assert np.isfinite(learner.train(case.start(), case.jobs(1))).all()


def test_batch_norm_is_not_filled_up() -> None:
    def network() -> nn.Module:
        return nn.Sequential(nn.Linear(12, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, CLASSES))

    case = problem(network, sizes=(20, 13, 16), training=SGD(lr=0.02, momentum=0.5, batch_size=8, epochs=2))
    assert not learner_of(case.task, "batched").fills
    assert batches_all(case)
    models = check_trajectory(case, "batched")
    assert (models.buffers[:, -1] == 3 * 2 * 2 + torch.tensor([6, 0, 0])).all()  # batches that it has counted


class Pulled:
    """An objective that is handed a vector for the job, and one for each sample."""

    def loss(
        self, network: nn.Module, x: torch.Tensor, y: torch.Tensor, **handed: torch.Tensor
    ) -> torch.Tensor:
        logits = network(x)
        away = (logits - handed["centre"]).pow(2).mean() + (logits * handed["own"]).mean()
        return functional.cross_entropy(logits, y) + 0.3 * away


class Smooth:
    """An objective that holds the gradient with respect to the inputs small: it needs gradients of gradients."""

    def loss(
        self, network: nn.Module, x: torch.Tensor, y: torch.Tensor, **handed: torch.Tensor
    ) -> torch.Tensor:
        x = x.detach().requires_grad_()
        logits = network(x)
        (slope,) = torch.autograd.grad(logits.square().sum(), x, create_graph=True)
        return functional.cross_entropy(logits, y) + 0.01 * slope.square().mean()


def test_gradients_of_gradients_go_one_client_after_the_other() -> None:
    shape, make = SMOOTH["autograd"]
    case = problem(make, shape, SIZES, training=SGD(lr=0.02, batch_size=8), objective=Smooth())
    assert not batches_all(case)
    check_trajectory(case, "batched")


def test_what_objectives_are_handed() -> None:
    shape, make = SMOOTH["autograd"]
    case = problem(make, shape, SIZES, training=SGD(lr=0.02, batch_size=8, epochs=2), objective=Pulled())

    def hand(job: Job) -> Job:
        draws = torch.Generator().manual_seed(job.client)
        each = torch.randn(len(job.samples), CLASSES, generator=draws)
        return replace(job, given={"centre": torch.randn(CLASSES, generator=draws)}, each={"own": each})

    check_trajectory(case, "batched", change=hand)


def test_what_is_sent_to_the_device_does_not_grow_with_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of these is a transfer, for which an accelerator waits."""
    shape, network = SMOOTH["autograd"]
    draws = torch.Generator().manual_seed(5)
    sent: dict[int, int] = {}
    for clients in (2, 9):
        training = SGD(lr=0.02, batch_size=4, steps=3)
        case = problem(network, shape, (8,) * clients, training=training, objective=Pulled())
        centre, shift = torch.zeros(CLASSES), torch.zeros(case.task.layout.size)

        def hand(job: Job, centre: torch.Tensor = centre, shift: torch.Tensor = shift) -> Job:
            own = torch.randn(len(job.samples), CLASSES, generator=draws)
            held = Anchor(0.3, shift, shift if job.client % 2 else None)
            return replace(job, given={"centre": centre}, each={"own": own}, anchor=held)

        learner, models = learner_of(case.task, "batched"), case.start()
        learner.train(models, [hand(job) for job in case.jobs(1)])  # finds out the way
        with monkeypatch.context() as patched:
            calls = [0]

            def counted(make: Any, *given: Any, calls: list[int] = calls, **named: Any) -> Any:
                calls[0] += 1
                return make(*given, **named)

            ways = {"from_numpy": torch.from_numpy, "tensor": torch.tensor, "as_tensor": torch.as_tensor}
            for name, make in ways.items():
                patched.setattr(torch, name, partial(counted, make))
            learner.train(models, [hand(job) for job in case.jobs(2)])
        sent[clients] = calls[0]
    assert 0 < sent[2] == sent[9] < 12


def test_anchors_and_parameters_without_a_gradient() -> None:
    class Idle(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.idle, self.frozen = nn.Linear(12, CLASSES), nn.Linear(3, 2), nn.Linear(2, 2)
            self.frozen.requires_grad_(False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            logits: torch.Tensor = self.first(x)
            return logits

    case = problem(Idle, sizes=SIZES, training=SGD(lr=0.02, momentum=0.5, weight_decay=0.1, epochs=2))
    size = case.task.layout.size
    anchors = [
        Anchor(0.3, torch.linspace(-1, 1, size), None),
        None,
        Anchor(0.0, None, torch.linspace(0, 1, size)),
        Anchor(0.2, None, None),
        Anchor(0.5, torch.zeros(size), torch.ones(size)),
    ]
    start = case.start()
    models = check_trajectory(case, "batched", change=lambda job: replace(job, anchor=anchors[job.client]))
    idle = case.task.layout.columns("idle")
    assert torch.equal(models.parameters[:, idle], start.parameters[:, idle])


class Sometimes:
    """An objective to which a layer matters only where the job is handed something."""

    def loss(
        self, network: nn.Module, x: torch.Tensor, y: torch.Tensor, **handed: torch.Tensor
    ) -> torch.Tensor:
        assert isinstance(network, nn.Sequential)
        hidden = network[0](x)
        logits = network[1](hidden) if "centre" in handed else hidden
        return functional.cross_entropy(logits, y)


def test_momentum_of_parameters_that_this_kind_of_job_leaves_alone_is_kept() -> None:
    def network() -> nn.Module:
        return nn.Sequential(nn.Linear(12, CLASSES), nn.Linear(CLASSES, CLASSES))

    training = SGD(lr=0.02, momentum=0.8, weight_decay=0.1, batch_size=8, epochs=2)
    case = problem(network, sizes=SIZES, training=training, objective=Sometimes())

    def hand(job: Job) -> Job:
        return replace(job, given={"centre": torch.zeros(1)}) if job.round != 2 else job

    assert batches_all(case)
    models, learner = case.start(), learner_of(case.task, "batched")
    learner.train(models, [hand(job) for job in case.jobs(1)])
    second = case.task.layout.columns("1")
    before, momentum = models.parameters[:, second].clone(), models.momentum[:, second].clone()
    assert momentum.any()
    learner.train(models, [hand(job) for job in case.jobs(2)])
    assert torch.equal(models.parameters[:, second], before)
    assert torch.equal(models.momentum[:, second], momentum)
    check_trajectory(case, "batched", change=hand)


def test_a_sample_on_which_a_model_overflows_reaches_no_client_that_does_not_hold_it() -> None:
    """Neither where batches are filled up, nor where evaluations are."""
    case = problem(sizes=(3, 8, 5), training=SGD(lr=0.02, batch_size=8, epochs=2), hidden=(6,))
    models, exact = case.start(), case.start()
    learner, truth = learner_of(case.task, "batched"), learner_of(case.task, "reference")
    assert learner.fills
    case.task.x[0] = 3e38
    losses, exact_losses = (
        some.train(own, case.jobs(1, [1, 2])) for some, own in ((learner, models), (truth, exact))
    )
    np.testing.assert_allclose(losses, exact_losses, rtol=1e-5)
    torch.testing.assert_close(models.parameters, exact.parameters)
    found, judged = (
        some.evaluate(exact, [0, 1, 2], case.task.x, case.task.y, case.held) for some in (learner, truth)
    )
    assert not np.isfinite(judged.loss[0])
    np.testing.assert_allclose(found.loss[1:], judged.loss[1:], rtol=1e-5)


def test_who_else_is_in_the_pass_does_not_matter_but_for_rounding() -> None:
    shape, make = SMOOTH["autograd"]
    case = problem(make, shape, SIZES, training=SGD(lr=0.02, batch_size=8, epochs=2))
    together = case.trained("batched")[0]
    again = case.trained("batched")[0]
    assert torch.equal(together.parameters, again.parameters)
    alone, learner = case.start(), learner_of(case.task, "batched")
    for t in (1, 2):
        for job in reversed(case.jobs(t)):
            learner.train(alone, [job])
    size = float(together.parameters.abs().max())
    assert float((alone.parameters - together.parameters).abs().max()) <= 64 * UNIT * size


def test_passes_hold_no_more_than_asked() -> None:
    case = problem(sizes=(40, 39, 20, 19, 9, 3, 0), training=SGD(lr=0.02))
    learner = learner_of(case.task, "batched", samples=80)
    jobs = case.jobs(1)
    sizes = {k: len(job.samples) for k, job in enumerate(jobs) if len(job.samples)}
    assert list(learner._groups(jobs, sizes)) == [[0, 1], [2, 3], [4], [5]]
    apart = learner_of(case.task, "batched", samples=1)
    assert list(apart._groups(jobs, sizes)) == [[k] for k in range(6)]


@pytest.mark.parametrize("samples", [16384, 7])
def test_evaluation(samples: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EVALUATION_BATCH", 10)
    case = problem("mlp", (12,), (20, 33, 7), hidden=(6,))
    models, _ = case.trained("reference", rounds=1)
    sure = clear(case, models).numpy()
    x, y = case.task.x[sure], case.task.y[sure]
    parts = [np.arange(3), np.arange(len(sure)), np.arange(0)]
    rows: list[tuple[list[int], list[np.ndarray] | None]] = [([0, 1, 2], parts), ([2, 0], None), ([1], None)]
    for some, own in rows:
        truth, found = (
            learner_of(case.task, engine, **fields).evaluate(models, some, x, y, own)
            for engine, fields in (("reference", {}), ("batched", {"samples": samples}))
        )
        np.testing.assert_array_equal(found.hits, truth.hits)
        np.testing.assert_array_equal(found.answers, truth.answers)
        np.testing.assert_array_equal(found.actual, truth.actual)
        np.testing.assert_allclose(found.loss, truth.loss, rtol=1e-5, equal_nan=True)


def test_evaluation_where_nobody_has_a_sample() -> None:
    case = problem()
    found = learner_of(case.task, "batched").evaluate(
        case.start(), [0, 1], case.task.x, case.task.y, [np.arange(0)] * 2
    )
    assert np.isnan(found.loss).all()
    assert found.loss.shape == (2,)
    assert not found.samples.any()


@pytest.mark.filterwarnings("ignore:Converting a tensor")
def test_what_cannot_be_batched_is_computed_one_by_one() -> None:
    class Deciding(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(12, CLASSES)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            logits: torch.Tensor = self.linear(x)
            return logits if float(logits.sum()) > 0 else 2 * logits

    class Drawing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(12, CLASSES)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return functional.dropout(self.linear(x), 0.5, self.training)

    for network in (Deciding, Drawing):
        case = problem(network, sizes=(9, 4), training=SGD(lr=0.02, epochs=2))
        slow, fast = case.trained("reference"), case.trained("batched")
        assert torch.equal(slow[0].parameters, fast[0].parameters)
        np.testing.assert_array_equal(slow[1], fast[1])
        x, y = case.task.x, case.task.y
        scores = [
            learner_of(case.task, kind).evaluate(slow[0], [0, 1], x, y) for kind in ("reference", "batched")
        ]
        np.testing.assert_allclose(scores[0].loss, scores[1].loss, rtol=1e-6)
        np.testing.assert_array_equal(scores[0].hits, scores[1].hits)


@pytest.mark.parametrize("engine", ["reference", "batched"])
@pytest.mark.parametrize("foreign", [False, True])
def test_an_accelerator_repeats_and_keeps_whole_float32_whichever_way_is_taken(
    engine: str, foreign: bool
) -> None:
    """One client after the other, too; afterwards what others asked for holds again."""
    flags = torch.backends.cudnn
    seen: list[tuple[bool, bool, bool]] = []

    class Noting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(12, 6)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.append((flags.deterministic, flags.benchmark, flags.allow_tf32))
            return functional.dropout(self.linear(x), 0.5, self.training and foreign)

    class Split(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.extractor, self.head = Noting(), nn.Linear(6, CLASSES)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            logits: torch.Tensor = self.head(self.extractor(x))
            return logits

    case = problem(Split, sizes=(9, 4), training=SGD(lr=0.02, batch_size=4))
    learner, models = learner_of(case.task, engine), case.start()
    with flags.flags(enabled=True, benchmark=True, deterministic=False, allow_tf32=True):
        for compute in (
            lambda: learner.train(models, case.jobs(1)),
            lambda: learner.evaluate(models, [0, 1], case.task.x, case.task.y),
            lambda: learner.features(models, [0, 1], case.held),
        ):
            seen.clear()
            compute()
            assert set(seen) == {(True, False, False)}
            assert (flags.deterministic, flags.benchmark, flags.allow_tf32) == (False, True, True)


def test_memory_that_runs_out_names_the_setting_that_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    case = problem(sizes=(9, 4))
    learner, models = learner_of(case.task, "batched", samples=100), case.start()

    def full(*given: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")

    learner.train(models, case.jobs(1))
    learner.evaluate(models, [0, 1], case.task.x, case.task.y)
    monkeypatch.setattr(learner, "_stepped", full)
    monkeypatch.setattr(learner, "_outputs", full)
    said = r"cpu is out of memory .*: set engine\.samples below 100 \(CUDA out of memory"
    with pytest.raises(FedroamError, match=said):
        learner.train(models, case.jobs(2))
    with pytest.raises(FedroamError, match=said):
        learner.evaluate(models, [0, 1], case.task.x, case.task.y)
    anew = learner_of(case.task, "batched")  # what is found out first does not take it for an answer
    for name in ("_stepped", "_outputs"):
        monkeypatch.setattr(anew, name, full)
    with pytest.raises(torch.OutOfMemoryError):
        anew.train(models, case.jobs(2))
    with pytest.raises(torch.OutOfMemoryError):
        anew.evaluate(models, [0, 1], case.task.x, case.task.y)


def test_the_device_of_the_data_is_the_current_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels of ours are launched on the current one."""
    case, entered = problem(sizes=(9, 4)), list[torch.device]()
    learner, models, second = learner_of(case.task, "batched"), case.start(), torch.device("cuda", 1)

    @contextlib.contextmanager
    def device(which: torch.device) -> Iterator[None]:
        entered.append(which)
        yield

    monkeypatch.setattr(torch.cuda, "device", device)
    for name, compute in (
        ("_train", lambda: learner.train(models, case.jobs(1))),
        ("_evaluate", lambda: learner.evaluate(models, [0, 1], case.task.x, case.task.y)),
    ):
        compute()
        assert not entered
        with monkeypatch.context() as patch:
            patch.setattr(learner, "device", second)
            patch.setattr(learner, name, lambda *given: entered)
            assert compute() == [second]
        entered.clear()


def test_half_precision_is_near() -> None:
    shape, make = SMOOTH["autograd"]
    case = problem(make, shape, (20, 12), training=SGD(lr=0.05))
    whole, half = case.trained("batched")[0], case.trained("batched", precision="bfloat16")[0]
    assert whole.parameters.dtype == half.parameters.dtype == torch.float32
    moved = float((whole.parameters - case.start().parameters).norm())
    away = float((whole.parameters - half.parameters).norm())
    assert 0 < away < 0.05 * moved


def test_nothing_to_do() -> None:
    case = problem(sizes=(4, 0))
    learner = learner_of(case.task, "batched")
    models = case.start()
    assert len(learner.train(models, [])) == 0
    assert np.isnan(learner.train(models, case.jobs(1, [1]))).all()
    assert len(learner.evaluate(models, [], case.task.x, case.task.y).loss) == 0


@pytest.mark.parametrize(
    "federation", ["decentralized", "fedprox", "moon", "gpfl", "fedproto", "fedavgdbe", "scaffold"]
)
def test_whole_runs(federation: str, tmp_path: Any) -> None:
    """Every kind of objective and hand-out, in runs that agree with the reference engine."""
    from fedroam.runner import run

    found: list[Models] = []
    for kind in ("reference", "batched"):
        own = tiny(federation=federation, engine=kind, rounds=2)
        done = run(own, tmp_path / kind)
        found.append(
            done.rounds["loss_mean_model" if "loss_mean_model" in done.rounds else "train_loss"].to_numpy()
        )
    np.testing.assert_allclose(found[0], found[1], rtol=2e-3)


def test_auto_takes_it_where_the_data_are_not_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    case = problem()
    there = replace(case.task, x=case.task.x.to("meta"))
    monkeypatch.setattr(module.Batched, "build", lambda self, task: "batched")
    auto = build("engine", "auto")
    assert auto.build(there) == "batched"  # type: ignore[attr-defined]
    assert auto.build(case.task) != "batched"  # type: ignore[attr-defined]
