"""A convex run replayed: softmax regression by plain SGD, measured in float64 after every round."""

from __future__ import annotations

import math

import numpy as np
import torch

from fedroam.analysis.connectivity.contact_statistics import ContactSequence
from fedroam.analysis.connectivity.convex import SoftmaxProblem, client_gradients
from fedroam.analysis.connectivity.spectral import doubly_stochastic
from fedroam.analysis.connectivity.trajectory import Trajectory
from fedroam.errors import InputError
from fedroam.experiment import Experiment
from fedroam.learning import Job
from fedroam.learning.objective import CrossEntropy
from fedroam.learning.training import SGD
from fedroam.scene import Scene, prepare
from fedroam.simulation import begin, play_round


def check_convex(experiment: Experiment) -> SGD:
    """Refuse an experiment that the theory does not speak of; give its training.

    Raises InputError that names what must be different.
    """
    kind = experiment.model.kind
    _require(kind == "softmax_regression", f"model.kind = {kind!r}", "'softmax_regression', which is convex")
    sgd, objective = experiment.training, experiment.objective
    if not isinstance(sgd, SGD):
        raise _refused(f"training.kind = {sgd.kind!r}", "'sgd'")
    _require(not sgd.momentum, f"training.momentum = {sgd.momentum}", "0: the theory is that of plain SGD")
    _require(sgd.lr_decay == 1.0, f"training.lr_decay = {sgd.lr_decay}", "1")
    several = (sgd.steps or 1) > 1 or (sgd.epochs or 1) > 1
    part = bool(sgd.batch_size) and sgd.steps != 1
    _require(not (several or part), "training: more than one step in a round", "the full batch, or steps = 1")
    plain = isinstance(objective, CrossEntropy) and not objective.label_smoothing
    _require(plain, f"objective.kind = {objective.kind!r}", "'cross_entropy' without label smoothing")
    kind = experiment.federation.kind
    _require(kind == "decentralized", f"federation.kind = {kind!r}", "'decentralized'")
    rule, attack = experiment.aggregation.kind, experiment.attack.kind
    _require(rule == "average", f"aggregation.kind = {rule!r}", "'average'")
    _require(attack == "none", f"attack.kind = {attack!r}", "'none'")
    start = experiment.start_models
    _require(start == "equal", f"start_models = {start!r}", "'equal': Lemma 3 starts from it")
    return sgd


def _require(holds: bool, found: str, allowed: str) -> None:
    if not holds:
        raise _refused(found, allowed)


def _refused(found: str, allowed: str) -> InputError:
    return InputError(f"{found}: for the bounds of convex learning allowed is {allowed}")


def problem_of(scene: Scene) -> SoftmaxProblem:
    """The convex problem of a scene's clients."""
    x = scene.task.x.cpu().numpy()
    x = x.reshape(len(x), -1)
    y = scene.dataset.y_train
    held = scene.split.train
    decay = scene.task.training.weight_decay
    return SoftmaxProblem(tuple(x[i] for i in held), tuple(y[i] for i in held), scene.dataset.classes, decay)


def measure_run(experiment: Experiment, rounds: int | None = None) -> Trajectory:
    """Run an experiment's first rounds (default: all) and measure what the bounds are about, in float64.

    Raises InputError where the theory does not speak of the experiment, or its mixing weights are not doubly
    stochastic (then the mean moves, and Theorem 1's proof fails).
    """
    training = check_convex(experiment)
    scene = prepare(experiment)
    try:
        return _measure(scene, training, experiment.rounds if rounds is None else rounds)
    finally:
        scene.learner.close()


def _measure(scene: Scene, training: SGD, rounds: int) -> Trajectory:
    problem, state = problem_of(scene), begin(scene)
    clients, batch_size = problem.clients, training.batch_size
    graphs, weights, gradients = [], [], []
    consensus, values = np.zeros(rounds + 1), np.zeros(rounds + 1)
    tau, sigma = np.zeros(clients), np.zeros(clients)
    models = _rows(state.models.parameters)
    first = models.mean(axis=0)
    consensus[0], values[0] = _consensus_distance(models), problem.value(first)
    for t in range(1, rounds + 1):
        batches = [
            _positions(Job(i, i, scene.split.train[i], t), scene) if batch_size else None
            for i in range(clients)
        ]
        gradient = client_gradients(problem, models, batches)
        off = ((gradient - gradient.mean(axis=0)) ** 2).sum(axis=1)
        gradients.append(math.sqrt(off.sum()))
        tau = np.maximum(tau, off)
        if batch_size:
            found = [problem.variance(i, models[i], batch_size) for i in range(clients)]
            sigma = np.maximum(sigma, found)
        state, done = play_round(scene, state)
        meeting, learners = done.meeting, done.learners
        if len(learners) != int((scene.split.sizes > 0).sum()):
            raise InputError(
                f"round {t}: only {len(learners)} clients take part; the bounds of convex learning need all of them"
            )
        one = scene.context.weights(meeting, t)
        if not doubly_stochastic(one):
            kind = scene.experiment.mixing.kind
            raise InputError(
                f"mixing.kind = {kind!r}: its weights are not doubly stochastic in round {t}; for the bounds of convex "
                "learning allowed are rules that are, such as 'metropolis'"
            )
        graphs.append(meeting.graph)
        weights.append(one)
        models = _rows(state.models.parameters)
        consensus[t], values[t] = _consensus_distance(models), problem.value(models.mean(axis=0))
    limits, anywhere = problem.gradient_limits(batch_size), np.full(clients, np.inf)
    if np.isfinite(limits).all():
        anywhere = (limits + (limits.sum() - 2 * limits) / clients) ** 2
    return Trajectory(
        eta=training.lr,
        problem=problem,
        contacts=ContactSequence(clients, tuple(graphs), lambda: tuple(weights)),
        consensus=consensus,
        values=values,
        gradients=np.array(gradients),
        tau=tau,
        tau_limits=anywhere,
        sigma=sigma,
        smoothness=problem.smoothness(),
        first=first,
    )


def _positions(job: Job, scene: Scene) -> np.ndarray | None:
    """Where the samples of a job's batch stand among the client's own."""
    for batch in job.batches(scene.task):
        order = np.argsort(job.samples, kind="stable")
        return np.asarray(order[np.searchsorted(job.samples[order], batch)])
    return None


def _rows(parameters: torch.Tensor) -> np.ndarray:
    return np.asarray(parameters.cpu().numpy().astype(np.float64))


def _consensus_distance(models: np.ndarray) -> float:
    """||X - J X||_F^2."""
    return float(((models - models.mean(axis=0)) ** 2).sum())
