"""Kernels of 2-D convolutions by Winograd's algorithm: fewer multiplications than the sum itself asks for.

Of an image's pixels, tiles of 6 x 6 that overlap become 36 values at as many points, the weights likewise; these are
multiplied point by point and summed over channels, which is 36 products of matrices; the sums become m x m pixels. A
convolution with 3 x 3 weights takes a fourth of the multiplications (m = 4), one with 5 x 5 a third (m = 2). The
gradient of the weights is found the same way backwards. A. Lavin and S. Gray, Fast Algorithms for Convolutional Neural
Networks, CVPR 2016; S. Winograd, Arithmetic Complexity of Computations, 1980.

The points are 0, infinity, and r, -r, 2r and -2r with r = sqrt(1/2), whose squares and the products of them are
exact: rounding errors are then twice those of the plain sum, where those of 0, 1, -1, 2 and -2 are ten times them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.polynomial import polynomial
from typing_extensions import override

from fedroam.learning.cpu.kernels.convolution import Images, Weights
from fedroam.learning.cpu.kernels.ir import KernelBuilder, Value, parts
from fedroam.learning.cpu.kernels.target import KernelSpec, Target

SIDE = 6  # pixels of a tile
POINTS = SIDE * SIDE
ROOT = math.sqrt(0.5)
FINITE = (0.0, ROOT, -ROOT, 2 * ROOT, -2 * ROOT)
NEAR = 40 << 10  # bytes for each lane: values at the points of some tiles, which should stay near the core
APART = (
    16  # values between those at one point and at the next: else all would want the same places of a cache
)
EVERY = 16  # channels are multiples of this: the vectors of all machines

Matrix = tuple[tuple[float, ...], ...]
Grid = list[list[Value]]


@dataclass(frozen=True)
class Transforms:
    """What makes values at the points of a row of pixels (6 x 6), of weights (6 x r), and of a gradient (6 x m).

    Correlating 6 pixels x with weights w gives y = to_y^T ((of_w w) * (of_x x)).
    """

    of_x: Matrix
    of_w: Matrix
    of_y: Matrix


def transforms(weights: int) -> Transforms:
    """Those for so many weights in a row (Toom and Cook's, as Winograd has them)."""
    of_x, of_w, of_y = [], [], []
    for n, at in enumerate(FINITE):
        others = [point for k, point in enumerate(FINITE) if k != n]
        share = math.prod(at - other for other in others)
        of_x.append((*polynomial.polyfromroots(others), 0.0))
        of_w.append(tuple(at**j / share for j in range(weights)))
        of_y.append(tuple(at**j for j in range(SIDE - weights + 1)))
    of_x.append(tuple(polynomial.polyfromroots(FINITE)))
    for found, width in ((of_w, weights), (of_y, SIDE - weights + 1)):
        found.append((*[0.0] * (width - 1), 1.0))
    return Transforms(*(_rounded(matrix) for matrix in (of_x, of_w, of_y)))


def _rounded(matrix: Sequence[Sequence[float]]) -> Matrix:
    """Without the last bits that roots leave where a whole number, or a half, is meant."""
    return tuple(tuple(float(np.round(value, 14)) + 0.0 for value in row) for row in matrix)


def _sum(k: KernelBuilder, factors: Sequence[float], vectors: Sequence[Value]) -> Value:
    """The sum of factors times vectors; None of nothing."""
    terms = [(factor, vector) for factor, vector in zip(factors, vectors, strict=True) if factor]
    terms.sort(key=lambda term: term[0] != 1.0)
    total = None
    for factor, vector in terms:
        if total is None:
            total = vector if factor == 1.0 else k.b.fmul(k.constant(factor), vector)
        elif factor == 1.0:
            total = k.b.fadd(total, vector)
        else:
            total = k.fma(k.constant(factor), vector, total)
    return total


def _at_points(k: KernelBuilder, matrix: Matrix, values: Sequence[Value]) -> list[Value]:
    """The matrix times the values. Of a point and its negative even powers are the same, odd ones have another sign."""
    found: list[Value] = [_sum(k, matrix[0], values)]
    for row in (matrix[1], matrix[3]):
        even = _sum(k, row[::2], values[::2])
        factor = next(value for value in row[1::2] if value)
        odd = _sum(k, [value / factor for value in row[1::2]], values[1::2])
        found += [k.fma(k.constant(sign * factor), odd, even) for sign in (1, -1)]
    return [*found, _sum(k, matrix[5], values)]


def _of_points(k: KernelBuilder, matrix: Matrix, values: Sequence[Value]) -> list[Value]:
    """The transposed matrix times values at the points, of a point and its negative first put together."""
    pairs = {
        sign: [both(values[n], values[n + 1]) for n in (1, 3)]
        for sign, both in ((1, k.b.fadd), (-1, k.b.fsub))
    }
    found = []
    for j in range(len(matrix[0])):
        some = [values[0], *pairs[1 if j % 2 == 0 else -1], values[5]]
        found.append(_sum(k, [matrix[0][j], matrix[1][j], matrix[3][j], matrix[5][j]], some))
    return found


def _both_ways(one: Callable[[list[Value]], list[Value]], grid: Grid) -> Grid:
    """What `one` makes of the columns of a grid, and then of the rows."""
    columns = [one([row[j] for row in grid]) for j in range(len(grid[0]))]
    return [one([column[j] for column in columns]) for j in range(len(columns[0]))]


def suits(x: Images, y: Images, weights: Weights) -> bool:
    """Whether a convolution, and the gradient of its weights, can be found this way, and fast."""
    if weights.height != weights.width or weights.width not in (3, 5):
        return False
    step, many = SIDE - weights.width + 1, y.channels % EVERY == 0 and x.channels % EVERY == 0
    return (
        many and y.height % step == 0 and y.width % step == 0 and y.width > step and 1 in weights.strides[:2]
    )


def across(y: Images, weights: Weights) -> int:
    """Tiles of y that lie side by side."""
    return y.width // (SIDE - weights.width + 1)


@dataclass(frozen=True)
class Tiles:
    """The tiles of an image y, each `step` x `step` pixels, in memory by points: `at_once` values of each channel."""

    y: Images
    step: int
    at_once: int

    @property
    def across(self) -> int:
        """Tiles side by side."""
        return self.y.width // self.step

    @property
    def count(self) -> int:
        """Tiles of a channel."""
        return self.across * (self.y.height // self.step)

    def apart(self, channels: int) -> int:
        """Values from a point to the next."""
        return channels * self.at_once + APART

    def place(self, k: KernelBuilder, value: Value, samples: Value) -> tuple[Value, Value, Value]:
        """The first row and column of a tile, in y, and the sample, of the n-th value."""
        tile, sample = k.b.sdiv(value, samples), k.b.srem(value, samples)
        across = k.number(self.across)
        row, column = k.b.sdiv(tile, across), k.b.srem(tile, across)
        return k.times(row, self.step), k.times(column, self.step), sample


def _tiles(x: Images, y: Images, weights: Weights, target: Target) -> Tiles:
    # A machine with wider vectors has a larger cache beside the core, too.
    fitting = NEAR * max(target.lanes, 8) // (4 * POINTS * (x.channels + y.channels))
    return Tiles(y, SIDE - weights.width + 1, max(EVERY, min(fitting // EVERY * EVERY, 4 * EVERY)))


def _sums(target: Target, values: int) -> tuple[int, int]:
    """Of a product of matrices with so many values in a row: how many of the rows, and vectors of each, at a time."""
    vectors = min(target.vectors, values // target.lanes)
    return target.channels * target.vectors // vectors, vectors


class _Scratch:
    """Places in memory, one after the other, for a kernel to work in."""

    def __init__(self) -> None:
        self.values = 0

    def take(self, values: int) -> int:
        """Where so many values begin, at the begin of a line of a cache."""
        begin = self.values
        self.values += -(-values // APART) * APART
        return begin


@dataclass(frozen=True)
class WinogradConvolution(KernelSpec):
    """As `ConvolutionKernel`: y[o] = bias[o] + sum over i of w[o, i] correlated with x[i].

    Kernel: (address of x, of w, of the bias, of y, of `scratch` values to work in; samples).
    lanes: samples at a time, of which the number of samples must be a multiple. The samples times the tiles side by
    side must be one of the machine's lanes.
    """

    x: Images
    y: Images
    weights: Weights
    above: int
    bias: bool
    lanes: int

    def _memory(self, target: Target) -> tuple[int, int, int, int]:
        """Where values of the weights, of x and of y at the points begin, and where all ends."""
        scratch, tiles = _Scratch(), _tiles(self.x, self.y, self.weights, target)
        scratch.take(APART)
        of_w = scratch.take(POINTS * (self.x.channels * self.y.channels + APART))
        of_x = scratch.take(POINTS * tiles.apart(self.x.channels))
        of_y = scratch.take(POINTS * tiles.apart(self.y.channels))
        return of_w, of_x, of_y, scratch.values

    def scratch(self, samples: int, target: Target) -> int:
        """Values (float32) that the kernel needs to work in."""
        return self._memory(target)[-1]

    @override
    def write(self, module: Any, target: Target) -> int:
        k, x, y = KernelBuilder(module, target.lanes, 5, 1), self.x, self.y
        at_x, at_w, at_bias, at_y, scratch, samples = k.arguments
        tiles, use = _tiles(x, y, self.weights, target), transforms(self.weights.width)
        of_w, of_x, of_y, _ = (k.at(scratch, begin) for begin in self._memory(target))
        some = k.of_lanes(min(self.lanes, target.lanes))
        _clear(k, scratch, APART)
        per_out, per_in = _of_weights(k, x, y, self.weights, use, at_w, of_w)
        values = k.times(tiles.count, samples)
        x_apart, y_apart = tiles.apart(x.channels), tiles.apart(y.channels)
        outputs, most = _sums(target, tiles.at_once)

        def of_block(first: Value, _: list[Value]) -> None:
            n = k.smaller(tiles.at_once, k.b.sub(values, first))

            def into(v: Value, _: list[Value]) -> None:
                row, column, sample = tiles.place(some, some.sum(first, v), samples)
                begin = k.sum(k.times(column, samples), sample)
                rows = _rows(k, x, at_x, scratch, row, self.above, begin, samples)

                def of_channel(i: Value, _: list[Value]) -> None:
                    grid = [
                        [some.load(k.at(line, k.times(i, down), k.times(j, right))) for j in range(SIDE)]
                        for line, down, right in rows
                    ]
                    found = _both_ways(lambda some_values: _at_points(some, use.of_x, some_values), grid)
                    _store(some, found, k.at(of_x, k.times(i, tiles.at_once), v), x_apart)

                k.loop(0, x.channels, 1, [], of_channel)

            k.loop(0, n, some.lanes, [], into)

            def of_point(p: Value, _: list[Value]) -> None:
                seen, made = k.at(of_x, k.times(p, x_apart)), k.at(of_y, k.times(p, y_apart))
                w = k.at(of_w, k.times(p, x.channels * y.channels + APART))

                def block(vectors: int) -> Any:
                    def of_vectors(v: Value, _: list[Value]) -> None:
                        for begin, size, groups in parts(y.channels, outputs):
                            k.loop(0, groups, 1, [], of_outputs(v, vectors, begin, size))

                    return of_vectors

                def of_outputs(v: Value, vectors: int, begin: int, size: int) -> Any:
                    def of_group(group: Value, _: list[Value]) -> None:
                        out = k.sum(begin, k.times(group, size))

                        def of_input(i: Value, sums: list[Value]) -> list[Value]:
                            here = k.at(seen, k.times(i, tiles.at_once), v)
                            read = [k.load(k.at(here, n * k.lanes)) for n in range(vectors)]
                            weight = k.at(w, k.times(out, per_out), k.times(i, per_in))
                            for j in range(size):
                                factor = k.load_spread(k.at(weight, j * per_out))
                                for n in range(vectors):
                                    sums[j * vectors + n] = k.fma(factor, read[n], sums[j * vectors + n])
                            return sums

                        nothing = [k.constant(0.0)] * (size * vectors)
                        sums = k.loop(0, x.channels, 1, nothing, of_input)
                        for j in range(size):
                            there = k.at(made, k.times(k.sum(out, j), tiles.at_once), v)
                            for n in range(vectors):
                                k.store(sums[j * vectors + n], k.at(there, n * k.lanes))

                    return of_group

                wide = most * k.lanes
                many = k.b.sub(n, k.b.srem(n, k.number(wide)))
                k.loop(0, many, wide, [], block(most))
                k.loop(many, n, k.lanes, [], block(1))

            k.loop(0, POINTS, 1, [], of_point)

            def out_of(v: Value, _: list[Value]) -> None:
                row, column, sample = tiles.place(some, some.sum(first, v), samples)

                def of_channel(o: Value, _: list[Value]) -> None:
                    grid = _load(some, k.at(of_y, k.times(o, tiles.at_once), v), y_apart)
                    found = _both_ways(lambda some_values: _of_points(some, use.of_y, some_values), grid)
                    added = some.load_spread(k.at(at_bias, o)) if self.bias else None
                    pixels = _pixels(k, y, at_y, o, row, column, sample, samples, tiles.step)
                    for line, places in zip(found, pixels, strict=True):
                        for value, place in zip(line, places, strict=True):
                            some.store(value if added is None else k.b.fadd(value, added), place)

                k.loop(0, y.channels, 1, [], of_channel)

            k.loop(0, n, some.lanes, [], out_of)

        k.loop(0, values, tiles.at_once, [], of_block)
        return k.end()


@dataclass(frozen=True)
class WinogradWeightGradient(KernelSpec):
    """As `WeightGradient`: dw[o, i] += sum over samples and pixels of dy[o] times x[i].

    Kernel: (address of x, of dy, of dw, of `scratch` values to work in; samples). The inputs'
    weights must lie side by side. lanes: samples at a time, of which the number of samples must be a multiple.
    """

    x: Images
    y: Images
    weights: Weights
    above: int
    lanes: int

    def _memory(self, target: Target) -> tuple[int, int, int, int]:
        """Where values of dw, of dy and of x at the points begin, and where x with its channels side by side."""
        scratch, tiles = _Scratch(), _tiles(self.x, self.y, self.weights, target)
        scratch.take(self.x.channels)
        of_w = scratch.take(POINTS * (self.x.channels * self.y.channels + APART))
        of_y = scratch.take(POINTS * tiles.apart(self.y.channels))
        of_x = scratch.take(POINTS * tiles.apart(self.x.channels))
        return of_w, of_y, of_x, scratch.values

    def scratch(self, samples: int, target: Target) -> int:
        """Values (float32) that the kernel needs to work in."""
        return self._memory(target)[-1] + self.x.pixels * samples

    @override
    def write(self, module: Any, target: Target) -> int:
        k, x, y = KernelBuilder(module, target.lanes, 4, 1), self.x, self.y
        at_x, at_y, at_w, scratch, samples = k.arguments
        tiles, use = _tiles(x, y, self.weights, target), transforms(self.weights.width)
        of_w, of_y, of_x, turned = (k.at(scratch, begin) for begin in self._memory(target))
        some = k.of_lanes(min(self.lanes, target.lanes))
        values, y_apart, x_apart = (
            k.times(tiles.count, samples),
            tiles.apart(y.channels),
            tiles.apart(x.channels),
        )
        w_apart = x.channels * y.channels + APART
        outputs, most = _sums(target, x.channels)
        _turn(some, x, at_x, turned, samples)
        _clear(k, scratch, x.channels)
        _clear(k, of_w, POINTS * w_apart)

        def of_block(first: Value, _: list[Value]) -> None:
            n = k.smaller(tiles.at_once, k.b.sub(values, first))

            def of_pixels(v: Value, _: list[Value]) -> None:
                row, column, sample = tiles.place(k, k.sum(first, v), samples)
                # Channels lie side by side, so that a sample is a column to itself.
                begin = k.times(k.sum(k.times(column, samples), sample), x.channels)
                flat = Images(1, x.height, x.width, x.border)
                step = k.times(samples, x.channels)
                rows = _rows(k, flat, turned, scratch, row, self.above, begin, step)

                def of_channels(i: Value, _: list[Value]) -> None:
                    grid = [
                        [k.load(k.at(line, i, k.times(j, right))) for j in range(SIDE)]
                        for line, _, right in rows
                    ]
                    found = _both_ways(lambda some_values: _at_points(k, use.of_x, some_values), grid)
                    _store(k, found, k.at(of_x, k.times(v, x.channels), i), x_apart)

                k.loop(0, x.channels, k.lanes, [], of_channels)

            k.loop(0, n, 1, [], of_pixels)

            def of_slopes(v: Value, _: list[Value]) -> None:
                row, column, sample = tiles.place(k, k.sum(first, v), samples)

                def of_channel(o: Value, _: list[Value]) -> None:
                    pixels = _pixels(k, y, at_y, o, row, column, sample, samples, tiles.step)
                    grid = [[some.load(place) for place in places] for places in pixels]
                    found = _both_ways(lambda some_values: _at_points(some, use.of_y, some_values), grid)
                    _store(some, found, k.at(of_y, k.times(o, tiles.at_once), v), y_apart)

                k.loop(0, y.channels, 1, [], of_channel)

            k.loop(0, n, some.lanes, [], of_slopes)

            def of_point(p: Value, _: list[Value]) -> None:
                seen, slopes = k.at(of_x, k.times(p, x_apart)), k.at(of_y, k.times(p, y_apart))
                w = k.at(of_w, k.times(p, w_apart))

                def of_inputs(vectors: int) -> Any:
                    def block(i: Value, _: list[Value]) -> None:
                        for begin, size, groups in parts(y.channels, outputs):
                            k.loop(0, groups, 1, [], of_outputs(i, vectors, begin, size))

                    return block

                def of_outputs(i: Value, vectors: int, begin: int, size: int) -> Any:
                    def of_group(group: Value, _: list[Value]) -> None:
                        out = k.sum(begin, k.times(group, size))
                        places = [
                            k.at(w, k.times(k.sum(out, j), x.channels), i, n * k.lanes)
                            for j in range(size)
                            for n in range(vectors)
                        ]

                        def of_value(v: Value, sums: list[Value]) -> list[Value]:
                            here = k.at(seen, k.times(v, x.channels), i)
                            read = [k.load(k.at(here, n * k.lanes)) for n in range(vectors)]
                            for j in range(size):
                                slope = k.load_spread(k.at(slopes, k.times(k.sum(out, j), tiles.at_once), v))
                                for n in range(vectors):
                                    sums[j * vectors + n] = k.fma(slope, read[n], sums[j * vectors + n])
                            return sums

                        # Sums of sums: a single long one would lose more bits.
                        sums = k.loop(0, n, 1, [k.constant(0.0)] * len(places), of_value)
                        for place, total in zip(places, sums, strict=True):
                            k.store(k.b.fadd(k.load(place), total), place)

                    return of_group

                wide = most * k.lanes
                many = x.channels // wide * wide
                k.loop(0, many, wide, [], of_inputs(most))
                k.loop(many, x.channels, k.lanes, [], of_inputs(1))

            k.loop(0, POINTS, 1, [], of_point)

        k.loop(0, values, tiles.at_once, [], of_block)
        self._add(k, use, of_w, at_w)
        return k.end()

    def _add(self, k: KernelBuilder, use: Transforms, of_w: Value, at_w: Value) -> None:
        """Add to dw what its values at the points are of."""
        x, y, weights = self.x, self.y, self.weights

        def of_output(o: Value, _: list[Value]) -> None:
            def of_inputs(i: Value, _: list[Value]) -> None:
                grid = _load(k, k.at(of_w, k.times(o, x.channels), i), x.channels * y.channels + APART)
                found = _both_ways(lambda values: _of_points(k, use.of_w, values), grid)
                for line, places in zip(found, _weight_places(k, weights, at_w, o, i), strict=True):
                    for value, place in zip(line, places, strict=True):
                        k.store(k.b.fadd(k.load(place), value), place)

            k.loop(0, x.channels, k.lanes, [], of_inputs)

        k.loop(0, y.channels, 1, [], of_output)


def _of_weights(
    k: KernelBuilder, x: Images, y: Images, weights: Weights, use: Transforms, at_w: Value, of_w: Value
) -> tuple[int, int]:
    """Write the weights' values at the points; how far those of the next output lie, and of the next input."""
    inputs_together = weights.strides[1] == 1
    per_out, per_in = (x.channels, 1) if inputs_together else (1, y.channels)
    out_step, in_step = (1, k.lanes) if inputs_together else (k.lanes, 1)

    def of_output(o: Value, _: list[Value]) -> None:
        def of_input(i: Value, _: list[Value]) -> None:
            grid = [[k.load(place) for place in places] for places in _weight_places(k, weights, at_w, o, i)]
            found = _both_ways(lambda values: _at_points(k, use.of_w, values), grid)
            there = k.at(of_w, k.times(o, per_out), k.times(i, per_in))
            _store(k, found, there, x.channels * y.channels + APART)

        k.loop(0, x.channels, in_step, [], of_input)

    k.loop(0, y.channels, out_step, [], of_output)
    return per_out, per_in


def _weight_places(k: KernelBuilder, weights: Weights, at_w: Value, o: Value, i: Value) -> Grid:
    """Where the weights of an output and an input lie."""
    per_out, per_in, per_row, per_column = weights.strides
    first = k.at(at_w, k.times(o, per_out), k.times(i, per_in))
    return [
        [k.at(first, weights.first + row * per_row + column * per_column) for column in range(weights.width)]
        for row in range(weights.height)
    ]


def _rows(
    k: KernelBuilder,
    x: Images,
    at_x: Value,
    zeros: Value,
    row: Value,
    above: int,
    begin: Value,
    column: Value,
) -> list[tuple[Value, Value, Value]]:
    """Where the rows of a tile lie, and how far it is from a channel to the next and from a pixel to the next.

    begin: of the tile's first pixel in a row. A row outside of x is `zeros`, over and over.
    """
    found = []
    for n in range(SIDE):
        line = k.sum(row, n - above)
        inside = k.b.icmp_unsigned("<", line, k.number(x.height))  # a negative number is a large one
        there = k.at(at_x, k.times(k.times(line, x.row), column), begin)
        nothing = k.number(0)
        found.append(
            (
                k.b.select(inside, there, zeros),
                k.b.select(inside, k.times(x.plane, column), nothing),
                k.b.select(inside, column, nothing),
            )
        )
    return found


def _pixels(
    k: KernelBuilder,
    y: Images,
    at_y: Value,
    channel: Value,
    row: Value,
    column: Value,
    sample: Value,
    samples: Value,
    step: int,
) -> Grid:
    """Where the pixels of a tile's y lie."""
    found = []
    for down in range(step):
        line = k.sum(k.times(channel, y.height), row, down)
        first = k.sum(k.times(line, y.row), y.border, column)
        found.append([k.at(at_y, k.times(k.sum(first, j), samples), sample) for j in range(step)])
    return found


def _clear(k: KernelBuilder, first: Value, values: int) -> None:
    """Put zeros there, a multiple of the lanes."""
    k.loop(0, values, k.lanes, [], lambda n, _: k.store(k.constant(0.0), k.at(first, n)))


def _store(k: KernelBuilder, grid: Grid, first: Value, apart: int) -> None:
    for p, value in enumerate(value for row in grid for value in row):
        k.store(value, k.at(first, p * apart))


def _load(k: KernelBuilder, first: Value, apart: int) -> Grid:
    return [[k.load(k.at(first, (row * SIDE + j) * apart)) for j in range(SIDE)] for row in range(SIDE)]


def _turn(some: KernelBuilder, x: Images, at_x: Value, turned: Value, samples: Value) -> None:
    """Write x as [height, row, samples, channels]."""
    k, plane = some, x.plane

    def of_pixel(pixel: Value, _: list[Value]) -> None:
        def of_samples(s: Value, _: list[Value]) -> None:
            def of_channels(i: Value, _: list[Value]) -> None:
                here = k.at(at_x, k.times(k.sum(k.times(i, plane), pixel), samples), s)
                seen = [k.load(k.at(here, k.times(j * plane, samples))) for j in range(k.lanes)]
                for j, vector in enumerate(k.transposed(seen)):
                    place = k.times(k.sum(k.times(pixel, samples), s, j), x.channels)
                    k.store(vector, k.at(turned, place, i))

            k.loop(0, x.channels, k.lanes, [], of_channels)

        k.loop(0, samples, k.lanes, [], of_samples)

    k.loop(0, plane, 1, [], of_pixel)
