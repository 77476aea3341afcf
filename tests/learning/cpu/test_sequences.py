"""Sequences with layers that draw, series, and objectives that look at the features: autograd's loss and gradient."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fedroam.federation.server.fedavgdbe import Debiased, FedAvgDBE, Translated
from fedroam.federation.server.fedproto import Aligned, FedProto
from fedroam.federation.server.gpfl import GPFL, Guidance, Guided
from fedroam.federation.server.moon import Contrastive, Moon
from fedroam.learning.cpu.fused_conv1d import FusedConv1dLayer
from fedroam.learning.cpu.kernels import ConvStack, DenseStack
from fedroam.learning.cpu.sequential import SequentialModel, sequential_model
from fedroam.learning.cpu.sequential_layers import Dropped
from fedroam.learning.cpu.worker_model import Nature, worker_model
from fedroam.learning.engine import Task
from fedroam.learning.objective import AddsTerm, CrossEntropy, Objective
from fedroam.learning.samples import Samples
from fedroam.models import CNN1d, Dropout, MnistCNN, Network, noise
from fedroam.models.network import split
from fedroam.native import target
from fedroam.randomness import torch_stream
from support.learners import CLASSES, problem

SERIES = 23


def series(dropout: float = 0.5) -> nn.Module:
    return CNN1d(dropout=dropout).build((SERIES,), CLASSES)


def small(head: int = 1, dropout: Callable[[], nn.Module] = lambda: Dropout(0.4)) -> nn.Module:
    """A convolution that no kernel of ours takes, dropout twice, and a head of some layers."""
    extractor = nn.Sequential(
        *(nn.Conv2d(2, 5, 3, stride=2, dilation=2), nn.ReLU(), Dropout(0.3, channels=True)),
        *(nn.Flatten(), nn.Linear(5 * 3 * 3, 12), nn.ReLU(), dropout()),
    )
    last = nn.Linear(12, CLASSES)
    return Network(extractor, last if head == 1 else nn.Sequential(nn.Linear(12, 12), nn.ReLU(), last))


def linear(*widths: int) -> list[nn.Module]:
    """Linear layers with ReLU between."""
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return layers[:-1]


NETWORKS: dict[str, tuple[tuple[int, ...], Callable[[], nn.Module]]] = {
    "series": ((SERIES,), series),
    "series that nothing falls out of": ((SERIES,), lambda: series(0.0)),
    "images": ((10, 10, 2), small),
    "a head of three layers": ((10, 10, 2), lambda: small(3)),
    "all falls out": ((10, 10, 2), lambda: small(1, lambda: Dropout(1.0))),
    "no weights before the head": (
        (6,),
        lambda: Network(nn.Sequential(nn.Identity(), nn.Flatten()), nn.Linear(6, CLASSES)),
    ),
    "a perceptron": (
        (4, 5, 3),
        lambda: Network(
            nn.Sequential(nn.Flatten(), *linear(60, 21, 9), nn.ReLU()),
            nn.Sequential(*linear(9, 18, CLASSES)),
        ),
    ),
    "a perceptron whose features may be negative": (
        (37,),
        lambda: Network(nn.Sequential(*linear(37, 5)), nn.Linear(5, CLASSES, bias=False)),
    ),
    "kernels of ours": ((16, 16, 1), lambda: MnistCNN().build((1, 16, 16), CLASSES)),
    "features of three axes": (
        (8, 8, 2),
        lambda: Network(nn.Sequential(nn.Conv2d(2, 5, 8), nn.ReLU()), nn.Linear(5, CLASSES)),
    ),
}
# Such a head takes no features of three axes. What stands between it and the extractor makes one axis of them.
ONLY_WITH_SOMETHING_BETWEEN = "features of three axes"


def handed_to(objective: Objective, module: nn.Module, n: int, draw: torch.Generator) -> dict[str, Any]:
    """What a federation would hand an objective of n samples."""
    if isinstance(objective, Contrastive):
        like = split(module)[1]
        width = next(layer for layer in like.modules() if isinstance(layer, nn.Linear)).in_features
        return {name: torch.randn(n, width, generator=draw) for name in ("z_global", "z_previous")}
    if isinstance(objective, Aligned):
        width = next(
            layer for layer in split(module)[1].modules() if isinstance(layer, nn.Linear)
        ).in_features
        known = torch.arange(CLASSES) != 1
        return {"prototypes": torch.randn(CLASSES, width, generator=draw) * known[:, None], "known": known}
    if isinstance(objective, Guidance):
        assert isinstance(module, Guided)
        return {"embedding": torch.randn(module.embedding.shape, generator=draw)}
    if isinstance(objective, Debiased):
        assert isinstance(module, Translated)
        return {"mean": torch.randn(module.memory.shape, generator=draw)}
    return {}


ADAPTED: dict[str, GPFL | FedAvgDBE] = {
    "gpfl": GPFL(magnitude=0.3, decay=0.2, angle=1.3),
    "gpfl, one norm of the batch": GPFL(magnitude=0.3, distance="batch"),
    "gpfl without valve": GPFL(magnitude=0.3, valve=False),
    "gpfl without guidance": GPFL(magnitude=0.0, angle=0.0),
    "gpfl of the distance alone": GPFL(magnitude=2.0, angle=0.0, decay=0.0),
    "fedavgdbe": FedAvgDBE(kappa=3.0),
    "fedavgdbe without memory": FedAvgDBE(kappa=3.0, memory=False),
    "fedavgdbe without its mean": FedAvgDBE(kappa=0.0),
}
LATER = {  # for one step: each changes a running mean
    "fedavgdbe with a running mean": FedAvgDBE(kappa=3.0, momentum=0.3),
    "fedavgdbe, its start pass": FedAvgDBE(kappa=3.0, momentum=0.3, start_pass="tracked"),
}
OBJECTIVES: dict[str, Callable[[], Objective]] = {
    "cross-entropy": lambda: CrossEntropy(label_smoothing=0.1),
    "moon": lambda: Moon(mu=1.5, temperature=0.4).objective(CrossEntropy()),
    "fedproto": lambda: FedProto(strength=2.0).objective(CrossEntropy(label_smoothing=0.1)),
    **{
        name: partial(part.objective, CrossEntropy(label_smoothing=0.1 * (name == "gpfl")))
        for name, part in ADAPTED.items()
    },
}


def network_of(network: Callable[[], nn.Module], objective: str) -> Callable[[], nn.Module]:
    """The network as the objective's federation has it, with conditions that are not 0."""
    federation = {**ADAPTED, **LATER}.get(objective)
    if federation is None:
        return network

    def adapted() -> nn.Module:
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(5)
            made = federation.adapt(network())
            for each in (*made.buffers(), *(p for name, p in made.named_parameters() if name == "memory")):
                each.data.normal_()
        return made

    return adapted


def set_up(
    name: str, objective: str, seed: int
) -> tuple[Task, nn.Module, SequentialModel, torch.Tensor, torch.Tensor]:
    """A task, a worker's network, the sequence of it with its gradient, and a row."""
    shape, network = NETWORKS[name]
    network = network_of(network, objective)
    task = replace(problem(network, shape, (12,), seed=seed).task, objective=OBJECTIVES[objective]())
    module = worker_model(task, Nature()).train()
    gradient, row = torch.zeros(task.layout.size), torch.empty(task.layout.size)
    task.layout.write(module, row, torch.empty(task.layout.buffer_size))
    model = sequential_model(module, task, gradient)
    if model is None and "series" in name and target() is None:
        pytest.skip("no kernels on this machine: series go through autograd")
    assert model is not None
    model.attach(row)
    return task, module, model, gradient, row


@pytest.mark.parametrize(
    ("name", "objective"),
    [
        (name, objective)
        for name, objective in itertools.product(NETWORKS, OBJECTIVES)
        if name != ONLY_WITH_SOMETHING_BETWEEN or objective in ADAPTED
    ],
)
@settings(max_examples=4)
@given(seed=st.integers(0, 2**20))
def test_a_sequence_has_autograds_loss_and_gradient(name: str, objective: str, seed: int) -> None:
    """In shares of a batch, which are added up; both draw from a stream that begins alike."""
    task, module, model, gradient, _ = set_up(name, objective, seed)
    samples, index = Samples(task.x, task.y), torch.tensor([3, 1, 7, 2, 11, 0, 5])
    handed = handed_to(task.objective, module, len(index), torch.Generator().manual_seed(seed))
    loss = 0.0
    for share in (0.25, 0.75):
        with noise(torch_stream(seed, "dropout")):
            loss += model.add_gradient(samples, index, share, dict(handed))
    plain = task.network().train()
    with noise(torch_stream(seed, "dropout")):
        x, y = Samples(task.x, task.y, plain=True).pick(index)
        expected = task.objective.loss(plain, x, y, **handed)
        expected.backward()
    assert loss == pytest.approx(float(expected.detach()), rel=2e-5)
    parameters = dict(plain.named_parameters())
    for entry in task.layout.parameters:
        truth, found = parameters[entry.name].grad, entry.view(gradient)
        if entry in model.idle:
            assert truth is None
            assert not found.any()
            continue
        assert truth is not None
        assert torch.allclose(found, truth, rtol=2e-4, atol=2e-5 * max(1.0, float(truth.abs().max()))), (
            entry.name
        )


def test_what_is_in_a_sequence_is_what_is_to_be_measured() -> None:
    """Series by one kernel for each direction, dropouts that draw, and none where nothing falls out."""
    _, _, model, _, _ = set_up("series", "moon", 0)
    kinds = [type(layer) for layer in model.layers]
    assert (FusedConv1dLayer in kinds) == (target() is not None)
    assert model.draws
    assert Dropped in kinds
    assert not set_up("series that nothing falls out of", "cross-entropy", 0)[2].draws
    assert set_up("kernels of ours", "cross-entropy", 0)[2].compiled == (target() is not None)
    assert not set_up("kernels of ours", "moon", 0)[2].compiled


@pytest.mark.parametrize("objective", ["moon", "fedproto", "gpfl", "fedavgdbe"])
def test_nothing_of_known_objectives_is_torchs(objective: str) -> None:
    """Where there are kernels: neither of a perceptron, nor of the layers behind convolutions."""
    kinds = {"a perceptron": [DenseStack], "kernels of ours": [ConvStack, DenseStack]}
    for name, expected in kinds.items():
        _, _, model, _, _ = set_up(name, objective, 0)
        compiled = [type(layer) for layer in model.layers] == expected and model.head is not None
        between = model.features is not None and model.features.kernels is not None
        assert compiled == between == (target() is not None)


@pytest.mark.skipif(target() is None, reason="no kernels on this machine")
@pytest.mark.parametrize("objective", ["moon", "fedavgdbe"])
@pytest.mark.parametrize(
    "name", ["a perceptron", "a perceptron whose features may be negative", "kernels of ours"]
)
@pytest.mark.parametrize("lanes", [4, 8])
def test_kernels_of_any_width_give_what_torch_gives(
    name: str, objective: str, lanes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of batches whose sizes change, with memory that was used before."""
    monkeypatch.setenv("FEDROAM_VECTOR", str(lanes))
    task, module, ours, gradient, row = set_up(name, objective, 3)
    plain = torch.zeros(task.layout.size)
    torchs = sequential_model(module, task, plain, native=False)
    assert torchs is not None
    torchs.attach(row)
    samples, draw = Samples(task.x, task.y), torch.Generator().manual_seed(4)
    for n in (5, 12, 1, 5):
        index = torch.randperm(12, generator=draw)[:n]
        handed = handed_to(task.objective, module, n, draw)
        one, other = (model.add_gradient(samples, index, 0.7, dict(handed)) for model in (ours, torchs))
        assert one == pytest.approx(other, rel=1e-5)
    assert torch.allclose(gradient, plain, rtol=1e-4, atol=1e-5 * max(1.0, float(plain.abs().max())))


def test_evaluation_drops_nothing() -> None:
    task = problem(small, (10, 10, 2), (4,)).task
    model = sequential_model(worker_model(task, Nature()).eval(), task, torch.zeros(task.layout.size))
    assert model is not None
    assert not model.draws


@pytest.mark.parametrize("zero", [False, True], ids=["", "features of length 0"])
@pytest.mark.parametrize("objective", ["moon", "fedproto"])
def test_a_terms_gradient_is_autograds_in_float64(objective: str, zero: bool) -> None:
    made = OBJECTIVES[objective]()
    assert isinstance(made, AddsTerm)
    draw = torch.Generator().manual_seed(1)
    module = Network(nn.Identity(), nn.Linear(6, CLASSES)).double()
    features = torch.randn(5, 6, generator=draw, dtype=torch.float64)
    if zero:
        features[2] = 0.0
    handed = {
        name: value.double() if value.is_floating_point() else value
        for name, value in handed_to(made, module, 5, draw).items()
    }
    y = torch.tensor([0, 1, 2, 3, 1])
    asked = features.clone().requires_grad_()
    whole = made.loss(module, asked, y, **handed)
    alone = whole - made.base.loss(module, asked, y)
    alone.backward()
    value, slope = made.term(features, y, **handed)
    assert float(value) == pytest.approx(float(alone.detach()), rel=1e-12)
    assert asked.grad is not None
    assert torch.allclose(slope, asked.grad, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("zero", [False, True], ids=["", "lengths of 0"])
@pytest.mark.parametrize("name", [*ADAPTED, *LATER])
def test_the_gradients_between_extractor_and_head_are_autograds_in_float64(name: str, zero: bool) -> None:
    """Of the features and of each parameter, for half the loss; at a distance of 0, without a gradient, 0."""
    made: Any = {**ADAPTED, **LATER}[name].objective(CrossEntropy())
    draw = torch.Generator().manual_seed(2)
    module: Any = network_of(lambda: Network(nn.Identity(), nn.Linear(6, CLASSES)), name)().double()
    features = torch.randn(5, 6, generator=draw, dtype=torch.float64)
    y = torch.tensor([0, 1, 2, 3, 1])
    handed = {key: value.double() for key, value in handed_to(made, module, 5, draw).items()}
    if name == "fedavgdbe, its start pass":
        handed = {}
    if zero:
        features[2] = 0.0
    if zero and isinstance(made, Guidance):
        module.embedding.data[1] = 0.0
        if module.valve is None:  # else it is 0 but for roundings, which are not the same in both
            handed["embedding"][3] = features[3]
    buffers = {key: each.clone() for key, each in module.named_buffers()}
    asked = features.clone().requires_grad_()
    whole = made.loss(module, asked, y, **handed)
    (0.5 * whole).backward()

    head = {id(each) for each in module.head.parameters()}
    own = {key: each.detach() for key, each in module.named_parameters() if id(each) not in head}
    into = {key: torch.zeros_like(each) for key, each in own.items()}
    found = made.transformed({**own, **buffers}, features, y, **handed)
    outputs = found.outputs.clone().requires_grad_()
    base = made.base.loss(module.head, outputs, y)
    (slope,) = torch.autograd.grad(0.5 * base, outputs)
    assert float(base.detach()) + found.term == pytest.approx(float(whole.detach()), rel=1e-12)
    below = found.backward(slope, 0.5, into)
    assert asked.grad is not None
    assert torch.allclose(below, asked.grad, rtol=1e-9, atol=1e-11)
    for key, each in module.named_buffers():
        assert torch.allclose(buffers[key], each, rtol=1e-12), key
    for key, parameter in module.named_parameters():
        if key in made.idle:
            assert parameter.grad is None
        elif key in into:
            assert parameter.grad is not None
            assert torch.allclose(into[key], parameter.grad, rtol=1e-9, atol=1e-11), key


def test_features_that_training_collects_are_left_to_autograd() -> None:
    task = problem(series, (SERIES,), (4,)).task
    collecting = replace(task, objective=FedProto(collected="during").objective(CrossEntropy()))
    module = worker_model(task, Nature()).train()
    assert sequential_model(module, collecting, torch.zeros(task.layout.size)) is None


def test_a_sequence_that_is_no_series_is_left_to_autograd() -> None:
    """Kernels are for series of one length that `nn.Unflatten` makes of a sample's values."""

    def twice() -> nn.Module:
        body = nn.Sequential(
            *(nn.Unflatten(1, (1, SERIES)), nn.Conv1d(1, 16, 3), nn.ReLU(), nn.Conv1d(16, 16, 3)),
            *(nn.AdaptiveMaxPool1d(1), nn.Conv1d(16, 16, 1), nn.ReLU(), nn.Conv1d(16, 16, 1)),
            *(nn.AdaptiveMaxPool1d(1), nn.Flatten()),
        )
        return Network(body, nn.Linear(16, CLASSES))

    task = problem(twice, (SERIES,), (4,)).task
    assert sequential_model(worker_model(task, Nature()).train(), task, torch.zeros(task.layout.size)) is None
