"""Convolutions by tiles of pixels: transforms by hand, kernels against float64 and against the plain sum."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional, grad

from fedroam.learning.cpu.kernels.convolution import ConvolutionKernel, Images, WeightGradient, Weights
from fedroam.learning.cpu.kernels.tiled.by_samples import WinogradConvolution, WinogradWeightGradient, suits
from fedroam.learning.cpu.kernels.tiled.transforms import FINITE, STEP, transforms
from fedroam.native import kernel, target
from fedroam.native.target import Target, narrowed

pytest.importorskip("llvmlite")
HERE = target()
assert HERE is not None
UNIT = 2.0**-24


def test_the_transform_of_pixels_by_hand() -> None:
    """x times (x^2 - 1/2) (x^2 - 2), without one factor each: (x^2 - 1/2)(x^2 - 2) = x^4 - 5/2 x^2 + 1, and so on."""
    r = math.sqrt(0.5)
    np.testing.assert_allclose(
        np.array(transforms(3).of_x),
        np.array(
            [
                [1, 0, -2.5, 0, 1, 0],
                [0, -2 * r, -2, r, 1, 0],
                [0, 2 * r, -2, -r, 1, 0],
                [0, -r, -0.5, 2 * r, 1, 0],
                [0, r, -0.5, -2 * r, 1, 0],
                [0, 1, 0, -2.5, 0, 1],
            ]
        ),
        atol=1e-13,
    )


def test_the_transform_of_weights_by_hand() -> None:
    """Values of a polynomial at the points, over the products of their differences: 1, -3/2, -3/2, 6 and 6."""
    products = [math.prod(at - other for other in FINITE[3] if other != at) for at in FINITE[3]]
    np.testing.assert_allclose(products, [1, -1.5, -1.5, 6, 6], rtol=1e-14)
    r, third, sixth = math.sqrt(0.5), 1 / 3, 1 / 6
    np.testing.assert_allclose(
        np.array(transforms(3).of_w),
        np.array(
            [
                [1, 0, 0],
                [-2 * third, -2 * third * r, -third],
                [-2 * third, 2 * third * r, -third],
                [sixth, sixth * 2 * r, 2 * sixth],
                [sixth, -sixth * 2 * r, 2 * sixth],
                [0, 0, 1],
            ]
        ),
        atol=1e-13,
    )


def test_the_transforms_of_eight_pixels_by_hand() -> None:
    """(x^2 - 1/4)(x^2 - 1)(x^2 - 4) = x^6 - 21/4 x^4 + 21/4 x^2 - 1, and times x; and of the point 2 without x - 2:
    x (x^2 - 1/4)(x^2 - 1)(x + 2). Products of differences: -1, 45/32, -9/2, 90."""
    use = transforms(5)
    of_x, of_w = np.array(use.of_x), np.array(use.of_w)
    np.testing.assert_array_equal(of_x[0], [-1, 0, 5.25, 0, -5.25, 0, 1, 0])
    np.testing.assert_array_equal(of_x[7], [0, -1, 0, 5.25, 0, -5.25, 0, 1])
    np.testing.assert_allclose(of_x[5], [0, 0.5, 0.25, -2.5, -1.25, 2, 1, 0], atol=1e-13)
    np.testing.assert_allclose(of_x[6], [0, -0.5, 0.25, 2.5, -1.25, -2, 1, 0], atol=1e-13)
    np.testing.assert_allclose(
        of_w[:, 0], [-1, 32 / 45, 32 / 45, -2 / 9, -2 / 9, 1 / 90, 1 / 90, 0], atol=1e-13
    )
    np.testing.assert_allclose(of_w[5], np.array([1, 2, 4, 8, 16]) / 90, atol=1e-13)
    np.testing.assert_array_equal(np.array(use.of_y)[:, 3], [0, 0.125, -0.125, 1, -1, 8, -8, 1])


@pytest.mark.parametrize("weights", [3, 5])
def test_a_product_for_each_point_makes_a_row_of_pixels(weights: int) -> None:
    """Of numbers that a computer can multiply without rounding, and of their gradient."""
    use, drawn = transforms(weights), np.random.default_rng(weights)
    of_x, of_w, of_y = (np.array(matrix) for matrix in (use.of_x, use.of_w, use.of_y))
    for _ in range(20):
        x, w, dy = (drawn.integers(-9, 10, size).astype(float) for size in (use.side, weights, STEP))
        expected = [x[k : k + weights] @ w for k in range(STEP)]
        np.testing.assert_allclose(of_y.T @ ((of_w @ w) * (of_x @ x)), expected, atol=1e-11)
        slopes = [dy @ x[k : k + STEP] for k in range(weights)]
        np.testing.assert_allclose(of_w.T @ ((of_y @ dy) * (of_x @ x)), slopes, atol=1e-11)


def errors(weights: int, points: tuple[float, ...]) -> tuple[float, float]:
    """Rounding errors of sums over 32 channels in float32, by tiles and plain, over the sums (root mean square)."""
    use, drawn = transforms(weights, points), np.random.default_rng(0)
    of_x, of_w, of_y = (np.array(matrix, np.float32) for matrix in (use.of_x, use.of_w, use.of_y))
    x = np.maximum(drawn.normal(size=(32, 300, use.side, use.side)), 0).astype(np.float32)
    w = drawn.normal(size=(32, weights, weights)).astype(np.float32)
    seen, factors = of_x @ x @ of_x.T, of_w @ w @ of_w.T
    total = np.zeros((300, use.side, use.side), np.float32)
    for channel in range(32):
        total += seen[channel] * factors[channel]
    tiled = of_y.T @ total @ of_y
    exact, plain = np.zeros(tiled.shape), np.zeros(tiled.shape, np.float32)
    for channel in range(32):
        for row in range(weights):
            for column in range(weights):
                there = x[channel, :, row : row + STEP, column : column + STEP]
                plain += there * w[channel, row, column]
                exact += there.astype(float) * float(w[channel, row, column])
    by_tiles, of_plain = (float(np.sqrt(np.mean((found - exact) ** 2))) for found in (tiled, plain))
    typical = float(np.sqrt(np.mean(exact**2)))
    return by_tiles / typical, of_plain / typical


def test_our_points_of_six_pixels_round_half_as_much_as_the_usual_ones() -> None:
    (ours, plain), (usual, _) = errors(3, FINITE[3]), errors(3, (0.0, 1.0, -1.0, 2.0, -2.0))
    assert 2 < ours / plain < 3
    assert 1.7 < usual / ours < 2.5


def test_tiles_of_eight_pixels_round_some_six_times_as_much_as_the_plain_sum() -> None:
    """And a third of what 3 in the place of 1/2 would."""
    (ours, plain), (others, _) = errors(5, FINITE[5]), errors(5, (0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0))
    assert 5 < ours / plain < 6.5
    assert 1.5e-6 < ours < 2.5e-6
    assert plain < 0.5e-6
    assert others > 3 * ours


def cut_for(lanes: int) -> Target:
    """Vectors of so many values; with 16, as many registers and sums as machines with such vectors have."""
    assert HERE is not None
    return replace(HERE, lanes=16, vectors=4, registers=32) if lanes == 16 else narrowed(HERE, lanes)


def _at(tensor: torch.Tensor) -> int:
    return tensor.data_ptr()


@dataclass(frozen=True)
class Case:
    """A convolution with numbers, in memory as the kernels have it."""

    inputs: int
    outputs: int
    size: tuple[int, int]  # of y
    weights: int
    above: int
    beside: int
    samples: int
    lanes: int
    bias: bool
    seed: int

    def __str__(self) -> str:
        return f"{self.inputs}-{self.outputs}-{self.weights}x{self.weights}"

    def check(self) -> None:
        """All three kernels are off float64 by rounding, and not much more than the plain sums; memory around stays."""
        (height, width), side, n = self.size, self.weights, self.samples
        high, wide = height + side - 1 - 2 * self.above, width + side - 1 - 2 * self.beside
        beside_dy = side - 1 - self.beside
        x, y = Images(self.inputs, high, wide, self.beside), Images(self.outputs, height, width, 1)
        dy, dx = Images(self.outputs, height, width, beside_dy), Images(self.inputs, high, wide)
        weights = Weights(side, side, (side * side * self.inputs, 1, side * self.inputs, self.inputs))
        drawn = torch.Generator().manual_seed(self.seed)
        pixels = torch.randn(n, self.inputs, high, wide, generator=drawn)
        slopes = torch.randn(n, self.outputs, height, width, generator=drawn)
        w = torch.randn(self.outputs, self.inputs, side, side, generator=drawn)
        b = torch.randn(self.outputs, generator=drawn)
        ours = w.permute(0, 2, 3, 1).contiguous()
        padding, given_x, given_dy = (self.above, self.beside), self.laid(x, pixels), self.laid(dy, slopes)
        lanes = math.gcd(n, 16)

        exact = functional.conv2d(
            pixels.double(), w.double(), b.double() if self.bias else None, padding=padding
        )
        bias = _at(b) if self.bias else 0
        found = [
            self.run(spec, [given_x, ours, bias], torch.full((y.channels, y.height, y.row, n), 7.0))
            for spec in (
                WinogradConvolution(x, y, weights, self.above, self.bias, lanes),
                ConvolutionKernel(x, y, weights, self.above, self.bias),
            )
        ]
        inner = [image[:, :, 1:-1].permute(3, 0, 1, 2) for image in found]
        self.near(inner, exact, self.inputs * side * side)
        for image in found:  # what lies around y is not written to
            assert bool((image[:, :, [0, -1]] == 7).all())

        turned, above = weights.turned(), side - 1 - self.above
        exact = grad.conv2d_input(pixels.shape, w.double(), slopes.double(), padding=padding)
        found = [
            self.run(spec, [given_dy, ours, 0], torch.empty(self.inputs, high, wide, n)).permute(3, 0, 1, 2)
            for spec in (
                WinogradConvolution(dy, dx, turned, above, False, lanes),
                ConvolutionKernel(dy, dx, turned, above, False),
            )
        ]
        self.near(found, exact, self.outputs * side * side)

        exact = grad.conv2d_weight(pixels.double(), w.shape, slopes.double(), padding=padding)
        start = torch.randn(ours.shape, generator=drawn)
        found = [
            self.run(spec, [given_x, given_dy], start.clone())
            for spec in (
                WinogradWeightGradient(x, dy, weights, self.above, lanes),
                WeightGradient(x, dy, weights, self.above),
            )
        ]
        of_w = [(each - start).permute(0, 3, 1, 2) for each in found]
        self.near(of_w, exact, n * height * width)

    def laid(self, image: Images, values: torch.Tensor) -> torch.Tensor:
        """Values [n, channels, height, width] as the kernels read them."""
        found = torch.zeros(image.channels, image.height, image.row, len(values))
        found[:, :, image.border : image.border + image.width] = values.permute(1, 2, 3, 0)
        return found

    def run(self, spec: Any, given: list[Any], result: torch.Tensor) -> torch.Tensor:
        """What a kernel makes of a result's memory; the memory to work in holds anything."""
        here = cut_for(self.lanes)
        size = spec.scratch(self.samples, here)
        room = torch.full((size + 64,), math.nan)
        addresses = [_at(each) if isinstance(each, torch.Tensor) else each for each in given]
        kernel(spec, here)(*addresses, _at(result), _at(room), self.samples)
        assert bool(room[size:].isnan().all())  # no value behind it was written
        return result

    def near(self, found: list[torch.Tensor], exact: torch.Tensor, terms: int) -> None:
        """Off by the rounding of so many terms, both.

        Around small images most are zeros, but tiles are rounded as the sums in them are that have none: all numbers
        are of variance 1.
        """
        scale, walk = float(exact.norm()), math.sqrt(terms) * UNIT
        whole = max(scale, math.sqrt(exact.numel() * terms))
        tiled, plain = found
        assert (plain.double() - exact).norm() <= 4 * walk * scale
        assert (tiled.double() - exact).norm() <= {3: 8, 5: 20}[self.weights] * walk * whole


@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize(
    "case",
    [
        (3, 32, (32, 32), 5, 8),  # LeNet with GroupNorm
        (32, 32, (16, 16), 5, 8),
        (32, 64, (8, 8), 5, 8),
        (32, 64, (7, 7), 5, 16),  # of MNIST: the last tiles reach beyond the image
        (10, 20, (8, 8), 5, 12),  # the CNN for MNIST
        (32, 64, (16, 16), 3, 8),  # Conv5
        (64, 64, (8, 8), 3, 20),
        (64, 64, (14, 14), 3, 8),
        (64, 64, (7, 7), 3, 16),
        (16, 32, (7, 11), 5, 16),
    ],
    ids=str,
)
def test_papers_layers(case: tuple[int, int, tuple[int, int], int, int], lanes: int) -> None:
    inputs, outputs, size, weights, samples = case
    beside = weights // 2
    while size[1] * samples % lanes:  # as the plain sum needs it
        samples += 4
    Case(inputs, outputs, size, weights, beside, beside, samples, lanes, weights == 5, 0).check()


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Any channels, whether or not tiles are the fast way."""
    weights, channels = (
        draw(st.sampled_from([3, 5])),
        st.one_of(st.sampled_from([16, 32]), st.integers(1, 40)),
    )
    size = draw(st.integers(1, 17)), draw(st.integers(1, 17))
    above, beside = draw(st.integers(0, weights - 1)), draw(st.integers(0, weights - 1))
    if size[0] + weights - 1 - 2 * above < 1 or size[1] + weights - 1 - 2 * beside < 1:
        above = beside = weights // 2
    return Case(
        draw(channels),
        draw(channels),
        size,
        weights,
        above,
        beside,
        16 * draw(st.integers(1, 2)),  # which fill the plain sum's vectors
        draw(st.sampled_from([4, 8, 16])),
        draw(st.booleans()),
        draw(st.integers(0, 1000)),
    )


@settings(max_examples=20, deadline=None)
@given(cases())
def test_any_sizes(case: Case) -> None:
    case.check()


@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("samples", [4, 12])
def test_samples_and_tiles_need_not_fill_vectors(samples: int, lanes: int) -> None:
    """A row of three tiles, with samples that are fewer than a vector's values or no multiple of them."""
    whole = 48 // math.gcd(samples, 48) * samples  # a number that the plain sum can do as well
    case = Case(5, 7, (9, 11), 5, 2, 2, whole, lanes, True, 1)
    x, y = Images(5, 9, 11, 2), Images(7, 9, 11)
    weights = Weights(5, 5, (125, 1, 25, 5))
    drawn = torch.Generator().manual_seed(3)
    pixels = torch.randn(whole, 5, 9, 11, generator=drawn)
    w, b = (torch.randn(size, generator=drawn) for size in (875, 7))
    spec = WinogradConvolution(x, y, weights, 2, True, math.gcd(samples, 16))
    all_of_them = case.run(spec, [case.laid(x, pixels), w, _at(b)], torch.empty(7, 9, 11, whole))
    few = replace(case, samples=samples)
    some = few.run(spec, [case.laid(x, pixels[:samples]), w, _at(b)], torch.empty(7, 9, 11, samples))
    assert torch.equal(some, all_of_them[..., :samples])


def test_what_is_left_to_the_plain_sum() -> None:
    """Other sizes of weights, too few channels for what tiles cost, images of far fewer pixels than tiles give.

    With 3x3 weights and 32 channels a tile takes 36 (1,024 + 6 x 64) multiplications for 16 x 9,216 of the plain sum,
    34 %; so it pays where less than 2.18 times as many pixels are computed as there are. From 3 to 32 channels it takes
    36 (96 + 6 x 35), which is 80 % of 16 x 864.
    """

    def suited(inputs: int = 32, outputs: int = 32, side: int = 3, size: tuple[int, int] = (8, 8)) -> bool:
        height, width = size
        weights = Weights(side, side, (side * side * inputs, 1, side * inputs, inputs))
        image = Images(inputs, height + side - 1, width + side - 1)
        return suits(image, Images(outputs, height, width), weights)

    assert suited()
    assert suited(side=5)
    assert suited(inputs=3, side=5)  # 64 (96 + 210) for 16 x 2,400: 51 %
    assert suited(inputs=10, outputs=20, side=5)
    assert suited(size=(14, 14))  # 256 pixels are computed for 196
    assert suited(size=(9, 5))  # 96 for 45
    assert suited(side=5, size=(2, 6))  # 32 for 12, which is 59 %
    assert not suited(inputs=3)
    assert not suited(inputs=1, side=5)
    assert not suited(side=1)
    assert not suited(side=7)
    assert not suited(size=(5, 5))  # 64 for 25
    assert not suited(size=(2, 2))
