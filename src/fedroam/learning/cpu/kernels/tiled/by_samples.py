"""Convolutions by tiles (`transforms`) of images whose samples lie side by side, as `convolution` has them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from typing_extensions import override

from fedroam.learning.cpu.kernels.convolution import Images, Weights
from fedroam.learning.cpu.kernels.tiled.transforms import (
    APART,
    EVERY,
    STEP,
    Grid,
    Matrix,
    Product,
    Scratch,
    Transforms,
    across,
    add_to_weights,
    at_points,
    both_ways,
    clear,
    known,
    load_points,
    of_points,
    points,
    side,
    store_points,
    sums_at_once,
    transforms,
    weight_places,
)
from fedroam.native.ir import Body, KernelBuilder, Value
from fedroam.native.target import KernelSpec, Target

NEAR = 40 << 10  # bytes for each lane: values at the points of some tiles, which should stay near the core
# Multiplications that it takes about as long as to find one value of a tile, and what tiles may take of the plain sum.
EACH, SURE = 6, 0.75


def suits(x: Images, y: Images, weights: Weights) -> bool:
    """Whether a convolution, and the gradient of its weights, are computed by tiles: they can, and it is faster."""
    if not known(weights):
        return False
    both, tiles = x.channels * y.channels, across(y.height) * across(y.width)
    by_tiles = tiles * points(weights) * (both + EACH * (x.channels + y.channels))
    return by_tiles < SURE * both * weights.width**2 * y.height * y.width


@dataclass(frozen=True)
class Tiles:
    """The tiles of an image y, each 4 x 4 pixels, in memory by points: `at_once` values of each channel.

    The last tile of a row, or of a column, may reach beyond y.
    """

    x: Images
    y: Images
    weights: Weights
    at_once: int

    @property
    def across(self) -> int:
        """Tiles side by side."""
        return across(self.y.width)

    @property
    def count(self) -> int:
        """Tiles of a channel."""
        return self.across * across(self.y.height)

    def apart(self, channels: int) -> int:
        """Values from a point to the next."""
        return channels * self.at_once + APART

    def place(self, k: KernelBuilder, value: Value, samples: Value) -> tuple[Value, Value, Value]:
        """The first row and column of a tile, in y, and the sample, of the n-th value."""
        tile, sample = k.b.sdiv(value, samples), k.b.srem(value, samples)
        across = k.number(self.across)
        row, column = k.b.sdiv(tile, across), k.b.srem(tile, across)
        return k.times(row, STEP), k.times(column, STEP), sample

    def each(
        self, k: KernelBuilder, column: Value, count: int, by: int, body: Callable[[int, int], Body]
    ) -> None:
        """A loop over 0, by, ... count; its body is body(columns of x that the tile has, columns of y).

        The last tile in a row may have fewer than others; it has code of its own.
        """
        last, wide = STEP * (self.across - 1), side(self.weights)
        whole, cut = (wide, STEP), (min(self.x.row - last, wide), self.y.width - last)
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
        channel: int | Value,
        place: tuple[Value, Value, Value],
        samples: Value,
        columns: int,
        outside: Value,
        together: int = 1,
    ) -> Grid:
        """Where the pixels of a tile's y lie, of so many columns; those of rows that are not there are `outside`.

        together: channels that lie side by side.
        """
        row, column, sample = place
        y, step, found = self.y, k.times(samples, together), []
        for down in range(STEP):
            line, right = k.sum(row, down), step
            first = k.sum(k.times(k.sum(k.times(channel, y.height), line), y.row), y.border, column)
            there = k.at(at_y, k.times(k.sum(k.times(first, samples), sample), together))
            if y.height % STEP:
                inside = k.b.icmp_signed("<", line, k.number(y.height))
                there, right = k.b.select(inside, there, outside), k.b.select(inside, step, k.number(0))
            found.append([k.at(there, k.times(j, right)) for j in range(columns)])
        return found


def _tiles(x: Images, y: Images, weights: Weights, target: Target) -> Tiles:
    # A machine with wider vectors has a larger cache beside the core, too.
    fitting = NEAR * max(target.lanes, 8) // (4 * points(weights) * (x.channels + y.channels))
    return Tiles(x, y, weights, max(EVERY, min(fitting // EVERY * EVERY, 4 * EVERY)))


@dataclass(frozen=True)
class _Seen:
    """Some tiles at a time, whose values at the points are written: `n` values from the `first` on.

    With samples side by side (`of_x`, `of_y`) they are [points, channels, values]; with channels side by side
    (`of_turned_x`, `of_turned_y`) [points, values, channels], of images that lie so themselves: [height, row, samples,
    channels], the channels with zeros behind them. some: what writes vectors of samples; k: of channels. zeros: as many
    as there are such channels.
    """

    k: KernelBuilder
    some: KernelBuilder
    tiles: Tiles
    use: Transforms
    above: int
    zeros: Value
    samples: Value

    def of_x(self, at_x: Value, values: Value, first: Value, n: Value) -> None:
        """The values of x."""
        k, some, tiles, samples = self.k, self.some, self.tiles, self.samples
        apart = tiles.apart(tiles.x.channels)

        def of_value(v: Value, _: list[Value]) -> None:
            row, column, sample = tiles.place(some, some.sum(first, v), samples)
            begin = k.sum(k.times(column, samples), sample)
            rows = self._rows(tiles.x, at_x, row, begin, samples)

            def of_columns(columns: int, _: int) -> Body:
                def of_channel(i: Value, _: list[Value]) -> None:
                    grid = [
                        [some.load(k.at(line, k.times(i, down), k.times(j, right))) for j in range(columns)]
                        for line, down, right in rows
                    ]
                    there = k.at(values, k.times(i, tiles.at_once), v)
                    self._store(some, self.use.of_x, grid, self.use.side, there, apart)

                return of_channel

            tiles.each(k, column, tiles.x.channels, 1, of_columns)

        k.loop(0, n, some.lanes, [], of_value)

    def of_turned_x(self, at_x: Value, values: Value, first: Value, n: Value, channels: int) -> None:
        """The values of x, of so many channels side by side."""
        k, tiles, samples = self.k, self.tiles, self.samples
        flat, step = Images(1, tiles.x.height, tiles.x.width, tiles.x.border), k.times(samples, channels)

        def of_value(v: Value, _: list[Value]) -> None:
            row, column, sample = tiles.place(k, k.sum(first, v), samples)
            begin = k.times(k.sum(k.times(column, samples), sample), channels)
            rows = self._rows(flat, at_x, row, begin, step)

            def of_columns(columns: int, _: int) -> Body:
                def of_channels(i: Value, _: list[Value]) -> None:
                    grid = [
                        [k.load(k.at(line, i, k.times(j, right))) for j in range(columns)]
                        for line, _, right in rows
                    ]
                    there = k.at(values, k.times(v, channels), i)
                    self._store(k, self.use.of_x, grid, self.use.side, there, tiles.apart(channels))

                return of_channels

            tiles.each(k, column, channels, k.lanes, of_columns)

        k.loop(0, n, 1, [], of_value)

    def of_y(self, at_y: Value, values: Value, first: Value, n: Value) -> None:
        """The values of y, a gradient."""
        k, some, tiles, samples = self.k, self.some, self.tiles, self.samples

        def of_value(v: Value, _: list[Value]) -> None:
            place = tiles.place(k, k.sum(first, v), samples)

            def of_columns(_: int, columns: int) -> Body:
                def of_channel(o: Value, _: list[Value]) -> None:
                    pixels = tiles.pixels(k, at_y, o, place, samples, columns, self.zeros)
                    grid = [[some.load(there) for there in places] for places in pixels]
                    there = k.at(values, k.times(o, tiles.at_once), v)
                    self._store(some, self.use.of_y, grid, STEP, there, tiles.apart(tiles.y.channels))

                return of_channel

            tiles.each(k, place[1], tiles.y.channels, 1, of_columns)

        k.loop(0, n, some.lanes, [], of_value)

    def of_turned_y(self, at_y: Value, values: Value, first: Value, n: Value, channels: int) -> None:
        """The values of y, a gradient, of so many channels side by side."""
        k, tiles, samples = self.k, self.tiles, self.samples

        def of_value(v: Value, _: list[Value]) -> None:
            place = tiles.place(k, k.sum(first, v), samples)

            def of_columns(_: int, columns: int) -> Body:
                pixels = tiles.pixels(k, at_y, 0, place, samples, columns, self.zeros, channels)

                def of_channels(o: Value, _: list[Value]) -> None:
                    grid = [[k.load(k.at(there, o)) for there in places] for places in pixels]
                    there = k.at(values, k.times(v, channels), o)
                    self._store(k, self.use.of_y, grid, STEP, there, tiles.apart(channels))

                return of_channels

            tiles.each(k, place[1], channels, k.lanes, of_columns)

        k.loop(0, n, 1, [], of_value)

    def _store(
        self, k: KernelBuilder, matrix: Matrix, grid: Grid, columns: int, there: Value, apart: int
    ) -> None:
        """Write what the matrix makes of a tile, behind whose rows are zeros up to so many columns."""
        filled = [[*row, *[k.constant(0.0)] * (columns - len(row))] for row in grid]
        store_points(k, both_ways(partial(at_points, k, matrix), filled), there, apart)

    def _rows(
        self, x: Images, at_x: Value, row: Value, begin: Value, column: Value
    ) -> list[tuple[Value, Value, Value]]:
        """Where the rows of a tile lie, and how far it is from a channel to the next and from a pixel to the next.

        begin: of the tile's first pixel in a row. A row outside of x is zeros, over and over.
        """
        k, found = self.k, []
        for n in range(self.use.side):
            line = k.sum(row, n - self.above)
            inside = k.b.icmp_unsigned("<", line, k.number(x.height))  # a negative number is a large one
            there = k.at(at_x, k.times(k.times(line, x.row), column), begin)
            nothing = k.number(0)
            found.append(
                (
                    k.b.select(inside, there, self.zeros),
                    k.b.select(inside, k.times(x.plane, column), nothing),
                    k.b.select(inside, column, nothing),
                )
            )
        return found


@dataclass(frozen=True)
class WinogradConvolution(KernelSpec):
    """As `ConvolutionKernel`: y[o] = bias[o] + sum over i of w[o, i] correlated with x[i].

    Kernel: (address of x, of w, of the bias, of y, of `scratch` values to work in; samples).
    lanes: samples at a time, of which the number of samples must be a multiple.
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
        count = points(self.weights)
        of_w = scratch.take(count * (self.x.channels * self.y.channels + APART))
        of_x = scratch.take(count * tiles.apart(self.x.channels))
        of_y = scratch.take(count * tiles.apart(self.y.channels))
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
        seen = _Seen(k, some, tiles, use, self.above, scratch, samples)
        clear(k, scratch, APART)
        per_out, per_in = _of_weights(k, x, y, self.weights, use, at_w, of_w)
        values = k.times(tiles.count, samples)
        x_apart, y_apart = tiles.apart(x.channels), tiles.apart(y.channels)
        outputs, most = sums_at_once(target, tiles.at_once)

        def of_block(first: Value, _: list[Value]) -> None:
            n = k.smaller(tiles.at_once, k.b.sub(values, first))
            # Whole vectors: what is computed of the places behind the last value is looked at by nobody.
            columns = k.times(k.b.sdiv(k.sum(n, k.lanes - 1), k.number(k.lanes)), k.lanes)
            seen.of_x(at_x, of_x, first, n)

            def of_point(p: Value, _: list[Value]) -> None:
                there, made = k.at(of_x, k.times(p, x_apart)), k.at(of_y, k.times(p, y_apart))
                w = k.at(of_w, k.times(p, x.channels * y.channels + APART))

                product = Product(
                    w, per_out, per_in, there, tiles.at_once, made, tiles.at_once, terms=x.channels
                )
                product.whole(k, y.channels, outputs, columns, most)

            k.loop(0, points(self.weights), 1, [], of_point)

            def out_of(v: Value, _: list[Value]) -> None:
                place = tiles.place(some, some.sum(first, v), samples)

                def of_columns(_: int, columns: int) -> Body:
                    def of_channel(o: Value, _: list[Value]) -> None:
                        grid = load_points(some, use, k.at(of_y, k.times(o, tiles.at_once), v), y_apart)
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

    Of x and dy, one is first written anew with its channels side by side and zeros behind them, up to whole vectors:
    that of which this takes fewer products.

    Kernel: (address of x, of dy, of dw, of `scratch` values to work in; samples). The inputs'
    weights must lie side by side. lanes: samples at a time, of which the number of samples must be a multiple.
    """

    x: Images
    y: Images
    weights: Weights
    above: int
    lanes: int

    def _turned(self, target: Target) -> tuple[Images, Images, int]:
        """The image that is turned, the other, and channels of the first with the zeros behind them."""

        def whole(image: Images) -> int:
            return -(-image.channels // target.lanes) * target.lanes

        x, y = self.x, self.y
        if whole(x) * y.channels <= x.channels * whole(y):
            return x, y, whole(x)
        return y, x, whole(y)

    def _memory(self, target: Target) -> tuple[int, int, int, int]:
        """Where values of dw, of the other image and of the turned one at the points begin, and the latter itself."""
        scratch, tiles = Scratch(), _tiles(self.x, self.y, self.weights, target)
        _, other, wide = self._turned(target)
        scratch.take(wide)
        count = points(self.weights)
        of_w = scratch.take(count * (other.channels * wide + APART))
        of_other = scratch.take(count * tiles.apart(other.channels))
        of_turned = scratch.take(count * tiles.apart(wide))
        return of_w, of_other, of_turned, scratch.values

    def scratch(self, samples: int, target: Target) -> int:
        """Values (float32) that the kernel needs to work in."""
        image, _, wide = self._turned(target)
        return self._memory(target)[-1] + image.plane * wide * samples

    @override
    def write(self, module: Any, target: Target) -> int:
        k = KernelBuilder(module, target.lanes, 4, 1)
        at_x, at_y, at_w, scratch, samples = k.arguments
        tiles, use = _tiles(self.x, self.y, self.weights, target), transforms(self.weights.width)
        of_w, of_other, of_turned, turned = (k.at(scratch, begin) for begin in self._memory(target))
        image, other, wide = self._turned(target)
        some = k.of_lanes(min(self.lanes, target.lanes))
        seen = _Seen(k, some, tiles, use, self.above, scratch, samples)
        values, w_apart = k.times(tiles.count, samples), other.channels * wide + APART
        rows, most = sums_at_once(target, wide)
        inputs_together = image is self.x
        _turn(some, image, wide, at_x if inputs_together else at_y, turned, samples)
        clear(k, scratch, wide)
        clear(k, of_w, points(self.weights) * w_apart)

        def of_block(first: Value, _: list[Value]) -> None:
            n = k.smaller(tiles.at_once, k.b.sub(values, first))
            if inputs_together:
                seen.of_turned_x(turned, of_turned, first, n, wide)
                seen.of_y(at_y, of_other, first, n)
            else:
                seen.of_x(at_x, of_other, first, n)
                seen.of_turned_y(turned, of_turned, first, n, wide)

            def of_point(p: Value, _: list[Value]) -> None:
                a = k.at(of_other, k.times(p, tiles.apart(other.channels)))
                b = k.at(of_turned, k.times(p, tiles.apart(wide)))
                w = k.at(of_w, k.times(p, w_apart))
                product = Product(a, tiles.at_once, 1, b, wide, w, wide, terms=n, added=True)
                product.whole(k, other.channels, rows, wide, most)

            k.loop(0, points(self.weights), 1, [], of_point)

        k.loop(0, values, tiles.at_once, [], of_block)
        per_out, per_in = (wide, 1) if inputs_together else (1, wide)
        sizes = self.y.channels, self.x.channels
        add_to_weights(k, use, self.weights, at_w, of_w, sizes, (per_out, per_in, w_apart))
        return k.end()


def _of_weights(
    k: KernelBuilder, x: Images, y: Images, weights: Weights, use: Transforms, at_w: Value, of_w: Value
) -> tuple[int, int]:
    """Write the weights' values at the points; how far those of the next output lie, and of the next input."""
    inputs_together = weights.strides[1] == 1
    per_out, per_in = (x.channels, 1) if inputs_together else (1, y.channels)
    some = k.of_lanes(math.gcd(x.channels if inputs_together else y.channels, k.lanes))
    out_step, in_step = (1, some.lanes) if inputs_together else (some.lanes, 1)

    def of_output(o: Value, _: list[Value]) -> None:
        def of_input(i: Value, _: list[Value]) -> None:
            grid = [
                [some.load(place) for place in places] for places in weight_places(k, weights, at_w, o, i)
            ]
            found = both_ways(partial(at_points, some, use.of_w), grid)
            there = k.at(of_w, k.times(o, per_out), k.times(i, per_in))
            store_points(some, found, there, x.channels * y.channels + APART)

        k.loop(0, x.channels, in_step, [], of_input)

    k.loop(0, y.channels, out_step, [], of_output)
    return per_out, per_in


def _turn(k: KernelBuilder, image: Images, wide: int, at: Value, turned: Value, samples: Value) -> None:
    """Write an image as [height, row, samples, `wide` channels], with zeros behind the last channel."""
    plane, lanes = image.plane, k.lanes
    whole = image.channels // lanes * lanes

    def of_pixel(pixel: Value, _: list[Value]) -> None:
        def of_samples(s: Value, _: list[Value]) -> None:
            def of_channels(i: int | Value, count: int) -> None:
                here = k.at(at, k.times(k.sum(k.times(i, plane), pixel), samples), s)
                seen = [k.load(k.at(here, k.times(j * plane, samples))) for j in range(count)]
                for j, vector in enumerate(k.transposed(seen)):
                    place = k.times(k.sum(k.times(pixel, samples), s, j), wide)
                    k.store(vector, k.at(turned, place, i))

            k.loop(0, whole, lanes, [], lambda i, _: of_channels(i, lanes))
            for i in range(whole, wide, lanes):
                of_channels(i, max(image.channels - i, 0))

        k.loop(0, samples, lanes, [], of_samples)

    k.loop(0, plane, 1, [], of_pixel)
