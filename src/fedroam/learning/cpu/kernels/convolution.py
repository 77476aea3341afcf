"""Kernels of 2-D convolutions whose samples lie side by side in memory.

Images are [channels, height, width, samples]. A row of pixels with all their samples is then one long vector, and a
step of one pixel to the side is a step of as many values as there are samples: whatever the number of channels, every
lane works, where a library that puts channels side by side pads 10 of them to 16, and 20 to 32.

Columns of zeros are part of the memory of an image (`Images.border`); rows outside of it are left out by the loops.

Where pixels of one image are those of every second, third, ... pixel of the other, a vector of several pixels is put
together of parts: the samples of one pixel, or as many of them as go into a vector, lie side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from fedroam.native.ir import KernelBuilder, Value, parts
from fedroam.native.target import KernelSpec, Target

# Sums at a time: none waits for its last addition (two a cycle, four cycles each), and some to spare.
ENOUGH = 12


@dataclass(frozen=True)
class Images:
    """Images in memory: float32 [channels, height, border + width + border, samples]; borders are zero."""

    channels: int
    height: int
    width: int
    border: int = 0

    @property
    def row(self) -> int:
        """Pixels of a row in memory."""
        return self.width + 2 * self.border

    @property
    def plane(self) -> int:
        """Pixels of a channel in memory."""
        return self.height * self.row

    @property
    def pixels(self) -> int:
        """Pixels of all channels in memory."""
        return self.channels * self.plane


@dataclass(frozen=True)
class Weights:
    """Where the weight of output o, input i, row ky and column kx lies: first + o s0 + i s1 + ky s2 + kx s3."""

    height: int
    width: int
    strides: tuple[int, int, int, int]
    first: int = 0

    def turned(self) -> Weights:
        """Inputs and outputs exchanged, rows and columns backwards: the gradient's convolution."""
        out, channels, down, right = self.strides
        last = self.first + (self.height - 1) * down + (self.width - 1) * right
        return Weights(self.height, self.width, (channels, out, -down, -right), last)

    def every(self, step: int, row: int, column: int) -> Weights:
        """Every `step`-th row and column of weights, from these on."""
        out, channels, down, right = self.strides
        first = self.first + row * down + column * right
        height, width = (-(-(size - at) // step) for size, at in ((self.height, row), (self.width, column)))
        return Weights(height, width, (out, channels, step * down, step * right), first)


@dataclass(frozen=True)
class Lattice:
    """Which pixels of an image are meant: every `step`-th, down and across, from a row and a column on."""

    step: int = 1
    row: int = 0
    column: int = 0

    def height(self, of: Images) -> int:
        """Rows of them."""
        return -(-(of.height - self.row) // self.step)

    def width(self, of: Images) -> int:
        """Columns of them."""
        return -(-(of.width - self.column) // self.step)


ALL = Lattice()


def _parts(
    k: KernelBuilder, p: Value, vectors: int, samples: Value, step: int, lanes: int
) -> list[list[int | Value]]:
    """How far beyond `p` the parts of some vectors lie, of what is at p and after it in a row of pixels, where each of
    these is `step` pixels of the row. lanes: samples in a part."""
    if step == 1:
        return [[v * k.lanes] for v in range(vectors)]

    def beyond(at: int) -> Value:
        pixel = k.b.sdiv(k.sum(p, at), samples)
        return k.sum(k.times(k.times(pixel, samples), step - 1), at)

    return [[beyond(v * k.lanes + part) for part in range(0, k.lanes, lanes)] for v in range(vectors)]


@dataclass(frozen=True)
class ConvolutionKernel(KernelSpec):
    """y[o] = bias[o] + sum over i of w[o, i] correlated with x[i]; `above` rows of zeros lie above and below x.

    x has the border of zeros that the widths of x, y and the weights ask for. Kernel: (address of x, of w, of the bias,
    of y, of memory that it does not use; samples). The samples times the columns of y that are written must be a
    multiple of the machine's lanes.

    step: pixels of x from one pixel that is written to the next. beside: columns of zeros that are meant to lie left of
    x, if not its border. into: which pixels of y are written. lanes: where it is not all pixels of x, and of y, the
    number of samples must be a multiple of it, a power of 2.
    """

    x: Images
    y: Images
    weights: Weights
    above: int
    bias: bool
    step: int = 1
    beside: int | None = None
    into: Lattice = ALL
    lanes: int = 1

    def scratch(self, samples: int, target: Target) -> int:
        """Values (float32) that it needs to work in: none."""
        return 0

    @override
    def write(self, module: Any, target: Target) -> int:
        k, x, y = KernelBuilder(module, target.lanes, 5, 1), self.x, self.y
        at_x, at_w, at_bias, at_y, _, samples = k.arguments
        step, into, lanes = self.step, self.into, min(self.lanes, k.lanes)
        length = k.times(into.width(y), samples)
        per_out, per_in, per_row, per_column = self.weights.strides

        def channels(first: int, size: int) -> Any:
            def of_group(group: Value, _: list[Value]) -> None:
                out = k.sum(first, k.times(group, size))
                weights = k.at(at_w, self.weights.first, k.times(out, per_out))
                nothing = k.constant(0.0)
                start = [k.load_spread(k.at(at_bias, out, j)) if self.bias else nothing for j in range(size)]

                def of_row(row: Value, _: list[Value]) -> None:
                    first_line = k.times(row, step)
                    top = k.larger(0, k.b.sub(k.number(self.above), first_line))
                    bottom = k.smaller(
                        self.weights.height, k.b.sub(k.number(x.height + self.above), first_line)
                    )
                    line_of_y = k.sum(k.times(out, y.height), k.times(row, into.step), into.row)
                    written = k.sum(k.times(line_of_y, y.row), y.border + into.column)

                    def block(vectors: int) -> Any:
                        def of_block(p: Value, _: list[Value]) -> None:
                            sums = [start[j] for j in range(size) for _ in range(vectors)]
                            left, stop = self._columns(k, p, vectors * k.lanes, samples)
                            read = _parts(k, p, vectors, samples, step, lanes)

                            def of_input(i: Value, sums: list[Value]) -> list[Value]:
                                def of_weights(ky: Value, sums: list[Value]) -> list[Value]:
                                    line = k.sum(k.times(i, x.height), first_line, ky, -self.above)
                                    pixel = k.sum(k.times(line, x.row), x.border - self._beside)
                                    begin = k.at(at_x, k.times(pixel, samples), p)
                                    w = k.at(weights, k.times(i, per_in), k.times(ky, per_row))

                                    def of_column(kx: int | Value, sums: list[Value]) -> list[Value]:
                                        here = k.at(begin, k.times(kx, samples))
                                        seen = [
                                            k.load_parts([k.at(here, at) for at in parts]) for parts in read
                                        ]
                                        first = k.at(w, k.times(kx, per_column))
                                        for j in range(size):
                                            weight = k.load_spread(k.at(first, j * per_out))
                                            for v in range(vectors):
                                                n = j * vectors + v
                                                sums[n] = k.fma(weight, seen[v], sums[n])
                                        return sums

                                    if x.border:
                                        return k.loop(left, stop, 1, sums, of_column)
                                    for kx in range(self.weights.width):
                                        sums = of_column(kx, sums)
                                    return sums

                                return k.loop(top, bottom, 1, sums, of_weights)

                            sums = k.loop(0, x.channels, 1, sums, of_input)
                            places = _parts(k, p, vectors, samples, into.step, lanes)
                            for j in range(size):
                                target = k.at(at_y, k.times(k.sum(written, j * y.plane), samples), p)
                                for v in range(vectors):
                                    k.store_parts(
                                        sums[j * vectors + v], [k.at(target, at) for at in places[v]]
                                    )

                        return of_block

                    wide = target.vectors * k.lanes
                    many = k.b.sub(length, k.b.srem(length, k.number(wide)))
                    k.loop(0, many, wide, [], block(target.vectors))
                    k.loop(many, length, k.lanes, [], block(1))

                k.loop(0, into.height(y), 1, [], of_row)

            return of_group

        for first, size, groups in parts(y.channels, target.channels):
            k.loop(0, groups, 1, [], channels(first, size))
        return k.end()

    @property
    def _beside(self) -> int:
        return self.x.border if self.beside is None else self.beside

    def _columns(self, k: KernelBuilder, p: Value, count: int, samples: Value) -> tuple[Value, Value]:
        """The first column of weights, and one past the last, that meet more than border: for `count` values from p."""
        first = k.times(k.b.sdiv(p, samples), self.step)
        last = k.times(k.b.sdiv(k.sum(p, count - 1), samples), self.step)
        left = k.larger(0, k.b.sub(k.number(self._beside), last))
        stop = k.smaller(self.weights.width, k.b.sub(k.number(self._beside + self.x.width), first))
        return left, stop


@dataclass(frozen=True)
class WeightGradient(KernelSpec):
    """dw[o, i] += sum over samples and pixels of dy[o] times x[i]; `above` as in the convolution.

    Kernel: (address of x, of dy, of dw, of memory that it does not use; samples). The samples times the width of dy
    must be a multiple of the lanes. step, lanes: as in the convolution.
    """

    x: Images
    y: Images
    weights: Weights
    above: int
    step: int = 1
    lanes: int = 1

    def scratch(self, samples: int, target: Target) -> int:
        """Values (float32) that it needs to work in: none."""
        return 0

    @override
    def write(self, module: Any, target: Target) -> int:
        k, x, y = KernelBuilder(module, target.lanes, 4, 1), self.x, self.y
        at_x, at_y, at_w, _, samples = k.arguments
        length = k.times(y.width, samples)
        right = [k.times(column, samples) for column in range(self.weights.width)]
        per_out, per_in, per_row, per_column = self.weights.strides
        # Of registers, each output takes one for each column and one for its slope; one is left for x.
        fitting = (target.registers - 1) // (self.weights.width + 1)
        # What is put together of parts takes long, and should meet as many slopes as there can be.
        many = max(1, min(-(-ENOUGH // self.weights.width) if self.step == 1 else fitting, fitting))

        def channels(first: int, size: int) -> Any:
            def of_group(group: Value, _: list[Value]) -> None:
                out = k.sum(first, k.times(group, size))

                def of_input(i: Value, _: list[Value]) -> None:
                    def of_weights(ky: Value, _: list[Value]) -> None:
                        before = k.b.sub(k.number(self.above), ky)
                        after = k.b.sub(k.number(x.height + self.above), ky)
                        top = k.larger(0, self._rows(k, before))
                        bottom = k.smaller(y.height, self._rows(k, after))

                        def of_row(row: Value, sums: list[Value]) -> list[Value]:
                            line = k.sum(k.times(i, x.height), k.times(row, self.step), ky, -self.above)
                            begin = k.at(at_x, k.times(k.times(line, x.row), samples))
                            pixel = k.sum(k.times(out, y.height), row)
                            pixel = k.sum(k.times(pixel, y.row), y.border)
                            grads = [
                                k.at(at_y, k.times(k.sum(pixel, j * y.plane), samples)) for j in range(size)
                            ]

                            def of_vector(p: Value, carried: list[Value]) -> list[Value]:
                                sums, walk = carried[: len(nothing)], carried[len(nothing) :]
                                slopes = [k.load(k.at(grad, p)) for grad in grads]
                                places = walk[: len(walk) // 2] or [p]
                                for kx, column in enumerate(right):
                                    seen = k.load_parts([k.at(begin, column, place) for place in places])
                                    for j in range(size):
                                        n = j * len(right) + kx
                                        sums[n] = k.fma(slopes[j], seen, sums[n])
                                return [*sums, *self._walked(k, walk, samples)]

                            walk = self._walk(k, samples)
                            return k.loop(0, length, k.lanes, [*sums, *walk], of_vector)[: len(nothing)]

                        nothing = [k.constant(0.0)] * (size * len(right))
                        sums = k.loop(top, bottom, 1, nothing, of_row)
                        w = k.sum(k.times(out, per_out), k.times(i, per_in), k.times(ky, per_row))
                        for j in range(size):
                            for kx in range(len(right)):
                                place = k.at(at_w, w, self.weights.first + j * per_out + kx * per_column)
                                k.add_to(place, sums[j * len(right) + kx])

                    k.loop(0, self.weights.height, 1, [], of_weights)

                k.loop(0, x.channels, 1, [], of_input)

            return of_group

        for first, size, groups in parts(y.channels, many):
            k.loop(0, groups, 1, [], channels(first, size))
        return k.end()

    def _rows(self, k: KernelBuilder, lines: Value) -> Value:
        """So many lines of x hold so many of dy's rows, begun ones too."""
        return lines if self.step == 1 else k.b.sdiv(k.sum(lines, self.step - 1), k.number(self.step))

    def _walk(self, k: KernelBuilder, samples: Value) -> list[Value]:
        """Of the parts of a row's first vector of x: how far each lies from the row's begin, then how far from its
        pixel's. Nothing where x is read pixel by pixel."""
        if self.step == 1:
            return []
        places = [k.number(part) for part in range(0, k.lanes, min(self.lanes, k.lanes))]
        (begins,) = _parts(k, k.number(0), 1, samples, self.step, min(self.lanes, k.lanes))
        return [*begins, *(k.b.srem(place, samples) for place in places)]

    def _walked(self, k: KernelBuilder, walk: list[Value], samples: Value) -> list[Value]:
        """The same of the next vector. (A division for each part would take longer than all the rest.)"""
        if not walk:
            return []
        lanes, skipped = k.number(k.lanes), k.times(samples, self.step - 1)
        pixels, rest = k.b.sdiv(lanes, samples), k.b.srem(lanes, samples)
        begins, within = [], []
        for begin, place in zip(walk[: len(walk) // 2], walk[len(walk) // 2 :], strict=True):
            there = k.sum(place, rest)
            beyond = k.b.icmp_signed(">=", there, samples)
            more = k.sum(pixels, k.b.zext(beyond, k.whole))
            begins.append(k.sum(begin, lanes, k.times(more, skipped)))
            within.append(k.b.select(beyond, k.b.sub(there, samples), there))
        return [*begins, *within]
