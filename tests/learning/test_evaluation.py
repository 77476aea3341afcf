"""Evaluation: the same scores from both engines, equal models evaluated once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from fedroam.errors import FedroamError
from fedroam.learning import Models
from fedroam.learning.accelerator.batched import BatchedLearner
from fedroam.learning.cpu import evaluation
from fedroam.learning.cpu.worker_model import Nature
from fedroam.learning.held import class_means
from fedroam.learning.training import SGD
from fedroam.models import Network
from fedroam.native import target
from support.learners import CLASSES, clear, evaluator_of, learner_of, problem


def cut(monkeypatch: pytest.MonkeyPatch, batch: int, piece: int, block: int) -> None:
    """Cut test sets into small pieces."""
    for name, size in (("BATCH", batch), ("PIECE", piece), ("BLOCK", block)):
        monkeypatch.setattr(evaluation, name, size)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("own", [False, True], ids=["shared test set", "own test samples"])
@pytest.mark.parametrize(
    ("model", "shape"),
    [("mlp", (12,)), ("mnist_cnn", (16, 16, 1)), ("lenet_gn", (8, 8, 3)), ("cnn1d", (12,))],
)
def test_scores_of_both_engines(
    model: str, shape: tuple[int, ...], own: bool, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut(monkeypatch, 7, 14, 28)
    task = problem(model, shape, (30, 20, 13, 9))
    models, _ = task.trained("reference", 1)
    sure = clear(task, models)[:64]
    parts = [np.arange(60, 5, -3), np.array([], np.int64), np.array([4]), np.arange(64)] if own else None
    x, y, found = task.task.x[sure], task.task.y[sure], []
    for learner in (learner_of(task.task, "reference"), learner_of(task.task, "cpu", workers=workers)):
        found.append(learner.evaluate(models, [3, 0, 2, 1], x, y, parts))
        learner.close()
    slow, fast = found
    np.testing.assert_array_equal(slow.correct, fast.correct)
    np.testing.assert_array_equal(slow.samples, fast.samples)
    np.testing.assert_allclose(slow.loss, fast.loss, rtol=1e-5)
    assert len(set(fast.loss[~np.isnan(fast.loss)])) == (3 if own else 4)
    assert np.isnan(fast.accuracy).tolist() == [False, own, False, False]


def test_number_of_workers_changes_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    cut(monkeypatch, 5, 10, 20)
    task = problem("mnist_cnn", (16, 16, 1), (40, 40))
    models, _ = task.trained("reference", 1)
    losses = []
    for workers in (1, 2):
        learner = learner_of(task.task, "cpu", workers=workers)
        losses.append(learner.evaluate(models, [0, 1], task.task.x, task.task.y).loss)
        learner.close()
    np.testing.assert_array_equal(*losses)


def test_pieces_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Losses are added up in blocks, as if a worker took whole ones: an odd number of batches, the last one short."""
    task = problem("mnist_cnn", (16, 16, 1), (40, 40))
    models, _ = task.trained("reference", 1)
    parts = [np.arange(78), np.arange(3, 40)]
    losses = []
    for piece in (3, 6, 12):
        cut(monkeypatch, 3, piece, 12)
        learner = learner_of(task.task, "cpu", workers=2)
        losses.append(learner.evaluate(models, [0, 1], task.task.x, task.task.y, parts).loss)
        learner.close()
    for other in losses[:2]:
        np.testing.assert_array_equal(other, losses[2])


def test_in_evaluation_mode_and_rows_untouched() -> None:
    """Batch norm uses its running statistics and does not change them; dropout drops nothing."""

    def network() -> nn.Module:
        return nn.Sequential(nn.Linear(12, 6), nn.BatchNorm1d(6), nn.Dropout(0.5), nn.Linear(6, CLASSES))

    task = problem(network, (12,), (20, 20), training=SGD(lr=0.1))
    models, _ = task.trained("reference", 2)
    before = Models(models.layout, models.parameters.clone(), models.buffers.clone(), None)
    learner = learner_of(task.task, "cpu")
    first = learner.evaluate(models, [0, 1], task.task.x, task.task.y)
    learner.train(models, task.jobs(3))
    learner.train(models, task.jobs(4))
    again = learner.evaluate(before, [0, 1], task.task.x, task.task.y)
    learner.close()
    np.testing.assert_array_equal(first.loss, again.loss)
    reference = learner_of(task.task, "reference").evaluate(before, [0, 1], task.task.x, task.task.y)
    np.testing.assert_allclose(first.loss, reference.loss, rtol=1e-5)


def count(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows that are evaluated, as they come."""
    evaluated: list[int] = []
    real = evaluation.Evaluator.evaluate

    def evaluate(self: Any, models: Models, samples: Any, some: Any) -> list[evaluation.Counted]:
        evaluated.extend(block.row for block in some)
        return real(self, models, samples, some)

    monkeypatch.setattr(evaluation.Evaluator, "evaluate", evaluate)
    return evaluated


@pytest.mark.parametrize(("block", "total"), [(1, 1.0), (2, 1.0 + 2.0**-52), (4, 1.0)])
def test_losses_are_added_up_block_by_block(
    block: int, total: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Losses 1, 0, 2^-53 and 2^-53: beside 1 each of the last two is lost, their sum is not."""
    cut(monkeypatch, 1, 1, block)
    pieces = [evaluation.EvaluationBlock(0, 0, None, k, k + 1) for k in range(4)]
    counts = np.ones((3, 1), np.int64)
    results = [(counts, [loss]) for loss in (1.0, 0.0, 2.0**-53, 2.0**-53)]
    assert evaluation.scores(pieces, results, np.array([0])).loss[0] == total / 4


@given(
    sizes=st.lists(st.integers(0, evaluation.PIECE), max_size=60),
    workers=st.integers(1, 4),
)
def test_small_blocks_are_taken_together(sizes: list[int], workers: int) -> None:
    found = [evaluation.EvaluationBlock(k, k, None, 0, size) for k, size in enumerate(sizes)]
    several = evaluation.units(found, workers, len(sizes))
    assert all(len(some) <= 2 for some in evaluation.units(found, workers, 2))
    assert [k for some in several for k in some] == list(range(len(sizes)))
    most = min(evaluation.PIECE, sum(sizes) / (evaluation.TURNS * workers))
    for some in several:
        assert sum(sizes[k] for k in some[:-1]) < most or len(some) == 1 or sum(sizes) == 0
    for some in several[:-1]:
        assert sum(sizes[k] for k in some) >= most


def test_equal_rows_are_evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    task, evaluated = problem("mlp", (12,), (9, 9, 9, 9, 9)), count(monkeypatch)
    models = task.start(equal=False)
    models.parameters[3] = models.parameters[1]
    models.parameters[4] = models.parameters[1]
    models.parameters[4, -1] += 1e-6  # nearly equal is not equal
    learner = learner_of(task.task, "cpu", workers=1)
    scores = learner.evaluate(models, range(5), task.task.x, task.task.y)
    assert evaluated == [0, 1, 2, 4]
    assert scores.loss[1] == scores.loss[3] != scores.loss[0]
    evaluated.clear()
    parts = [np.arange(5), np.arange(5), np.arange(5), np.arange(6), np.arange(7)]
    learner.evaluate(models, range(5), task.task.x, task.task.y, parts)
    assert sorted(evaluated) == [0, 1, 2, 3, 4], "other samples, other scores"
    evaluated.clear()
    parts[3] = np.arange(5)
    learner.evaluate(models, range(5), task.task.x, task.task.y, parts)
    assert sorted(evaluated) == [0, 1, 2, 4]
    learner.close()


@pytest.mark.parametrize(
    ("asked", "judged_once"), [((0, 1, 2, 3, 4), [0, 1, 2, 4]), ((3, 3, 0, 4, 1), [0, 3, 4])]
)
def test_a_batched_pass_has_equal_rows_once(
    asked: tuple[int, ...], judged_once: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with workers; of a server's one model it makes a pass for all clients. Scores are those of each row alone."""
    task = problem("mlp", (12,), (9, 9, 9, 9, 9))
    models = task.start(equal=False)
    models.parameters[3] = models.parameters[1]
    judged: list[int] = []
    judge = BatchedLearner._judge

    def counted(self: Any, models: Models, rows: Any, blocks: Any, *rest: Any) -> None:
        judged.extend(rows[k] for k, _ in blocks)
        judge(self, models, rows, blocks, *rest)

    monkeypatch.setattr(BatchedLearner, "_judge", counted)
    learner = learner_of(task.task, "batched")
    for parts in (None, [np.arange(2 if row in (1, 3) else 2 + row) for row in asked]):
        judged.clear()
        found = learner.evaluate(models, asked, task.task.x, task.task.y, parts)
        assert sorted(judged) == judged_once
        for k, row in enumerate(asked):
            own = None if parts is None else [parts[k]]
            alone = learner.evaluate(models, [row], task.task.x, task.task.y, own)
            np.testing.assert_array_equal(found.hits[k], alone.hits[0])
            np.testing.assert_array_equal(found.answers[k], alone.answers[0])
            assert found.loss[k] == pytest.approx(alone.loss[0], rel=1e-6)
    learner.close()


def test_rows_equal_but_for_buffers_are_two(monkeypatch: pytest.MonkeyPatch) -> None:
    def network() -> nn.Module:
        return nn.Sequential(nn.Linear(12, 6), nn.BatchNorm1d(6), nn.Linear(6, CLASSES))

    task, evaluated = problem(network, (12,), (9, 9)), count(monkeypatch)
    models = task.start()
    models.buffers[1, 0] = 0.5
    learner = learner_of(task.task, "cpu")
    scores = learner.evaluate(models, [0, 1], task.task.x, task.task.y)
    learner.close()
    assert len(evaluated) == 2
    assert scores.loss[0] != scores.loss[1]


def test_nobody_and_nothing() -> None:
    task = problem("mlp", (12,), (9,))
    learner = learner_of(task.task, "cpu")
    empty = learner.evaluate(task.start(), [], task.task.x, task.task.y)
    assert len(empty.loss) == len(empty.correct) == len(empty.accuracy) == 0
    nothing = learner.evaluate(task.start(), [0], task.task.x[:0], task.task.y[:0])
    assert np.isnan(nothing.loss).all()
    assert np.isnan(nothing.accuracy).all()
    assert learner.train(task.start(), []).shape == (0,)
    learner.close()


def test_loss_of_a_uniform_model_is_log_classes() -> None:
    task = problem("softmax_regression", (12,), (50,))
    models = task.start()
    models.parameters.zero_()
    learner = learner_of(task.task, "cpu")
    scores = learner.evaluate(models, [0], task.task.x, task.task.y)
    learner.close()
    assert scores.loss[0] == pytest.approx(np.log(CLASSES), rel=1e-6)
    assert scores.correct[0] == int((task.task.y == 0).sum())
    assert torch.equal(models.parameters, torch.zeros_like(models.parameters))


def test_networks_that_overwrite_their_input_harm_nobody() -> None:
    def network() -> nn.Module:
        return nn.Sequential(nn.ReLU(inplace=True), nn.Linear(12, CLASSES))

    task = problem(network, (12,), (9, 9))
    before = task.task.x.clone()
    models, _ = task.trained("cpu", 1)
    learner = learner_of(task.task, "cpu")
    learner.evaluate(models, [0], task.task.x, task.task.y)
    learner.close()
    assert torch.equal(task.task.x, before)


@pytest.mark.parametrize("engine", ["reference", "cpu"])
def test_balanced_accuracy_and_f1_are_scikit_learns(engine: str) -> None:
    from sklearn.metrics import balanced_accuracy_score, f1_score

    task = problem("mlp", sizes=(40, 30, 25))
    models, y = task.start(equal=False), task.task.y
    few = np.flatnonzero(y.numpy() < 3)
    parts = [np.arange(40), few, np.array([], np.int64)]
    learner = learner_of(task.task, engine)
    try:
        scores = learner.evaluate(models, [0, 1, 2], task.task.x, y, parts)
    finally:
        learner.close()
    answers, asked = [], []
    for k in (0, 1):
        module = task.task.network()
        task.task.layout.read(module, models.parameters[k], models.buffers[k])
        own = torch.from_numpy(parts[k])
        with torch.no_grad():
            answers.append(module.eval()(task.task.x[own]).argmax(1).numpy())
        asked.append(y[own].numpy())
        recall = f1_score(asked[k], answers[k], average="macro", zero_division=0)
        assert scores.macro_f1[k] == pytest.approx(recall)
        hit = [np.mean(answers[k][asked[k] == c] == c) for c in np.unique(asked[k])]
        assert scores.balanced_accuracy[k] == pytest.approx(np.mean(hit))
    assert scores.balanced_accuracy[0] == pytest.approx(balanced_accuracy_score(asked[0], answers[0]))
    assert np.isnan(scores.balanced_accuracy[2])
    assert np.isnan(scores.macro_f1[2])
    pooled, all_asked, all_answers = scores.pooled, np.concatenate(asked), np.concatenate(answers)
    assert pooled.accuracy[0] == pytest.approx(np.mean(all_asked == all_answers))
    assert pooled.macro_f1[0] == pytest.approx(
        f1_score(all_asked, all_answers, average="macro", zero_division=0)
    )
    placed = scores.only(np.array([3, 0, 1]), 5)
    np.testing.assert_array_equal(placed.samples, [len(few), 0, 0, 40, 0])
    assert np.isnan(placed.loss[[1, 2, 4]]).all()


DENSE: dict[str, tuple[tuple[int, ...], Callable[[], nn.Module]]] = {
    "one layer": ((12,), lambda: nn.Linear(12, 9)),
    "two layers, a ReLU behind": (
        (12,),
        lambda: nn.Sequential(nn.Linear(12, 30), nn.ReLU(), nn.Linear(30, 9, bias=False), nn.ReLU()),
    ),
    "of colours, with a dropout": (
        (4, 5, 3),
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(60, 9), nn.ReLU(), nn.Dropout(0.5)),
    ),
}


@pytest.mark.parametrize("zeros", [False, True], ids=["", "zeros are left out"])
@pytest.mark.parametrize("name", DENSE)
def test_features_of_linear_layers(name: str, zeros: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """By kernels where there are some; those of a sample do not depend on which are beside it."""
    shape, extractor = DENSE[name]
    case = problem(lambda: Network(extractor(), nn.Linear(9, CLASSES)), shape, (40, 11))
    if zeros:
        case.task.x[:, ..., :11] *= case.task.x[:, ..., :1] > 2
    found, part = [], np.append(np.arange(50)[::-1], 7)
    models = case.start(equal=False)
    for piece in (500, 7):
        monkeypatch.setattr(evaluation, "PIECE", piece)
        learner = learner_of(case.task, "cpu")
        found += learner.features(models, [1], [part])
        learner.close()
    module: Any = case.module(models, 1).eval()
    truth = module.double().extractor(case.task.x[torch.from_numpy(part)].double().contiguous()).detach()
    assert float((found[0] - truth).norm() / truth.norm()) < 1e-6
    assert torch.equal(*found)
    known = evaluator_of(case.task, Nature())._extractor is not None
    assert known == (target() is not None)


def test_samples_by_number_may_be_of_any_kind() -> None:
    """What kernels read is side by side, int64, and there."""

    def network() -> nn.Module:
        return Network(nn.Sequential(nn.Linear(6, 5), nn.ReLU()), nn.Linear(5, CLASSES))

    task = problem(network, (6,), (40,))
    models, learner, backwards = task.start(), learner_of(task.task, "cpu"), np.arange(40)[::-1].copy()
    plain = backwards[::2].copy()
    asked = [plain, backwards[::2], plain.astype(np.int32)]
    features = [learner.features(models, [0], [part])[0] for part in asked]
    losses = [learner.evaluate(models, [0], task.task.x, task.task.y, [part]).loss for part in asked]
    module = task.module(models, 0)
    assert isinstance(module, Network)
    expected = module.extractor(task.task.x[plain])
    for found, loss in zip(features, losses, strict=True):
        torch.testing.assert_close(found, expected)
        np.testing.assert_array_equal(loss, losses[0])
    for wrong in ([3, 45], [-1, 3]):
        with pytest.raises(FedroamError, match=r"samples from -?\d+ to \d+: allowed are 0 to 39"):
            learner.features(models, [0], [np.array(wrong)])
    learner.close()


@pytest.mark.parametrize("features", [1, 5])
def test_class_means_are_those_of_each_class(features: int) -> None:
    """To the last bit what numpy's mean of the class's rows is, of classes and clients without samples 0."""
    draws = np.random.default_rng(3)
    values = [draws.standard_normal((n, features)).astype(np.float32) for n in (40, 0, 1, 300)]
    labels = [draws.integers(0, 4, len(some)) * 2 for some in values]
    found = class_means([torch.from_numpy(some) for some in values], labels, 8)
    for k, (some, own) in enumerate(zip(values, labels, strict=True)):
        for c in range(8):
            assert found.held[k, c] == (own == c).any()
            expected = some[own == c].mean(0, dtype=np.float64) if (own == c).any() else np.zeros(features)
            np.testing.assert_array_equal(found.mean[k, c], expected.astype(np.float32))
