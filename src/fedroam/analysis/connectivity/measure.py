"""A convex run replayed: softmax regression by plain SGD, measured in float64 after every round."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch

from fedroam.analysis.connectivity.contact_statistics import Meetings
from fedroam.analysis.connectivity.convex import SoftmaxProblem, stacked
from fedroam.analysis.connectivity.spectral import doubly_stochastic
from fedroam.analysis.connectivity.trajectory import Trajectory
from fedroam.errors import InputError
from fedroam.experiment import Experiment
from fedroam.learning import Job
from fedroam.mixing import Facts
from fedroam.scene import Scene, prepare
from fedroam.simulation import begin, play_round


def check_convex(experiment: Experiment) -> None:
    """Refuse an experiment that the theory does not speak of. Raises InputError that names what must be different."""
    model, training = experiment.model.kind, experiment.training
    sgd = {name: getattr(training, name, None) for name in ("momentum", "lr_decay", "batch_size")}
    several = (getattr(training, "steps", None) or 1) > 1 or (getattr(training, "epochs", None) or 1) > 1
    part = sgd["batch_size"] and getattr(training, "steps", None) != 1
    smoothing = getattr(experiment.objective, "label_smoothing", 0.0)
    for wrong, found, allowed in (
        (model != "softmax_regression", f"model.kind = {model!r}", "'softmax_regression', which is convex"),
        (training.kind != "sgd", f"training.kind = {training.kind!r}", "'sgd'"),
        (sgd["momentum"], f"training.momentum = {sgd['momentum']}", "0: the theory is that of plain SGD"),
        (sgd["lr_decay"] != 1.0, f"training.lr_decay = {sgd['lr_decay']}", "1"),
        (several or part, "training: more than one step in a round", "the full batch, or steps = 1"),
        (
            experiment.objective.kind != "cross_entropy" or smoothing,
            f"objective.kind = {experiment.objective.kind!r}",
            "'cross_entropy' without label smoothing",
        ),
        (
            experiment.federation.kind != "decentralized",
            f"federation.kind = {experiment.federation.kind!r}",
            "'decentralized'",
        ),
        (
            experiment.start_models != "equal",
            f"start_models = {experiment.start_models!r}",
            "'equal': Lemma 3 starts from it",
        ),
    ):
        if wrong:
            raise InputError(f"{found}: for the bounds of convex learning allowed is {allowed}")


def problem_of(scene: Scene) -> SoftmaxProblem:
    """The convex problem of a scene's clients."""
    x = scene.task.x.cpu().numpy()
    x = x.reshape(len(x), -1)
    y = scene.dataset.y_train
    held = scene.split.train
    decay = float(getattr(scene.experiment.training, "weight_decay", 0.0))
    return SoftmaxProblem(tuple(x[i] for i in held), tuple(y[i] for i in held), scene.dataset.classes, decay)


def follow(
    experiment: Experiment,
    rounds: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Trajectory:
    """Run an experiment's first rounds (default: all) and measure what the bounds are about, in float64.

    progress(round, rounds) is called after each round. Raises InputError where the theory does not speak of the
    experiment, or its mixing weights are not doubly stochastic (then the mean moves, and Theorem 1's proof fails).
    """
    check_convex(experiment)
    scene = prepare(experiment)
    try:
        return _follow(scene, experiment.rounds if rounds is None else rounds, progress or (lambda *_: None))
    finally:
        scene.learner.close()


def _follow(scene: Scene, rounds: int, progress: Callable[[int, int], None]) -> Trajectory:
    problem, state = problem_of(scene), begin(scene)
    training, clients = scene.experiment.training, problem.clients
    eta, batch_size = float(training.lr), int(training.batch_size)  # type: ignore[attr-defined]
    graphs, weights, gradients = [], [], []
    consensus, values = np.zeros(rounds + 1), np.zeros(rounds + 1)
    tau, sigma = np.zeros(clients), np.zeros(clients)
    models = _rows(state.models.parameters)
    first = models.mean(axis=0)
    consensus[0], values[0] = _spread(models), problem.value(first)
    for t in range(1, rounds + 1):
        batches = [
            _positions(Job(i, i, scene.split.train[i], t), scene) if batch_size else None
            for i in range(clients)
        ]
        gradient = stacked(problem, models, batches)
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
        facts = Facts(samples=scene.context.samples, speed=meeting.paths.length)
        one = scene.context.mixing.weights(meeting.graph, facts)
        if not doubly_stochastic(one):
            kind = scene.experiment.mixing.kind
            raise InputError(
                f"mixing.kind = {kind!r}: its weights are not doubly stochastic in round {t}; for the bounds of convex "
                "learning allowed are rules that are, such as 'metropolis'"
            )
        graphs.append(meeting.graph)
        weights.append(one)
        models = _rows(state.models.parameters)
        consensus[t], values[t] = _spread(models), problem.value(models.mean(axis=0))
        progress(t, rounds)
    limits = problem.gradient_limits(batch_size)
    return Trajectory(
        eta=eta,
        problem=problem,
        graphs=Meetings(clients, tuple(graphs), tuple(weights)),
        consensus=consensus,
        values=values,
        gradients=np.array(gradients),
        tau=tau,
        tau_limits=(limits + (limits.sum() - 2 * limits) / clients) ** 2
        if np.isfinite(limits).all()
        else np.full(clients, np.inf),
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


def _spread(models: np.ndarray) -> float:
    """||X - J X||_F^2."""
    return float(((models - models.mean(axis=0)) ** 2).sum())
