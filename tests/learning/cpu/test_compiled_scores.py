"""Answers and losses counted by kernels, against torch in float64; and the networks that are left to torch."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from fedroam.errors import FedroamError
from fedroam.learning.cpu.kernels import DenseLayer, DenseScores, conv_stack
from fedroam.learning.cpu.kernels.standing import Standing
from fedroam.learning.cpu.worker_model import Nature, probe
from fedroam.learning.samples import Samples
from fedroam.models import Network
from fedroam.native import kernel
from support.lanes import lanes_here, of_lanes
from support.learners import CLASSES, Problem, clear, evaluator_of, learner_of, problem

pytest.importorskip("llvmlite")
LANES = lanes_here()


def answers_of(
    logits: torch.Tensor, y: torch.Tensor, lanes: int, sparse: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """What the kernel counts of given logits [n, classes], and each one's loss: a layer that has them as its weights,
    and is given the samples' numbers as ones among zeros."""
    n, classes = logits.shape
    spec = DenseScores((DenseLayer(n, classes, 0, -1),), sparse)
    row, x = logits.t().contiguous().flatten(), torch.eye(n)
    index, scratch = torch.arange(n), torch.empty(spec.scratch(n))
    losses, counts = np.empty((2, n), np.float32), np.ones((3, classes), np.int64)
    places = [v.data_ptr() for v in (x, index, y, row, scratch)]
    kernel(spec, of_lanes(lanes))(*places, losses.ctypes.data, counts.ctypes.data, n)
    return counts - 1, losses[0] + np.log(losses[1])


@settings(max_examples=25, deadline=None)
@given(st.data(), st.integers(1, 40), st.sampled_from(LANES))
def test_answers_are_the_first_of_the_largest(data: st.DataObject, classes: int, lanes: int) -> None:
    """Few values, so that many are equal."""
    n, sparse = data.draw(st.integers(1, 9) | st.integers(30, 60)), data.draw(st.booleans())
    few = st.lists(st.integers(-2, 2), min_size=classes, max_size=classes)
    logits = torch.tensor(data.draw(st.lists(few, min_size=n, max_size=n)), dtype=torch.float32)
    y = torch.tensor(data.draw(st.lists(st.integers(0, classes - 1), min_size=n, max_size=n)))
    counts, losses = answers_of(logits, y, lanes, sparse)
    answers = logits.argmax(1)
    for found, expected in zip(counts, (y[answers == y], answers, y), strict=True):
        np.testing.assert_array_equal(found, torch.bincount(expected, minlength=classes).numpy())
    exact = functional.cross_entropy(logits.double(), y, reduction="none").numpy()
    np.testing.assert_allclose(losses, exact, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 3e38])
def test_answers_of_models_that_diverged(value: float, lanes: int) -> None:
    """As torch has them: a NaN is larger than all. And every answer is one of the classes.

    (A single value among zeros; the samples' products with the zeros of others would spread it.)
    """
    for classes, place in itertools.product((1, 5, 19, 37), (0, 3, 18, 36)):
        logits = torch.full((1, classes), value)
        logits[0, : min(place, classes - 1)] = 0.0
        counts, losses = answers_of(logits, torch.zeros(1, dtype=torch.int64), lanes)
        assert counts[1].tolist() == torch.bincount(logits.argmax(1), minlength=classes).tolist()
        expected = functional.cross_entropy(logits, torch.zeros(1, dtype=torch.int64), reduction="none")
        np.testing.assert_allclose(losses, expected.numpy(), rtol=1e-5)


@settings(max_examples=12, deadline=None)
@given(st.integers(1, 40), st.integers(1, 6), st.sampled_from(LANES))
def test_features_stand_in_rows(width: int, fours: int, lanes: int) -> None:
    samples = 4 * fours
    lying, rows = torch.arange(float(width * samples)).view(width, samples), torch.zeros(samples, width)
    spec = Standing(width, math.gcd(samples, lanes))
    kernel(spec, of_lanes(lanes))(lying.data_ptr(), rows.data_ptr(), samples)
    assert torch.equal(rows, lying.t())


@st.composite
def networks(draw: st.DrawFn) -> tuple[Callable[[], nn.Module], tuple[int, int, int]]:
    """Linear layers of any widths, most of them behind convolutions."""
    channels, height, width = draw(st.integers(1, 3)), draw(st.integers(4, 9)), draw(st.integers(4, 9))
    image, layers = (height, width, channels), list[Callable[[], nn.Module]]()
    for _ in range(draw(st.integers(0, 2))):
        out, side = draw(st.integers(1, 7)), draw(st.integers(1, min(3, height, width)))
        edge, bias = draw(st.integers(0, side - 1)), draw(st.booleans())
        layers.append(partial(nn.Conv2d, channels, out, side, padding=edge, bias=bias))
        channels, height, width = out, height + 2 * edge - side + 1, width + 2 * edge - side + 1
        layers += [partial(nn.GroupNorm, 1, channels)] if draw(st.booleans()) else []
        if min(height, width) > 1 and draw(st.booleans()):
            layers.append(partial(nn.MaxPool2d, 2))
            height, width = height // 2, width // 2
        layers += [nn.ReLU] if draw(st.booleans()) else []
    layers.append(nn.Flatten)
    inputs, bias = channels * height * width, draw(st.booleans())
    for wide in draw(st.lists(st.integers(1, 40), max_size=2)):
        layers += [partial(nn.Linear, inputs, wide, bias), nn.ReLU]
        inputs = wide
    layers.append(partial(nn.Linear, inputs, CLASSES, bias))
    return lambda: nn.Sequential(*(make() for make in layers)), image


def exact_scores(case: Problem, index: Sequence[int]) -> tuple[np.ndarray, float]:
    """What `tally` counts, and the mean loss, in float64."""
    chosen = torch.tensor(index, dtype=torch.int64)
    y = case.task.y[chosen]
    with torch.no_grad():
        logits = case.module(case.start(), 0).double().eval()(case.task.x[chosen].double())
    answers = logits.argmax(1)
    kinds = [torch.bincount(kind, minlength=CLASSES).numpy() for kind in (y[answers == y], answers, y)]
    return np.stack(kinds), float(functional.cross_entropy(logits, y))


@settings(max_examples=15, deadline=None)
@given(networks(), st.data(), st.sampled_from(LANES), st.integers(0, 2**32 - 1))
def test_scores_are_those_of_float64(
    network: tuple[Callable[[], nn.Module], tuple[int, int, int]], data: st.DataObject, lanes: int, seed: int
) -> None:
    """Any samples in any order, in slices of a few; on which rounding decides nothing."""
    make, image = network
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDROAM_VECTOR", str(lanes))
        patch.setattr(conv_stack, "CACHE", data.draw(st.sampled_from([4, 1 << 14, conv_stack.CACHE])))
        case = problem(make, image, (data.draw(st.integers(1, 50)),), seed=seed)
        models = case.start()
        sure = clear(case, models).tolist()
        some = data.draw(st.lists(st.sampled_from(sure), max_size=60)) if sure else []
        evaluator = evaluator_of(case.task, Nature(apart=True))
        assert evaluator.compiled is not None
        samples, row = Samples(case.task.x, case.task.y), models.parameters[0]
        index = torch.tensor(some, dtype=torch.int64)
        (counts,), (total,) = evaluator.compiled.count(samples, [(row, index)])
        if not some:
            assert total == 0.0
            assert not counts.any()
            return
        expected, loss = exact_scores(case, some)
        np.testing.assert_array_equal(counts, expected)
        assert total / len(some) == pytest.approx(loss, rel=1e-4, abs=1e-6)
        pieces = [(row, one) for one in (*index.split(1), index[:0])]  # all by one call
        alone_counts, alone = evaluator.compiled.count(samples, pieces)
        np.testing.assert_array_equal(alone_counts.sum(axis=0), expected)
        assert alone[-1] == 0.0
        assert math.fsum(alone) == pytest.approx(total, rel=1e-12), (
            "a sample's loss depends on its neighbours"
        )


def body(*layers: nn.Module) -> Callable[[], nn.Module]:
    return lambda: nn.Sequential(*layers)


class Own(nn.Module):
    """A network of a user's own, of which nobody knows the order of computation."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 2, 3), nn.Linear(8, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.second(self.first(x).tanh().flatten(1))
        return y


OTHERS: dict[str, Callable[[], nn.Module]] = {
    "a user's own": Own,
    "another layer": body(nn.Conv2d(1, 2, 3), nn.Tanh(), nn.Flatten(), nn.Linear(8, CLASSES)),
    "batch norm": body(nn.Flatten(), nn.Linear(16, 8), nn.BatchNorm1d(8), nn.Linear(8, CLASSES)),
    "a head of other layers": body(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, 6), nn.Linear(6, CLASSES)),
    "two parts": lambda: Network(
        nn.Sequential(nn.Flatten(), nn.Linear(16, 6), nn.Sigmoid()), nn.Linear(6, CLASSES)
    ),
}


@pytest.mark.parametrize("which", OTHERS)
def test_other_networks_are_left_to_torch(which: str) -> None:
    case = problem(OTHERS[which], (4, 4, 1), (30, 9))
    models = case.start(equal=False)
    assert evaluator_of(case.task, probe(case.task)).compiled is None
    sure = clear(case, models)
    x, y = case.task.x[sure], case.task.y[sure]
    found = []
    for engine in ("cpu", "reference"):
        learner = learner_of(case.task, engine)
        found.append(learner.evaluate(models, [0, 1], x, y))
        learner.close()
    np.testing.assert_array_equal(found[0].hits, found[1].hits)
    np.testing.assert_allclose(found[0].loss, found[1].loss, rtol=1e-5)


@pytest.mark.parametrize("model", ["mlp", "mnist_cnn"])
def test_without_kernels_torch_evaluates(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = problem(model, (12,) if model == "mlp" else (16, 16, 1))
    assert evaluator_of(case.task, Nature()).compiled is not None
    assert evaluator_of(case.task, Nature(native=False)).compiled is None
    assert evaluator_of(case.task, Nature(plain=True)).compiled is None
    monkeypatch.setenv("FEDROAM_NATIVE", "0")
    assert evaluator_of(case.task, Nature()).compiled is None


def test_samples_of_another_size_are_refused() -> None:
    """By torch, to which they are left, as it always did."""
    case = problem("mnist_cnn", (16, 16, 1))
    learner, models = learner_of(case.task, "cpu"), case.start()
    with pytest.raises(FedroamError, match="evaluation of row 0"):
        learner.evaluate(models, [0], torch.zeros(3, 1, 24, 24), torch.zeros(3, dtype=torch.int64))
    learner.close()


@pytest.mark.parametrize("model", ["mlp", "mnist_cnn"])
@pytest.mark.parametrize("wrong", [-1, CLASSES])
def test_classes_that_there_are_not(model: str, wrong: int) -> None:
    case = problem(model, (12,) if model == "mlp" else (16, 16, 1))
    y = case.task.y.clone()
    y[3] = wrong
    learner = learner_of(case.task, "cpu")
    with pytest.raises(FedroamError, match=f"class {wrong}: allowed are 0 to 9"):
        learner.evaluate(case.start(), [0], case.task.x, y)
    with pytest.raises(FedroamError, match="index out of range"):
        learner.evaluate(case.start(), [0], case.task.x, case.task.y, [np.array([0, 10_000])])
    learner.close()
