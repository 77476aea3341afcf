"""Winograd's convolutions (`tiles`) of images whose samples lie side by side in memory, as `convolution` has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from fedroam.learning.cpu.kernels.convolution import Images, Weights
from fedroam.learning.cpu.kernels.ir import KernelBuilder, Value
from fedroam.learning.cpu.kernels.target import KernelSpec, Target
from fedroam.learning.cpu.kernels.tiles import (
    APART,
    EVERY,
    POINTS,
    SIDE,
    Grid,
    Product,
    Scratch,
    Transforms,
    at_points,
    both_ways,
    clear,
    load_points,
    of_points,
    store_points,
    sums_at_once,
    transforms,
    weight_places,
)

NEAR = 40 << 10  # bytes for each lane: values at the points of some tiles, which should stay near the core


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
        scratch, tiles = Scratch(), _tiles(self.x, self.y, self.weights, target)
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
        clear(k, scratch, APART)
        per_out, per_in = _of_weights(k, x, y, self.weights, use, at_w, of_w)
        values = k.times(tiles.count, samples)
        x_apart, y_apart = tiles.apart(x.channels), tiles.apart(y.channels)
        outputs, most = sums_at_once(target, tiles.at_once)

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
                    found = both_ways(lambda some_values: at_points(some, use.of_x, some_values), grid)
                    store_points(some, found, k.at(of_x, k.times(i, tiles.at_once), v), x_apart)

                k.loop(0, x.channels, 1, [], of_channel)

            k.loop(0, n, some.lanes, [], into)

            def of_point(p: Value, _: list[Value]) -> None:
                seen, made = k.at(of_x, k.times(p, x_apart)), k.at(of_y, k.times(p, y_apart))
                w = k.at(of_w, k.times(p, x.channels * y.channels + APART))

                product = Product(
                    w, per_out, per_in, seen, tiles.at_once, made, tiles.at_once, terms=x.channels
                )
                product.whole(k, y.channels, outputs, n, most)

            k.loop(0, POINTS, 1, [], of_point)

            def out_of(v: Value, _: list[Value]) -> None:
                row, column, sample = tiles.place(some, some.sum(first, v), samples)

                def of_channel(o: Value, _: list[Value]) -> None:
                    grid = load_points(some, k.at(of_y, k.times(o, tiles.at_once), v), y_apart)
                    found = both_ways(lambda some_values: of_points(some, use.of_y, some_values), grid)
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
        scratch, tiles = Scratch(), _tiles(self.x, self.y, self.weights, target)
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
        outputs, most = sums_at_once(target, x.channels)
        _turn(some, x, at_x, turned, samples)
        clear(k, scratch, x.channels)
        clear(k, of_w, POINTS * w_apart)

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
                    found = both_ways(lambda some_values: at_points(k, use.of_x, some_values), grid)
                    store_points(k, found, k.at(of_x, k.times(v, x.channels), i), x_apart)

                k.loop(0, x.channels, k.lanes, [], of_channels)

            k.loop(0, n, 1, [], of_pixels)

            def of_slopes(v: Value, _: list[Value]) -> None:
                row, column, sample = tiles.place(k, k.sum(first, v), samples)

                def of_channel(o: Value, _: list[Value]) -> None:
                    pixels = _pixels(k, y, at_y, o, row, column, sample, samples, tiles.step)
                    grid = [[some.load(place) for place in places] for places in pixels]
                    found = both_ways(lambda some_values: at_points(some, use.of_y, some_values), grid)
                    store_points(some, found, k.at(of_y, k.times(o, tiles.at_once), v), y_apart)

                k.loop(0, y.channels, 1, [], of_channel)

            k.loop(0, n, some.lanes, [], of_slopes)

            def of_point(p: Value, _: list[Value]) -> None:
                seen, slopes = k.at(of_x, k.times(p, x_apart)), k.at(of_y, k.times(p, y_apart))
                w = k.at(of_w, k.times(p, w_apart))

                product = Product(
                    slopes, tiles.at_once, 1, seen, x.channels, w, x.channels, terms=n, added=True
                )
                product.whole(k, y.channels, outputs, x.channels, most)

            k.loop(0, POINTS, 1, [], of_point)

        k.loop(0, values, tiles.at_once, [], of_block)
        self._add(k, use, of_w, at_w)
        return k.end()

    def _add(self, k: KernelBuilder, use: Transforms, of_w: Value, at_w: Value) -> None:
        """Add to dw what its values at the points are of."""
        x, y, weights = self.x, self.y, self.weights

        def of_output(o: Value, _: list[Value]) -> None:
            def of_inputs(i: Value, _: list[Value]) -> None:
                grid = load_points(k, k.at(of_w, k.times(o, x.channels), i), x.channels * y.channels + APART)
                found = both_ways(lambda values: of_points(k, use.of_w, values), grid)
                for line, places in zip(found, weight_places(k, weights, at_w, o, i), strict=True):
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
            grid = [[k.load(place) for place in places] for places in weight_places(k, weights, at_w, o, i)]
            found = both_ways(lambda values: at_points(k, use.of_w, values), grid)
            there = k.at(of_w, k.times(o, per_out), k.times(i, per_in))
            store_points(k, found, there, x.channels * y.channels + APART)

        k.loop(0, x.channels, in_step, [], of_input)

    k.loop(0, y.channels, out_step, [], of_output)
    return per_out, per_in


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
