"""The kernels of two 1-D convolutions and a global max-pool, against autograd in float64."""

from __future__ import annotations

import copy
import threading
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fedroam.learning.cpu.fused_conv1d import FusedConv1d, ParameterHolder, suits
from fedroam.learning.cpu.fused_layers import quicken
from fedroam.learning.cpu.kernels import Conv1dSizes
from fedroam.native import target
from fedroam.native.target import Target, narrowed
from support.learners import problem
from support.rounding import decided, off, tolerance

pytest.importorskip("llvmlite")
HERE = target()
assert HERE is not None
# What kernels are cut for on machines with narrower vectors; these vectors can be computed here too.
NARROW = {lanes: narrowed(HERE, lanes) for lanes in (4, 8)}


def drawn(*shape: int, seed: int) -> torch.Tensor:
    return torch.empty(shape).normal_(generator=torch.Generator().manual_seed(seed))


def layers(sizes: Conv1dSizes, biases: tuple[bool, bool] = (True, True), seed: int = 0) -> list[nn.Conv1d]:
    made = [
        nn.Conv1d(sizes.inputs, sizes.hidden, sizes.near, bias=biases[0]),
        nn.Conv1d(sizes.hidden, sizes.outputs, sizes.far, bias=biases[1]),
    ]
    with torch.no_grad():
        for k, parameter in enumerate(p for layer in made for p in layer.parameters()):
            parameter.copy_(drawn(*parameter.shape, seed=seed + k) / 4)
    return made


def joined(first: nn.Conv1d, second: nn.Conv1d, here: Target = HERE) -> FusedConv1d:
    return FusedConv1d(ParameterHolder(first), second, here)


def usual(made: list[nn.Conv1d]) -> nn.Sequential:
    """The same layers as torch has them."""
    return nn.Sequential(made[0], nn.ReLU(), made[1], nn.AdaptiveMaxPool1d(1))


def check(made: list[nn.Conv1d], samples: torch.Tensor, slopes: torch.Tensor, here: Target = HERE) -> None:
    """Outputs and gradients are off by rounding alone, layer by layer, for the samples that it sends no other way."""
    module = usual(made)
    x, exact = decided(module, samples), copy.deepcopy(module).double()
    assert len(x) >= len(samples) / 2
    share, found, expected = tolerance(module, samples), joined(*made, here)(x), exact(x.double())
    assert off(found.detach(), expected.detach()) <= share
    found.backward(slopes[: len(x)])
    expected.backward(slopes[: len(x)].double())
    for ours, theirs in zip(made, (exact[0], exact[2]), strict=True):
        gradients = [[p.grad for p in layer.parameters() if p.grad is not None] for layer in (ours, theirs)]
        assert [p.shape for p in gradients[0]] == [p.shape for p in gradients[1]]
        one, other = (torch.cat([p.flatten() for p in some]) for some in gradients)
        assert off(one, other) <= share


@pytest.mark.parametrize("lanes", sorted({4, 8, HERE.lanes}))
@pytest.mark.parametrize("samples", [1, 7, 16])
def test_the_papers_network(samples: int, lanes: int) -> None:
    """MoCFL: 196 features of a record, 32 and 64 channels, three places each."""
    made = layers(Conv1dSizes(1, 196, 32, 3, 64, 3), seed=1)
    slope = drawn(samples, 64, 1, seed=3).relu()  # half of them zero, as behind a ReLU
    check(made, drawn(samples, 1, 196, seed=2), slope, NARROW.get(lanes, HERE))


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_sizes(data: st.DataObject) -> None:
    lanes = data.draw(st.sampled_from([4, 8, HERE.lanes]))
    near, far = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 6))
    sizes = Conv1dSizes(
        inputs=data.draw(st.integers(1, 12)),
        length=near + far - 1 + data.draw(st.integers(0, 17)),
        hidden=lanes * data.draw(st.integers(1, 3)),
        near=near,
        outputs=lanes * data.draw(st.integers(1, 7)),
        far=far,
    )
    biases, seed = data.draw(st.tuples(st.booleans(), st.booleans())), data.draw(st.integers(0, 1000))
    samples = data.draw(st.integers(0, 6))
    made, x = layers(sizes, biases, seed), drawn(samples, sizes.inputs, sizes.length, seed=seed + 7)
    check(made, x, drawn(samples, sizes.outputs, 1, seed=seed + 8), NARROW.get(lanes, HERE))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_places_that_see_only_zeros_change_nothing(data: st.DataObject) -> None:
    """Bit for bit: the same samples with 1e-30 for each zero, which no sum can tell from it, leave no place out."""
    lanes = data.draw(st.sampled_from([4, 8, HERE.lanes]))
    near, far, inputs = (data.draw(st.integers(1, most)) for most in (4, 4, 3))
    length = near + far - 1 + data.draw(st.integers(0, 30))
    made = layers(
        Conv1dSizes(inputs, length, lanes, near, 2 * lanes, far), seed=data.draw(st.integers(0, 99))
    )
    layer = joined(*made, NARROW.get(lanes, HERE))
    x = torch.zeros(2, inputs, length)
    places = st.tuples(st.integers(0, 1), st.integers(0, inputs - 1), st.integers(0, length - 1))
    for place in data.draw(st.lists(places, max_size=length)):
        x[place] = data.draw(st.sampled_from([1.0, -2.5, -0.0]))
    parameters = [p for one in made for p in one.parameters()]
    found, expected = (layer(each) for each in (x, torch.where(x == 0, 1e-30, x)))
    assert torch.equal(found, expected)
    # The first of the largest places gets the gradient in both.
    slope = drawn(2, 2 * lanes, 1, seed=3)
    for one, other in zip(
        *(torch.autograd.grad(y, parameters, slope) for y in (found, expected)), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)  # 1e-30 decides ties of roundings


def test_among_equal_places_the_first_gets_the_gradient() -> None:
    """By hand: every output is relu(x) at a place plus nothing of the next one; 5 is the largest, at places 1 and 3."""
    made = layers(Conv1dSizes(1, 5, 16, 1, 16, 2))
    with torch.no_grad():
        for parameter in (p for layer in made for p in layer.parameters()):
            parameter.zero_()
        made[0].weight.fill_(1.0)
        made[1].weight[:, 0, 0] = 1.0
    y = joined(*made)(torch.tensor([[[1.0, 5.0, 2.0, 5.0, 7.0]]]))
    assert (y == 5).all()
    (slope,) = torch.autograd.grad(y[0, 3, 0], made[1].weight)
    assert (
        slope[3].tolist() == [[5.0, 2.0]] * 16
    )  # the values at place 1 and beside it, of each channel between
    assert not slope[:3].any()
    assert not slope[4:].any()


def test_values_that_are_no_numbers_are_not_hidden() -> None:
    made = layers(Conv1dSizes(1, 20, 16, 3, 16, 3))
    x = drawn(3, 1, 20, seed=1)
    x[1, 0, 9] = float("nan")
    y = joined(*made)(x)
    assert torch.isnan(y[1]).all()
    assert torch.isfinite(y[[0, 2]]).all()
    (gradient,) = torch.autograd.grad(y[1].sum(), made[1].weight)
    assert torch.isnan(gradient).any()
    slope = torch.full_like(y[0], float("nan"))
    (gradient,) = torch.autograd.grad(joined(*made)(x[:1]), made[1].bias, slope[None])
    assert torch.isnan(gradient).all()


def test_a_sample_does_not_hang_on_its_neighbours() -> None:
    made, x = layers(Conv1dSizes(2, 30, 32, 4, 48, 2)), drawn(9, 2, 30, seed=1)
    layer = joined(*made)
    with torch.inference_mode():
        whole = layer(x)
        for k in range(9):
            assert torch.equal(layer(x[k : k + 1]), whole[k : k + 1])
        assert torch.equal(layer(x.transpose(1, 2).contiguous().transpose(1, 2)), whole)  # lies otherwise


def test_what_the_kernels_do_not_know_is_left_to_torch() -> None:
    made = layers(Conv1dSizes(1, 20, 16, 3, 16, 3))
    layer, x = joined(*made), drawn(4, 1, 20, seed=1)
    expected = copy.deepcopy(usual(made)).double()(x.double())
    wanted = x.clone().requires_grad_()
    y = layer(wanted)
    torch.testing.assert_close(y.double(), expected, rtol=1e-5, atol=1e-5)
    (slope,) = torch.autograd.grad(y.sum(), wanted)
    assert slope.abs().sum() > 0
    torch.testing.assert_close(layer(x[0]).double(), expected[0], rtol=1e-5, atol=1e-5)  # a single sample
    with pytest.raises(RuntimeError):
        layer(drawn(4, 1, 4, seed=1))  # shorter than the kernels
    with pytest.raises(RuntimeError):
        layer(drawn(4, 3, 20, seed=1))  # other channels


@pytest.mark.parametrize(
    "change",
    [
        lambda it: it.__setitem__(0, nn.Conv1d(1, 16, 3, padding=1)),
        lambda it: it.__setitem__(2, nn.Conv1d(16, 16, 3, stride=2)),
        lambda it: it.__setitem__(2, nn.Conv1d(16, 16, 3, dilation=2)),
        lambda it: it.__setitem__(2, nn.Conv1d(16, 16, 3, groups=2)),
        lambda it: it.__setitem__(2, nn.Conv1d(16, 17, 3)),
        lambda it: it.__setitem__(1, nn.Tanh()),
        lambda it: it.__setitem__(3, nn.AdaptiveMaxPool1d(2)),
        lambda it: it.__setitem__(3, nn.AdaptiveMaxPool1d(1, return_indices=True)),
        lambda it: it[2].register_forward_hook(lambda *_: None),
        lambda it: it[1].register_forward_hook(lambda *_: None),
    ],
    ids=[
        "padding",
        "stride",
        "dilation",
        "groups",
        "outputs",
        "tanh",
        "two peaks",
        "places",
        "hook",
        "hook of relu",
    ],
)
def test_other_sequences_are_not_joined(change: Any) -> None:
    module = nn.Sequential(*_usual())
    change(module)
    assert not any(isinstance(layer, FusedConv1d) for layer in quicken(module).modules())


def _usual() -> list[nn.Module]:
    return [nn.Conv1d(1, 16, 3), nn.ReLU(), nn.Conv1d(16, 16, 3), nn.AdaptiveMaxPool1d(1)]


def test_sequences_are_joined_wherever_they_stand() -> None:
    inner = nn.Sequential(nn.Identity(), *_usual(), nn.Flatten(), nn.ReLU())
    module = quicken(nn.Sequential(inner, nn.Linear(16, 2)))
    assert sum(isinstance(layer, FusedConv1d) for layer in module.modules()) == 1
    names = [name for name, _ in module.named_parameters()]
    assert names == ["0.1.weight", "0.1.bias", "0.3.weight", "0.3.bias", "1.weight", "1.bias"]
    assert not any(isinstance(one, FusedConv1d) for one in quicken(nn.Sequential(*_usual()), False).modules())
    same = nn.Conv1d(16, 16, 3)
    twice = quicken(nn.Sequential(same, nn.ReLU(), same, nn.AdaptiveMaxPool1d(1)))
    assert not any(isinstance(layer, FusedConv1d) for layer in twice.modules())
    assert suits(nn.Conv1d(1, 16, 3), nn.Conv1d(16, 16, 3), HERE)
    assert not suits(nn.Conv1d(1, 16, 3), nn.Conv1d(32, 16, 3), HERE)


def test_several_threads_at_once() -> None:
    made, x = layers(Conv1dSizes(1, 41, 32, 5, 64, 3)), drawn(8, 1, 41, seed=1)
    results: dict[int, list[torch.Tensor]] = {}

    def work(k: int) -> None:
        y = joined(*made)(x)
        results[k] = [y, *torch.autograd.grad(y.sum(), [p for layer in made for p in layer.parameters()])]

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k in range(1, 4):
        assert all(torch.equal(a, b) for a, b in zip(results[0], results[k], strict=True))


def test_training_with_and_without(monkeypatch: pytest.MonkeyPatch) -> None:
    case = problem("cnn1d", (14,), (12, 9), seed=3)

    def trained(**settings: Any) -> torch.Tensor:
        return case.trained("cpu", **settings)[0].parameters

    with_kernels, without = trained(workers=2), trained(workers=2, native=False)
    assert torch.equal(with_kernels, trained(workers=1))
    monkeypatch.setenv("FEDROAM_NATIVE", "0")
    assert torch.equal(without, trained(workers=1))
    assert not torch.equal(without, with_kernels)  # it is another way of computing
