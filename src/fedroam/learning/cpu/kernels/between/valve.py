"""Kernels of features under two conditions, and of how the general ones are guided by embeddings of classes.

A condition becomes a factor and a summand of the features by two gates, each a linear layer, ReLU (`DenseRows`) and
layer norm. The cross-entropy of the cosines with the embeddings is that of a linear layer (`DenseGradient`) whose
weights are the embeddings' directions and whose inputs are those of the features; what is around these stands here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from fedroam.learning.cpu.kernels.between.columns import (
    LEAST_NORMAL,
    alone,
    each,
    over,
    positive,
    summed,
)
from fedroam.native.ir import KernelBuilder, Value
from fedroam.native.target import KernelSpec, Target

CONDITIONS = 2  # the personal one, whose features the head gets, and the general one
GAMMA, BETA = 0, 1


@dataclass(frozen=True)
class Gates:
    """Sizes, where parameters lie in a row, and how memory is laid out.

    embedding: [classes, features]. scale, shift: of the layer norms of gamma and beta, [features]. shared: begins and
    sizes of what has a weight decay of its own. together: whether the distance to the embeddings is one norm of the
    batch. least: a shorter vector is divided by this for its direction. norm: added to a variance by a layer norm.
    """

    features: int
    classes: int
    embedding: int
    scale: tuple[int, int]
    shift: tuple[int, int]
    shared: tuple[tuple[int, int], ...]
    together: bool
    least: float
    norm: float

    # In memory: normed [gate, condition, features], gate [gate, condition, features] (gamma with 1 added), a scale of
    # each norm [gate, condition], directions of the embeddings, gradients of these, and their lengths; then, of
    # samples, features under each condition [condition, n, features], directions of the general ones, gradients of
    # these, lengths, and what the distance counts.

    @property
    def directions(self) -> int:
        """Where the directions of the embeddings begin, [classes, features]."""
        return 2 * 2 * CONDITIONS * self.features + 2 * CONDITIONS

    @property
    def direction_slopes(self) -> int:
        """Where their gradients do, which are 0 after the way ahead."""
        return self.directions + self.classes * self.features

    @property
    def lengths(self) -> int:
        """Where their lengths do."""
        return self.direction_slopes + self.classes * self.features

    @property
    def seen(self) -> int:
        """Where the features do, the personal ones first."""
        return self.lengths + self.classes

    def of_samples(self, number: int, n: int) -> int:
        """Where the directions of n general features begin (number 2), and their gradients (3)."""
        return self.seen + number * n * self.features

    def memory(self, n: int) -> int:
        """Values of memory for n samples."""
        return self.of_samples(2 + CONDITIONS, n) + 2 * n


class _Memory:
    """Addresses in the memory, and the sizes that loops go over."""

    def __init__(self, k: KernelBuilder, gates: Gates, memory: Value, n: Value) -> None:
        self.k, self.gates, self.memory, self.n, self.width = k, gates, memory, n, gates.features
        samples = k.times(n, self.width)
        self.lengths = k.at(memory, gates.seen, k.times(samples, 2 + CONDITIONS))
        self.shares = k.at(self.lengths, n)
        self.samples = [k.at(memory, gates.seen, k.times(samples, number)) for number in range(4)]

    def normed(self, gate: int, condition: int) -> Value:
        """The address of what a layer norm made, before scale and shift."""
        return self.k.at(self.memory, (CONDITIONS * gate + condition) * self.width)

    def gate(self, gate: int, condition: int) -> Value:
        """The address of what a gate gives under a condition."""
        return self.k.at(self.memory, (2 * CONDITIONS + CONDITIONS * gate + condition) * self.width)

    def norm(self, gate: int, condition: int) -> Value:
        """The address of one over a norm's standard deviation."""
        return self.k.at(self.memory, 4 * CONDITIONS * self.width + CONDITIONS * gate + condition)

    def sample(self, number: int, sample: Value) -> Value:
        """The address of a sample's features (0: the personal ones, 1: the general ones), of the direction of the
        latter (2), and of its gradient (3)."""
        return self.k.at(self.samples[number], self.k.times(sample, self.width))

    def of_class(self, begin: int, own: Value) -> Value:
        """The address of a class's row of a matrix that begins there."""
        return self.k.at(self.memory, begin, self.k.times(own, self.width))


@dataclass(frozen=True)
class ValveAhead(KernelSpec):
    """Features under each condition, ReLU(gamma z + beta), and the directions of the general ones and the embeddings.

    Kernel: (addresses of the features z float32 [n, features], of the n samples' classes int64, of the row, of what the
    norms of gamma and of beta get [conditions, features] each, of the embeddings as they were handed out
    [classes, features], of f, of the terms float32 [n], of memory for `memory(n)` values; n). The terms are f times the
    distances of the general features to the embeddings of their classes; where they count together, all of it is the
    first sample's.
    """

    gates: Gates

    @override
    def write(self, module: Any, target: Target) -> int:
        k = KernelBuilder(module, target.lanes, 9, 1)
        at_z, at_y, row, *raw, frozen, settings, terms, memory, n = k.arguments
        gates, width, (factor,) = self.gates, self.gates.features, k.load_numbers(settings, 1)
        there, least, nothing = _Memory(k, gates, memory, n), k.constant(gates.least), k.constant(0.0)
        for gate, begin in enumerate(raw):
            for condition in range(CONDITIONS):
                self._norm(k, there, row, gate, condition, k.at(begin, condition * width))

        def of_class(own: Value, _: list[Value]) -> None:
            embedding = k.at(row, gates.embedding, k.times(own, width))
            length = _direction(k, width, embedding, there.of_class(gates.directions, own), least)
            k.b.store(alone(k, length), k.at(memory, gates.lengths, own))
            slopes = there.of_class(gates.direction_slopes, own)
            each(k, width, lambda at, some: k.store_some(nothing, k.at(slopes, at), some))

        def of_sample(sample: Value, before: list[Value]) -> list[Value]:
            z = k.at(at_z, k.times(sample, width))
            embedding = k.at(frozen, k.times(k.whole_at(at_y, sample), width))

            def of_columns(at: Value, sums: list[Value], some: int) -> list[Value]:
                value = k.load_some(k.at(z, at), some)
                for condition in range(CONDITIONS):
                    gamma, beta = (
                        k.load_some(k.at(there.gate(gate, condition), at), some) for gate in (GAMMA, BETA)
                    )
                    seen = k.fma(gamma, value, beta)
                    seen = positive(k, seen, seen)
                    k.store_some(seen, k.at(there.sample(condition, sample), at), some)
                away = k.b.fsub(seen, k.load_some(k.at(embedding, at), some))
                return [k.fma(away, away, sums[0])]

            (total,) = over(k, width, [nothing], of_columns)
            distance = k.spread(k.fold(total, k.b.fadd))
            general, direction = (there.sample(number, sample) for number in (1, 2))
            length = _direction(k, width, general, direction, least)
            k.b.store(alone(k, length), k.at(there.lengths, sample))
            if not gates.together:
                self._distance(k, there, terms, sample, k.root(distance), factor, factor)
            return [k.b.fadd(before[0], distance)]

        k.loop(0, gates.classes, 1, [], of_class)
        (total,) = k.loop(0, n, 1, [nothing], of_sample)
        if gates.together:
            distance = k.root(total)

            def share(sample: Value, counts: list[Value]) -> list[Value]:
                self._distance(k, there, terms, sample, distance, factor, counts[0])
                return [nothing]

            k.loop(0, n, 1, [factor], share)
        return k.end()

    @staticmethod
    def _distance(
        k: KernelBuilder,
        there: _Memory,
        terms: Value,
        sample: Value,
        distance: Value,
        factor: Value,
        counts: Value,
    ) -> None:
        """The term, and by what the difference is multiplied for its gradient: 0 at a distance of 0, as torch has
        it."""
        share = k.b.fdiv(factor, k.maximum(distance, k.constant(LEAST_NORMAL)))
        zero = k.constant(0.0)  # at a distance of 0 a large factor would make it infinite
        share = k.b.select(k.b.fcmp_unordered("!=", distance, zero), share, zero)
        k.b.store(alone(k, share), k.at(there.shares, sample))
        k.b.store(alone(k, k.b.fmul(counts, distance)), k.at(terms, sample))

    def _norm(
        self, k: KernelBuilder, there: _Memory, row: Value, gate: int, condition: int, raw: Value
    ) -> None:
        """The layer norm of a gate under a condition."""
        gates, width = self.gates, self.gates.features
        size, one = k.constant(float(width)), k.constant(1.0)
        (total,) = summed(k, width, 1, lambda at, some: [(k.load_some(k.at(raw, at), some), one)])
        mean = k.b.fdiv(total, size)

        def away(at: Value, some: int) -> Value:
            value = k.b.fsub(k.load_some(k.at(raw, at), some), mean)
            return value if some == k.lanes else k.first(value, some)

        (total,) = summed(k, width, 1, lambda at, some: [(away(at, some), away(at, some))])
        variance = k.b.fadd(k.b.fdiv(total, size), k.constant(gates.norm))
        over_deviation = k.b.fdiv(one, k.root(variance))
        k.b.store(alone(k, over_deviation), there.norm(gate, condition))
        normed, given = there.normed(gate, condition), there.gate(gate, condition)

        def of_columns(at: Value, some: int) -> None:
            value = k.b.fmul(away(at, some), over_deviation)
            k.store_some(value, k.at(normed, at), some)
            scale, shift = (
                k.load_some(k.at(row, place[gate], at), some) for place in (gates.scale, gates.shift)
            )
            value = k.fma(value, scale, shift)
            k.store_some(k.b.fadd(value, one) if gate == GAMMA else value, k.at(given, at), some)

        each(k, width, of_columns)


@dataclass(frozen=True)
class ValveBack(KernelSpec):
    """The gradients of the features and of what the gates gave; embedding, scales and shifts get theirs.

    Kernel: (addresses of the features z float32 [n, features], of the n samples' classes int64, of the row, of the
    gradient vector that is added to, of the embeddings as they were handed out [classes, features], of the memory that
    `ValveAhead` left, with the gradients of directions in it, of the slopes [n, features] of the personal features,
    which become those of z, of the slopes of what the norms of gamma and of beta got [conditions, features] each, of
    the weight decay, of its term float32; n).
    """

    gates: Gates

    @override
    def write(self, module: Any, target: Target) -> int:
        k = KernelBuilder(module, target.lanes, 11, 1)
        at_z, at_y, row, gradient, frozen, memory, slopes, gamma, beta, settings, term, n = k.arguments
        there = _Memory(k, self.gates, memory, n)
        self._classes(k, there, row, gradient)
        self._general(k, there, at_y, frozen)
        self._samples(k, there, at_z, slopes, [gamma, beta])
        for gate, begin in enumerate((gamma, beta)):
            self._norm_back(k, there, row, gradient, gate, begin)
        self._decay(k, row, gradient, settings, term)
        return k.end()

    def _classes(self, k: KernelBuilder, there: _Memory, row: Value, gradient: Value) -> None:
        """The gradient of each embedding, of that of its direction."""
        gates, width = self.gates, self.gates.features

        def of_class(own: Value, _: list[Value]) -> None:
            slopes, direction = (
                there.of_class(begin, own) for begin in (gates.direction_slopes, gates.directions)
            )
            length = k.load_spread(k.at(there.memory, gates.lengths, own))
            into = k.at(gradient, gates.embedding, k.times(own, width))
            turned = _of_direction(k, width, direction, slopes, length, gates.least)

            def add(at: Value, some: int) -> None:
                before = k.load_some(k.at(into, at), some)
                k.store_some(k.b.fadd(before, turned(at, some)), k.at(into, at), some)

            each(k, width, add)

        k.loop(0, gates.classes, 1, [], of_class)

    def _general(self, k: KernelBuilder, there: _Memory, at_y: Value, frozen: Value) -> None:
        """The gradient of what gave the general features, in the place of that of their directions."""
        gates, width = self.gates, self.gates.features

        def of_sample(sample: Value, _: list[Value]) -> None:
            seen, direction, slopes = (there.sample(number, sample) for number in (1, 2, 3))
            length = k.load_spread(k.at(there.lengths, sample))
            share = k.load_spread(k.at(there.shares, sample))
            embedding = k.at(frozen, k.times(k.whole_at(at_y, sample), width))
            turned = _of_direction(k, width, direction, slopes, length, gates.least)

            def of_columns(at: Value, some: int) -> None:
                value = k.load_some(k.at(seen, at), some)
                away = k.b.fsub(value, k.load_some(k.at(embedding, at), some))
                slope = k.fma(share, away, turned(at, some))
                k.store_some(positive(k, value, slope), k.at(slopes, at), some)

            each(k, width, of_columns)

        k.loop(0, there.n, 1, [], of_sample)

    def _samples(
        self, k: KernelBuilder, there: _Memory, at_z: Value, slopes: Value, gates: list[Value]
    ) -> None:
        """The gradients of z, and of what the gates gave under each condition."""
        width = self.gates.features

        def of_columns(at: Value, some: int) -> None:
            factors = [
                k.load_some(k.at(there.gate(GAMMA, condition), at), some) for condition in range(CONDITIONS)
            ]

            def of_sample(sample: Value, sums: list[Value]) -> list[Value]:
                place = k.sum(k.times(sample, width), at)
                value, slope = (k.load_some(k.at(begin, place), some) for begin in (at_z, slopes))
                personal = k.load_some(k.at(there.sample(0, sample), at), some)
                both = [
                    positive(k, personal, slope),
                    k.load_some(k.at(there.sample(3, sample), at), some),
                ]
                below = k.fma(both[1], factors[1], k.b.fmul(both[0], factors[0]))
                k.store_some(below, k.at(slopes, place), some)
                return [
                    *(k.fma(own, value, before) for own, before in zip(both, sums[:CONDITIONS], strict=True)),
                    *(k.b.fadd(own, before) for own, before in zip(both, sums[CONDITIONS:], strict=True)),
                ]

            sums = k.loop(0, there.n, 1, [k.constant(0.0)] * 2 * CONDITIONS, of_sample)
            for gate, begin in enumerate(gates):
                for condition in range(CONDITIONS):
                    into = k.at(begin, condition * width, at)
                    k.store_some(sums[CONDITIONS * gate + condition], into, some)

        each(k, width, of_columns)

    def _norm_back(
        self, k: KernelBuilder, there: _Memory, row: Value, gradient: Value, gate: int, slopes: Value
    ) -> None:
        """What a gate's layer norms make of gradients; scale and shift get theirs."""
        gates, width = self.gates, self.gates.features
        begins = [k.at(slopes, condition * width) for condition in range(CONDITIONS)]
        normed = [there.normed(gate, condition) for condition in range(CONDITIONS)]

        def of_columns(at: Value, some: int) -> None:
            scale, shift = (k.at(gradient, place[gate], at) for place in (gates.scale, gates.shift))
            of_scale, of_shift = k.load_some(scale, some), k.load_some(shift, some)
            for begin, own in zip(begins, normed, strict=True):
                slope = k.load_some(k.at(begin, at), some)
                of_scale = k.fma(slope, k.load_some(k.at(own, at), some), of_scale)
                of_shift = k.b.fadd(of_shift, slope)
            k.store_some(of_scale, scale, some)
            k.store_some(of_shift, shift, some)

        each(k, width, of_columns)
        one, size = k.constant(1.0), k.constant(float(width))
        for condition, (begin, own) in enumerate(zip(begins, normed, strict=True)):

            def scaled(at: Value, some: int, begin: Value = begin) -> Value:
                return k.b.fmul(
                    k.load_some(k.at(begin, at), some), k.load_some(k.at(row, gates.scale[gate], at), some)
                )

            def products(
                at: Value, some: int, own: Value = own, scaled: Callable[[Value, int], Value] = scaled
            ) -> list[tuple[Value, Value]]:
                value = scaled(at, some)
                return [(value, one), (value, k.load_some(k.at(own, at), some))]

            mean, along = (k.b.fdiv(total, size) for total in summed(k, width, 2, products))
            over_deviation = k.load_spread(there.norm(gate, condition))

            def turn(
                at: Value,
                some: int,
                begin: Value = begin,
                own: Value = own,
                scaled: Callable[[Value, int], Value] = scaled,
                mean: Value = mean,
                along: Value = along,
                over_deviation: Value = over_deviation,
            ) -> None:
                value = k.b.fsub(scaled(at, some), mean)
                value = k.b.fsub(value, k.b.fmul(k.load_some(k.at(own, at), some), along))
                k.store_some(k.b.fmul(value, over_deviation), k.at(begin, at), some)

            each(k, width, turn)

    def _decay(self, k: KernelBuilder, row: Value, gradient: Value, settings: Value, term: Value) -> None:
        """The weight decay of what has one of its own: half of it times the squares is the term."""
        (decay,) = k.load_numbers(settings, 1)
        total = [k.constant(0.0)]
        for begin, size in self.gates.shared:

            def add(at: Value, sums: list[Value], some: int, begin: int = begin) -> list[Value]:
                value, into = k.load_some(k.at(row, begin, at), some), k.at(gradient, begin, at)
                k.store_some(k.fma(decay, value, k.load_some(into, some)), into, some)
                return [k.fma(value, value, sums[0])]

            total = over(k, size, total, add)
        half = k.b.fmul(alone(k, decay), alone(k, k.constant(0.5)))
        k.b.store(k.b.fmul(half, k.fold(total[0], k.b.fadd)), term)


def _direction(k: KernelBuilder, width: int, row: Value, into: Value, least: Value) -> Value:
    """Write a vector over its length; the length, in every lane."""

    def squares(at: Value, some: int) -> list[tuple[Value, Value]]:
        value = k.load_some(k.at(row, at), some)
        return [(value, value)]

    (total,) = summed(k, width, 1, squares)
    length = k.root(total)
    by = k.maximum(length, least)
    each(
        k,
        width,
        lambda at, some: k.store_some(k.b.fdiv(k.load_some(k.at(row, at), some), by), k.at(into, at), some),
    )
    return length


def _of_direction(
    k: KernelBuilder, width: int, direction: Value, slopes: Value, length: Value, least: float
) -> Callable[[Value, int], Value]:
    """What gives columns of the gradient of a vector, of that of its direction."""
    (along,) = summed(
        k,
        width,
        1,
        lambda at, some: [(k.load_some(k.at(slopes, at), some), k.load_some(k.at(direction, at), some))],
    )
    shortest = k.constant(least)
    # One that is too short is divided by a constant.
    along = k.b.select(k.b.fcmp_ordered(">=", length, shortest), along, k.constant(0.0))
    by = k.maximum(length, shortest)

    def columns(at: Value, some: int) -> Value:
        slope, own = (k.load_some(k.at(begin, at), some) for begin in (slopes, direction))
        return k.b.fdiv(k.b.fsub(slope, k.b.fmul(own, along)), by)

    return columns
