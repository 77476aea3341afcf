"""The workloads: a model, clients, a batch; computed by our engine, and by a plain loop to compare with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from fedroam.components import build
from fedroam.learning import (
    Job,
    Layout,
    Learner,
    Models,
    Task,
    make_network,
    start_models,
    to_tensors,
)
from fedroam.learning.objective import CrossEntropy
from fedroam.learning.training import SGD
from fedroam.randomness import stream

CLASSES = 10
CPU = torch.device("cpu")


@dataclass(frozen=True)
class Workload:
    """Local training to be timed.

    model: settings of a model part. shape: of one sample, as arrays hold it. flops: of one step of one client,
    forward and backward, convolutions and matrix products only (2 for a multiplication and an addition). It is the
    textbook's: for B the engine does less, since it skips the zeros in the gradient of the global max-pool.
    target: what the engine should reach, as a multiple of the plain loop's speed; share: of the FLOP/s of the machine's
    best convolution, 0 where nothing is asked.
    """

    about: str
    model: dict[str, Any]
    shape: tuple[int, ...]
    clients: int
    batch: int
    steps: int
    flops: float
    target: float
    share: float
    plain: Callable[[], nn.Module]


def _textbook(*layers: tuple[int, int, int, int, bool, bool], head: list[nn.Module]) -> nn.Module:
    """Convolutions (inputs, outputs, kernel, padding, bias and GroupNorm, pooled), ReLU, pool; then `head`."""
    modules: list[nn.Module] = []
    for inputs, outputs, kernel, padding, norm, pooled in layers:
        modules.append(nn.Conv2d(inputs, outputs, kernel, padding=padding, bias=norm or kernel == 5))
        modules += [nn.GroupNorm(2, outputs)] if norm else []
        modules += [nn.ReLU(), nn.MaxPool2d(2)] if pooled else [nn.ReLU()]
    return nn.Sequential(*modules, nn.Flatten(), *head)


def _mnist_cnn() -> nn.Module:
    head = [nn.Linear(320, 50), nn.ReLU(), nn.Linear(50, CLASSES)]
    return _textbook((1, 10, 5, 0, False, True), (10, 20, 5, 0, False, True), head=head)


def _cnn1d() -> nn.Module:
    return nn.Sequential(
        *(nn.Unflatten(1, (1, 196)), nn.Conv1d(1, 32, 3), nn.ReLU(), nn.Conv1d(32, 64, 3), nn.ReLU()),
        *(nn.AdaptiveMaxPool1d(1), nn.Flatten(), nn.Linear(64, CLASSES)),
    )


def _conv5() -> nn.Module:
    widths = ((3, 32, True), (32, 64, False), (64, 64, True), (64, 64, False), (64, 64, True))
    head = [nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, CLASSES)]
    return _textbook(*((i, o, 3, 1, False, pooled) for i, o, pooled in widths), head=head)


def _lenet_gn() -> nn.Module:
    widths = ((3, 32), (32, 32), (32, 64))
    return _textbook(*((i, o, 5, 2, True, True) for i, o in widths), head=[nn.Linear(1024, CLASSES)])


def _mlp() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, CLASSES))


WORKLOADS: dict[str, Workload] = {
    "A": Workload("MNIST CNN", {"kind": "mnist_cnn"}, (28, 28, 1), 20, 32, 10, 83e6, 4.0, 0.5, _mnist_cnn),
    "B": Workload(
        "1-D CNN, 196 features",
        {"kind": "cnn1d", "dropout": 0.0},
        (196,),
        *(50, 64, 2, 458e6, 1.8, 0.5, _cnn1d),
    ),
    "C": Workload("Conv5, 32x32x3", {"kind": "conv5"}, (32, 32, 3), 16, 8, 5, 960e6, 1.7, 0.5, _conv5),
    "D": Workload(
        "LeNet, GroupNorm, 32x32x3", {"kind": "lenet_gn"}, (32, 32, 3), 48, 8, 2, 551e6, 1.8, 0.5, _lenet_gn
    ),
    "E": Workload("MLP 784-64-10", {"kind": "mlp"}, (784,), 1000, 16, 5, 3.3e6, 8.0, 0.0, _mlp),
}


class Ours:
    """A workload in the hands of an engine: `round()` trains every client, `evaluate()` evaluates every row.

    momentum: of the training, kept between rounds. given: samples and their classes; else random ones. engine: its
    settings.
    """

    def __init__(
        self,
        workload: Workload,
        device: torch.device = CPU,
        momentum: float = 0.0,
        given: tuple[np.ndarray, np.ndarray] | None = None,
        **engine: Any,
    ) -> None:
        self.x, self.y = samples(workload) if given is None else given
        x, y = to_tensors(self.x, self.y, device)
        shape = workload.shape
        inputs = (shape[2], *shape[:2]) if len(shape) == 3 else shape
        model: Any = build("model", workload.model)
        network = partial(model.build, inputs, CLASSES)
        layout = Layout.of(make_network(network, 0))
        training = SGD(lr=0.01, momentum=momentum, batch_size=workload.batch, steps=workload.steps)
        task = Task(partial(make_network, network, 0), layout, x, y, training, CrossEntropy(), 0)
        maker: Any = build("engine", {"kind": "auto"} | engine)
        self.learner: Learner = maker.build(task)
        keeps = training.keeps_momentum()
        self.models: Models = start_models(
            network, layout, workload.clients, 0, equal=False, momentum=keeps, device=device
        )
        own = workload.batch * workload.steps
        self.held = [np.arange(k * own, (k + 1) * own) for k in range(workload.clients)]
        self.test = (x, y)
        self.done = 0

    def round(self) -> None:
        """A round of every client's local training."""
        self.done += 1
        self.learner.train(self.models, [Job(k, k, own, self.done) for k, own in enumerate(self.held)])

    def evaluate(self) -> None:
        """Every model evaluated on all samples."""
        self.learner.evaluate(self.models, range(len(self.models)), *self.test)


class Plain:
    """The same work as anybody would write it: a module and a torch.optim.SGD for each client, one after the other.

    It computes with torch's own threads, on images in torch's usual order of dimensions.
    """

    def __init__(
        self,
        workload: Workload,
        x: np.ndarray,
        y: np.ndarray,
        device: torch.device = CPU,
        momentum: float = 0.0,
    ) -> None:
        self.workload = workload
        inputs = torch.from_numpy(x).to(device)
        self.x = inputs.permute(0, 3, 1, 2).contiguous() if x.ndim == 4 else inputs
        self.y = torch.from_numpy(y).to(device)
        self.modules = [workload.plain().to(device) for _ in range(workload.clients)]
        self.optimisers = [
            torch.optim.SGD(module.parameters(), lr=0.01, momentum=momentum) for module in self.modules
        ]

    def round(self) -> None:
        """A round of every client's local training, one client after the other."""
        batch, steps = self.workload.batch, self.workload.steps
        draws = stream(0, "plain loop")
        for k, (module, optimiser) in enumerate(zip(self.modules, self.optimisers, strict=True)):
            order = torch.from_numpy(draws.permutation(batch * steps) + k * batch * steps)
            for index in order.split(batch):
                optimiser.zero_grad()
                functional.cross_entropy(module(self.x[index]), self.y[index]).backward()
                optimiser.step()

    @torch.no_grad()
    def evaluate(self) -> None:
        """Every model evaluated on all samples."""
        for module in self.modules:
            for x, y in zip(self.x.split(500), self.y.split(500), strict=True):
                outputs = module(x)
                float(functional.cross_entropy(outputs, y, reduction="sum"))
                int((outputs.argmax(1) == y).sum())


def samples(workload: Workload) -> tuple[np.ndarray, np.ndarray]:
    """Random samples and classes of the right shapes, enough for a round without repeats."""
    count, draws = workload.clients * workload.batch * workload.steps, stream(0, "benchmark")
    x = draws.standard_normal((count, *workload.shape), dtype=np.float32)
    return x, draws.integers(0, CLASSES, count)
