"""Kernels of two 1-D convolutions with a ReLU between, of which the largest value over the whole length is kept.

Here the lanes are output channels: a place's inputs, and those of the places beside it, are then one stretch of memory,
and a value's largest place is found where it is summed up, so that nothing as long as the sequence is written. Only
that place gets a gradient: the backward pass is a few vectors for each output.

Places that see nothing but zeros all have the same values, and the first of equal ones counts: the others are left out.
Records with features of one category among many are mostly zeros (three quarters of the places for UNSW-NB15).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from fedroam.native.ir import KernelBuilder, Value, parts
from fedroam.native.target import KernelSpec, Target, ir

AT_ONCE = 8  # weights of the first convolution whose gradients are summed up at a time


@dataclass(frozen=True)
class Conv1dSizes:
    """Sizes: x float32 [samples, inputs, length]; kernels of `near` and `far` places; `hidden` channels between.

    The channels between and the outputs must fill the machine's vectors (`fits`).
    """

    inputs: int
    length: int
    hidden: int
    near: int
    outputs: int
    far: int

    def fits(self, target: Target) -> bool:
        """Whether the kernels can be written."""
        whole = self.hidden % target.lanes == self.outputs % target.lanes == 0
        return whole and self.places > 0

    @property
    def between(self) -> int:
        """Places after the first convolution."""
        return self.length - self.near + 1

    @property
    def places(self) -> int:
        """Places after the second."""
        return self.between - self.far + 1

    @property
    def reach(self) -> int:
        """Places of the input that a value of the second convolution sees."""
        return self.near + self.far - 1

    def scratch(self, target: Target) -> int:
        """Values (float32) of scratch memory: [between, hidden], and a list of places."""
        return self.between * self.hidden + 2 * (self.places + target.channels)

    @property
    def taps(self) -> int:
        """Inputs of a value of the second convolution."""
        return self.far * self.hidden

    def write_between(self, k: KernelBuilder, x: Value, weights: Value, bias: Value, scratch: Value) -> None:
        """relu(first convolution) of the sample at x into scratch [between, hidden]; weights [near, inputs, hidden]."""
        vectors = self.hidden // k.lanes

        def of_place(p: Value, _: list[Value]) -> None:
            sums = [k.load(k.at(bias, v * k.lanes)) for v in range(vectors)]

            def of_input(i: Value, sums: list[Value]) -> list[Value]:
                for near in range(self.near):
                    seen = k.load_spread(k.at(x, k.times(i, self.length), p, near))
                    row = k.at(weights, k.times(i, self.hidden), near * self.inputs * self.hidden)
                    sums = [
                        k.fma(seen, k.load(k.at(row, v * k.lanes)), total) for v, total in enumerate(sums)
                    ]
                return sums

            for v, total in enumerate(k.loop(0, self.inputs, 1, sums, of_input)):
                place = k.at(scratch, k.times(p, self.hidden), v * k.lanes)
                k.store(k.maximum(total, k.constant(0.0)), place)

        k.loop(0, self.between, 1, [], of_place)

    def write_list(self, k: KernelBuilder, x: Value, into: Value, more: int) -> Value:
        """The places (int64) of the second convolution that see something in the sample at x, and the first of those
        that see nothing but zeros, into a list; how many they are. The last is there `more` times again.
        """

        def run_of_zeros(i: Value, run: Value) -> Value:
            """How many places up to i are all zeros: +0.0, as another zero may have other products."""

            def of_input(row: Value, bits: list[Value]) -> list[Value]:
                value = k.at(x, k.times(row, self.length), i)
                return [k.b.or_(bits[0], k.b.load(value, typ=k.half))]

            (bits,) = k.loop(0, self.inputs, 1, [ir.Constant(k.half, 0)], of_input)
            zero = k.b.icmp_unsigned("==", bits, ir.Constant(k.half, 0))
            return k.b.select(zero, k.sum(run, 1), k.number(0))

        def of_place(p: Value, before: list[Value]) -> list[Value]:
            count, run, known = before
            run = run_of_zeros(k.sum(p, self.reach - 1), run)
            nothing = k.b.zext(k.b.icmp_signed(">=", run, k.number(self.reach)), k.whole)
            k.store_whole(p, into, count)
            left_out = k.b.and_(nothing, known)
            return [k.sum(count, k.b.sub(k.number(1), left_out)), run, k.b.or_(known, nothing)]

        start = k.loop(0, self.reach - 1, 1, [k.number(0)], lambda i, run: [run_of_zeros(i, run[0])])
        count, _, _ = k.loop(0, self.places, 1, [k.number(0), *start, k.number(0)], of_place)
        last = k.whole_at(into, k.sum(count, -1))
        for number in range(more):
            k.store_whole(last, into, k.sum(count, number))
        return count


@dataclass(frozen=True)
class Conv1dMaxPool(KernelSpec):
    """y[n, o] = max over places p of bias[o] + sum over i and d of w[o, i, d] relu(first convolution)[n, i, p + d].

    Kernel: (addresses of x, of the first weights [near, inputs, hidden] and bias, of the second weights [far, hidden,
    outputs] and bias, of scratch memory (`Conv1dSizes.scratch`), of y [samples, outputs], of the places [samples,
    outputs] as float32; samples). Of equal values the first place is taken; a NaN is larger than all.
    """

    sizes: Conv1dSizes

    @override
    def write(self, module: Any, target: Target) -> int:
        s, k = self.sizes, KernelBuilder(module, target.lanes, 8, 1)
        at_x, at_first, at_bias, at_second, at_second_bias, scratch, at_y, at_place, samples = k.arguments

        chosen = k.at(scratch, s.between * s.hidden)

        def group(first: int, size: int, n: Value, count: Value) -> Any:
            """So many vectors of outputs, `size` at a time, at the chosen places."""

            def of_group(number: Value, _: list[Value]) -> None:
                out = k.times(k.sum(first, k.times(number, size)), k.lanes)
                weights = k.at(at_second, out)
                start = [k.load(k.at(at_second_bias, out, v * k.lanes)) for v in range(size)]

                def of_block(at: Value, best: list[Value]) -> list[Value]:
                    places = [k.whole_at(chosen, k.sum(at, q)) for q in range(target.channels)]
                    seen_at = [k.at(scratch, k.times(place, s.hidden)) for place in places]

                    def of_tap(tap: Value, sums: list[Value]) -> list[Value]:
                        row = k.at(weights, k.times(tap, s.outputs))
                        w = [k.load(k.at(row, v * k.lanes)) for v in range(size)]
                        for q, begin in enumerate(seen_at):
                            seen = k.load_spread(k.at(begin, tap))
                            for v in range(size):
                                sums[q * size + v] = k.fma(seen, w[v], sums[q * size + v])
                        return sums

                    sums = k.loop(0, s.taps, 1, start * len(places), of_tap)
                    for q, place in enumerate(places):
                        here = k.spread(k.b.sitofp(place, k.float))
                        for v in range(size):
                            value = sums[q * size + v]
                            larger = k.b.or_(
                                k.b.fcmp_ordered(">", value, best[v]),
                                k.b.fcmp_unordered("uno", value, value),
                            )
                            best[v] = k.b.select(larger, value, best[v])
                            best[size + v] = k.b.select(larger, here, best[size + v])
                    return best

                best = [k.constant(float("-inf"))] * size + [k.constant(0.0)] * size
                best = k.loop(0, count, target.channels, best, of_block)
                for v in range(size):
                    into = k.sum(k.times(n, s.outputs), out, v * k.lanes)
                    k.store(best[v], k.at(at_y, into))
                    k.store(best[size + v], k.at(at_place, into))

            return of_group

        def of_sample(n: Value, _: list[Value]) -> None:
            x = k.at(at_x, k.times(n, s.inputs * s.length))
            s.write_between(k, x, at_first, at_bias, scratch)
            count = s.write_list(k, x, chosen, target.channels - 1)
            for first, size, groups in parts(s.outputs // k.lanes, target.vectors):
                k.loop(0, groups, 1, [], group(first, size, n, count))

        k.loop(0, samples, 1, [], of_sample)
        return k.end()


@dataclass(frozen=True)
class Conv1dMaxPoolGradient(KernelSpec):
    """The gradients of `Conv1dMaxPool`, added to: those of its weights and biases, as they lie for this kernel.

    Kernel: (addresses of x, of the first weights [near, inputs, hidden] and bias, of the second weights [outputs, far,
    hidden], of the gradient of y and the places [samples, outputs], of twice the scratch memory for [between, hidden],
    of the gradients of the first weights [near, inputs, hidden] and bias, of the second [outputs, far, hidden] and
    bias; samples).
    """

    sizes: Conv1dSizes

    @override
    def write(self, module: Any, target: Target) -> int:
        s, k = self.sizes, KernelBuilder(module, target.lanes, 12, 1)
        at_x, at_first, at_bias, at_second, at_dy, at_place, scratch, slopes, *into, samples = k.arguments
        into_first, into_bias, into_second, into_second_bias = into
        nothing = k.constant(0.0)

        def of_output(n: Value) -> Any:
            def body(out: Value, _: list[Value]) -> None:
                one = k.sum(k.times(n, s.outputs), out)
                slope = k.b.load(k.at(at_dy, one), typ=k.float)
                place = k.b.fptosi(k.b.load(k.at(at_place, one), typ=k.float), k.whole)
                bias = k.at(into_second_bias, out)
                k.b.store(k.b.fadd(k.b.load(bias, typ=k.float), slope), bias)
                wide, begin = k.spread(slope), k.times(place, s.hidden)

                def of_vector(t: Value, _: list[Value]) -> None:
                    weight, window = k.sum(k.times(out, s.taps), t), k.sum(begin, t)
                    for target, factor in (
                        (k.at(into_second, weight), k.at(scratch, window)),
                        (k.at(slopes, window), k.at(at_second, weight)),
                    ):
                        k.store(k.fma(wide, k.load(factor), k.load(target)), target)

                # Half of the outputs, which ReLU or dropout has set to zero, get no gradient.
                some = k.b.zext(k.b.fcmp_unordered("!=", slope, ir.Constant(k.float, 0.0)), k.whole)
                k.loop(0, k.times(some, s.taps), k.lanes, [], of_vector)

            return body

        def of_first(x: Value) -> None:
            """Gradients of the first convolution, by vectors of its channels."""
            weights = [(near, i) for i in range(s.inputs) for near in range(s.near)]

            def of_channels(v: Value, _: list[Value]) -> None:
                for first in range(0, len(weights), AT_ONCE):
                    some = weights[first : first + AT_ONCE]

                    def of_place(p: Value, sums: list[Value], some: Any = some) -> list[Value]:
                        here = k.sum(k.times(p, s.hidden), v)
                        passed = k.b.fcmp_unordered(">", k.load(k.at(scratch, here)), nothing)
                        slope = k.b.select(passed, k.load(k.at(slopes, here)), nothing)
                        seen = [k.load_spread(k.at(x, p, i * s.length + near)) for near, i in some]
                        return [k.fma(a, slope, b) for a, b in zip(seen, sums, strict=False)] + [
                            k.b.fadd(sums[-1], slope)
                        ]

                    *sums, total = k.loop(0, s.between, 1, [nothing] * (len(some) + 1), of_place)
                    targets = [k.at(into_first, v, (near * s.inputs + i) * s.hidden) for near, i in some]
                    if not first:
                        targets, sums = [*targets, k.at(into_bias, v)], [*sums, total]
                    for target, more in zip(targets, sums, strict=True):
                        k.store(k.b.fadd(k.load(target), more), target)

            k.loop(0, s.hidden, k.lanes, [], of_channels)

        def of_sample(n: Value, _: list[Value]) -> None:
            x = k.at(at_x, k.times(n, s.inputs * s.length))
            s.write_between(k, x, at_first, at_bias, scratch)
            size = s.between * s.hidden
            k.loop(0, size, k.lanes, [], lambda at, _: k.store(nothing, k.at(slopes, at)))
            k.loop(0, s.outputs, 1, [], of_output(n))
            of_first(x)

        k.loop(0, samples, 1, [], of_sample)
        return k.end()
