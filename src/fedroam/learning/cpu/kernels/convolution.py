"""Kernels of 2-D convolutions whose samples lie side by side in memory.

Images are [channels, height, width, samples]. A row of pixels with all their samples is then one long vector, and a
step of one pixel to the side is a step of as many values as there are samples: whatever the number of channels, every
lane works, where a library that puts channels side by side pads 10 of them to 16, and 20 to 32.

Columns of zeros are part of the memory of an image (`Images.border`); rows outside of it are left out by the loops.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from fedroam.learning.cpu.kernels.ir import KernelBuilder, Value, parts
from fedroam.learning.cpu.kernels.target import KernelSpec, Target

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


@dataclass(frozen=True)
class ConvolutionKernel(KernelSpec):
    """y[o] = bias[o] + sum over i of w[o, i] correlated with x[i]; `above` rows of zeros lie above and below x.

    x has the border of zeros that the widths of x, y and the weights ask for. Kernel: (address of x, of w, of the bias,
    of y, of memory that it does not use; samples). The samples times the width of y must be a multiple of the machine's
    lanes.
    """

    x: Images
    y: Images
    weights: Weights
    above: int
    bias: bool

    def scratch(self, samples: int, target: Target) -> int:
        """Values (float32) that it needs to work in: none."""
        return 0

    @override
    def write(self, module: Any, target: Target) -> int:
        k, x, y = KernelBuilder(module, target.lanes, 5, 1), self.x, self.y
        at_x, at_w, at_bias, at_y, _, samples = k.arguments
        length = k.times(y.width, samples)
        per_out, per_in, per_row, per_column = self.weights.strides

        def channels(first: int, size: int) -> Any:
            def of_group(group: Value, _: list[Value]) -> None:
                out = k.sum(first, k.times(group, size))
                weights = k.at(at_w, self.weights.first, k.times(out, per_out))
                nothing = k.constant(0.0)
                start = [k.load_spread(k.at(at_bias, out, j)) if self.bias else nothing for j in range(size)]

                def of_row(row: Value, _: list[Value]) -> None:
                    top = k.larger(0, k.b.sub(k.number(self.above), row))
                    bottom = k.smaller(self.weights.height, k.b.sub(k.number(x.height + self.above), row))
                    into = k.sum(k.times(k.sum(k.times(out, y.height), row), y.row), y.border)

                    def block(vectors: int) -> Any:
                        def of_block(p: Value, _: list[Value]) -> None:
                            sums = [start[j] for j in range(size) for _ in range(vectors)]
                            left, stop = self._columns(k, p, vectors * k.lanes, samples)

                            def of_input(i: Value, sums: list[Value]) -> list[Value]:
                                def of_weights(ky: Value, sums: list[Value]) -> list[Value]:
                                    line = k.sum(k.times(i, x.height), row, ky, -self.above)
                                    begin = k.at(at_x, k.times(k.times(line, x.row), samples), p)
                                    w = k.at(weights, k.times(i, per_in), k.times(ky, per_row))

                                    def of_column(kx: int | Value, sums: list[Value]) -> list[Value]:
                                        here = k.at(begin, k.times(kx, samples))
                                        seen = [k.load(k.at(here, v * k.lanes)) for v in range(vectors)]
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
                            for j in range(size):
                                target = k.at(at_y, k.times(k.sum(into, j * y.plane), samples), p)
                                for v in range(vectors):
                                    k.store(sums[j * vectors + v], k.at(target, v * k.lanes))

                        return of_block

                    wide = target.vectors * k.lanes
                    many = k.b.sub(length, k.b.srem(length, k.number(wide)))
                    k.loop(0, many, wide, [], block(target.vectors))
                    k.loop(many, length, k.lanes, [], block(1))

                k.loop(0, y.height, 1, [], of_row)

            return of_group

        for first, size, groups in parts(y.channels, target.channels):
            k.loop(0, groups, 1, [], channels(first, size))
        return k.end()

    def _columns(self, k: KernelBuilder, p: Value, count: int, samples: Value) -> tuple[Value, Value]:
        """The first column of weights, and one past the last, that meet more than border: for `count` values from p."""
        first = k.b.sdiv(p, samples)
        last = k.b.sdiv(k.sum(p, count - 1), samples)
        left = k.larger(0, k.b.sub(k.number(self.x.border), last))
        stop = k.smaller(self.weights.width, k.b.sub(k.number(self.x.border + self.x.width), first))
        return left, stop


@dataclass(frozen=True)
class WeightGradient(KernelSpec):
    """dw[o, i] += sum over samples and pixels of dy[o] times x[i]; `above` as in the convolution.

    Kernel: (address of x, of dy, of dw, of memory that it does not use; samples). The samples times the width of dy
    must be a multiple of the lanes.
    """

    x: Images
    y: Images
    weights: Weights
    above: int

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
        many = max(1, min(-(-ENOUGH // self.weights.width), fitting))

        def channels(first: int, size: int) -> Any:
            def of_group(group: Value, _: list[Value]) -> None:
                out = k.sum(first, k.times(group, size))

                def of_input(i: Value, _: list[Value]) -> None:
                    def of_weights(ky: Value, _: list[Value]) -> None:
                        top = k.larger(0, k.b.sub(k.number(self.above), ky))
                        bottom = k.smaller(y.height, k.b.sub(k.number(x.height + self.above), ky))

                        def of_row(row: Value, sums: list[Value]) -> list[Value]:
                            line = k.sum(k.times(i, x.height), row, ky, -self.above)
                            begin = k.at(at_x, k.times(k.times(line, x.row), samples))
                            pixel = k.sum(k.times(k.sum(k.times(out, y.height), row), y.row), y.border)
                            grads = [
                                k.at(at_y, k.times(k.sum(pixel, j * y.plane), samples)) for j in range(size)
                            ]

                            def of_vector(p: Value, sums: list[Value]) -> list[Value]:
                                slopes = [k.load(k.at(grad, p)) for grad in grads]
                                for kx, step in enumerate(right):
                                    seen = k.load(k.at(begin, step, p))
                                    for j in range(size):
                                        n = j * len(right) + kx
                                        sums[n] = k.fma(slopes[j], seen, sums[n])
                                return sums

                            return k.loop(0, length, k.lanes, sums, of_vector)

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
