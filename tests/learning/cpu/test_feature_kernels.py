"""Terms and transformations of features by kernels: what the objective itself gives in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import nn

from fedroam.federation.server.fedavgdbe import FedAvgDBE
from fedroam.federation.server.fedproto import FedProto
from fedroam.federation.server.gpfl import GPFL
from fedroam.federation.server.moon import Moon
from fedroam.learning.cpu.kernels import Call, DenseLayer, FeatureKernels, Step, feature_kernels
from fedroam.learning.forms import form_of
from fedroam.learning.layout import Layout
from fedroam.learning.objective import CrossEntropy
from fedroam.models import Network
from support.lanes import lanes_here, of_lanes

pytest.importorskip("llvmlite")
CLASSES = 5
METHODS: dict[str, Any] = {
    "moon": Moon(mu=1.5, temperature=0.4),
    "fedproto": FedProto(strength=2.0),
    "fedavgdbe": FedAvgDBE(kappa=3.0, momentum=0.3),
    "fedavgdbe without its mean": FedAvgDBE(kappa=0.0),
    "gpfl": GPFL(magnitude=0.3, decay=0.2, angle=1.3),
    "gpfl, one norm of the batch": GPFL(magnitude=0.3, distance="batch"),
    "gpfl of the distance alone": GPFL(magnitude=2.0, angle=0.0, decay=0.0),
}


class Case:
    """A batch under the objective of a method, and its kernels. rows: of what is handed with one a sample."""

    def __init__(
        self, method: str, n: int, width: int, lanes: int, seed: int, rows: int | None = None
    ) -> None:
        self.n, self.width, self.rows = n, width, n if rows is None else rows
        self.objective: Any = METHODS[method].objective(CrossEntropy())
        draw = torch.Generator().manual_seed(seed)
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(seed)
            self.module: Any = METHODS[method].adapt(Network(nn.Identity(), nn.Linear(width, CLASSES)))
        for each in (*self.module.buffers(), *self.module.parameters()):
            each.data.copy_(torch.randn(each.shape, generator=draw))
        self.layout = Layout.of(self.module)
        self.row, self.gradient = torch.empty(self.layout.size), torch.randn(self.layout.size, generator=draw)
        self.layout.write(self.module, self.row, torch.empty(self.layout.buffer_size))
        self.features, self.slopes = torch.randn(2, n, width, generator=draw)
        self.y = torch.randint(CLASSES, (n,), generator=draw)
        self.positions = torch.randint(self.rows, (n,), generator=draw)
        z = torch.randn(2, self.rows, width, generator=draw)
        self.each = {"z_global": z[0], "z_previous": z[1]} if method == "moon" else {}
        self.given: dict[str, torch.Tensor] = {}
        if method == "fedproto":
            known = torch.arange(CLASSES) != 1
            prototypes = torch.randn(CLASSES, width, generator=draw) * known[:, None]
            self.given = {"prototypes": prototypes, "known": known}
        elif "gpfl" in method:
            self.given = {"embedding": torch.randn(CLASSES, width, generator=draw)}
        elif "dbe" in method:
            self.given = {"mean": torch.randn(width, generator=draw)}
        self.buffers = {name: each.clone() for name, each in self.module.named_buffers()}
        self.target = of_lanes(lanes)

    def kernels(self) -> FeatureKernels:
        entries = {entry.name: entry for entry in self.layout.parameters}
        head = [DenseLayer(self.width, CLASSES, 0, -1)]
        buffers = dict(self.module.named_buffers())
        made = feature_kernels(form_of(self.objective), entries, buffers, head, self.target)
        assert made is not None
        return made

    def computed(self, kernels: FeatureKernels, share: float) -> tuple[torch.Tensor, float]:
        """What the head gets, and the term; slopes, gradient and buffers are changed in place."""
        others = kernels.known(self.given, self.each, self.rows, self.buffers)
        assert others is not None
        kernels.reserve(self.n)
        told = np.full((1, kernels.told(self.n)), np.nan, np.float32)
        own = (self.row, self.gradient, self.features, self.y, self.positions, self.slopes)
        places = [each.data_ptr() for each in own]
        step = Step(self.n, share, *places, told.ctypes.data, [each.data_ptr() for each in others])  # type: ignore[arg-type]
        do(kernels.before(step))
        given_to_head = kernels.outputs(self.n)
        outputs = (self.features if given_to_head is None else given_to_head).clone()
        do(kernels.after(step))
        return outputs, float(kernels.terms(told, self.n, share)[0])

    def expected(self, share: float) -> tuple[torch.Tensor, float, torch.Tensor, dict[str, torch.Tensor]]:
        """The same in float64: what the head gets, the term, slopes, and gradients of the parameters in between;
        buffers are changed in place."""
        handed = {name: value[self.positions].double() for name, value in self.each.items()}
        for name, value in self.given.items():
            handed[name] = value.double() if value.is_floating_point() else value
        features, slopes, self.certain = self.features.double(), self.slopes.double(), True
        if hasattr(self.objective, "term"):
            term, slope = self.objective.term(features, self.y, **handed)
            return features, float(term) * share, slopes + share * slope, {}
        head = {f"head.{name}" for name, _ in self.module.head.named_parameters()}
        entries = [entry for entry in self.layout.parameters if entry.name not in head]
        own = {entry.name: entry.view(self.row).double() for entry in entries}
        into = {entry.name: entry.view(self.gradient).double() for entry in entries}
        self.buffers = {name: value.double() for name, value in self.buffers.items()}
        found = self.objective.transformed({**own, **self.buffers}, features, self.y, **handed)
        self.certain = "gpfl" not in str(type(self.objective)) or self.sure(found, own)
        return found.outputs, found.term * share, found.backward(slopes, share, into), into

    @staticmethod
    def sure(found: Any, own: dict[str, torch.Tensor]) -> bool:
        """Whether rounding sends nothing another way through a ReLU."""
        gamma, beta = found.gates
        before = [torch.addcmul(beta.outputs[:, None], found.features, gamma.outputs[:, None] + 1)]
        for gate in (gamma, beta):
            weight, bias = (own[f"{gate.name}.{part}"] for part in ("0.weight", "0.bias"))
            before.append(torch.addmm(bias, gate.condition, weight.t()))
        return all(bool((each.abs() > 1e-5).all()) for each in before)


def do(calls: list[Call]) -> None:
    for run, given_to_it in calls:
        run(*given_to_it)


def check(
    case: Case,
    share: float,
    kernels: FeatureKernels | None = None,
    certain: Callable[[bool], object] = lambda _: None,
) -> None:
    """A batch's kernels give what the objective gives. certain: is told whether rounding cannot decide anything."""
    kernels = kernels or case.kernels()
    before = {name: value.clone() for name, value in case.buffers.items()}
    slopes, gradient = case.slopes.clone(), case.gradient.clone()
    outputs, term = case.computed(kernels, share)
    found = case.slopes, case.gradient, case.buffers
    case.slopes, case.gradient, case.buffers = slopes, gradient, before
    expected_outputs, expected_term, expected_slopes, into = case.expected(share)
    certain(case.certain)
    near(outputs, expected_outputs)
    near(found[0], expected_slopes)
    assert term == pytest.approx(expected_term, rel=2e-5, abs=1e-6)
    for entry in case.layout.parameters:
        if entry.name in into:
            near(entry.view(found[1]), into[entry.name])
        else:
            assert torch.equal(entry.view(found[1]), entry.view(gradient))
    for name, value in case.buffers.items():
        near(found[2][name].double(), value.double())


def near(found: torch.Tensor, expected: torch.Tensor) -> None:
    size = max(1.0, float(expected.abs().max()))
    torch.testing.assert_close(found.double(), expected.double(), rtol=1e-4, atol=1e-5 * size)


@pytest.mark.parametrize("method", METHODS)
@given(
    n=st.integers(1, 9),
    width=st.integers(2, 40),
    lanes=st.sampled_from(lanes_here()),
    share=st.sampled_from([1.0, 0.3]),
    seed=st.integers(0, 2**20),
)
def test_kernels_give_what_the_objective_gives(
    method: str, n: int, width: int, lanes: int, share: float, seed: int
) -> None:
    """Of any sizes, samples in any order and twice; what was in slopes and gradient before stays in them."""
    check(Case(method, n, width, lanes, seed, rows=n + 2), share, certain=assume)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("lanes", lanes_here())
def test_one_feature(method: str, lanes: int) -> None:
    """A layer norm of one value is 0 whatever it gets."""
    check(Case(method, 3, 1, lanes, 7), 1.0)


@pytest.mark.parametrize("method", METHODS)
def test_memory_of_another_size_may_have_been_used_before(method: str) -> None:
    first = Case(method, 3, 7, lanes_here()[-1], 1)
    kernels = first.kernels()
    for n, seed in ((3, 1), (8, 2), (1, 3), (5, 4)):
        check(Case(method, n, 7, lanes_here()[-1], seed), 0.7, kernels)


@pytest.mark.parametrize("zero", ["features", "z_global", "z_previous", "all", "near is far"])
def test_lengths_of_0_in_a_contrast(zero: str) -> None:
    case = Case("moon", 4, 6, lanes_here()[-1], 3)
    if zero == "near is far":
        case.each["z_previous"] = case.each["z_global"].clone()
    if zero in ("features", "all"):
        case.features[2] = 0.0
    for name in case.each:
        if zero in (name, "all"):
            case.each[name][case.positions[2]] = 0.0
    check(case, 1.0)


def test_a_contrast_far_out() -> None:
    """Cosines over a small temperature: exponentials that a float32 does not hold."""
    case = Case("moon", 6, 5, lanes_here()[-1], 3)
    case.objective = Moon(mu=1.0, temperature=1e-3).objective(CrossEntropy())
    case.each["z_previous"] = torch.cat([case.features, -case.features])[:6]
    check(case, 1.0)


def test_embeddings_and_features_of_length_0() -> None:
    """A distance of 0 has no gradient, and nothing is divided by 0. Biases of -1 are behind a ReLU."""
    case = Case("gpfl", 4, 6, lanes_here()[-1], 3)
    case.module.embedding.data[1] = 0.0
    for gate in (case.module.valve.gamma, case.module.valve.beta):
        gate[0].weight.data.zero_()
        gate[0].bias.data.fill_(-1.0)
        gate[2].bias.data.fill_(-2.0 if gate is case.module.valve.gamma else 0.1)
    case.features[2] = 5.0  # times -1, plus 0.1: all general features are 0
    case.layout.write(case.module, case.row, torch.empty(case.layout.buffer_size))
    case.given["embedding"][case.y[2]] = 0.0
    kernels = case.kernels()
    outputs, term = case.computed(kernels, 1.0)
    assert not outputs[2].any()
    assert np.isfinite(term)
    assert case.slopes.isfinite().all()
    assert case.gradient.isfinite().all()
    assert not case.slopes[2].any()


def test_a_class_without_a_prototype_is_not_looked_at() -> None:
    """Not even where features are no numbers."""
    case = Case("fedproto", 4, 6, lanes_here()[-1], 3)
    case.y[:] = torch.tensor([0, 1, 2, 1])
    case.features[1] = float("nan")
    before = case.slopes.clone()
    _, term = case.computed(case.kernels(), 1.0)
    assert np.isfinite(term)
    assert torch.equal(case.slopes[[1, 3]], before[[1, 3]])
    assert not torch.equal(case.slopes[0], before[0])


@pytest.mark.parametrize("method", METHODS)
def test_what_is_no_number_stays_none(method: str) -> None:
    case = Case(method, 3, 9, lanes_here()[-1], 3)
    case.y[:] = 0
    case.features[1, 4] = float("nan")
    _, term = case.computed(case.kernels(), 1.0)
    assert np.isnan(term) or "without its mean" in method
    assert case.slopes[1].isnan().any() or "dbe" in method


WRONG: dict[str, Any] = {
    "is not there": lambda value: None,
    "is of another shape": lambda value: torch.cat([value, value]),
    "is of another type": lambda value: value.double(),
    "is elsewhere": lambda value: value.to("meta"),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("method", ["moon", "fedproto", "fedavgdbe", "gpfl"])
def test_what_is_handed_otherwise_is_not_for_kernels(method: str, wrong: str) -> None:
    case = Case(method, 3, 6, lanes_here()[-1], 1)
    kernels, buffers = case.kernels(), case.buffers
    assert kernels.known(case.given, case.each, 3, buffers) is not None
    assert kernels.known(case.each, case.given, 3, buffers) is None
    for handed in (case.given, case.each):
        for name, value in handed.items():
            other = {
                key: each for key, each in {**handed, name: WRONG[wrong](value)}.items() if each is not None
            }
            given_to, each_of = (other, case.each) if handed is case.given else (case.given, other)
            assert kernels.known(given_to, each_of, 3, buffers) is None, name
