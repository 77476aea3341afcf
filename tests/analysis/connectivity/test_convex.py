"""Softmax regression as a convex problem: loss, gradients, smoothness, minimum and separability."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from fedroam.analysis.connectivity.convex import SoftmaxProblem
from fedroam.analysis.connectivity.separability import separated_in_part
from fedroam.randomness import stream


def small(decay: float = 0.0, samples: int = 30, seed: int = 0) -> SoftmaxProblem:
    """Three clients, one of them without samples; labels are noise, so that nothing separates them."""
    draws = stream(seed, "problem")
    x = draws.standard_normal((2, samples, 4)).astype(np.float32) * np.float32(0.7)
    y = draws.integers(0, 3, (2, samples))
    nobody = (np.zeros((0, 4), np.float32), np.zeros(0, np.int64))
    return SoftmaxProblem((x[0], nobody[0], x[1]), (y[0], nobody[1], y[1]), 3, decay)


@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_loss_and_gradient_are_torchs(decay: float) -> None:
    problem, draws = small(decay), stream(1, "point")
    point = draws.standard_normal(problem.parameters)
    total = 0.0
    for i in (0, 2):
        theta = torch.tensor(point, requires_grad=True)
        x = torch.tensor(problem.features[i], dtype=torch.float64)
        scores = x @ theta[:12].view(3, 4).T + theta[12:]
        loss = torch.nn.functional.cross_entropy(scores, torch.tensor(problem.labels[i]))
        loss = loss + decay / 2 * (theta**2).sum()
        loss.backward()
        value, gradient = problem.client(i, point)
        assert value == pytest.approx(float(loss.detach()), rel=1e-12)
        assert theta.grad is not None
        assert gradient == pytest.approx(theta.grad.numpy(), rel=1e-10, abs=1e-13)
        total += value
    assert problem.client(1, point)[0] == 0.0
    assert problem.value(point) == pytest.approx(total / 3)  # every client counts once, the empty one as well
    direction, step = draws.standard_normal(problem.parameters), 1e-5
    slope = (problem.gradient(point + step * direction) - problem.gradient(point - step * direction)) / (
        2 * step
    )
    assert problem._curvature(point, direction) == pytest.approx(slope, abs=1e-7)


def test_the_hessian_never_exceeds_l_and_nearly_reaches_it() -> None:
    problem, draws = small(0.1), stream(2, "hessian")
    limit = problem.smoothness()
    assert limit[1] == 0.0
    assert limit[0] != limit[2]
    alone = SoftmaxProblem(problem.features[:1], problem.labels[:1], 3, 0.1)
    size = problem.parameters
    for scale in (0.0, 1.0, 10.0):
        point = scale * draws.standard_normal(size)
        hessian = np.stack([alone._curvature(point, one) for one in np.eye(size)])
        assert np.linalg.eigvalsh(hessian)[-1] <= limit[0] + 1e-12
    # One sample (1, 0) and two classes at even chances: (1/2) x (1 + 1) exactly.
    two = SoftmaxProblem((np.array([[1.0]], np.float32),), (np.array([0]),), 2)
    hessian = np.stack([two._curvature(np.zeros(4), one) for one in np.eye(4)])
    assert np.linalg.eigvalsh(hessian)[-1] == pytest.approx(two.smoothness()[0])
    assert two.smoothness()[0] == pytest.approx(1.0)


def test_the_optimum_is_one_and_the_nearest_to_the_start() -> None:
    problem, start = small(), stream(3, "start").standard_normal(15)
    found = problem.optimum(start)
    assert found.attained
    assert found.gradient <= 1e-9
    assert found.infimum == found.value
    draws = stream(4, "others")
    assert all(problem.value(found.point + 0.1 * draws.standard_normal(15)) > found.value for _ in range(20))
    shift = np.concatenate([np.tile(draws.standard_normal(4), 3), np.full(3, 0.7)])  # every class alike
    assert problem.value(found.point + shift) == pytest.approx(found.value)
    assert (found.point - start) @ shift == pytest.approx(0, abs=1e-9)


def test_samples_that_can_be_separated_have_no_minimiser() -> None:
    x = np.array([[0.0], [1.0], [3.0], [4.0]], np.float32)
    problem = SoftmaxProblem((x,), (np.array([0, 0, 1, 1]),), 2)
    found = problem.optimum(np.zeros(4))
    assert not found.attained
    assert found.infimum == 0.0 < found.value
    assert SoftmaxProblem((x,), (np.array([0, 0, 1, 1]),), 2, 0.01).optimum(np.zeros(4)).attained
    overlapping = SoftmaxProblem((x,), (np.array([0, 1, 0, 1]),), 2).optimum(np.zeros(4))
    assert overlapping.attained
    point = problem.proximal(np.zeros(4), 0.05)
    assert np.linalg.norm(problem.gradient(point) + 0.1 * point) < 1e-6


def test_samples_separated_in_part_have_no_minimiser_either() -> None:
    """Class 2 lies apart, classes 0 and 1 are the same: f falls towards (4 / 6) ln 2 and never gets there."""
    x = np.array([[0.0], [1.0], [0.0], [1.0], [5.0], [6.0]], np.float32)
    found = SoftmaxProblem((x,), (np.array([0, 1, 1, 0, 2, 2]),), 3).optimum(np.zeros(6))
    assert not found.attained
    assert found.infimum == pytest.approx(4 / 6 * math.log(2), abs=1e-8)
    # Without a sample of class 2 its bias falls for ever, and what is left are two classes at even chances.
    absent = SoftmaxProblem((x[:4],), (np.array([0, 1, 1, 0]),), 3).optimum(np.zeros(6))
    assert (absent.attained, absent.infimum) == (False, pytest.approx(math.log(2), abs=1e-8))
    # A pixel that is always dark in one class; the other one tells nothing apart.
    dark = np.array([[0, 0], [0, 1], [1, 0], [0, 1]], np.float32)
    assert separated_in_part([np.column_stack([dark, np.ones(4)])], [np.array([0, 0, 1, 1])], 2)
    assert separated_in_part([np.column_stack([-dark, np.ones(4)])], [np.array([0, 0, 1, 1])], 2)
    assert not separated_in_part([np.column_stack([dark[:, 1:], np.ones(4)])], [np.array([0, 0, 1, 1])], 2)


@settings(max_examples=25)
@given(st.integers(0, 100_000), st.booleans())
def test_a_minimiser_exists_where_a_linear_programme_finds_no_separation(seed: int, whole: bool) -> None:
    """Is there a direction with all margins from 0 to 1, not all 0? (Konis 2007)"""
    draws = stream(seed, "separation")
    n, d, classes = int(draws.integers(6, 24)), int(draws.integers(1, 4)), int(draws.integers(2, 5))
    x = (draws.integers(0, 4, (n, d)) if whole else 1.5 * draws.standard_normal((n, d))).astype(np.float32)
    y = draws.integers(0, classes, n)
    x[y == 0] += draws.choice([0.0, 2.0])
    margins = []
    for a, own in zip(np.column_stack([x, np.ones(n)]), y, strict=True):
        for k in set(range(classes)) - {int(own)}:
            row = np.zeros((classes, d + 1))
            row[own], row[k] = a, -a
            margins.append(row.ravel())
    rows = np.array(margins)
    limits = np.concatenate([np.zeros(len(rows)), np.ones(len(rows))])
    best = optimize.linprog(
        -rows.sum(axis=0), A_ub=np.vstack([-rows, rows]), b_ub=limits, bounds=(None, None)
    )
    problem = SoftmaxProblem((x[: n // 2], x[n // 2 :]), (y[: n // 2], y[n // 2 :]), classes)
    assert problem.optimum(np.zeros(problem.parameters)).attained == (-best.fun < 1e-7)
    if separated_in_part(problem.samples, problem.labels, classes):
        assert -best.fun > 1e-7


def test_gradients_never_exceed_their_limit_even_of_the_longest_batch() -> None:
    """Far out and on the wrong side the gradient of a sample is sqrt(2) its length."""
    x = np.array([[1.0], [1.0], [10.0]], np.float32)
    problem = SoftmaxProblem((x,), (np.array([0, 0, 0]),), 2)
    wrong = np.array([-100.0, 100.0, 0.0, 0.0])
    lengths = np.sqrt([2.0, 2.0, 101.0])
    for batch, size in (([2], 1), ([1, 2], 2), ([0, 1, 2], 3)):
        gradient = problem.client(0, wrong, np.array(batch))[1]
        assert problem.gradient_limits(size)[0] == pytest.approx(np.sqrt(2) * lengths[batch].mean())
        assert np.linalg.norm(gradient) <= problem.gradient_limits(size)[0] + 1e-12
    assert np.linalg.norm(problem.client(0, wrong, np.array([2]))[1]) > problem.gradient_limits()[0]
    assert problem.gradient_limits(0) == problem.gradient_limits(3)


def test_variance_of_a_batch_is_that_of_all_batches() -> None:
    problem, point = small(samples=5), stream(5, "point").standard_normal(15)
    from itertools import combinations

    for size in (1, 2, 4):
        every = [problem.client(0, point, np.array(c))[1] for c in combinations(range(5), size)]
        whole = problem.client(0, point)[1]
        want = np.mean([((one - whole) ** 2).sum() for one in every])
        assert problem.variance(0, point, size) == pytest.approx(want)
    assert problem.variance(0, point, 5) == problem.variance(0, point, 0) == 0.0


# --- Lemma 1 and the bound from products ---
