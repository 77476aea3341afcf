"""Kernels of what follows a convolution: group norm, 2x2 max-pool and ReLU in one pass over memory, and back.

Images lie as for the convolutions: each lane is a sample, so that a norm's sums need no exchange between lanes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from typing_extensions import override

from fedroam.learning.cpu.kernels.convolution import Images
from fedroam.native.ir import KernelBuilder, Value
from fedroam.native.target import KernelSpec, Target


@dataclass(frozen=True)
class Epilogue:
    """From a convolution's result x to the next layer's input y: [norm], [max of side x side pixels], [ReLU].

    Where x has an odd number of rows or columns, the pool leaves the last one out; a norm counts it in. groups: of the
    norm, 0 is no norm; eps is the norm's. lanes: samples in a vector, of which the number of samples must be a
    multiple.
    """

    x: Images
    y: Images
    side: int
    relu: bool
    groups: int
    eps: float
    lanes: int

    def places(
        self, k: KernelBuilder, channel: Value, row: Value, column: Value, samples: Value
    ) -> list[Value]:
        """How far the pixels of x lie that become one pixel of y, in torch's order of looking at them."""
        x, found = self.x, []
        for down in range(self.side):
            for right in range(self.side):
                line = k.sum(k.times(channel, x.height), k.times(row, self.side), down)
                pixel = k.sum(k.times(line, x.row), k.times(column, self.side), right + x.border)
                found.append(k.times(pixel, samples))
        return found

    def place(
        self, k: KernelBuilder, of: Images, channel: Value, row: Value, column: Value, samples: Value
    ) -> Value:
        """How far a pixel lies in images shaped as y."""
        line = k.sum(k.times(channel, of.height), row)
        return k.times(k.sum(k.times(line, of.row), column, of.border), samples)


# Times the variance of a group: how far its first value may lie from its mean, squared, before sums around it lose
# too many digits.
FAR = 64.0


@dataclass(frozen=True)
class Moments(Epilogue, KernelSpec):
    """Mean and 1 / sqrt(variance + eps) of every group and sample.

    Kernel: (address of x, of the means, of the scales, samples); the last two are [groups, samples].
    """

    @override
    def write(self, module: Any, target: Target) -> int:
        k, x = KernelBuilder(module, self.lanes, 3, 1), self.x
        at_x, at_mean, at_scale, samples = k.arguments
        members = x.channels // self.groups
        abreast = next(n for n in (4, 2, 1) if x.width % n == 0)  # sums that need not wait for each other
        share = k.constant(1.0 / (members * x.height * x.width))
        nothing = [k.constant(0.0)] * 2

        def of_group(group: Value, _: list[Value]) -> None:
            def of_samples(n: Value, _: list[Value]) -> None:
                first = k.times(group, members)
                origin = k.at(at_x, k.times(k.sum(k.times(first, x.plane), x.border), samples), n)

                def of_row(row: Value, given: list[Value]) -> list[Value]:
                    begin, pivot, totals = (
                        k.at(origin, k.times(k.times(row, x.row), samples)),
                        given[0],
                        given[1:],
                    )

                    def of_pixels(column: Value, sums: list[Value]) -> list[Value]:
                        for j in range(abreast):
                            seen = k.load(k.at(begin, k.times(k.sum(column, j), samples)))
                            off = k.b.fsub(seen, pivot)
                            sums[2 * j] = k.b.fadd(sums[2 * j], off)
                            sums[2 * j + 1] = k.fma(off, off, sums[2 * j + 1])
                        return sums

                    sums = k.loop(0, x.width, abreast, nothing * abreast, of_pixels)
                    for j in range(abreast):
                        totals = [k.b.fadd(totals[0], sums[2 * j]), k.b.fadd(totals[1], sums[2 * j + 1])]
                    return [pivot, *totals]

                def around(pivot: Value) -> list[Value]:
                    """The pivot, the mean of what differs from it, and the variance."""
                    # The channels of a group lie one below the other: rows of one tall image.
                    _, total, squares = k.loop(0, members * x.height, 1, [pivot, *nothing], of_row)
                    mean = k.b.fmul(total, share)
                    spread = k.b.fsub(k.b.fmul(squares, share), k.b.fmul(mean, mean))
                    return [pivot, mean, k.maximum(spread, k.constant(0.0))]

                # Sums of what differs from a value of the group's own: no large numbers are subtracted. But where that
                # value lies far from the others, they are: those samples are summed up once more, around their mean.
                first_look = around(k.load(origin))
                pivot, mean, spread = first_look
                far = k.b.fcmp_ordered(">", k.b.fmul(mean, mean), k.b.fmul(spread, k.constant(FAR)))
                marked = k.fold(k.b.select(far, k.constant(1.0), k.constant(0.0)), k.maximum)

                def of_far(_: Value, found: list[Value]) -> list[Value]:
                    better = around(k.b.fadd(pivot, mean))
                    return [k.b.select(far, new, old) for new, old in zip(better, found, strict=True)]

                pivot, mean, spread = k.loop(0, k.b.fptosi(marked, k.whole), 1, first_look, of_far)
                into = k.sum(k.times(group, samples), n)
                k.store(k.b.fadd(pivot, mean), k.at(at_mean, into))
                root = k.root(k.b.fadd(spread, k.constant(self.eps)))
                k.store(k.b.fdiv(k.constant(1.0), root), k.at(at_scale, into))

            k.loop(0, samples, k.lanes, [], of_samples)

        k.loop(0, self.groups, 1, [], of_group)
        return k.end()


def _normed(
    k: KernelBuilder, spec: Epilogue, channel: Value, n: Value, given: list[Value]
) -> tuple[Value, Value]:
    """a and b of the norm a x + b of a channel. given: addresses of gamma, beta, means, scales, and the samples."""
    gamma, beta, means, scales, samples = given
    place = k.sum(k.times(k.b.sdiv(channel, k.number(spec.x.channels // spec.groups)), samples), n)
    slope = k.b.fmul(k.load(k.at(scales, place)), k.load_spread(k.at(gamma, channel)))
    below = k.b.fneg(k.load(k.at(means, place)))
    return slope, k.fma(below, slope, k.load_spread(k.at(beta, channel)))


@dataclass(frozen=True)
class Forward(Epilogue, KernelSpec):
    """Kernel: (address of x, of gamma, of beta, of the means, of the scales, of y, samples)."""

    @override
    def write(self, module: Any, target: Target) -> int:
        k = KernelBuilder(module, self.lanes, 6, 1)
        at_x, *norm, at_y, samples = k.arguments

        def of_channel(channel: Value, _: list[Value]) -> None:
            def of_samples(n: Value, _: list[Value]) -> None:
                if self.groups:
                    slope, level = _normed(k, self, channel, n, [*norm, samples])

                def of_row(row: Value, _: list[Value]) -> None:
                    def of_pixel(column: Value, _: list[Value]) -> None:
                        best: Value = None
                        for place in self.places(k, channel, row, column, samples):
                            seen = k.load(k.at(at_x, place, n))
                            seen = k.fma(seen, slope, level) if self.groups else seen
                            best = seen if best is None else k.maximum(best, seen)
                        best = k.maximum(best, k.constant(0.0)) if self.relu else best
                        k.store(best, k.at(at_y, self.place(k, self.y, channel, row, column, samples), n))

                    k.loop(0, self.y.width, 1, [], of_pixel)

                k.loop(0, self.y.height, 1, [], of_row)

            k.loop(0, samples, k.lanes, [], of_samples)

        k.loop(0, self.x.channels, 1, [], of_channel)
        return k.end()


@dataclass(frozen=True)
class Backward(Epilogue, KernelSpec):
    """The gradient's way back. Among equal pixels the first gets it, as torch does it.

    dx: images that the gradient of x is written into; pixels that a pool left out must be zero, and stay so without
    a norm. bias: whether the convolution has one. Kernel: (address of x,
    of y, of dy, of dx, of gamma, of beta, of the means, of the scales, of the gradients of gamma, of beta, and of the
    bias, samples); dy is shaped as y without borders; the last three gradients are added to.

    Norm: with h = (x - mean) scale, and e the gradient of the norm's result, the gradient of x is
    scale (gamma e - mean(gamma e) - h mean(gamma e h)), the means over the group's pixels (Wu and He, 2018, sec. 3).
    """

    dx: Images
    bias: bool

    @override
    def write(self, module: Any, target: Target) -> int:
        k = KernelBuilder(module, self.lanes, 11, 1)
        of_channels = self._normed if self.groups else self._plain
        members = self.x.channels // max(self.groups, 1)

        def of_samples(n: Value, _: list[Value]) -> None:
            def of_group(group: Value, _: list[Value]) -> None:
                of_channels(k, k.times(group, members), k.times(k.sum(group, 1), members), n)

            k.loop(0, max(self.groups, 1), 1, [], of_group)

        k.loop(0, k.arguments[-1], k.lanes, [], of_samples)
        return k.end()

    def _pixels(
        self, k: KernelBuilder, channel: Value, n: Value, carried: list[Value], do: Any
    ) -> list[Value]:
        """Every pixel of y: `do(column, row, x and y's values, dy where it passes, carried)`."""
        at_x, at_y, at_dy = k.arguments[:3]
        samples = k.arguments[-1]
        flat = Images(self.y.channels, self.y.height, self.y.width)

        def of_row(row: Value, carried: list[Value]) -> list[Value]:
            def of_pixel(column: Value, carried: list[Value]) -> Any:
                slope = k.load(k.at(at_dy, self.place(k, flat, channel, row, column, samples), n))
                y = k.load(k.at(at_y, self.place(k, self.y, channel, row, column, samples), n))
                if self.relu:
                    nothing = k.constant(0.0)
                    slope = k.b.select(k.b.fcmp_ordered(">", y, nothing), slope, nothing)
                places = self.places(k, channel, row, column, samples)
                seen = [k.load(k.at(at_x, place, n)) for place in places]
                return do(row, column, seen, y, slope, carried)

            return k.loop(0, self.y.width, 1, carried, of_pixel)

        return k.loop(0, self.y.height, 1, carried, of_row)

    def _left_out(
        self, k: KernelBuilder, channel: Value, n: Value, carried: list[Value], do: Any
    ) -> list[Value]:
        """Every pixel of x that becomes none of y: `do(x's value, where its gradient lies, carried)`."""
        x, high, wide = self.x, self.side * self.y.height, self.side * self.y.width
        at_x, samples, at_dx = k.arguments[0], k.arguments[-1], k.arguments[3]

        def of_row(first: int, row: Value, carried: list[Value]) -> list[Value]:
            def of_pixel(column: Value, carried: list[Value]) -> Any:
                seen = k.load(k.at(at_x, self.place(k, x, channel, row, column, samples), n))
                there = k.at(at_dx, self.place(k, self.dx, channel, row, column, samples), n)
                return do(seen, there, carried)

            return k.loop(first, x.width, 1, carried, of_pixel)

        if wide < x.width:
            carried = k.loop(0, high, 1, carried, partial(of_row, wide))
        return k.loop(high, x.height, 1, carried, partial(of_row, 0)) if high < x.height else carried

    def _share(self, k: KernelBuilder, values: list[Value], y: Value, slope: Value) -> list[Value]:
        """What of dy goes to each pixel."""
        if len(values) == 1:
            return [slope]
        found, nothing = [], k.constant(0.0)
        for value in values:
            it = k.b.fcmp_ordered("==", value, y)
            found.append(k.b.select(it, slope, nothing))
            slope = k.b.select(it, nothing, slope)
        return found

    def _write(
        self, k: KernelBuilder, channel: Value, row: Value, column: Value, n: Value, values: list[Value]
    ) -> None:
        target = Epilogue(self.dx, self.y, self.side, self.relu, self.groups, self.eps, self.lanes)
        for place, value in zip(target.places(k, channel, row, column, k.arguments[-1]), values, strict=True):
            k.store(value, k.at(k.arguments[3], place, n))

    def _plain(self, k: KernelBuilder, first: Value, last: Value, n: Value) -> None:
        def of_channel(channel: Value, _: list[Value]) -> None:
            def do(row: Value, column: Value, seen: list[Value], y: Value, slope: Value, sums: Any) -> Any:
                self._write(k, channel, row, column, n, self._share(k, seen, y, slope))
                return [k.b.fadd(sums[0], slope)]

            (total,) = self._pixels(k, channel, n, [k.constant(0.0)], do)
            if self.bias:
                k.add_to(k.at(k.arguments[10], channel), total)

        k.loop(first, last, 1, [], of_channel)

    def _normed(self, k: KernelBuilder, first: Value, last: Value, n: Value) -> None:
        gamma, beta, means, scales, for_gamma, for_beta, for_bias, samples = k.arguments[4:]
        members = self.x.channels // self.groups
        place = k.sum(k.times(k.b.sdiv(first, k.number(members)), samples), n)
        mean, scale = k.load(k.at(means, place)), k.load(k.at(scales, place))
        nothing = k.constant(0.0)

        def sums_of(channel: Value, totals: list[Value]) -> list[Value]:
            slope_of, level = _normed(k, self, channel, n, [gamma, beta, means, scales, samples])

            def do(row: Value, column: Value, seen: list[Value], y: Value, slope: Value, sums: Any) -> Any:
                parts = self._share(k, [k.fma(x, slope_of, level) for x in seen], y, slope)
                total, with_h = sums
                for x, part in zip(seen, parts, strict=True):
                    total = k.b.fadd(total, part)
                    with_h = k.fma(k.b.fmul(k.b.fsub(x, mean), scale), part, with_h)
                return [total, with_h]

            total, with_h = self._pixels(k, channel, n, [nothing] * 2, do)
            k.add_to(k.at(for_beta, channel), total)
            k.add_to(k.at(for_gamma, channel), with_h)
            weight = k.load_spread(k.at(gamma, channel))
            return [k.fma(weight, total, totals[0]), k.fma(weight, with_h, totals[1])]

        total, with_h = k.loop(first, last, 1, [nothing] * 2, sums_of)
        share = k.constant(1.0 / (members * self.x.height * self.x.width))
        # dx = (scale gamma) e + bent x + level, since h is linear in x.
        bent = k.b.fneg(k.b.fmul(k.b.fmul(scale, scale), k.b.fmul(with_h, share)))
        flat = k.b.fneg(k.fma(bent, mean, k.b.fmul(scale, k.b.fmul(total, share))))

        def of_channel(channel: Value, _: list[Value]) -> None:
            slope_of, level = _normed(k, self, channel, n, [gamma, beta, means, scales, samples])

            def do(row: Value, column: Value, seen: list[Value], y: Value, slope: Value, sums: Any) -> Any:
                parts = self._share(k, [k.fma(x, slope_of, level) for x in seen], y, slope)
                values = [
                    k.fma(slope_of, part, k.fma(bent, x, flat)) for x, part in zip(seen, parts, strict=True)
                ]
                self._write(k, channel, row, column, n, values)
                total = sums[0]
                for value in values:
                    total = k.b.fadd(total, value)
                return [total]

            def do_left_out(x: Value, there: Value, sums: Any) -> Any:
                value = k.fma(bent, x, flat)
                k.store(value, there)
                return [k.b.fadd(sums[0], value)]

            sums = self._pixels(k, channel, n, [nothing], do)
            (total,) = self._left_out(k, channel, n, sums, do_left_out)
            if self.bias:
                k.add_to(k.at(for_bias, channel), total)

        k.loop(first, last, 1, [], of_channel)
