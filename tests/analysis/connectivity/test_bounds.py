"""Bounds of convex learning: formulas, the convex problem, real runs, and where the bounds do not hold."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, sparse

from analysis.connectivity.test_contact_statistics import graph, random_graph, weights_of
from fedroam.analysis.connectivity.bounds import (
    corollary_1,
    descent,
    lemma_3,
    log_lambda,
    product_bound,
    theorem_1,
)
from fedroam.analysis.connectivity.bounds_figure import convergence_figure
from fedroam.analysis.connectivity.convex import SoftmaxProblem, stacked
from fedroam.analysis.connectivity.measure import follow, problem_of
from fedroam.analysis.connectivity.separability import parted
from fedroam.analysis.connectivity.spectral import mixing_parameter, mixing_parameters
from fedroam.analysis.connectivity.trajectory import Trajectory
from fedroam.errors import InputError
from fedroam.experiment import Experiment
from fedroam.learning import Job
from fedroam.mixing import Facts
from fedroam.randomness import stream
from fedroam.scene import prepare
from fedroam.simulation import begin, play_round
from support.tiny import tiny

PLAIN = {"kind": "sgd", "lr": 0.01}


def convex(radius: float, **settings: object) -> Experiment:
    """Five clients on a 4x4 grid; radius 5 connects everybody, 3 nearly all, 1 few."""
    own = {
        "training": {**PLAIN, "weight_decay": 0.01},
        "rounds": 25,
        "contacts": {"kind": "radius", "radius": radius},
    }
    return tiny(**{**own, **settings})


@pytest.fixture(scope="module")
def connected() -> Trajectory:
    """A run whose every round is connected, but no round completely."""
    trajectory = follow(convex(3.0))
    assert (trajectory.graphs.components == 1).all()
    assert 0 < trajectory.p < 1
    return trajectory


@pytest.fixture(scope="module")
def split() -> Trajectory:
    """A run with disconnected rounds that is B-strongly connected."""
    trajectory = follow(convex(1.0, rounds=40))
    assert (trajectory.graphs.components > 1).any()
    assert trajectory.window is not None
    return trajectory


# --- formulas ---


def test_formulas_on_numbers_worked_by_hand() -> None:
    # N = 2, B = 1: lambda = 1 - 1/4, so C^2 N^2 lambda^2 = 16 * 4 * 9/16 = 36.
    assert math.exp(log_lambda(2, 1)) == pytest.approx(0.75)
    assert corollary_1(2, 1) == pytest.approx(36)
    # (1 + 4)(4) 0.1^2 * 3 * (1 + 36) for p = 1/2, eta = 0.1, tauhat = 3
    assert lemma_3(0.5, 0.1, 3.0, 2, 1) == pytest.approx(0.6 * 37)
    # L = 2, eta = 0.1: 1 / (2 eta (1 - 2 L eta)) = 1 / 0.12; (L eta / N)(2 L eta + 1) = 0.1 * 1.4
    want = (5 / 10 + 0.01 * 4 / 2 + 0.14 * 0.6 * 37) / 0.12
    assert theorem_1(0.5, 0.1, 2.0, 4.0, 3.0, 2, 1, 0.5) == pytest.approx(want)
    assert descent(0.1, 2.0, 4.0, 2, 0.5, 0.6 * 37, delta=0.3) == pytest.approx(want + 0.3 / 0.6)


def test_lambda_by_log1p_where_floats_round_it_to_one() -> None:
    assert (1 - 20.0**-20) == 1.0
    assert log_lambda(20, 1) == pytest.approx(-(20.0**-20), rel=1e-12)
    assert log_lambda(3, 4) == pytest.approx(-(3.0**-12) / 4, rel=1e-5)
    assert log_lambda(20, 300) == 0.0  # 20^-6000 is below the smallest float
    assert corollary_1(20, 300) == 6400.0


def test_bounds_are_infinite_where_they_say_nothing() -> None:
    assert lemma_3(0.0, 0.1, 1.0, 5, 3) == math.inf
    assert lemma_3(-0.2, 0.1, 1.0, 5, 3) == math.inf
    assert theorem_1(0.0, 0.1, 1.0, 0.0, 1.0, 5, 3, 1.0) == math.inf
    assert (
        theorem_1(0.5, 0.5, 1.0, 0.0, 1.0, 5, 1, 1.0) == math.inf
    )  # eta = 1 / (2 L): strictly below is needed
    assert theorem_1(0.5, 0.6, 1.0, 0.0, 1.0, 5, 1, 1.0) == math.inf
    assert math.isfinite(theorem_1(0.5, 0.49, 1.0, 0.0, 1.0, 5, 1, 1.0))


@given(st.integers(2, 7), st.integers(1, 6), st.integers(0, 10_000))
def test_corollary_1_is_never_below_the_products_and_never_says_anything(n: int, b: int, seed: int) -> None:
    draws = stream(seed, "corollary")
    product = np.eye(n)
    for _ in range(b):
        product = weights_of("metropolis", random_graph(draws, n, 0.5)).toarray() @ product
    norm = float(((product - 1 / n) ** 2).sum())
    assert norm <= n - 1 + 1e-12
    assert n - 1 < corollary_1(n, b)
    assert norm < corollary_1(n, b)


# --- the convex problem ---


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
    assert found.gradient <= 1e-7  # as promised; below about 1e-9 it is the rounding of f that ends the search
    assert found.unsure == 0
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
    point = problem.near(np.zeros(4), 0.05)
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
    assert parted([np.column_stack([dark, np.ones(4)])], [np.array([0, 0, 1, 1])], 2)
    assert parted([np.column_stack([-dark, np.ones(4)])], [np.array([0, 0, 1, 1])], 2)
    assert not parted([np.column_stack([dark[:, 1:], np.ones(4)])], [np.array([0, 0, 1, 1])], 2)


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
    if parted(problem.samples, problem.labels, classes):
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


@pytest.mark.parametrize("order", ["move_then_mix", "mix_then_move"])
@pytest.mark.parametrize("mixing", ["metropolis", "data_size"])
@pytest.mark.parametrize("batch", [{}, {"batch_size": 8, "steps": 1}])
def test_lemma_1_rebuilds_the_models_of_a_real_run(order: str, mixing: str, batch: dict[str, int]) -> None:
    """X(t) = P(t - B, t) X(t - B) - eta sum_k P(k, t) G(k), from recorded gradients and weights."""
    rounds, b, eta = 12, 5, 0.1
    scene = prepare(
        tiny(
            training={"kind": "sgd", "lr": eta, **batch},
            mixing=mixing,
            federation={"kind": "decentralized", "order": order},
            model={"kind": "mlp", "hidden": (6,)},
            rounds=rounds,
        )
    )
    state, models, gradients, weights = begin(scene), [], [], []
    for t in range(1, rounds + 1):
        before = state.models.parameters.clone()
        models.append(before.double().numpy())
        gradients.append(_gradients(scene, before, t))
        state, done = play_round(scene, state)
        meeting = done.meeting
        facts = Facts(samples=scene.setting.samples, speed=meeting.paths.length)
        weights.append(scene.setting.mixing.weights(meeting.graph, facts).toarray())
    models.append(state.models.parameters.double().numpy())
    assert any((w != np.eye(len(w))).any() for w in weights)
    for t in range(b, rounds + 1):
        product, rebuilt = np.eye(5), np.zeros_like(models[0])
        for k in range(t - 1, t - b - 1, -1):
            product = product @ weights[k]
            rebuilt -= eta * product @ gradients[k]
        rebuilt += product @ models[t - b]
        assert np.abs(rebuilt - models[t]).max() < 2e-6
        assert np.abs(models[t] - models[t - b]).max() > 1e-3  # something was there to be rebuilt


def _gradients(scene: object, parameters: torch.Tensor, t: int) -> np.ndarray:
    """Each client's gradient at its own model, by autograd in float64."""
    from fedroam.scene import Scene

    assert isinstance(scene, Scene)
    found = []
    for i, row in enumerate(parameters):
        module = scene.task.network().double()
        scene.task.layout.read(module, row, torch.zeros(0))
        for batch in Job(i, i, scene.split.train[i], t).batches(scene.task):
            index = torch.from_numpy(batch)
            loss = scene.task.objective.loss(module, scene.task.x[index].double(), scene.task.y[index])
            loss.backward()
        gradient = [p.grad.reshape(-1) for p in module.parameters() if p.grad is not None]
        found.append(torch.cat(gradient).numpy())
    return np.stack(found)


@given(st.integers(0, 10_000), st.sampled_from(["metropolis", "plain", "data_size"]))
def test_the_bound_from_products_holds_for_all_row_stochastic_weights(seed: int, kind: str) -> None:
    """Any graphs, connected or not, any gradients, any start; and it equals the sum of Lemma 1's norms."""
    draws, n, rounds, eta = stream(seed, "bound"), 5, 12, 0.3
    weights = [weights_of(kind, random_graph(draws, n, 0.25), draws.integers(1, 9, n)) for _ in range(rounds)]
    x, off = draws.standard_normal((n, 3)), np.eye(n) - 1 / n
    start, measured, norms, gradients = ((off @ x) ** 2).sum(), [], [], []
    for w in weights:
        g = draws.standard_normal((n, 3)) * draws.random()
        gradients.append(g)
        norms.append(np.linalg.norm(off @ g))
        x = w @ (x - eta * g)
        measured.append(((off @ x) ** 2).sum())
    bound = product_bound(weights, np.array(norms), eta, float(start))
    assert bound[0] == pytest.approx(start)
    assert (np.array(measured) <= bound[1:] * (1 + 1e-9) + 1e-12).all()
    product, total = np.eye(n), 0.0
    for k in range(rounds - 1, -1, -1):
        product = product @ weights[k].toarray()
        total += eta * np.linalg.norm(off @ product, 2) * norms[k]
    total += np.linalg.norm(off @ product, 2) * math.sqrt(start)
    assert bound[-1] <= total**2 * (1 + 1e-9)


def test_the_bound_from_products_is_reached_and_stays_one_where_few_products_are_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two clients that drift apart and never meet: the bound is the distance itself."""
    apart = [weights_of("metropolis", graph(2))] * 20
    bound = product_bound(apart, np.full(20, math.sqrt(2)), 0.1)
    assert bound == pytest.approx([2 * (0.1 * t) ** 2 for t in range(21)])
    draws = stream(7, "few")
    weights = [weights_of("metropolis", random_graph(draws, 6, 0.3)) for _ in range(60)]
    exact = product_bound(weights, np.ones(60), 0.1)
    monkeypatch.setattr("fedroam.analysis.connectivity.bounds._NORMS", 100)
    rough = product_bound(weights, np.ones(60), 0.1)
    assert (rough >= exact * (1 - 1e-9)).all()
    assert rough[-1] == pytest.approx(exact[-1], rel=1e-6)


def test_reading_p_as_that_of_a_window_is_false_here() -> None:
    """f = +x and -x, and they meet every 21st round: 8.0 against a bound of 7.68."""
    eta, rounds = 0.1, 63
    alone, met = weights_of("metropolis", graph(2)), weights_of("metropolis", graph(2, (0, 1)))
    weights = [met if t % 21 == 20 else alone for t in range(rounds)]
    x, measured = np.zeros(2), [0.0]
    for w in weights:
        x = w @ (x - eta * np.array([1.0, -1.0]))
        measured.append(float(((x - x.mean()) ** 2).sum()))
    assert max(measured) == pytest.approx(8.0)
    p = min(mixing_parameter(weights[k : k + 21]) for k in range(0, rounds, 21))
    assert p == pytest.approx(1.0)
    tau = 2.0  # each gradient is 1 from their mean, 0
    unproven = lemma_3(p, eta, tau, 2, 21)
    assert unproven == pytest.approx(7.68)
    assert unproven < max(measured)
    assert lemma_3(float(mixing_parameters(weights).min()), eta, tau, 2, 21) == math.inf
    tight = product_bound(weights, np.full(rounds, math.sqrt(tau)), eta)
    assert tight == pytest.approx(measured, abs=1e-9)


# --- real convex runs ---


def _above(bound: np.ndarray | float, measured: np.ndarray) -> None:
    assert (measured <= bound * (1 + 1e-4) + 1e-9).all()  # models are float32


def test_bounds_hold_where_every_round_is_connected(connected: Trajectory) -> None:
    for bound in (connected.consensus_bound(), connected.tight_consensus):
        assert np.isfinite(bound).all()
        _above(bound, connected.consensus)
    for gap in (connected.gap_bound(), connected.tight_gap):
        assert np.isfinite(gap).all()
        _above(gap, connected.gap)
    assert connected.window == 1
    assert connected.consensus_bound() == connected.consensus_bound(window=True)
    assert (connected.products <= connected.corollary()).all()
    assert connected.tight_consensus.max() < connected.consensus_bound() / 100  # the tighter one is tighter
    assert (connected.gap > 0).all()
    assert (connected.gap[1:] < connected.gap[:-1]).all()


@given(st.integers(0, 10_000))
def test_printed_bounds_hold_for_quadratics_whose_every_round_is_connected(seed: int) -> None:
    """f_i = x'Hx/2 - c'x with H of rank 1 or 2, learning rates up to the limit; L, x*, tau_i by linear algebra."""
    draws = stream(seed, "quadratics")
    n, d, rounds = int(draws.integers(2, 7)), 3, int(draws.integers(1, 30))
    weights: list[sparse.csr_array] = []
    while len(weights) < rounds:
        one = weights_of("metropolis", random_graph(draws, n, draws.uniform(0.4, 1.0)))
        weights += [one] if mixing_parameter([one]) > 0 else []
    roots = draws.standard_normal((n, d, 2))
    hessians, slopes = roots @ roots.transpose(0, 2, 1) + 0.01 * np.eye(d), 3 * draws.standard_normal((n, d))
    smoothness = max(np.linalg.eigvalsh(one)[-1] for one in hessians)
    eta = draws.uniform(0.05, 0.99) / (2 * smoothness)

    def value(x: np.ndarray) -> float:
        return float(np.mean([x @ h @ x / 2 - c @ x for h, c in zip(hessians, slopes, strict=True)]))

    best = np.linalg.solve(hessians.sum(axis=0), slopes.sum(axis=0))
    x = np.tile(3 * draws.standard_normal(d), (n, 1))
    way, tau, consensus, gaps = ((x[0] - best) ** 2).sum(), np.zeros(n), [0.0], [value(x[0]) - value(best)]
    for w in weights:
        gradient = np.einsum("ijk,ik->ij", hessians, x) - slopes
        tau = np.maximum(tau, ((gradient - gradient.mean(axis=0)) ** 2).sum(axis=1))
        x = w @ (x - eta * gradient)
        consensus.append(((x - x.mean(axis=0)) ** 2).sum())
        gaps.append(value(x.mean(axis=0)) - value(best))
    p, total = float(mixing_parameters(weights).min()), float(tau.sum())
    assert max(consensus) <= lemma_3(p, eta, total, n, 1)
    # Without the second term of A0, which Corollary 1 stands for, the bound is a good deal closer, and still one.
    assert max(consensus) <= (1 + 2 / p) * (2 / p) * eta**2 * total * (1 - p) / p * (1 + 1e-9) + 1e-12
    for t in range(rounds + 1):
        mean = np.mean(gaps[: t + 1])
        assert mean <= theorem_1(p, eta, smoothness, 0.0, total, n, 1, way / (t + 1)) * (1 + 1e-9)
        closer = descent(eta, smoothness, 0.0, n, way / (t + 1), float(np.mean(consensus[: t + 1])))
        assert mean <= closer * (1 + 1e-9)


def test_bounds_hold_for_minibatches_and_completely_connected_rounds() -> None:
    batches = follow(convex(3.0, training={**PLAIN, "batch_size": 8, "steps": 1, "weight_decay": 0.01}))
    assert batches.sigma.min() > 0
    _above(batches.consensus_bound(), batches.consensus)
    _above(batches.tight_consensus, batches.consensus)
    _above(batches.gap_bound(), batches.gap)
    _above(batches.tight_gap, batches.gap)
    whole = follow(convex(9.0, rounds=5))
    assert whole.p == 1.0
    _above(whole.tight_gap, whole.gap)
    _above(whole.consensus_bound(), whole.consensus)


def test_disconnected_rounds_make_the_printed_bounds_infinite(split: Trajectory) -> None:
    assert split.p == 0.0
    assert split.consensus_bound() == math.inf
    assert np.isinf(split.gap_bound()).all()
    assert math.isfinite(split.consensus_bound(window=True))
    assert np.isfinite(split.tight_consensus).all()
    _above(split.tight_consensus, split.consensus)
    _above(split.tight_gap, split.gap)
    lines = {name.strip(): (value, remark) for name, value, remark in split.lines()}
    assert lines["Lemma 3"][0] == math.inf
    assert "disconnected, so p = 0" in lines["Lemma 3"][1]
    assert "not proven" in lines["Lemma 3 with p = window"][1]
    assert lines["Theorem 1"][0] == math.inf


def test_without_a_minimiser_theorem_1_is_infinite_and_the_other_bound_is_not() -> None:
    run = follow(convex(3.0, training=PLAIN, rounds=10, data={"kind": "digits", "test_share": 0.95}))
    assert not run.optimum.attained
    assert run.optimum.infimum == 0.0
    assert np.isinf(run.gap_bound()).all()
    assert np.isfinite(run.tight_gap).all()
    _above(run.tight_gap, run.gap)
    _above(run.consensus_bound(), run.consensus)
    assert np.isfinite(run.tau_limits).all()
    assert (run.tau <= run.tau_limits).all()


def test_a_search_that_stops_early_says_what_it_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    run = follow(convex(3.0, rounds=10))
    known, gap = run.optimum, run.gap
    assert known.unsure == 0.0
    monkeypatch.setattr("fedroam.analysis.connectivity.convex._WORK", 1.0)
    early = follow(convex(3.0, rounds=10))
    assert early.optimum.value > known.value
    assert early.optimum.unsure == early.optimum.value  # a cross-entropy is never below 0
    assert (early.gap < gap).all()
    _above(early.tight_gap, early.gap)
    assert any("the search stopped at a gradient of" in remark for _, _, remark in early.lines())
    assert descent(0.1, 2.0, 0.0, 2, 0.5, 0.0, unsure=0.3) == pytest.approx(0.5 / 0.12 + 0.4 * 0.3 / 0.6)


def test_a_step_that_is_too_large_is_said() -> None:
    run = follow(convex(3.0, training={**PLAIN, "lr": 0.1}, rounds=2))
    assert run.eta >= 0.5 / run.largest
    assert np.isinf(run.tight_gap).all()
    assert any("eta is not below 1 / (2 L)" in remark for _, _, remark in run.lines())


def test_what_is_measured_is_what_the_engine_does(connected: Trajectory) -> None:
    """The gradients of the convex problem move the float32 models of the run."""
    scene = prepare(convex(3.0))
    problem, state = problem_of(scene), begin(scene)
    before = state.models.parameters.double().numpy()
    assert connected.first == pytest.approx(before.mean(axis=0), abs=1e-7)
    state, done = play_round(scene, state)
    meeting = done.meeting
    w = scene.setting.mixing.weights(meeting.graph, Facts(scene.setting.samples, meeting.paths.length))
    after = w @ (before - 0.01 * stacked(problem, before, [None] * 5))
    assert np.abs(after - state.models.parameters.double().numpy()).max() < 1e-6


@pytest.mark.parametrize("batch", [{}, {"batch_size": 8, "steps": 1}])
def test_what_is_measured_is_what_a_slow_reference_finds(batch: dict[str, int]) -> None:
    """Everything that goes into the bounds, once more: by autograd in float64, from the models of the run."""
    training = {**PLAIN, "weight_decay": 0.02, **batch}
    experiment = convex(1.5, rounds=6, training=training)
    found, scene = follow(experiment), prepare(experiment)
    held, size = scene.split.train, batch.get("batch_size", 0)

    def client(i: int, row: np.ndarray, samples: np.ndarray) -> tuple[float, np.ndarray]:
        module = scene.task.network().double()
        scene.task.layout.read(module, torch.from_numpy(row), torch.zeros(0))
        index = torch.from_numpy(np.asarray(samples))
        loss = torch.nn.functional.cross_entropy(module(scene.task.x[index].double()), scene.task.y[index])
        loss = loss + 0.01 * torch.stack([(p**2).sum() for p in module.parameters()]).sum()
        return loss.item(), torch.cat(
            [g.ravel() for g in torch.autograd.grad(loss, [*module.parameters()])]
        ).numpy()

    state, consensus, values, norms, off, noise, smallest = begin(scene), [], [], [], [], [], []
    for t in range(7):
        x = state.models.parameters.double().numpy().copy()
        mean = x.mean(axis=0)
        consensus.append(sum(((row - mean) ** 2).sum() for row in x))
        values.append(np.mean([client(i, mean, held[i])[0] for i in range(5)]))
        if t == 6:
            break
        drawn = [
            next(iter(Job(i, i, held[i], t + 1).batches(scene.task))) if size else held[i] for i in range(5)
        ]
        g = np.stack([client(i, x[i], drawn[i])[1] for i in range(5)])
        off.append(((g - g.mean(axis=0)) ** 2).sum(axis=1))
        norms.append(math.sqrt(off[-1].sum()))
        noise.append(np.zeros(5))
        for i, own in enumerate(held):
            if 0 < size < len(own):
                whole, n = client(i, x[i], own)[1], len(own)
                square = np.mean([((client(i, x[i], [k])[1] - whole) ** 2).sum() for k in own])
                noise[-1][i] = square * (n - size) / ((n - 1) * size)
        state, done = play_round(scene, state)
        facts = Facts(scene.setting.samples, done.meeting.paths.length)
        w = scene.setting.mixing.weights(done.meeting.graph, facts).toarray()
        smallest.append(1 - np.sort(np.linalg.eigvalsh(w.T @ w))[-2])
        assert np.abs(w @ (x - 0.01 * g) - state.models.parameters.double().numpy()).max() < 1e-6
    tau, sigma = np.max(off, axis=0), np.max(noise, axis=0)
    assert found.consensus == pytest.approx(consensus, rel=1e-9)
    assert found.values == pytest.approx(values, rel=1e-9)
    assert found.gradients == pytest.approx(norms, rel=1e-9)
    assert found.tau == pytest.approx(tau, rel=1e-9)
    assert found.sigma == pytest.approx(sigma, rel=1e-9)
    assert (sigma > 0).any() == bool(size)
    assert found.p == pytest.approx(min(smallest), abs=1e-9)
    largest = 0.0
    for own in held:
        a = np.column_stack(
            [scene.task.x[torch.from_numpy(own)].flatten(1).double().numpy(), np.ones(len(own))]
        )
        largest = max(largest, 0.5 * np.linalg.norm(a, 2) ** 2 / len(own) + 0.02)
    assert found.largest == pytest.approx(largest)
    # The bounds are made of these numbers: the sum of tau_i, the mean of sigma_i^2, the largest L_i.
    p = 0.4  # as if all rounds were so connected
    made = replace(found)
    made.__dict__.update(p=p)
    assert made.consensus_bound() == pytest.approx(lemma_3(p, 0.01, tau.sum(), 5, 1))
    way = ((found.first - found.optimum.point) ** 2).sum()
    wanted = [theorem_1(p, 0.01, largest, sigma.mean(), tau.sum(), 5, 1, way / (t + 1)) for t in range(7)]
    assert made.gap_bound() == pytest.approx(wanted)
    assert found.gap == pytest.approx(np.cumsum(np.array(values) - found.optimum.value) / np.arange(1, 8))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": {"kind": "mlp"}}, "model.kind = 'mlp'"),
        ({"training": {"kind": "sgd", "momentum": 0.9}}, "training.momentum = 0.9"),
        ({"training": {"kind": "sgd", "lr_decay": 0.9}}, "training.lr_decay = 0.9"),
        ({"training": {"kind": "sgd", "batch_size": 8}}, "more than one step in a round"),
        ({"training": {"kind": "sgd", "steps": 2}}, "more than one step in a round"),
        ({"objective": {"kind": "cross_entropy", "label_smoothing": 0.1}}, "without label smoothing"),
        ({"start_models": "independent"}, "start_models = 'independent'"),
        ({"mixing": "data_size"}, "not doubly stochastic in round"),
    ],
)
def test_experiments_the_theory_does_not_speak_of_are_refused(
    settings: dict[str, object], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        follow(convex(3.0, **{"rounds": 2, **settings}))


def test_the_figure_draws_what_is_finite_and_names_what_is_not(
    connected: Trajectory, split: Trajectory
) -> None:
    for trajectory, infinite, drawn in ((connected, 0, 3), (split, 1, 3)):
        figure = convergence_figure(trajectory)
        left, middle, right = figure.axes
        assert [len(ax.texts) for ax in (left, middle)] == [infinite, infinite]
        shown = [line for line in left.lines if np.isfinite(np.asarray(line.get_ydata(), dtype=float)).any()]
        assert len(shown) == drawn
        assert [text.get_text() for text in right.texts] == ["Corollary 1", "N − 1: holds for any"]
    assert "infinite" in convergence_figure(split).axes[1].texts[0].get_text()
