"""Linear layers with ReLU between, on their way forward: what training and evaluation have in common.

The lanes are inputs of a layer, which lie side by side in samples and weights. Vectors of inputs that are zeros in all
samples at hand are left out, which changes no sum: in images of digits they are a quarter to a half.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fedroam.learning.layout import Entry
from fedroam.native.ir import Body, KernelBuilder, Value, parts
from fedroam.native.target import Target, ir

NEAR = 48  # samples that stay in a core's cache while the weights pass by


@dataclass(frozen=True)
class DenseLayer:
    """Sizes of a linear layer, and where its weight [outputs, inputs] and bias lie in a row; bias -1 is none."""

    inputs: int
    outputs: int
    weight: int
    bias: int

    @classmethod
    def of(cls, weight: Entry, bias: Entry | None) -> DenseLayer:
        """That of a row in which weight and bias, if there is one, lie so."""
        outputs, inputs = weight.shape
        return cls(inputs, outputs, weight.offset, -1 if bias is None else bias.offset)


def lists(inputs: int, n: int) -> int:
    """Values (float32) of memory for lists of what is not zero in n samples."""
    return 2 * max(min(n, NEAR) * (inputs // 4 + 1), n + 1) + 1


class Nonzero:
    """Writes lists of what is not zero in the inputs of a first layer: how many entries there are, then these (int64).

    memory: for `lists(inputs, n)` values, behind so many others.
    """

    def __init__(self, k: KernelBuilder, memory: Value, behind: Value) -> None:
        # Whole numbers of 64 bits lie at even places.
        self.k, self.memory = k, k.at(memory, k.b.and_(behind, k.number(1)))

    def place(self, number: int | Value, size: int) -> Value:
        """The address of a list, of which each takes so many whole numbers."""
        return self.k.b.gep(self.memory, [self.k.times(number, size)], source_etype=self.k.whole)

    def entries(self, place: Value, carried: list[Value], body: Body) -> list[Value]:
        """For each entry of a list: body(entry, carried) gives the next `carried`; the last of them."""
        k = self.k
        end = k.sum(k.whole_at(place, k.number(0)), 1)
        return k.loop(1, end, 1, carried, lambda i, before: body(k.whole_at(place, i), before))

    def write(
        self, place: Value, stop: int | Value, step: int, vectors: Callable[[Value], list[Value]]
    ) -> None:
        """Into a list those of 0, step, 2 step, ... below `stop` of which one of these vectors is not zero."""
        k, bits = self.k, ir.VectorType(self.k.half, self.k.lanes)

        def one(at: Value, count: list[Value]) -> list[Value]:
            all_bits, *others = (k.b.bitcast(vector, bits) for vector in vectors(at))
            for other in others:
                all_bits = k.b.or_(all_bits, other)
            lanes = k.b.icmp_unsigned("!=", all_bits, ir.Constant(bits, [0] * k.lanes))
            mask = ir.IntType(k.lanes)
            some = k.b.icmp_unsigned("!=", k.b.bitcast(lanes, mask), ir.Constant(mask, 0))
            k.store_whole(at, place, k.sum(count[0], 1))
            return [k.sum(count[0], k.b.zext(some, k.whole))]

        (count,) = k.loop(0, stop, step, [k.number(0)], one)
        k.store_whole(count, place, k.number(0))


class DenseForward:
    """Writes the loops from n samples to their logits, and what softmax makes of these.

    row: address of the parameters. inputs: gives the address of a sample's inputs. outputs: addresses of memory for
    what each layer gives, [n, outputs]. activated: whether there is a ReLU behind the last layer, too. nonzero: what
    lists of the first layer's inputs leave out their zeros, None where there are hardly any.
    """

    def __init__(
        self,
        layers: tuple[DenseLayer, ...],
        k: KernelBuilder,
        target: Target,
        n: Value,
        row: Value,
        inputs: Callable[[Value], Value],
        outputs: list[Value],
        activated: bool = False,
        nonzero: Nonzero | None = None,
    ) -> None:
        self.layers, self.k, self.target, self.n, self.nonzero = layers, k, target, n, nonzero
        self.row, self.inputs, self.outputs, self.activated = row, inputs, outputs, activated

    def write(self) -> None:
        """All layers, one after the other."""
        for number in range(len(self.layers)):
            self._layer(number)

    def input(self, number: int, sample: Value) -> Value:
        """The address of what a layer is given of a sample."""
        if number:
            return self.k.at(self.outputs[number - 1], self.k.times(sample, self.layers[number].inputs))
        return self.inputs(sample)

    def logits(self, sample: Value) -> Value:
        """The address of a sample's logits."""
        return self.k.at(self.outputs[-1], self.k.times(sample, self.layers[-1].outputs))

    def over_classes(
        self, start: list[Value], body: Callable[[Value, list[Value], int], list[Value]]
    ) -> list[Value]:
        """All classes, a vector at a time: body(the first, carried, how many) gives the next `carried`."""
        k, classes = self.k, self.layers[-1].outputs
        full = classes // k.lanes * k.lanes
        found = k.loop(0, full, k.lanes, start, lambda at, carried: body(at, carried, k.lanes))
        return body(k.number(full), found, classes - full) if full < classes else found

    def softmax(
        self, sample: Value, shown: Callable[[Value, Value, int], None]
    ) -> tuple[Value, Value, Value]:
        """Of a sample's logits: the largest, the sum of exponentials, and the sum of logits, both of what each is over
        the largest. shown(at, powers, some): some exponentials, those of the classes from `at` on."""
        k, logits, least = self.k, self.logits(sample), float("-inf")
        (most,) = self.over_classes(
            [k.constant(least)],
            lambda at, best, some: [k.maximum(best[0], k.load_some(k.at(logits, at), some, least))],
        )
        largest = k.fold(most, k.maximum)
        top = k.spread(largest)

        def powers(at: Value, sums: list[Value], some: int) -> list[Value]:
            below = k.b.fsub(k.load_some(k.at(logits, at), some), top)
            power = k.exp(below)
            shown(at, power, some)
            if some < k.lanes:
                power, below = k.first(power, some), k.first(below, some)
            return [k.b.fadd(sums[0], power), k.b.fadd(sums[1], below)]

        total, below = (k.fold(value, k.b.fadd) for value in self.over_classes([k.constant(0.0)] * 2, powers))
        return largest, total, below

    def _layer(self, number: int) -> None:
        """Outputs of a layer: products of two rows, of some samples and some outputs at a time."""
        k, layer, relu = self.k, self.layers[number], self.activated or number < len(self.layers) - 1
        full = layer.inputs // k.lanes * k.lanes
        nonzero, size_of_list = None if number else self.nonzero, full // k.lanes + 1

        def listed(begin: Value) -> Callable[[Value, int], None]:
            def of_samples(sample: Value, count: int) -> None:
                assert nonzero is not None
                inputs = [self.input(0, k.sum(sample, q)) for q in range(count)]
                place = nonzero.place(k.b.sub(sample, begin), size_of_list)
                nonzero.write(place, full, k.lanes, lambda at: [k.load(k.at(x, at)) for x in inputs])

            return of_samples

        def channels(first: int, size: int, begin: Value, end: Value) -> Any:
            def of_group(group: Value, _: list[Value]) -> None:
                out = k.sum(first, k.times(group, size))
                weights = [
                    k.at(self.row, layer.weight, k.times(k.sum(out, j), layer.inputs)) for j in range(size)
                ]

                def of_samples(sample: Value, count: int) -> None:
                    inputs = [self.input(number, k.sum(sample, q)) for q in range(count)]

                    def add(at: int | Value, sums: list[Value], some: int) -> list[Value]:
                        seen = [k.load_some(k.at(x, at), some) for x in inputs]
                        for j in range(size):
                            weight = k.load_some(k.at(weights[j], at), some)
                            for q in range(count):
                                sums[j * count + q] = k.fma(weight, seen[q], sums[j * count + q])
                        return sums

                    sums = [k.constant(0.0)] * (size * count)
                    if nonzero is None:
                        sums = k.loop(0, full, k.lanes, sums, lambda at, sums: add(at, sums, k.lanes))
                    else:
                        known = nonzero.place(k.b.sub(sample, begin), size_of_list)
                        sums = nonzero.entries(known, sums, lambda at, sums: add(at, sums, k.lanes))
                    if full < layer.inputs:
                        sums = add(full, sums, layer.inputs - full)
                    totals, nothing = k.sums(sums), ir.Constant(k.float, 0.0)
                    for j in range(size):
                        if layer.bias >= 0:
                            bias = k.b.load(k.at(self.row, layer.bias, out, j), typ=k.float)
                        for q in range(count):
                            value = totals[j * count + q]
                            value = k.b.fadd(value, bias) if layer.bias >= 0 else value
                            if relu:
                                value = k.b.select(k.b.fcmp_unordered(">", value, nothing), value, nothing)
                            place = k.sum(k.times(k.sum(sample, q), layer.outputs), out, j)
                            k.b.store(value, k.at(self.outputs[number], place))

                k.blocks(begin, end, self.target.vectors, of_samples)

            return of_group

        def of_block(begin: Value, _: list[Value]) -> None:
            end = k.smaller(self.n, k.sum(begin, NEAR))
            if nonzero is not None:
                k.blocks(begin, end, self.target.vectors, listed(begin))
            for first, size, groups in parts(layer.outputs, self.target.channels):
                k.loop(0, groups, 1, [], channels(first, size, begin, end))

        k.loop(0, self.n, NEAR, [], of_block)
