"""A convex run beside its bounds: softmax regression by plain SGD, replayed round by round and measured in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from fedroam.analysis.connectivity import Meetings
from fedroam.analysis.convergence import corollary_1, descent, lemma_3, product_bound, theorem_1
from fedroam.analysis.convex import Optimum, SoftmaxProblem, stacked
from fedroam.analysis.spectral import Weights, doubly_stochastic, mixing_parameters, window_parameters
from fedroam.errors import InputError
from fedroam.experiment import Experiment
from fedroam.learning import Job
from fedroam.mixing import Facts
from fedroam.scene import Scene, prepare
from fedroam.simulation import begin, play_round


@dataclass(frozen=True)
class Trajectory:
    """What a convex run did. Arrays over t = 0 .. T have T + 1 entries, over rounds T.

    weights: W(t) of each round; consensus: ||X(t) - J X(t)||_F^2; values: f(xbar(t)); gradients: ||G(t) - J G(t)||_F
    of each round; tau: tau_i, the largest ||g_i - gbar||^2 of the run, float64 [clients], and tau_limits, a bound
    that holds wherever the models are; sigma: sigma_i^2, 0 for the full batch, else the largest of the run at the
    client's own model (an estimate: Assumption 2 asks for every point); smoothness: L_i [clients]; first: xbar(0).
    """

    eta: float
    problem: SoftmaxProblem
    graphs: Meetings
    consensus: np.ndarray
    values: np.ndarray
    gradients: np.ndarray
    tau: np.ndarray
    tau_limits: np.ndarray
    sigma: np.ndarray
    smoothness: np.ndarray
    first: np.ndarray

    @property
    def weights(self) -> tuple[Weights, ...]:
        """W(t) of each round."""
        assert self.graphs.weights is not None
        return self.graphs.weights

    @property
    def clients(self) -> int:
        """N."""
        return self.graphs.clients

    @cached_property
    def optimum(self) -> Optimum:
        """The minimum of f."""
        return self.problem.optimum(self.first)

    @cached_property
    def largest(self) -> float:
        """L, the largest L_i."""
        return float(self.smoothness.max())

    @cached_property
    def p(self) -> float:
        """The mixing parameter common to all rounds: the smallest."""
        return float(mixing_parameters(self.weights).min())

    @cached_property
    def window(self) -> int | None:
        """The smallest B (None: none)."""
        return self.graphs.smallest_window().length

    @cached_property
    def window_p(self) -> float:
        """The smallest p of the products of the aligned windows of B rounds; 0 without a B."""
        return 0.0 if self.window is None else float(window_parameters(self.weights, self.window).min())

    @cached_property
    def products(self) -> np.ndarray:
        """||P - J||_F^2 of the product of each aligned window of B rounds, to be held against Corollary 1."""
        b, found = self.window or len(self.weights), []
        for end in range(b, len(self.weights) + 1, b):
            product = self.weights[end - b].toarray()
            for one in self.weights[end - b + 1 : end]:
                product = one @ product
            found.append(((product - 1 / self.clients) ** 2).sum())
        return np.array(found)

    def corollary(self) -> float:
        """Corollary 1's bound on `products`."""
        return corollary_1(self.clients, self.window or len(self.weights))

    def consensus_bound(self, *, window: bool = False) -> float:
        """Lemma 3; window: with p read as that of a window of B rounds, which is not proven."""
        p, b = (
            (self.window_p, self.window or 1) if window else (self.p, 1 if self.p > 0 else self.window or 1)
        )
        return lemma_3(p, self.eta, float(self.tau.sum()), self.clients, b)

    @cached_property
    def tight_consensus(self) -> np.ndarray:
        """The bound on the consensus distance from measured products and gradients, float64 [T + 1]."""
        return product_bound(self.weights, self.gradients, self.eta, float(self.consensus[0]))

    @cached_property
    def gap(self) -> np.ndarray:
        """The mean over t = 0 .. T of f(xbar(t)) - inf f, for each T, float64 [T + 1]."""
        return _running(self.values - self.optimum.infimum)

    def gap_bound(self, *, window: bool = False) -> np.ndarray:
        """Theorem 1 for each T, float64 [T + 1]; infinite as well where f has no minimiser. window: see above."""
        p, b = (
            (self.window_p, self.window or 1) if window else (self.p, 1 if self.p > 0 else self.window or 1)
        )
        way = self.first - self.optimum.point
        square = float(way @ way) if self.optimum.attained else math.inf
        every = (
            theorem_1(
                p,
                self.eta,
                self.largest,
                float(self.sigma.mean()),
                float(self.tau.sum()),
                self.clients,
                b,
                square / (t + 1),
            )
            for t in range(len(self.values))
        )
        return np.fromiter(every, np.float64)

    @cached_property
    def tight_gap(self) -> np.ndarray:
        """The bound on `gap` from measured products, for each T, float64 [T + 1].

        Its comparison point is the best one for the whole run, the minimiser of f(x) + ||x - xbar(0)||^2 /
        (2 eta (T + 1)), or the minimiser of f where that is better.
        """
        spread, rounds = _running(self.tight_consensus), len(self.values)
        points = [self.problem.near(self.first, 1 / (2 * self.eta * rounds)), self.optimum.point]
        best = np.full(rounds, np.inf)
        for point in points:
            way, delta = self.first - point, self.problem.value(point) - self.optimum.infimum
            square, variance = float(way @ way), float(self.sigma.mean())
            every = (
                descent(
                    self.eta,
                    self.largest,
                    variance,
                    self.clients,
                    square / (t + 1),
                    float(spread[t]),
                    max(delta, 0.0),
                )
                for t in range(rounds)
            )
            best = np.minimum(best, np.fromiter(every, np.float64))
        return best


def _running(values: np.ndarray) -> np.ndarray:
    """The mean of the first 1, 2, ... values."""
    return np.asarray(np.cumsum(values) / np.arange(1, len(values) + 1))


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
        state, meeting, learners, _ = play_round(scene, state)
        if len(learners) != int((scene.split.sizes > 0).sum()):
            raise InputError(
                f"round {t}: only {len(learners)} clients take part; the bounds of convex learning need all of them"
            )
        facts = Facts(samples=scene.setting.samples, speed=meeting.paths.length)
        one = scene.setting.mixing.weights(meeting.graph, facts)
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
    limits = problem.gradient_limits()
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
