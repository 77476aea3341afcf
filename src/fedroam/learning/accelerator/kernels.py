"""Convolutions, max-pools and group normalisation of many models at once on CUDA devices (Triton).

Every model has its own samples and its own weights. Libraries have such convolutions as grouped ones only, which are
made for a few channels a group, and some of whose gradients are twenty times slower than the arithmetic. Here a
convolution is the product of the patches of a model's samples, gathered as they are needed, with its weights; the
gradient of its inputs is the same product with other patches, that of its weights a sum over parts of the samples, each
of which is added up in a fixed order: the same numbers every time.

All tensors lie channels-last: samples [models, n, height, width, channels], weights [models, outputs, kernel height,
kernel width, channels]. Products of float32 are taken in three products of TF32 parts, which are about as exact as
float32; others in their own precision; sums in float32 in either case.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
import triton
import triton.language as tl

PROGRAMS = 1024  # of a sum over samples, about as many as keep a large device busy
PRECISION = "tf32x3"
POOLED = 1024  # values that a program of a pool computes
NORMED = 2048  # values of a group of channels that are read at once
LEAST_LINE = 12  # entries of a line: shorter ones would leave most of a tile empty


@dataclass(frozen=True)
class Shape:
    """The sizes of a convolution: kernel, stride, padding and dilation, each for height and width."""

    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)

    def outputs(self, height: int, width: int) -> tuple[int, int]:
        """Height and width of what comes out."""
        found = [
            (size + 2 * p - d * (k - 1) - 1) // s + 1
            for size, k, s, p, d in zip(
                (height, width), self.kernel, self.stride, self.padding, self.dilation, strict=True
            )
        ]
        return found[0], found[1]


class Tile(NamedTuple):
    """What a program computes at a time: places, outputs, entries of patches; by how many warps, and how many such
    steps are under way at once.
    """

    m: int
    n: int
    k: int
    warps: int
    stages: int


# Sizes that change from call to call are not specialised: one compiled kernel serves all, and that is the one that was
# tried against torch (see `layers`).
#
# A patch is taken as lines of entries, LINES of LINE each. Where pixels that weights look at side by side lie side by
# side in memory, a line is a row of the kernel, read in pieces as wide as the device can; otherwise all is one line.


@triton.jit(do_not_specialize=["samples", "bias_stride"])
def _products(
    x,
    weights,
    bias,
    y,
    samples,
    bias_stride,
    WEIGHTS: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    CHANNELS: tl.constexpr,
    Y_HEIGHT: tl.constexpr,
    Y_WIDTH: tl.constexpr,
    OUTPUTS: tl.constexpr,
    KERNEL_H: tl.constexpr,
    KERNEL_W: tl.constexpr,
    STRIDE_H: tl.constexpr,
    STRIDE_W: tl.constexpr,
    PADDING_H: tl.constexpr,
    PADDING_W: tl.constexpr,
    DILATION_H: tl.constexpr,
    DILATION_W: tl.constexpr,
    APART_H: tl.constexpr,  # x is spread out: between its rows lie so many minus one rows of zeros
    APART_W: tl.constexpr,
    FROM: tl.constexpr,  # where in a model's weights the first one lies, and how far the next ones are
    BY_ROW: tl.constexpr,
    BY_COLUMN: tl.constexpr,
    BY_CHANNEL: tl.constexpr,
    BY_OUTPUT: tl.constexpr,
    BIASED: tl.constexpr,
    LINES: tl.constexpr,
    LINE: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """y[m, o] = sum over k of patch[m, k] weight[k, o] + bias[o], for the places m and outputs o of one tile."""
    model = tl.program_id(2).to(tl.int64)
    places = samples * (Y_HEIGHT * Y_WIDTH)
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    o = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    sample = m // (Y_HEIGHT * Y_WIDTH)
    place = m % (Y_HEIGHT * Y_WIDTH)
    top = (place // Y_WIDTH) * STRIDE_H - PADDING_H
    left = (place % Y_WIDTH) * STRIDE_W - PADDING_W
    own = x + (model * samples + sample) * (HEIGHT * WIDTH * CHANNELS)
    pieces: tl.constexpr = (LINE + BLOCK_K - 1) // BLOCK_K
    # Without padding every patch lies inside.
    inside: tl.constexpr = PADDING_H <= 0 and PADDING_W <= 0 and APART_H == 1 and APART_W == 1
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for t in range(LINES * pieces):
        k = (t % pieces) * BLOCK_K + tl.arange(0, BLOCK_K)
        there = (m < places)[:, None] & (k < LINE)[None, :]
        channel = k % CHANNELS
        if LINES > 1:
            column = k // CHANNELS
            line = t // pieces
            v = top + line * DILATION_H
            if not inside:
                h = left[:, None] + column[None, :]
                there = there & ((v >= 0) & (v < HEIGHT))[:, None] & (h >= 0) & (h < WIDTH)
            patch = tl.load(
                own[:, None] + ((v * WIDTH + left) * CHANNELS)[:, None] + k[None, :], mask=there, other=0.0
            )
            where = FROM + line * BY_ROW + column * BY_COLUMN + channel * BY_CHANNEL
        else:
            column = (k // CHANNELS) % KERNEL_W
            row = k // (CHANNELS * KERNEL_W)
            v = top[:, None] + row[None, :] * DILATION_H
            h = left[:, None] + column[None, :] * DILATION_W
            if not inside:
                there = there & (v >= 0) & (h >= 0)
                if APART_H > 1:
                    there = there & (v % APART_H == 0)
                    v = v // APART_H
                if APART_W > 1:
                    there = there & (h % APART_W == 0)
                    h = h // APART_W
                there = there & (v < HEIGHT) & (h < WIDTH)
            patch = tl.load(
                own[:, None] + (v * WIDTH + h) * CHANNELS + channel[None, :], mask=there, other=0.0
            )
            where = FROM + row * BY_ROW + column * BY_COLUMN + channel * BY_CHANNEL
        weight = tl.load(
            weights + model * WEIGHTS + where[:, None] + o[None, :] * BY_OUTPUT,
            mask=(k < LINE)[:, None] & (o < OUTPUTS)[None, :],
            other=0.0,
        )
        total = tl.dot(patch, weight, total, input_precision=PRECISION)
    if BIASED:
        total += tl.load(bias + model * bias_stride + o, mask=o < OUTPUTS, other=0.0).to(tl.float32)[None, :]
    tl.store(
        y + (model * places + m)[:, None] * OUTPUTS + o[None, :],
        total.to(y.dtype.element_ty),
        mask=(m < places)[:, None] & (o < OUTPUTS)[None, :],
    )


@triton.jit(do_not_specialize=["samples", "models", "part"])
def _sums(
    x,
    gradient,
    out,
    samples,
    models,
    part,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    CHANNELS: tl.constexpr,
    Y_HEIGHT: tl.constexpr,
    Y_WIDTH: tl.constexpr,
    OUTPUTS: tl.constexpr,
    KERNEL_H: tl.constexpr,
    KERNEL_W: tl.constexpr,
    STRIDE_H: tl.constexpr,
    STRIDE_W: tl.constexpr,
    PADDING_H: tl.constexpr,
    PADDING_W: tl.constexpr,
    DILATION_H: tl.constexpr,
    DILATION_W: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """out[part, model, o, k] = sum over the places m of a part of gradient[m, o] patch[m, k]."""
    model = tl.program_id(2).to(tl.int64)
    places = samples * (Y_HEIGHT * Y_WIDTH)
    depth: tl.constexpr = KERNEL_H * KERNEL_W * CHANNELS
    across: tl.constexpr = (OUTPUTS + BLOCK_N - 1) // BLOCK_N
    inside: tl.constexpr = PADDING_H <= 0 and PADDING_W <= 0
    o = (tl.program_id(1) % across) * BLOCK_N + tl.arange(0, BLOCK_N)
    tile = tl.program_id(1) // across
    k = tile * BLOCK_K + tl.arange(0, BLOCK_K)
    channel = k % CHANNELS
    column = (k // CHANNELS) % KERNEL_W
    row = k // (CHANNELS * KERNEL_W)
    first = tl.program_id(0) * part
    total = tl.zeros((BLOCK_N, BLOCK_K), dtype=tl.float32)
    for begin in range(0, part, BLOCK_M):
        m = first + begin + tl.arange(0, BLOCK_M)
        sample = m // (Y_HEIGHT * Y_WIDTH)
        place = m % (Y_HEIGHT * Y_WIDTH)
        top = (place // Y_WIDTH) * STRIDE_H - PADDING_H
        left = (place % Y_WIDTH) * STRIDE_W - PADDING_W
        v = top[:, None] + row[None, :] * DILATION_H
        h = left[:, None] + column[None, :] * DILATION_W
        there = (m < places)[:, None] & (k < depth)[None, :]
        if not inside:
            there = there & (v >= 0) & (h >= 0) & (v < HEIGHT) & (h < WIDTH)
        own = x + (model * samples + sample) * (HEIGHT * WIDTH * CHANNELS)
        patch = tl.load(own[:, None] + (v * WIDTH + h) * CHANNELS + channel[None, :], mask=there, other=0.0)
        push = tl.load(
            gradient + (model * places + m)[:, None] * OUTPUTS + o[None, :],
            mask=(m < places)[:, None] & (o < OUTPUTS)[None, :],
            other=0.0,
        )
        total = tl.dot(tl.trans(push), patch, total, input_precision=PRECISION)
    base = out + (tl.program_id(0) * models + model) * (OUTPUTS * depth) + o * depth
    tl.store(base[:, None] + k[None, :], total, mask=(o < OUTPUTS)[:, None] & (k < depth)[None, :])


@triton.jit(do_not_specialize=["count"])
def _pooled(
    x,
    y,
    where,
    count,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    CHANNELS: tl.constexpr,
    Y_HEIGHT: tl.constexpr,
    Y_WIDTH: tl.constexpr,
    KERNEL_H: tl.constexpr,
    KERNEL_W: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The largest value of each window, and which of the window it is: of equal ones the first, of NaN the last."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    channel = i % CHANNELS
    column = (i // CHANNELS) % Y_WIDTH
    row = (i // (CHANNELS * Y_WIDTH)) % Y_HEIGHT
    sample = i // (CHANNELS * Y_WIDTH * Y_HEIGHT)
    corner = x + ((sample * HEIGHT + row * KERNEL_H) * WIDTH + column * KERNEL_W) * CHANNELS + channel
    best = tl.load(corner, mask=i < count, other=0.0)
    at = tl.zeros((BLOCK,), dtype=tl.int32)
    for k in range(1, KERNEL_H * KERNEL_W):
        value = tl.load(
            corner + ((k // KERNEL_W) * WIDTH + k % KERNEL_W) * CHANNELS, mask=i < count, other=0.0
        )
        larger = (value > best) | (value != value)
        best = tl.where(larger, value, best)
        at = tl.where(larger, k, at)
    tl.store(y + i, best, mask=i < count)
    tl.store(where + i, at.to(where.dtype.element_ty), mask=i < count)


@triton.jit(do_not_specialize=["count"])
def _unpooled(
    gradient,
    where,
    x,
    count,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    CHANNELS: tl.constexpr,
    Y_HEIGHT: tl.constexpr,
    Y_WIDTH: tl.constexpr,
    KERNEL_H: tl.constexpr,
    KERNEL_W: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The gradient of a pool's inputs, from that of its outputs."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    channel = i % CHANNELS
    column = (i // CHANNELS) % WIDTH
    row = (i // (CHANNELS * WIDTH)) % HEIGHT
    sample = i // (CHANNELS * WIDTH * HEIGHT)
    pooled = (i < count) & (row < Y_HEIGHT * KERNEL_H) & (column < Y_WIDTH * KERNEL_W)
    j = ((sample * Y_HEIGHT + row // KERNEL_H) * Y_WIDTH + column // KERNEL_W) * CHANNELS + channel
    best = tl.load(where + j, mask=pooled, other=0).to(tl.int32)
    value = tl.load(gradient + j, mask=pooled, other=0.0)
    own = best == (row % KERNEL_H) * KERNEL_W + column % KERNEL_W
    tl.store(x + i, tl.where(own & pooled, value, 0.0), mask=i < count)


@triton.jit(do_not_specialize=["samples", "weights_stride", "bias_stride"])
def _normed(
    x,
    weights,
    bias,
    y,
    mean,
    rate,
    samples,
    weights_stride,
    bias_stride,
    epsilon,
    PLACES: tl.constexpr,
    CHANNELS: tl.constexpr,
    GROUPS: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """A sample's group of channels with mean 0 and variance 1, times weights plus bias; its mean and 1 / deviation."""
    sample = tl.program_id(0).to(tl.int64)
    group = tl.program_id(1)
    each: tl.constexpr = CHANNELS // GROUPS
    c = tl.arange(0, BLOCK_C)
    p = tl.arange(0, BLOCK_P)
    own = sample * (PLACES * CHANNELS) + group * each + p[:, None] * CHANNELS + c[None, :]
    total = tl.zeros((BLOCK_P, BLOCK_C), dtype=tl.float32)
    for begin in range(0, PLACES, BLOCK_P):
        there = (begin + p < PLACES)[:, None] & (c < each)[None, :]
        total += tl.load(x + own + begin * CHANNELS, mask=there, other=0.0).to(tl.float32)
    middle = tl.sum(tl.sum(total, axis=1), axis=0) / (PLACES * each)
    squares = tl.zeros((BLOCK_P, BLOCK_C), dtype=tl.float32)
    for begin in range(0, PLACES, BLOCK_P):
        there = (begin + p < PLACES)[:, None] & (c < each)[None, :]
        off = tl.load(x + own + begin * CHANNELS, mask=there, other=0.0).to(tl.float32) - middle
        squares += tl.where(there, off * off, 0.0)
    by = 1.0 / tl.sqrt(tl.sum(tl.sum(squares, axis=1), axis=0) / (PLACES * each) + epsilon)
    model = sample // samples
    channel = group * each + c
    weight = tl.load(weights + model * weights_stride + channel, mask=c < each, other=0.0).to(tl.float32)
    shift = tl.load(bias + model * bias_stride + channel, mask=c < each, other=0.0).to(tl.float32)
    for begin in range(0, PLACES, BLOCK_P):
        there = (begin + p < PLACES)[:, None] & (c < each)[None, :]
        off = tl.load(x + own + begin * CHANNELS, mask=there, other=0.0).to(tl.float32) - middle
        found = off * by * weight[None, :] + shift[None, :]
        tl.store(y + own + begin * CHANNELS, found.to(y.dtype.element_ty), mask=there)
    tl.store(mean + sample * GROUPS + group, middle)
    tl.store(rate + sample * GROUPS + group, by)


@triton.jit(do_not_specialize=["samples", "weights_stride"])
def _of_normed(
    gradient,
    x,
    mean,
    rate,
    weights,
    of_x,
    of_weights,
    of_bias,
    samples,
    weights_stride,
    PLACES: tl.constexpr,
    CHANNELS: tl.constexpr,
    GROUPS: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """The gradients of a sample's group of channels, and its share in those of weights and bias."""
    sample = tl.program_id(0).to(tl.int64)
    group = tl.program_id(1)
    each: tl.constexpr = CHANNELS // GROUPS
    c = tl.arange(0, BLOCK_C)
    p = tl.arange(0, BLOCK_P)
    own = sample * (PLACES * CHANNELS) + group * each + p[:, None] * CHANNELS + c[None, :]
    middle = tl.load(mean + sample * GROUPS + group)
    by = tl.load(rate + sample * GROUPS + group)
    pushes = tl.zeros((BLOCK_P, BLOCK_C), dtype=tl.float32)
    products = tl.zeros((BLOCK_P, BLOCK_C), dtype=tl.float32)
    for begin in range(0, PLACES, BLOCK_P):
        there = (begin + p < PLACES)[:, None] & (c < each)[None, :]
        push = tl.load(gradient + own + begin * CHANNELS, mask=there, other=0.0).to(tl.float32)
        off = tl.load(x + own + begin * CHANNELS, mask=there, other=0.0).to(tl.float32) - middle
        pushes += push
        products += push * off * by
    of_shift = tl.sum(pushes, axis=0)
    of_weight = tl.sum(products, axis=0)
    channel = group * each + c
    tl.store(of_weights + sample * CHANNELS + channel, of_weight, mask=c < each)
    tl.store(of_bias + sample * CHANNELS + channel, of_shift, mask=c < each)
    model = sample // samples
    weight = tl.load(weights + model * weights_stride + channel, mask=c < each, other=0.0).to(tl.float32)
    level = tl.sum(weight * of_shift, axis=0) / (PLACES * each)
    slope = tl.sum(weight * of_weight, axis=0) / (PLACES * each)
    for begin in range(0, PLACES, BLOCK_P):
        there = (begin + p < PLACES)[:, None] & (c < each)[None, :]
        push = tl.load(gradient + own + begin * CHANNELS, mask=there, other=0.0).to(tl.float32)
        off = (tl.load(x + own + begin * CHANNELS, mask=there, other=0.0).to(tl.float32) - middle) * by
        found = by * (push * weight[None, :] - level - off * slope)
        tl.store(of_x + own + begin * CHANNELS, found.to(of_x.dtype.element_ty), mask=there)


def outputs(x: torch.Tensor, weights: torch.Tensor, bias: torch.Tensor | None, shape: Shape) -> torch.Tensor:
    """Outputs [models, n, height, width, outputs] of x, all channels-last; bias: [models, outputs]."""
    models, samples, height, width, channels = x.shape
    _, count, kernel_h, kernel_w, _ = weights.shape
    y = x.new_empty((models, samples, *shape.outputs(height, width), count))
    by = (0, kernel_w * channels, channels, 1, kernel_h * kernel_w * channels)
    _launch(x, weights, bias, y, shape, (1, 1), by)
    return y


def input_gradient(
    gradient: torch.Tensor, weights: torch.Tensor, shape: Shape, height: int, width: int
) -> torch.Tensor:
    """The gradient of x, [models, n, height, width, channels], from that of the outputs, all channels-last.

    It is a convolution of the gradient of the outputs, spread out by the stride, with the kernel turned around.
    """
    models, samples = gradient.shape[:2]
    _, _, kernel_h, kernel_w, channels = weights.shape
    x = gradient.new_empty((models, samples, height, width, channels))
    last = (kernel_h * kernel_w - 1) * channels
    by = (last, -kernel_w * channels, -channels, kernel_h * kernel_w * channels, 1)
    around = [d * (k - 1) - p for k, p, d in zip(shape.kernel, shape.padding, shape.dilation, strict=True)]
    turned = Shape(shape.kernel, (1, 1), (around[0], around[1]), shape.dilation)
    _launch(gradient, weights, None, x, turned, shape.stride, by)
    return x


def weight_gradient(x: torch.Tensor, gradient: torch.Tensor, shape: Shape) -> torch.Tensor:
    """The gradient of the weights, float32 [models, outputs, kernel height, kernel width, channels], from that of the
    outputs.
    """
    models, samples, height, width, channels = x.shape
    out_h, out_w, count = gradient.shape[2:]
    places, depth = samples * out_h * out_w, shape.kernel[0] * shape.kernel[1] * channels
    tile = tile_of_sums(count, depth, channels)
    tiles = -(-count // tile.n) * -(-depth // tile.k)
    parts = max(1, min(-(-places // (8 * tile.m)), -(-PROGRAMS // (tiles * models))))
    part = -(-places // (parts * tile.m)) * tile.m
    parts = -(-places // part)
    found = torch.empty((parts, models, count, depth), device=x.device)
    _sums[(parts, tiles, models)](
        *(x, gradient, found, samples, models, part),
        *(height, width, channels, out_h, out_w, count),
        *(*shape.kernel, *shape.stride, *shape.padding, *shape.dilation),
        BLOCK_M=tile.m,
        BLOCK_N=tile.n,
        BLOCK_K=tile.k,
        PRECISION=PRECISION,
        num_warps=tile.warps,
        num_stages=tile.stages,
    )
    whole = found.sum(0) if parts > 1 else found[0]
    return whole.view(models, count, *shape.kernel, channels)


def pool(x: torch.Tensor, kernel: tuple[int, int]) -> tuple[torch.Tensor, torch.Tensor]:
    """The largest values of windows side by side, [samples, height // kernel, width // kernel, channels], and which of
    its window each is (int). x: [samples, height, width, channels].
    """
    samples, height, width, channels = x.shape
    y = x.new_empty((samples, height // kernel[0], width // kernel[1], channels))
    places = torch.uint8 if kernel[0] * kernel[1] <= 256 else torch.int32
    where = torch.empty(y.shape, dtype=places, device=x.device)
    sizes = (height, width, channels, *y.shape[1:3], *kernel)
    _pooled[(-(-y.numel() // POOLED),)](x, y, where, y.numel(), *sizes, BLOCK=POOLED)
    return y, where


def pool_gradient(
    gradient: torch.Tensor, where: torch.Tensor, kernel: tuple[int, int], height: int, width: int
) -> torch.Tensor:
    """The gradient of a pool's x, [samples, height, width, channels], from that of its outputs and from where they were
    found.
    """
    samples, out_h, out_w, channels = gradient.shape
    x = gradient.new_empty((samples, height, width, channels))
    sizes = (height, width, channels, out_h, out_w, *kernel)
    _unpooled[(-(-x.numel() // POOLED),)](gradient, where, x, x.numel(), *sizes, BLOCK=POOLED)
    return x


def normed(
    x: torch.Tensor, weights: torch.Tensor, bias: torch.Tensor, groups: int, epsilon: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Group normalisation of x, [models, n, places, channels], by weights and bias, [models, channels]; and means and 1
    / deviations, float32 [models, n, groups].
    """
    models, samples, places, channels = x.shape
    y = torch.empty_like(x)
    mean, rate = (torch.empty((models, samples, groups), device=x.device) for _ in range(2))
    _normed[(models * samples, groups)](
        *(x, weights, bias, y, mean, rate, samples, weights.stride(0), bias.stride(0), epsilon),
        *(places, channels, groups, *_block_of_group(places, channels // groups)),
    )
    return y, mean, rate


def norm_gradient(
    gradient: torch.Tensor,
    x: torch.Tensor,
    mean: torch.Tensor,
    rate: torch.Tensor,
    weights: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The gradients of x, [models, n, places, channels], weights and bias, float32 [models, channels]."""
    models, samples, places, channels = x.shape
    groups = mean.shape[2]
    of_x = torch.empty_like(x)
    shares = torch.empty((2, models, samples, channels), device=x.device)
    _of_normed[(models * samples, groups)](
        *(gradient, x, mean, rate, weights, of_x, shares[0], shares[1], samples, weights.stride(0)),
        *(places, channels, groups, *_block_of_group(places, channels // groups)),
    )
    of_weights, of_bias = shares.sum(2)
    return of_x, of_weights, of_bias


def _block_of_group(places: int, channels: int) -> tuple[int, int]:
    across = _power(channels)
    return min(_power(places), max(1, NORMED // across)), across


def _launch(
    x: torch.Tensor,
    weights: torch.Tensor,
    bias: torch.Tensor | None,
    y: torch.Tensor,
    shape: Shape,
    apart: tuple[int, int],
    by: tuple[int, int, int, int, int],
) -> None:
    models, samples, height, width, channels = x.shape
    out_h, out_w, count = y.shape[2:]
    lines, line = (
        _lines(shape, channels) if apart == (1, 1) else (1, shape.kernel[0] * shape.kernel[1] * channels)
    )
    tile = tile_of_products(count, line, channels)
    _products[(-(-samples * out_h * out_w // tile.m), -(-count // tile.n), models)](
        *(x, weights, y if bias is None else bias, y, samples),
        *(0 if bias is None else bias.stride(0), weights[0].numel()),
        *(height, width, channels, out_h, out_w, count),
        *(*shape.kernel, *shape.stride, *shape.padding, *shape.dilation, *apart, *by),
        BIASED=bias is not None,
        LINES=lines,
        LINE=line,
        BLOCK_M=tile.m,
        BLOCK_N=tile.n,
        BLOCK_K=tile.k,
        PRECISION=PRECISION,
        num_warps=tile.warps,
        num_stages=tile.stages,
    )


def _lines(shape: Shape, channels: int) -> tuple[int, int]:
    """Into how many lines of how many entries a patch is divided."""
    line = shape.kernel[1] * channels
    if shape.kernel[0] > 1 and shape.dilation[1] == 1 and line >= LEAST_LINE:
        return shape.kernel[0], line
    return 1, shape.kernel[0] * line


# What was fastest on an H100, of some ten each, for the convolutions of our networks.


def tile_of_products(outputs: int, line: int, channels: int) -> Tile:
    """Of products for so many outputs of a place, over lines of so many entries."""
    n = _block(outputs, 64)
    if channels % 4:  # read one or two at a time
        return Tile(64 if line > 32 else 128, n, 16 if line <= 16 else 32, 4, 1)
    return Tile(128, n, 16, 4, 1) if n == 16 else Tile(128, n, 32, 4, 3)


def tile_of_sums(outputs: int, depth: int, channels: int) -> Tile:
    """Of sums over places, for so many outputs and entries of a patch.

    One step at a time: with several under way Triton 3.6 gave wrong sums for some shapes (5x5 weights of 3 channels).
    """
    n = _block(outputs, 64)
    if n == 16:
        return Tile(64, n, _block(depth, 32), 4, 1)
    return Tile(32, n, 64 if n == 32 and channels % 2 == 0 else 32, 4, 1)


def _block(size: int, most: int) -> int:
    """The power of two, at least 16, that a tile has in this direction."""
    return min(most, max(16, _power(size)))


def _power(size: int) -> int:
    """The least power of two that is not below."""
    return 1 << (size - 1).bit_length()
