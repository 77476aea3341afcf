"""Convolutions by tiles (`transforms`) of images whose channels lie side by side in memory, as libraries have them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from typing_extensions import override

from fedroam.learning.cpu.kernels.convolution import Images, Weights
from fedroam.learning.cpu.kernels.tiled.transforms import (
    APART,
    STEP,
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
    points,
    store_points,
    transforms,
    weight_places,
)
from fedroam.native.ir import KernelBuilder, Value
from fedroam.native.target import KernelSpec, Target

AT_ONCE = 48  # tiles, a multiple of the rows of a block of sums: the more, the seldomer weights pass by
NEAR = 5 << 18  # bytes: weights at the points that are still in a core's cache when they are read


@dataclass(frozen=True)
class ChannelsConvolution:
    """Sizes: y float32 [samples, height, width, channels] of x alike (no borders), with `padding` zeros around x."""

    x: Images
    y: Images
    weights: Weights
    padding: int

    @property
    def across(self) -> int:
        """Tiles side by side."""
        return across(self.y.width)

    @property
    def tiles(self) -> int:
        """Tiles of a sample."""
        return self.across * across(self.y.height)

    @property
    def turned(self) -> ChannelsConvolution:
        """The convolution that gives the gradient of x."""
        return ChannelsConvolution(
            self.y, self.x, self.weights.turned(), self.weights.width - 1 - self.padding
        )

    @property
    def suits(self) -> bool:
        """Whether it is computed by tiles."""
        y = self.y
        return pays(self.x.channels, y.channels, y.height, y.width, self.weights)


@dataclass(frozen=True)
class _Places:
    """Where values at the points lie: of weights [points, ...], of x and of y [points, tiles, channels]."""

    of: ChannelsConvolution

    @property
    def of_x(self) -> int:
        """Values from a tile of x to the next."""
        return self.of.x.channels + APART

    @property
    def of_y(self) -> int:
        """Values from a tile of y to the next."""
        return self.of.y.channels + APART

    @property
    def x_apart(self) -> int:
        """Values of x from a point to the next."""
        return AT_ONCE * self.of_x + APART

    @property
    def y_apart(self) -> int:
        """Values of y from a point to the next."""
        return AT_ONCE * self.of_y + APART

    def w_apart(self, outputs: int) -> int:
        """Values of the weights from a point to the next, if those of so many outputs are there at once."""
        return self.of.x.channels * outputs + APART

    def near(self, every: int) -> int:
        """Of how many outputs, a multiple of `every`, the weights at the points stay near a core; all, if they do."""
        outputs, each = self.of.y.channels, 4 * points(self.of.weights) * self.of.x.channels
        fitting = (n for n in range(outputs, every, -every) if outputs % n == 0 and n * each <= NEAR)
        return next(fitting, every)


class _Share(NamedTuple):
    """Outputs whose weights at the points are written before they are read, and the blocks of sums that read them:
    how many rows, the largest first, and vectors of each.
    """

    outputs: int
    rows: tuple[int, ...]
    vectors: int


class _At(NamedTuple):
    """Addresses: the kernel's arguments, and places to work in (see `_memory`)."""

    x: Value
    w: Value
    bias: Value
    y: Value
    zeros: Value
    of_w: Value
    of_x: Value
    of_y: Value
    some_w: Value


@dataclass(frozen=True)
class TiledConvolution(KernelSpec):
    """y[o] = bias[o] + sum over i of w[o, i] correlated with x[i].

    Kernel: (address of x, of w, of the bias, of y, of `scratch` values to work in; samples).
    """

    sizes: ChannelsConvolution
    bias: bool

    def _memory(self, target: Target) -> tuple[int, int, int, int, int]:
        """Where values of the weights, of x and of y at the points begin, and some weights, and where all ends."""
        scratch, sizes, places = Scratch(), self.sizes, _Places(self.sizes)
        count = points(sizes.weights)
        scratch.take(sizes.x.channels + sizes.y.channels)  # zeros, and what is written to no pixel
        of_w = scratch.take(count * places.w_apart(sizes.y.channels))
        of_x = scratch.take(count * places.x_apart)
        of_y = scratch.take(count * places.y_apart)
        some_w = scratch.take(count * (target.lanes * target.lanes + APART))
        return of_w, of_x, of_y, some_w, scratch.values

    def scratch(self, target: Target) -> int:
        """Values (float32) that the kernel needs to work in."""
        return self._memory(target)[-1]

    @override
    def write(self, module: Any, target: Target) -> int:
        k, sizes = KernelBuilder(module, target.lanes, 5, 1), self.sizes
        x, w, bias, y, scratch, samples = k.arguments
        of_w, of_x, of_y, some_w, _ = (k.at(scratch, begin) for begin in self._memory(target))
        at = _At(x, w, bias, y, scratch, of_w, of_x, of_y, some_w)
        use, outputs = transforms(sizes.weights.width), sizes.y.channels
        clear(k, scratch, sizes.x.channels)
        near = _Places(sizes).near(k.lanes)

        def all_at_once() -> None:
            rows, vectors = _block(target, outputs)
            share = _Share(outputs, (rows, max(rows // 2, 2), 1), vectors)
            self._weights(k, use, at, 0, share)

            def of_block(first: Value, n: Value) -> None:
                _values_of_x(k, sizes, use, first, n, (at.x, at.of_x, at.zeros))
                self._products(k, at, n, 0, share)
                self._out(k, use, at, first, n)

            _blocks(k, sizes, samples, of_block)

        if near == outputs:
            all_at_once()
            return k.end()

        def some_by_some() -> None:
            """Weights that would not stay near pass by once, some outputs at a time, for all tiles there are."""
            rows, vectors = _block(target, near)
            share = _Share(near, tuple(n for n in (rows, 8, 4, 2, 1) if n <= rows), vectors)
            first, n = k.number(0), k.times(samples, sizes.tiles)
            _values_of_x(k, sizes, use, first, n, (at.x, at.of_x, at.zeros))

            def of_share(begin: Value, _: list[Value]) -> None:
                self._weights(k, use, at, begin, share)
                self._products(k, at, n, begin, share)

            k.loop(0, outputs, near, [], of_share)
            self._out(k, use, at, first, n)

        _if_few(k, sizes, samples, some_by_some, all_at_once)
        return k.end()

    def _products(self, k: KernelBuilder, at: _At, n: Value, begin: int | Value, share: _Share) -> None:
        """The values of y at the points, of n tiles and of the outputs that begin there."""
        places, inputs, wide = _Places(self.sizes), self.sizes.x.channels, share.vectors * k.lanes

        def of_point(p: Value, _: list[Value]) -> None:
            seen = k.at(at.of_x, k.times(p, places.x_apart))
            made = k.at(at.of_y, k.times(p, places.y_apart), begin)
            w = k.at(at.of_w, k.times(p, places.w_apart(share.outputs)))

            def of_panel(panel: Value, _: list[Value]) -> None:
                weights, out = k.at(w, k.times(panel, inputs * wide)), k.at(made, k.times(panel, wide))
                product = Product(seen, places.of_x, 1, weights, wide, out, places.of_y, terms=inputs)
                _in_blocks(k, n, share.rows, lambda t, size: product.block(k, t, 0, size, share.vectors))

            k.loop(0, share.outputs // wide, 1, [], of_panel)

        k.loop(0, points(self.sizes.weights), 1, [], of_point)

    def _out(self, k: KernelBuilder, use: Transforms, at: _At, first: Value, n: Value) -> None:
        """Write the pixels of n tiles."""
        sizes, places = self.sizes, _Places(self.sizes)

        def out_of(t: Value, _: list[Value]) -> None:
            pixels = _pixels(k, sizes, at.y, k.sum(first, t), k.at(at.zeros, sizes.x.channels))
            begin = k.at(at.of_y, k.times(t, places.of_y))

            def of_channels(o: Value, _: list[Value]) -> None:
                grid = load_points(k, use, k.at(begin, o), places.y_apart)
                added = k.load(k.at(at.bias, o)) if self.bias else None
                found = both_ways(partial(of_points, k, use.of_y), grid)
                for line, there in zip(found, pixels, strict=True):
                    for value, place in zip(line, there, strict=True):
                        k.store(value if added is None else k.b.fadd(value, added), k.at(place, o))

            k.loop(0, sizes.y.channels, k.lanes, [], of_channels)

        k.loop(0, n, 1, [], out_of)

    def _weights(self, k: KernelBuilder, use: Transforms, at: _At, begin: int | Value, share: _Share) -> None:
        """Write the values at the points of the weights of outputs from `begin` on: of each panel of as many outputs
        as are summed side by side, all inputs one after the other.
        """
        sizes, wide = self.sizes, share.vectors * k.lanes
        inputs, lanes, apart = sizes.x.channels, k.lanes, _Places(sizes).w_apart(share.outputs)

        def place(o: Value, i: Value) -> Value:
            panel, rest = k.b.sdiv(o, k.number(wide)), k.b.srem(o, k.number(wide))
            return k.at(at.of_w, k.times(panel, inputs * wide), k.times(i, wide), rest)

        def values(o: Value, i: Value) -> Grid:
            grid = [[k.load(there) for there in row] for row in weight_places(k, sizes.weights, at.w, o, i)]
            return both_ways(partial(at_points, k, use.of_w), grid)

        def outputs_together(o: Value, _: list[Value]) -> None:
            of = k.sum(begin, o)
            k.loop(0, inputs, 1, [], lambda i, _: store_points(k, values(of, i), place(o, i), apart))

        def inputs_together(o: Value, _: list[Value]) -> None:
            of, between = k.sum(begin, o), lanes * lanes + APART

            def of_inputs(i: Value, _: list[Value]) -> None:
                def of_output(j: Value, _: list[Value]) -> None:
                    store_points(k, values(k.sum(of, j), i), k.at(at.some_w, k.times(j, lanes)), between)

                k.loop(0, lanes, 1, [], of_output)

                def of_point(p: Value, _: list[Value]) -> None:
                    here = k.at(at.some_w, k.times(p, between))
                    turned = k.transposed([k.load(k.at(here, j * lanes)) for j in range(lanes)])
                    there = k.at(place(o, i), k.times(p, apart))
                    for j, vector in enumerate(turned):
                        k.store(vector, k.at(there, j * wide))

                k.loop(0, points(sizes.weights), 1, [], of_point)

            k.loop(0, inputs, lanes, [], of_inputs)

        of_outputs = inputs_together if sizes.weights.strides[1] == 1 else outputs_together
        k.loop(0, share.outputs, lanes, [], of_outputs)


@dataclass(frozen=True)
class TiledWeightGradient(KernelSpec):
    """dw[o, i] += sum over samples and pixels of dy[o] times x[i]. The inputs' weights must lie side by side.

    Kernel: (address of x, of dy, of dw, of `scratch` values to work in; samples).
    """

    sizes: ChannelsConvolution

    def _memory(self) -> tuple[int, int, int, int]:
        """Where values of dw, of x and of dy at the points begin, and where all ends."""
        scratch, places, count = Scratch(), _Places(self.sizes), points(self.sizes.weights)
        scratch.take(max(self.sizes.x.channels, self.sizes.y.channels))  # zeros
        of_w = scratch.take(count * places.w_apart(self.sizes.y.channels))
        of_x = scratch.take(count * places.x_apart)
        of_y = scratch.take(count * places.y_apart)
        return of_w, of_x, of_y, scratch.values

    def scratch(self, target: Target) -> int:
        """Values (float32) that the kernel needs to work in."""
        return self._memory()[-1]

    @override
    def write(self, module: Any, target: Target) -> int:
        k, sizes, places = KernelBuilder(module, target.lanes, 4, 1), self.sizes, _Places(self.sizes)
        at_x, at_y, at_w, scratch, samples = k.arguments
        of_w, of_x, of_y = (k.at(scratch, begin) for begin in self._memory()[:-1])
        use, inputs, outputs = transforms(sizes.weights.width), sizes.x.channels, sizes.y.channels
        rows, vectors = _block(target, inputs)
        clear(k, scratch, max(inputs, outputs))
        near = places.near(k.lanes)

        def values(first: Value, n: Value) -> None:
            """Of x and of dy at the points, of n tiles."""
            _values_of_x(k, sizes, use, first, n, (at_x, of_x, scratch))

            def of_slopes(t: Value, _: list[Value]) -> None:
                pixels = _pixels(k, sizes, at_y, k.sum(first, t), scratch)
                begin = k.at(of_y, k.times(t, places.of_y))

                def of_channels(o: Value, _: list[Value]) -> None:
                    grid = [[k.load(k.at(place, o)) for place in line] for line in pixels]
                    found = both_ways(partial(at_points, k, use.of_y), grid)
                    store_points(k, found, k.at(begin, o), places.y_apart)

                k.loop(0, outputs, k.lanes, [], of_channels)

            k.loop(0, n, 1, [], of_slopes)

        def products(n: Value, begin: int | Value, some: int) -> None:
            """Add up the values of dw at the points, of so many outputs from `begin` on."""

            def of_point(p: Value, _: list[Value]) -> None:
                seen, slopes = (
                    k.at(of_x, k.times(p, places.x_apart)),
                    k.at(of_y, k.times(p, places.y_apart), begin),
                )
                w = k.at(of_w, k.times(p, places.w_apart(some)))
                product = Product(slopes, 1, places.of_y, seen, places.of_x, w, inputs, terms=n, added=True)
                product.whole(k, some, rows, inputs, vectors)

            k.loop(0, points(sizes.weights), 1, [], of_point)

        def added(begin: int | Value, some: int) -> None:
            """To the weights of so many outputs from `begin` on, what the values at the points are of."""
            there = k.at(at_w, k.times(begin, sizes.weights.strides[0]))
            steps = (inputs, 1, places.w_apart(some))
            add_to_weights(k, use, sizes.weights, there, of_w, (some, inputs), steps)

        def all_at_once() -> None:
            clear(k, of_w, points(sizes.weights) * places.w_apart(outputs))

            def of_block(first: Value, n: Value) -> None:
                values(first, n)
                products(n, 0, outputs)

            _blocks(k, sizes, samples, of_block)
            added(0, outputs)

        if near == outputs:
            all_at_once()
            return k.end()

        def some_by_some() -> None:
            """Values that would not stay near are made, and added to the weights, some outputs at a time."""
            n = k.times(samples, sizes.tiles)
            values(k.number(0), n)

            def of_share(begin: Value, _: list[Value]) -> None:
                clear(k, of_w, points(sizes.weights) * places.w_apart(near))
                products(n, begin, near)
                added(begin, near)

            k.loop(0, outputs, near, [], of_share)

        _if_few(k, sizes, samples, some_by_some, all_at_once)
        return k.end()


def _if_few(
    k: KernelBuilder,
    sizes: ChannelsConvolution,
    samples: Value,
    few: Callable[[], None],
    many: Callable[[], None],
) -> None:
    """Write both ways: one where all tiles are done at once, the other where they are done in blocks."""
    fits = k.b.zext(k.b.icmp_signed("<=", k.times(samples, sizes.tiles), k.number(AT_ONCE)), k.whole)
    k.loop(0, fits, 1, [], lambda _, __: few())
    k.loop(fits, 1, 1, [], lambda _, __: many())


def _block(target: Target, channels: int) -> tuple[int, int]:
    """How many rows of a product of matrices, and vectors of each, are summed at a time: vectors fill the channels."""
    vectors = next(v for v in range(target.vectors, 0, -1) if channels % (v * target.lanes) == 0)
    return target.channels * target.vectors // vectors, vectors


def _in_blocks(k: KernelBuilder, n: Value, rows: Sequence[int], body: Any) -> None:
    """0 .. n - 1 in blocks of the first number of rows, then of the next."""
    begin: Value = k.number(0)
    for size in rows:
        left = k.b.sub(n, begin)
        end = k.sum(begin, k.b.sub(left, k.b.srem(left, k.number(size))))
        k.loop(begin, end, size, [], partial(_of_size, body, size))
        begin = end


def _of_size(body: Any, size: int, t: Value, _: list[Value]) -> None:
    body(t, size)


def _blocks(k: KernelBuilder, sizes: ChannelsConvolution, samples: Value, body: Any) -> None:
    """All tiles of all samples, some at a time: body(first, how many)."""
    tiles = k.times(samples, sizes.tiles)

    def of_block(first: Value, _: list[Value]) -> None:
        body(first, k.smaller(AT_ONCE, k.b.sub(tiles, first)))

    k.loop(0, tiles, AT_ONCE, [], of_block)


def _tile(k: KernelBuilder, sizes: ChannelsConvolution, tile: Value) -> tuple[Value, Value, Value]:
    """Sample, and first row and column in y."""
    count, across = k.number(sizes.tiles), k.number(sizes.across)
    sample, rest = k.b.sdiv(tile, count), k.b.srem(tile, count)
    return sample, k.times(k.b.sdiv(rest, across), STEP), k.times(k.b.srem(rest, across), STEP)


def _pixels(k: KernelBuilder, sizes: ChannelsConvolution, at_y: Value, tile: Value, outside: Value) -> Grid:
    """Where the pixels of a tile's y lie; those that are not there are `outside`."""
    y, (sample, row, column) = sizes.y, _tile(k, sizes, tile)
    line = k.sum(k.times(sample, y.height), row)
    first = k.at(at_y, k.times(k.sum(k.times(line, y.width), column), y.channels))
    inside = [
        [k.b.icmp_signed("<", k.sum(begin, n), k.number(size)) for n in range(STEP)]
        for begin, size in ((row, y.height), (column, y.width))
    ]
    whole = y.height % STEP == y.width % STEP == 0
    found: Grid = []
    for down in range(STEP):
        found.append([])
        for right in range(STEP):
            there = k.at(first, (down * y.width + right) * y.channels)
            both = k.b.and_(inside[0][down], inside[1][right])
            found[-1].append(there if whole else k.b.select(both, there, outside))
    return found


def _values_of_x(
    k: KernelBuilder,
    sizes: ChannelsConvolution,
    use: Transforms,
    first: Value,
    n: Value,
    where: tuple[Value, Value, Value],
) -> None:
    """Write the values of x at the points, of n tiles. where: of x, of the values, and of zeros for what is outside."""
    x, places, (at_x, of_x, zeros) = sizes.x, _Places(sizes), where

    def of_tile(t: Value, _: list[Value]) -> None:
        sample, row, column = _tile(k, sizes, k.sum(first, t))
        lines = [k.sum(row, down - sizes.padding) for down in range(use.side)]
        columns = [k.sum(column, right - sizes.padding) for right in range(use.side)]
        above = [
            k.b.icmp_unsigned("<", line, k.number(x.height)) for line in lines
        ]  # below 0 is a large number
        beside = [k.b.icmp_unsigned("<", at, k.number(x.width)) for at in columns]
        pixels: Grid = []
        for line, inside in zip(lines, above, strict=True):
            begin = k.times(k.sum(k.times(sample, x.height), line), x.width)
            pixels.append([])
            for at, inside_too in zip(columns, beside, strict=True):
                there = k.at(at_x, k.times(k.sum(begin, at), x.channels))
                pixels[-1].append(k.b.select(k.b.and_(inside, inside_too), there, zeros))
        begin = k.at(of_x, k.times(t, places.of_x))

        def of_channels(i: Value, _: list[Value]) -> None:
            grid = [[k.load(k.at(pixel, i)) for pixel in line] for line in pixels]
            found = both_ways(partial(at_points, k, use.of_x), grid)
            store_points(k, found, k.at(begin, i), places.x_apart)

        k.loop(0, x.channels, k.lanes, [], of_channels)

    k.loop(0, n, 1, [], of_tile)
