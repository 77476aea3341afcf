"""The engines against autograd in float64: every kind of model, optimiser and amount of work."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from fedroam.components import build, kinds
from fedroam.errors import FedroamError, InputError
from fedroam.learning import Models
from fedroam.learning.cpu import mlp, sequential, trainer
from fedroam.learning.cpu.kernels import conv_stack
from fedroam.learning.cpu.worker_model import probe, worker_model
from fedroam.learning.objective import CrossEntropy
from fedroam.learning.samples import standard
from fedroam.learning.training import SGD
from support.learners import CLASSES, SMOOTH, Problem, check_steps, check_trajectory, learner_of, problem

SIZES = (20, 0, 7, 1, 11)
seeds = st.integers(0, 2**32 - 1)
# Kinds of models, with settings that keep them small. Batch norm refuses batches of one sample in every engine.
MODELS: dict[str, dict[str, Any]] = {
    "mnist_cnn": {"shape": (20, 20, 1)},
    "lenet_gn": {"shape": (9, 11, 3)},
    "conv5": {"shape": (9, 9, 1), "pad_to": 8},
    "cnn1d": {"shape": (14,)},
    "mlp": {"shape": (4, 4, 3), "hidden": (9, 7)},
    "softmax_regression": {"shape": (4, 4, 1)},
}


@pytest.mark.parametrize("kind", MODELS)
@settings(max_examples=3)
@given(seed=seeds)
def test_every_small_model(kind: str, seed: int) -> None:
    training = SGD(lr=0.05, momentum=0.5, batch_size=16, steps=1)
    without = build("engine", {"kind": "cpu", "native": False})
    check_steps(
        problem(kind, sizes=SIZES, training=training, seed=seed, **MODELS[kind]), "cpu", without, "reference"
    )


def test_no_model_kind_is_forgotten() -> None:
    slow_or_foreign = {"resnet18", "resnet50", "torch_module"}
    assert set(kinds("model")) == set(MODELS) | slow_or_foreign


TRAININGS = {
    "full batch": SGD(lr=0.02),
    "full batch, epochs": SGD(lr=0.02, epochs=3, momentum=0.9),
    "steps": SGD(lr=0.02, batch_size=8, steps=5),
    "epochs": SGD(lr=0.02, batch_size=8, epochs=2),
    "drop last": SGD(lr=0.02, batch_size=8, epochs=2, drop_last=True),
    "momentum kept": SGD(lr=0.01, momentum=0.9, batch_size=8),
    "momentum reset": SGD(lr=0.01, momentum=0.9, momentum_state="reset", batch_size=8),
    "weight decay": SGD(lr=0.02, weight_decay=0.3, batch_size=8),
    "momentum and decay": SGD(lr=0.01, momentum=0.8, weight_decay=0.3, batch_size=8, steps=4),
    "decaying rate": SGD(lr=0.02, lr_decay=0.5, batch_size=8),
}


def smooth(network: str = "autograd", sizes: tuple[int, ...] = SIZES, **settings: Any) -> Problem:
    shape, make = SMOOTH[network]
    return problem(make, shape, sizes, **settings)


def difference(a: Models, b: Models) -> float:
    matrices = [(a.parameters, b.parameters), (a.buffers, b.buffers)]
    if a.momentum is not None and b.momentum is not None:
        matrices.append((a.momentum, b.momentum))
    assert (a.momentum is None) == (b.momentum is None)
    return max((float((one - two).abs().max()) for one, two in matrices if one.numel()), default=0.0)


def agree(case: Problem, rounds: int = 3) -> Models:
    """Hold the fast engine to float64, whose number of workers must change no bit."""
    models = check_trajectory(case, "cpu", rounds, workers=1)
    again, _ = case.trained("cpu", rounds, workers=2)
    assert difference(models, again) == 0
    assert difference(models, case.start()) > 0
    return models


@pytest.mark.parametrize("training", TRAININGS)
@pytest.mark.parametrize("network", SMOOTH)
@settings(max_examples=2)
@given(seed=seeds)
def test_every_training(network: str, training: str, seed: int) -> None:
    agree(smooth(network, training=TRAININGS[training], seed=seed))


@pytest.mark.parametrize("training", TRAININGS)
@settings(max_examples=2)
@given(seed=seeds)
def test_every_training_by_the_reference_engine(training: str, seed: int) -> None:
    check_trajectory(smooth(training=TRAININGS[training], seed=seed), "reference")


@pytest.mark.parametrize("training", TRAININGS)
def test_the_reference_engine_steps_as_torchs_own_optimiser(training: str) -> None:
    """Bit for bit; one layer is frozen, which has no gradient and no momentum."""
    shape, make = SMOOTH["autograd"]

    def frozen() -> nn.Module:
        network = make()
        next(network.parameters()).requires_grad_(False)
        return network

    case = problem(frozen, shape, SIZES, training=TRAININGS[training], seed=4)
    found, _ = case.trained("reference", 3)
    task, rule = case.task, TRAININGS[training]
    for k in (0, 2):
        module = case.module(case.start(), k).train()
        made = [
            torch.optim.SGD(module.parameters(), momentum=rule.momentum, weight_decay=rule.weight_decay)
            for _ in range(3)
        ]
        for job, own in zip([case.jobs(t)[k] for t in (1, 2, 3)], made, strict=True):
            optimiser = made[0] if rule.momentum_state == "kept" else own
            optimiser.param_groups[0]["lr"] = rule.lr * rule.lr_decay ** (job.round - 1)
            for positions in job.positions(task):
                index = torch.from_numpy(job.samples[positions])
                optimiser.zero_grad()
                functional.cross_entropy(module(standard(task.x[index])), task.y[index]).backward()
                optimiser.step()
        reached = case.module(found, k)
        for (name, one), other in zip(module.named_parameters(), reached.parameters(), strict=True):
            assert torch.equal(one, other), name


def test_each_smooth_network_is_computed_in_its_own_way() -> None:
    for network in SMOOTH:
        task = smooth(network).task
        recognised = mlp.recognise(worker_model(task, probe(task)), task) is not None
        model = sequential.sequential_model(task.network(), task, torch.zeros(task.layout.size))
        alone = "autograd" if model is None else "kernels" if model.native else "written out"
        way = "batched" if recognised else alone
        assert way == network


@pytest.mark.parametrize("network", ["kernels", "written out", "autograd"])
def test_large_batches_in_pieces(network: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of 8 of a batch of 21 add up to the same gradient."""
    monkeypatch.setattr(trainer, "PIECE", 8)
    monkeypatch.setattr(sequential, "PIECE", 8)
    monkeypatch.setattr(conv_stack, "CACHE", 1)
    task = smooth(network, (21, 8, 3), training=SGD(lr=0.02, momentum=0.5, epochs=2))
    assert probe(task.task).apart
    agree(task)


def test_large_batches_of_a_perceptron(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mlp, "BATCH", 8)
    agree(smooth("batched", (21, 8, 3), training=SGD(lr=0.02, epochs=2)))


@pytest.mark.parametrize("dropout", [nn.Dropout(0.3), nn.Dropout2d(0.3)], ids=["entries", "channels"])
def test_dropout_draws_the_same_masks(dropout: nn.Module) -> None:
    """Also for batches larger than a piece, which are then not cut."""

    def network() -> nn.Module:
        layers = [nn.Conv2d(1, 4, 3), dropout, nn.Tanh(), nn.Flatten(), nn.Linear(4 * 36, CLASSES)]
        return nn.Sequential(*layers)

    task = problem(network, (8, 8, 1), (200, 9), training=SGD(lr=0.02, epochs=2))
    assert not probe(task.task).apart
    agree(task)


def test_foreign_draws_have_a_stream_too() -> None:
    """A network that calls torch's own dropout function is trained one client at a time, reproducibly."""

    class Foreign(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(12, CLASSES)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            logits: torch.Tensor = self.linear(functional.dropout(x, 0.4, self.training))
            return logits

    task = problem(Foreign, (12,))
    learner = learner_of(task.task, "cpu")
    learner.close()
    assert "one by one" in " ".join(learner.notes)
    before = torch.random.get_rng_state()
    agree(task)
    assert torch.equal(before, torch.random.get_rng_state())


def test_batch_norm_is_computed_on_whole_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainer, "PIECE", 4)

    def network() -> nn.Module:
        layers = [
            nn.Conv2d(3, 5, 3, padding=1),
            nn.BatchNorm2d(5),
            nn.Tanh(),
            nn.Flatten(),
            nn.Linear(180, CLASSES),
        ]
        return nn.Sequential(*layers)

    task = problem(network, (6, 6, 3), (16, 24, 9), training=SGD(lr=0.02, epochs=2))
    assert not probe(task.task).apart
    models = agree(task)
    counted = models.buffers[:, -1]  # num_batches_tracked: 3 rounds of 2 steps
    assert counted.tolist() == [6, 6, 6]


def test_a_network_that_calls_view() -> None:
    """`view` refuses channels-last activations; such a network gets images in torch's usual order."""

    class Viewing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Conv2d(1, 4, 3), nn.Conv2d(4, 4, 3)
            self.last = nn.Linear(64, CLASSES)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = torch.tanh(self.second(torch.tanh(self.first(x))))
            logits: torch.Tensor = self.last(x.view(-1, 64))
            return logits

    task = problem(Viewing, (8, 8, 1))
    assert probe(task.task).plain
    agree(task)


def test_frozen_and_unused_parameters_stay() -> None:
    class Partly(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.frozen, self.used, self.unused = nn.Linear(12, 8), nn.Linear(8, CLASSES), nn.Linear(3, 3)
            self.frozen.requires_grad_(False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            logits: torch.Tensor = self.used(torch.tanh(self.frozen(x)))
            return logits

    for training in (SGD(lr=0.1, weight_decay=0.5), SGD(lr=0.1, weight_decay=0.5, momentum=0.5)):
        task = problem(Partly, (12,), training=training)
        models, before = agree(task), task.start()
        for entry in task.task.layout.parameters:
            same = all(
                torch.equal(entry.view(models.parameters[k]), entry.view(before.parameters[k]))
                for k in range(3)
            )
            assert same == (not entry.name.startswith("used")), entry.name


def test_shared_parameters_lie_once() -> None:
    def network() -> nn.Module:
        layer = nn.Linear(12, 12)
        return nn.Sequential(layer, nn.Tanh(), layer, nn.Tanh(), nn.Linear(12, CLASSES))

    task = problem(network, (12,))
    assert task.task.layout.size == 12 * 13 + 13 * 10
    agree(task)


@pytest.mark.parametrize("network", SMOOTH)
def test_label_smoothing(network: str) -> None:
    agree(smooth(network, objective=CrossEntropy(label_smoothing=0.2)))


def test_auto_is_cpu_here() -> None:
    task = problem("mlp", (12,))
    auto, _ = task.trained("auto")
    cpu, _ = task.trained("cpu")
    assert difference(auto, cpu) == 0
    assert "engine: cpu" in learner_of(task.task, "auto").notes


@pytest.mark.parametrize("network", SMOOTH)
@pytest.mark.parametrize("clients", [[4, 0, 2], [1]], ids=["no neighbours", "one alone"])
def test_some_clients_of_a_larger_matrix(network: str, clients: list[int]) -> None:
    """Who else trains changes nothing; rows of others stay as they are."""
    training = SGD(lr=0.02, momentum=0.5, batch_size=8)
    case = smooth(network, (9, 9, 9, 9, 9), training=training)
    models = check_trajectory(case, "cpu", rounds=1, clients=clients)
    changed = (models.parameters != case.start().parameters).any(1)
    assert changed.tolist() == [k in clients for k in range(5)]


def test_recognised_as_a_perceptron() -> None:
    def layers(task: Problem) -> Any:
        return mlp.recognise(worker_model(task.task, probe(task.task)), task.task)

    assert [layer.weight.shape for layer in layers(problem("mlp", (12,)))] == [(64, 12), (10, 64)]
    assert len(layers(problem("softmax_regression", (4, 4, 3)))) == 1
    assert layers(problem("mnist_cnn", (16, 16, 1))) is None
    bent = problem(lambda: nn.Sequential(nn.Linear(12, 9), nn.Tanh(), nn.Linear(9, CLASSES)), (12,))
    assert layers(bent) is None
    linear = problem(lambda: nn.Sequential(nn.Linear(12, 9), nn.Linear(9, CLASSES)), (12,))
    assert layers(linear) is None
    agree(bent)
    agree(linear)


class Broken(nn.Module):
    """Fails where a sample has a certain first value, and says that it is at work where it has another."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(12, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if bool((x[:, 0] == 77).any()):
            raise ValueError("a sample I cannot bear")
        if bool((x[:, 0] == 78).any()):
            self.working()
        logits: torch.Tensor = self.linear(x)
        return logits

    def working(self) -> None:
        """Nobody listens."""


@pytest.mark.parametrize("kind", ["softmax_regression", "mlp", "mnist_cnn"])
def test_classes_may_be_a_column_of_a_table(kind: str) -> None:
    """Kernels read classes side by side; what lies between those of a table is none."""
    usual = problem(kind, sizes=SIZES, **MODELS[kind])
    table = torch.full((len(usual.task.y), 2), CLASSES - 1)
    table[:, 0] = usual.task.y
    (found, losses), (expected, usual_losses) = (
        replace(usual, task=replace(usual.task, y=y)).trained("cpu") for y in (table[:, 0], usual.task.y)
    )
    assert torch.equal(found.parameters, expected.parameters)
    np.testing.assert_array_equal(losses, usual_losses)


@pytest.mark.parametrize("engine", ["reference", "cpu"])
@pytest.mark.parametrize(
    ("shape", "layers"),
    [
        ((12,), [nn.Linear(12, 5)]),
        ((12, 12, 1), [nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(400, 5)]),
        ((12, 12, 1), [nn.Conv2d(1, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(400, 5)]),
    ],
    ids=["perceptron", "convolution", "any other"],
)
def test_a_network_without_an_output_for_each_class_is_told(
    shape: tuple[int, ...], layers: list[nn.Module], engine: str
) -> None:
    """Kernels write at a sample's class: that of a network which a federation has cut would be its neighbour's."""
    with pytest.raises((IndexError, FedroamError), match=r"Target \d is out of bounds"):
        problem(lambda: nn.Sequential(*layers), shape, SIZES).trained(engine)


def test_errors_name_the_client() -> None:
    task = problem(Broken, (12,), (9, 9, 9, 9))
    task.task.x[task.held[2][3], 0] = 77
    with pytest.raises(
        FedroamError,
        match=r"^client 2, round 1: ValueError: a sample I cannot bear \(test_engines\.py, line \d+\)$",
    ):
        task.trained("cpu", 1)


def test_a_failure_does_not_end_the_learner() -> None:
    task = problem(Broken, (12,), (9, 9))
    learner = learner_of(task.task, "cpu")
    task.task.x[3, 0] = 77
    learner.samples = type(learner.samples)(task.task.x, task.task.y)
    with pytest.raises(FedroamError):
        learner.train(task.start(), task.jobs(1))
    losses = learner.train(task.start(), task.jobs(1, [1]))
    assert np.isfinite(losses).all()
    learner.close()
    with pytest.raises(FedroamError, match="closed"):
        learner.train(task.start(), task.jobs(1))


@pytest.fixture
def answered_ctrl_c() -> Iterator[None]:
    """Python's own answer to Ctrl-C. A program that a script starts in the background is told to ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("answered_ctrl_c")
def test_ctrl_c_ends_the_jobs_and_is_passed_on() -> None:
    """Jobs without an end: whoever does not leave his at Ctrl-C holds up this test for ever."""
    at_work = threading.Semaphore(0)

    class Endless(Broken):
        def working(self) -> None:
            at_work.release()
            time.sleep(0.001)

    task = problem(Endless, (12,), (1, 1, 1), training=SGD(lr=0.01, batch_size=1, steps=10**6))
    learner = learner_of(task.task, "cpu", workers=2)
    task.task.x[:, 0] = 78
    learner.samples = type(learner.samples)(task.task.x, task.task.y)
    main = threading.main_thread().ident
    assert main is not None

    def interrupt() -> None:
        for _ in range(5):
            at_work.acquire()
        signal.pthread_kill(main, signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    models = task.start()
    with pytest.raises(KeyboardInterrupt):
        learner.train(models, task.jobs(1))
    held = models.parameters.clone()
    learner.close()  # waits for the workers
    assert torch.equal(held, models.parameters), "a worker still wrote"


def test_the_fast_engine_is_for_the_cpu() -> None:
    task = problem("mlp", (12,)).task
    elsewhere = type(task)(**{**vars(task), "x": task.x.to("meta")})
    with pytest.raises(InputError, match="engine 'cpu': the data are on meta"):
        learner_of(elsewhere, "cpu")
