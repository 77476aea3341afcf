"""Convolutions by tiles (`transforms`) of images whose samples lie side by side, as `convolution` has them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from typing_extensions import override

from fedroam.learning.cpu.kernels.convolution import Images, Weights
from fedroam.learning.cpu.kernels.ir import Body, KernelBuilder, Value
from fedroam.learning.cpu.kernels.target import KernelSpec, Target
from fedroam.learning.cpu.kernels.tiled.transforms import (
    APART,
    EVERY,
    POINTS,
    SIDE,
    Grid,
    Product,
    Scratch,
    Transforms,
    across,
    add_to_weights,
    at_points,
    both_ways,
    clear,
    load_points,
    of_points,
    pays,
    step,
    store_points,
    sums_at_once,
    transforms,
    weight_places,
)

NEAR = 40 << 10  # bytes for each lane: values at the points of some tiles, which should stay near the core


def suits(x: Images, y: Images, weights: Weights) -> bool:
    """Whether a convolution, and the gradient of its weights, are computed by tiles: there are two side by side."""
    fast = pays(x.channels, y.channels, y.height, y.width, weights)
    return fast and across(y.width, weights) > 1


@dataclass(frozen=True)
class Tiles:
    """The tiles of an image y, each `step` x `step` pixels, in memory by points: `at_once` values of each channel.

    The last tile of a row, or of a column, may reach beyond y.
    """

    x: Images
    y: Images
    weights: Weights
    at_once: int

    @property
    def step(self) -> int:
        """Pixels of y, down and across."""
        return step(self.weights)

    @property
    def across(self) -> int:
        """Tiles side by side."""
        return across(self.y.width, self.weights)

    @property
    def count(self) -> int:
        """Tiles of a channel."""
        return self.across * across(self.y.height, self.weights)

    def apart(self, channels: int) -> int:
        """Values from a point to the next."""
        return channels * self.at_once + APART

    def place(self, k: KernelBuilder, value: Value, samples: Value) -> tuple[Value, Value, Value]:
        """The first row and column of a tile, in y, and the sample, of the n-th value."""
        tile, sample = k.b.sdiv(value, samples), k.b.srem(value, samples)
        across = k.number(self.across)
        row, column = k.b.sdiv(tile, across), k.b.srem(tile, across)
        return k.times(row, self.step), k.times(column, self.step), sample

    def each(
        self, k: KernelBuilder, column: Value, count: int, by: int, body: Callable[[int, int], Body]
    ) -> None:
        """A loop over 0, by, ... count; its body is body(columns of x that the tile has, columns of y).

        The last tile in a row may have fewer than others; it has code of its own.
        """
        last = self.step * (self.across - 1)
        whole, cut = (SIDE, self.step), (min(self.x.row - last, SIDE), self.y.width - last)
        if cut == whole:
            k.loop(0, count, by, [], body(*whole))
            return
        ends, nothing = k.b.icmp_signed("==", column, k.number(last)), k.number(0)
        k.loop(0, k.b.select(ends, nothing, k.number(count)), by, [], body(*whole))
        k.loop(0, k.b.select(ends, k.number(count), nothing), by, [], body(*cut))

    def pixels(
        self,
        k: KernelBuilder,
        at_y: Value,
        channel: Value,
        place: tuple[Value, Value, Value],
        samples: Value,
        columns: int,
        outside: Value,
    ) -> Grid:
        """Where the pixels of a tile's y lie, of so many columns; those of rows that are not there are `outside`."""
        row, column, sample = place
        y, found = self.y, []
        for down in range(self.step):
            line, right = k.sum(row, down), samples
            first = k.sum(k.times(k.sum(k.times(channel, y.height), line), y.row), y.border, column)
            there = k.at(at_y, k.times(first, samples), sample)
            if y.height % self.step:
                inside = k.b.icmp_signed("<", line, k.number(y.height))
                there, right = k.b.select(inside, there, outside), k.b.select(inside, samples, k.number(0))
            found.append([k.at(there, k.times(j, right)) for j in range(columns)])
        return found


def _tiles(x: Images, y: Images, weights: Weights, target: Target) -> Tiles:
    # A machine with wider vectors has a larger cache beside the core, too.
    fitting = NEAR * max(target.lanes, 8) // (4 * POINTS * (x.channels + y.channels))
    return Tiles(x, y, weights, max(EVERY, min(fitting // EVERY * EVERY, 4 * EVERY)))


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
        """Where values of the weights, of x and of y at the points begin, and where all ends.

        Zeros come first, and then what is written to no pixel.
        """
        scratch, tiles = Scratch(), _tiles(self.x, self.y, self.weights, target)
        scratch.take(2 * APART)
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

                def of_columns(columns: int, _: int) -> Body:
                    def of_channel(i: Value, _: list[Value]) -> None:
                        grid = [
                            [
                                some.load(k.at(line, k.times(i, down), k.times(j, right)))
                                for j in range(columns)
                            ]
                            for line, down, right in rows
                        ]
                        found = both_ways(partial(at_points, some, use.of_x), _filled(some, grid, SIDE))
                        store_points(some, found, k.at(of_x, k.times(i, tiles.at_once), v), x_apart)

                    return of_channel

                tiles.each(k, column, x.channels, 1, of_columns)

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
                place = tiles.place(some, some.sum(first, v), samples)

                def of_columns(_: int, columns: int) -> Body:
                    def of_channel(o: Value, _: list[Value]) -> None:
                        grid = load_points(some, k.at(of_y, k.times(o, tiles.at_once), v), y_apart)
                        found = both_ways(partial(of_points, some, use.of_y), grid)
                        added = some.load_spread(k.at(at_bias, o)) if self.bias else None
                        pixels = tiles.pixels(k, at_y, o, place, samples, columns, k.at(scratch, APART))
                        for line, places in zip(found, pixels, strict=True):
                            for value, there in zip(line, places, strict=False):  # beyond y is nothing
                                some.store(value if added is None else k.b.fadd(value, added), there)

                    return of_channel

                tiles.each(k, place[1], y.channels, 1, of_columns)

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

                def of_columns(columns: int, _: int) -> Body:
                    def of_channels(i: Value, _: list[Value]) -> None:
                        grid = [
                            [k.load(k.at(line, i, k.times(j, right))) for j in range(columns)]
                            for line, _, right in rows
                        ]
                        found = both_ways(partial(at_points, k, use.of_x), _filled(k, grid, SIDE))
                        store_points(k, found, k.at(of_x, k.times(v, x.channels), i), x_apart)

                    return of_channels

                tiles.each(k, column, x.channels, k.lanes, of_columns)

            k.loop(0, n, 1, [], of_pixels)

            def of_slopes(v: Value, _: list[Value]) -> None:
                place = tiles.place(k, k.sum(first, v), samples)

                def of_columns(_: int, columns: int) -> Body:
                    def of_channel(o: Value, _: list[Value]) -> None:
                        pixels = tiles.pixels(k, at_y, o, place, samples, columns, scratch)
                        grid = [[some.load(there) for there in places] for places in pixels]
                        found = both_ways(partial(at_points, some, use.of_y), _filled(some, grid, tiles.step))
                        store_points(some, found, k.at(of_y, k.times(o, tiles.at_once), v), y_apart)

                    return of_channel

                tiles.each(k, place[1], y.channels, 1, of_columns)

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
        add_to_weights(k, use, self.weights, at_w, of_w, y.channels, x.channels)
        return k.end()


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
            found = both_ways(partial(at_points, k, use.of_w), grid)
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


def _filled(k: KernelBuilder, grid: Grid, columns: int) -> Grid:
    """The grid with zeros behind its rows, so many columns in all."""
    return [[*row, *[k.constant(0.0)] * (columns - len(row))] for row in grid]


def _turn(k: KernelBuilder, x: Images, at_x: Value, turned: Value, samples: Value) -> None:
    """Write x as [height, row, samples, channels]."""
    plane = x.plane

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
