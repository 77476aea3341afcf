"""Convolutions by tiles as steps of autograd, against torch's in float64, and within whole networks."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from fedroam.components import build
from fedroam.learning import Layout, make_network
from fedroam.learning.cpu import fused_conv2d
from fedroam.learning.cpu.fused_conv2d import fuse
from fedroam.learning.cpu.kernels.tiled import by_channels
from fedroam.learning.cpu.sequential import sequential_model
from fedroam.learning.cpu.tiled_conv2d import ConvolutionByTiles, Room, TiledConv2d, Tiles
from fedroam.learning.cpu.worker_model import Nature, worker_model
from fedroam.native import target
from fedroam.native.target import _loaded
from support.learners import CLASSES, ONE_STEP, check_engine, problem

pytest.importorskip("llvmlite")
UNIT = 2.0**-24


def drawn(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


class Doubled(nn.Module):
    """A layer behind another, so that what it is given wants a gradient."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layer(2 * x)
        return y


def tiled(layer: nn.Conv2d) -> Doubled:
    """The layer as `fuse` has it, with weights that lie as in rows."""
    other = copy.deepcopy(layer)
    other.weight.data = other.weight.data.contiguous(memory_format=torch.channels_last)
    whole = Doubled(other)
    assert fuse(whole) is whole
    assert type(whole.layer) is TiledConv2d
    return whole


def off(found: torch.Tensor, exact: torch.Tensor) -> float:
    return float((found.double() - exact).norm() / exact.norm())


def check(layer: nn.Conv2d, x: torch.Tensor, seed: int) -> None:
    """Output and all gradients are off by rounding alone, of so many terms as are summed: with 3x3 weights twice, with
    5x5 five times that of plain sums."""
    ours, exact = tiled(layer), Doubled(copy.deepcopy(layer).double())
    mine, true = x.clone().requires_grad_(), x.double().requires_grad_()
    y, expected = ours(mine), exact(true)
    assert y.is_contiguous(memory_format=torch.channels_last)
    slope = drawn(*y.shape, seed=seed)
    y.backward(slope)
    expected.backward(slope.double())
    walk = {3: 8, 5: 20}[layer.weight.shape[2]] * UNIT
    assert off(y.detach(), expected.detach()) < walk * math.sqrt(layer.weight[0].numel())
    assert mine.grad is not None
    assert true.grad is not None
    assert off(mine.grad, true.grad) < walk * math.sqrt(layer.weight[:, 0].numel())
    for (name, found), other in zip(ours.named_parameters(), exact.parameters(), strict=True):
        assert found.grad is not None
        assert other.grad is not None
        assert found.grad.stride() == found.stride()
        assert off(found.grad, other.grad) < walk * math.sqrt(y[:, 0].numel()), name


@st.composite
def cases(draw: st.DrawFn) -> tuple[nn.Conv2d, torch.Tensor, int]:
    side, channels = draw(st.sampled_from([3, 5])), st.sampled_from([16, 32, 48])
    step, seed = 4, draw(st.integers(0, 1000))
    inputs, outputs, bias = draw(channels), draw(channels), draw(st.booleans())
    layer = nn.Conv2d(inputs, outputs, side, padding=side // 2, bias=bias)
    for parameter in layer.parameters():
        parameter.data = drawn(*parameter.shape, seed=seed)
    down, across = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    size = (step * down - draw(st.integers(0, step - 1)), step * across - draw(st.integers(0, step - 1)))
    if down * across * step**2 > {3: 1.8, 5: 2.2}[side] * size[0] * size[1]:
        size = (step * down, step * across)
    x = drawn(draw(st.integers(1, 9)), inputs, *size, seed=seed + 1)
    return layer, x, seed + 2


@settings(max_examples=12, deadline=None)
@given(cases())
def test_any_sizes(case: tuple[nn.Conv2d, torch.Tensor, int]) -> None:
    check(*case)


@settings(max_examples=12, deadline=None)
@given(cases(), st.booleans())
def test_written_out_it_is_the_step_of_autograd(
    case: tuple[nn.Conv2d, torch.Tensor, int], wanted: bool
) -> None:
    """The same bits, which are held to float64; gradients are added to what is there."""
    layer, x, seed = case
    layout, here = Layout.of(layer), target()
    assert here is not None
    row, gradient = torch.empty(layout.size), torch.zeros(layout.size)
    layout.write(layer, row, torch.empty(0))
    weight, *bias = layout.parameters
    tiles = Tiles.of(layer, here, Room())
    assert tiles is not None
    written = ConvolutionByTiles(
        layer, weight, bias[0] if bias else None, lambda entry: entry.view(gradient), tiles
    )
    written.attach(lambda entry: entry.view(row))
    step, asked = tiled(layer), (2 * x).requires_grad_()
    expected = step.layer(asked)
    slope = drawn(*expected.shape, seed=seed)
    expected.backward(slope)
    assert torch.equal(written.forward(2 * x), expected)
    assert written.at_work is not None
    below = written.backward(slope, wanted)
    assert (below is not None) == wanted
    if below is not None:
        assert asked.grad is not None
        assert torch.equal(below, asked.grad)
    parameters = dict(step.layer.named_parameters())
    for entry in layout.parameters:
        assert torch.equal(entry.view(gradient), parameters[entry.name].grad)
    written.forward(2 * x)
    written.backward(slope, wanted)
    for entry in layout.parameters:
        torch.testing.assert_close(
            entry.view(gradient), 2 * parameters[entry.name].grad, rtol=1e-3, atol=1e-3
        )


@pytest.mark.parametrize(
    "side", [8, 7, 5], ids=["whole tiles", "parts of tiles", "images too small for tiles"]
)
def test_a_chain_with_tiles_in_it(side: int) -> None:
    """Behind a convolution that no kernel of ours takes."""

    def network() -> nn.Module:
        first = [nn.Conv2d(3, 16, 3, padding=2, dilation=2), nn.ReLU()]
        second = [nn.Conv2d(16, 32, 3, padding=1), nn.GroupNorm(2, 32), nn.ReLU()]
        third = [nn.Conv2d(32, 16, 3, padding=1, bias=False), nn.MaxPool2d(2), nn.Flatten()]
        return nn.Sequential(*first, *second, *third, nn.Linear(16 * (side // 2) ** 2, CLASSES))

    case = problem(network, (side, side, 3), (7, 12), training=ONE_STEP)
    task = case.task
    model = sequential_model(worker_model(task, Nature()), task, torch.zeros(task.layout.size))
    assert model is not None
    assert [type(layer) for layer in model.layers].count(ConvolutionByTiles) == 2
    assert model.native
    check_engine(case)


@pytest.mark.parametrize("lanes", ["4", "8", "16"])
@pytest.mark.parametrize(
    ("channels", "side", "n"), [(64, 16, 3), (128, 8, 5), (512, 4, 2), (128, 14, 3), (64, 7, 5)]
)
def test_layers_of_resnets(
    channels: int, side: int, n: int, lanes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDROAM_VECTOR", lanes)
    if lanes == "16":  # as machines with such vectors have them: more sums at a time
        here = target()
        assert here is not None
        monkeypatch.setattr(fused_conv2d, "target", lambda: replace(here, vectors=4, registers=32))
    layer = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
    check(layer, drawn(n, channels, side, side, seed=channels), 1)


@pytest.fixture
def compiled_anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No kernel of before, nor one that is kept for later."""
    monkeypatch.setenv("FEDROAM_KERNEL_CACHE", "0")
    _loaded.cache_clear()
    yield
    _loaded.cache_clear()


@pytest.mark.usefixtures("compiled_anew")
@pytest.mark.parametrize(("channels", "side"), [(128, 8), (256, 4)])
def test_weights_that_pass_by_in_parts_give_the_same_bits(
    channels: int, side: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few tiles: of some outputs at a time, weights are made and used at once. Many, or few weights: of all outputs."""
    layer = nn.Conv2d(channels, channels, 3, padding=1, bias=True)
    some = by_channels.AT_ONCE // (side // by_channels.STEP) ** 2
    x, slope = (drawn(some + 1, channels, side, side, seed=seed) for seed in (1, 2))

    def found(n: int) -> tuple[torch.Tensor, ...]:
        given, ours = x[:n].clone().requires_grad_(), tiled(layer)
        y = ours(given)
        return y.detach(), *torch.autograd.grad(y, [given, *ours.parameters()], slope[:n])

    in_parts, many = found(some), found(some + 1)
    assert torch.equal(in_parts[0], many[0][:some])
    assert torch.equal(in_parts[1], many[1][:some])
    monkeypatch.setattr(by_channels, "NEAR", 1 << 40)
    _loaded.cache_clear()
    for one, other in zip(in_parts, found(some), strict=True):
        assert torch.equal(one, other)


def test_what_is_left_to_torch() -> None:
    """Few channels, strides, groups, other sizes of weights; images of few pixels, or of other numbers."""
    for other in (
        nn.Conv2d(3, 32, 3, padding=1),
        nn.Conv2d(32, 10, 3, padding=1),
        nn.Conv2d(32, 32, 3, stride=2, padding=1),
        nn.Conv2d(32, 32, 3, padding=1, groups=2),
        nn.Conv2d(32, 32, 3, padding=2, dilation=2),
        nn.Conv2d(32, 32, 1),
        nn.Conv2d(32, 32, 3, padding="same"),
        nn.Conv2d(32, 32, 3, padding=1, padding_mode="reflect"),
        nn.Conv2d(32, 32, (3, 5), padding=(1, 2)),
    ):
        assert type(fuse(Doubled(other)).layer) is nn.Conv2d
    layer = nn.Conv2d(32, 32, 3, padding=1)
    ours = tiled(layer)
    for x in (drawn(2, 32, 5, 5, seed=0), drawn(2, 32, 8, 8, seed=0)[:0], drawn(32, 8, 8, seed=0)):
        torch.testing.assert_close(ours(x), layer(2 * x))
    wider = copy.deepcopy(ours).double()
    torch.testing.assert_close(
        wider(drawn(2, 32, 8, 8, seed=0).double()), layer.double()(2 * drawn(2, 32, 8, 8, seed=0).double())
    )
    no_padding = nn.Conv2d(32, 32, 3)
    with pytest.raises(RuntimeError, match="can't be greater than actual input size"):
        tiled(no_padding)(drawn(1, 32, 2, 2, seed=0))
    torch.testing.assert_close(
        tiled(no_padding)(drawn(1, 32, 6, 10, seed=0)), no_padding(2 * drawn(1, 32, 6, 10, seed=0))
    )


def test_without_kernels_all_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDROAM_NATIVE", "0")
    assert target() is None
    assert type(fuse(Doubled(nn.Conv2d(32, 32, 3, padding=1))).layer) is nn.Conv2d


def resnet(norm: str) -> nn.Module:
    part: Any = build("model", {"kind": "resnet18", "norm": norm})
    return make_network(lambda: part.build((3, 8, 8), 10), 0)


def test_of_a_resnet_all_convolutions_of_one_pixel_a_step_are_tiled() -> None:
    """All 3x3 ones with stride 1 behind the first layer; names stay."""
    module, plain = resnet("group"), resnet("group")
    fused = fuse(module)
    kinds = [type(layer) for layer in fused.modules()]
    assert kinds.count(TiledConv2d) == 4 + 3 * 3
    assert [name for name, _ in fused.named_parameters()] == [name for name, _ in plain.named_parameters()]


@pytest.mark.parametrize("norm", ["group", "batch"])
def test_a_resnet_as_one_step(norm: str) -> None:
    """Outputs and gradients of the whole network, as far from float64 as torch's own are, up to a factor."""
    plain = resnet(norm).train()
    ours, exact = copy.deepcopy(plain), copy.deepcopy(plain).double()
    for layer in ours.modules():
        if isinstance(layer, nn.Conv2d):
            layer.weight.data = layer.weight.data.contiguous(memory_format=torch.channels_last)
    ours = fuse(ours)
    x, y = drawn(6, 3, 8, 8, seed=1), torch.arange(6)
    gradients = {}
    for name, module in (("ours", ours), ("plain", plain), ("exact", exact)):
        given = x.double() if name == "exact" else x
        functional.cross_entropy(module(given), y).backward()
        gradients[name] = torch.cat([p.grad.double().flatten() for p in module.parameters()])  # type: ignore[union-attr]
    errors = {name: float((gradients[name] - gradients["exact"]).norm()) for name in ("ours", "plain")}
    assert errors["ours"] <= 10 * errors["plain"]
    assert errors["ours"] <= 1e-3 * float(gradients["exact"].norm())


def test_a_resnet_learns_as_without_kernels() -> None:
    def network() -> nn.Module:
        part: Any = build("model", {"kind": "resnet18", "norm": "group"})
        module: nn.Module = part.build((3, 8, 8), 10)
        return module

    case = problem(network, (8, 8, 3), (12, 9), seed=3)
    with_kernels, without = (
        case.trained("cpu", workers=2, native=native)[0].parameters for native in (True, False)
    )
    assert torch.equal(with_kernels, case.trained("cpu", workers=1)[0].parameters)
    assert not torch.equal(with_kernels, without)  # it is another way of computing
    layout = Layout.of(network())
    assert with_kernels.shape[1] >= layout.size
    assert float((with_kernels - without).norm() / without.norm()) < 1e-3
