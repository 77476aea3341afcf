"""Real runs beside their bounds, what is measured of them, and the figure."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from fedroam.analysis.connectivity.bounds import (
    descent,
    lemma_3,
    theorem_1,
)
from fedroam.analysis.connectivity.convex import client_gradients
from fedroam.analysis.connectivity.figures import convergence_figure
from fedroam.analysis.connectivity.measure import measure_run, problem_of
from fedroam.analysis.connectivity.trajectory import Trajectory
from fedroam.errors import InputError
from fedroam.learning import Job
from fedroam.mixing import Facts
from fedroam.scene import prepare
from fedroam.simulation import begin, play_round
from support.tiny import convex, tiny

PLAIN = {"kind": "sgd", "lr": 0.01}


@pytest.fixture(scope="module")
def connected() -> Trajectory:
    """A run whose every round is connected, but no round completely."""
    trajectory = measure_run(convex(3.0))
    assert (trajectory.contacts.components == 1).all()
    assert 0 < trajectory.p < 1
    return trajectory


@pytest.fixture(scope="module")
def split() -> Trajectory:
    """A run with disconnected rounds that is B-strongly connected."""
    trajectory = measure_run(convex(1.0, rounds=40))
    assert (trajectory.contacts.components > 1).any()
    assert trajectory.window is not None
    return trajectory


# --- formulas ---


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
        facts = Facts(samples=scene.context.samples, speed=meeting.paths.length)
        weights.append(scene.context.mixing.weights(meeting.graph, facts).toarray())
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


def test_bounds_hold_for_minibatches_and_completely_connected_rounds() -> None:
    batches = measure_run(convex(3.0, training={**PLAIN, "batch_size": 8, "steps": 1, "weight_decay": 0.01}))
    assert batches.sigma.min() > 0
    _above(batches.consensus_bound(), batches.consensus)
    _above(batches.tight_consensus, batches.consensus)
    _above(batches.gap_bound(), batches.gap)
    _above(batches.tight_gap, batches.gap)
    whole = measure_run(convex(9.0, rounds=5))
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
    run = measure_run(convex(3.0, training=PLAIN, rounds=10, data={"kind": "digits", "test_share": 0.95}))
    assert not run.optimum.attained
    assert run.optimum.infimum == 0.0
    assert np.isinf(run.gap_bound()).all()
    assert np.isfinite(run.tight_gap).all()
    _above(run.tight_gap, run.gap)
    _above(run.consensus_bound(), run.consensus)
    assert np.isfinite(run.tau_limits).all()
    assert (run.tau <= run.tau_limits).all()


def test_a_search_that_stops_early_says_what_it_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    run = measure_run(convex(3.0, rounds=10))
    known, gap = run.optimum, run.gap
    assert known.uncertainty == 0.0
    monkeypatch.setattr("fedroam.analysis.connectivity.convex._WORK", 1.0)
    early = measure_run(convex(3.0, rounds=10))
    assert early.optimum.value > known.value
    assert early.optimum.uncertainty == early.optimum.value  # a cross-entropy is never below 0
    assert (early.gap < gap).all()
    _above(early.tight_gap, early.gap)
    assert any("the search stopped at a gradient of" in remark for _, _, remark in early.lines())
    assert descent(0.1, 2.0, 0.0, 2, 0.5, 0.0, uncertainty=0.3) == pytest.approx(0.5 / 0.12 + 0.4 * 0.3 / 0.6)


def test_a_step_that_is_too_large_is_said() -> None:
    run = measure_run(convex(3.0, training={**PLAIN, "lr": 0.1}, rounds=2))
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
    w = scene.context.mixing.weights(meeting.graph, Facts(scene.context.samples, meeting.paths.length))
    after = w @ (before - 0.01 * client_gradients(problem, before, [None] * 5))
    assert np.abs(after - state.models.parameters.double().numpy()).max() < 1e-6


@pytest.mark.parametrize("batch", [{}, {"batch_size": 8, "steps": 1}])
def test_what_is_measured_is_what_a_slow_reference_finds(batch: dict[str, int]) -> None:
    """Everything that goes into the bounds, once more: by autograd in float64, from the models of the run."""
    training = {**PLAIN, "weight_decay": 0.02, **batch}
    experiment = convex(1.5, rounds=6, training=training)
    found, scene = measure_run(experiment), prepare(experiment)
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
        facts = Facts(scene.context.samples, done.meeting.paths.length)
        w = scene.context.mixing.weights(done.meeting.graph, facts).toarray()
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
        measure_run(convex(3.0, **{"rounds": 2, **settings}))


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
