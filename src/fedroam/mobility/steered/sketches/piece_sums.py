"""Kernels that weigh pieces of a coverage for several flyers at once: who know everybody, or only some.

A flyer with own samples o (by class; n in all) at a place of mix h, that finds samples s (u in all) in a piece, has
the distance ||(s + o) / (u + n) - h|| = ||s + b - u h|| / (u + n) there, with b = o - n h. Each kernel computes
found[v, place[w]] += weights[i] times the distances of piece w = which[i], for the flyers in each vector v, i in turn;
where a piece follows itself, its weights are summed up first, and what is no piece, but their number, is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from fedroam.native import KernelSpec, Target
from fedroam.native.ir import KernelBuilder, Value
from fedroam.native.target import ir

_UNROLLED = 16  # classes that are written one after the other; more are a loop
_TOGETHER = 8  # classes whose samples are summed up in registers

Squares = tuple[
    list[tuple[Value, Value]], list[Value]
]  # of each vector with 1 / (u + n), and what is carried on


def lanes(target: Target) -> int:
    """How many flyers there are in a vector: one for each float64."""
    return max(target.lanes // 2, 2)


@dataclass(frozen=True)
class SumsOfAll(KernelSpec):
    """For flyers who know all static clients. Pieces are best in the order of u: b - u h is found anew with each one.

    Kernel: (addresses of which int64 [number], weights float64 [number], place int64 [pieces], b and h float64
    [vectors, classes, lanes], n float64 [vectors, lanes], found float64 [vectors, places, lanes], s float64 [pieces,
    classes], and u float64 [pieces]; number, places, pieces).
    """

    classes: int
    vectors: int

    @override
    def write(self, module: Any, target: Target) -> int:
        k = KernelBuilder(module, lanes(target), 9, 3).of_doubles()
        which, weights, place, b, h, n, found, sums, held, number, places, pieces = k.arguments
        # b - u h, and then 1 / (u + n), for each vector.
        room = k.b.alloca(k.vector, size=(self.classes + 1) * self.vectors)

        def kept(v: int, c: int | Value) -> Value:
            return k.at(room, k.times(k.sum(v * (self.classes + 1), c), k.lanes))

        def change_to(u: Value) -> None:
            many, less = k.spread(u), k.spread(k.b.fneg(u))
            for v in range(self.vectors):

                def of_classes(first: int | Value, size: int, _: list[Value], v: int = v) -> list[Value]:
                    for c in range(size):
                        at = k.times(k.sum(v * self.classes, first, c), k.lanes)
                        k.store(
                            k.fma(less, k.load(k.at(h, at)), k.load(k.at(b, at))), kept(v, k.sum(first, c))
                        )
                    return []

                _classes(k, self.classes, _UNROLLED, [], of_classes)
                share = k.b.fdiv(k.constant(1.0), k.b.fadd(many, k.load(k.at(n, v * k.lanes))))
                k.store(share, kept(v, self.classes))

        def squares(piece: Value, carried: list[Value]) -> Squares:
            u = k.b.load(k.at(held, piece), typ=k.float)
            with k.b.if_then(k.b.fcmp_unordered("!=", u, carried[0])):
                change_to(u)

            def of_classes(first: int | Value, size: int, totals: list[Value]) -> list[Value]:
                for c in range(size):
                    samples = k.load_spread(k.at(sums, k.times(piece, self.classes), first, c))
                    apart = [k.b.fadd(samples, k.load(kept(v, k.sum(first, c)))) for v in range(self.vectors)]
                    totals = [k.fma(each, each, total) for each, total in zip(apart, totals, strict=True)]
                return totals

            totals = _classes(k, self.classes, _UNROLLED, [k.constant(0.0)] * self.vectors, of_classes)
            return [(total, k.load(kept(v, self.classes))) for v, total in enumerate(totals)], [u]

        none = ir.Constant(k.float, -1.0)
        return _add_up(k, (which, weights, place, found, number, places, pieces), [none], squares)


@dataclass(frozen=True)
class SumsOfSome(KernelSpec):
    """For flyers each of whom knows some of the static clients.

    Kernel: (addresses of which int64 [number], weights float64 [number], place int64 [pieces], b and h float64
    [vectors, classes, lanes], n float64 [vectors, lanes], found float64 [vectors, places, lanes], first int64 [pieces +
    1], heard int64, counts float64 [statics, classes], samples float64 [statics], and known float64 [vectors, statics,
    lanes], 0 or 1; number, places, pieces, statics). From heard[first[w]] to heard[first[w + 1]] stand the static
    clients that are heard in piece w; counts and samples are what each of them has, by class and in all.
    """

    classes: int
    vectors: int

    @override
    def write(self, module: Any, target: Target) -> int:
        k = KernelBuilder(module, lanes(target), 12, 4).of_doubles()
        which, weights, place, b, h, n, found, first_heard, heard, counts, samples, known, *numbers = (
            k.arguments
        )
        number, places, pieces, statics = numbers

        def squares_of(piece: Value, v: int) -> tuple[Value, Value]:
            begin, end = k.whole_at(first_heard, piece), k.whole_at(first_heard, k.sum(piece, 1))

            def over(
                carried: list[Value], add: Callable[[Value, Value, list[Value]], list[Value]]
            ) -> list[Value]:
                def of_static(e: Value, carried: list[Value]) -> list[Value]:
                    static = k.whole_at(heard, e)
                    at = k.times(k.sum(k.times(statics, v), static), k.lanes)
                    return add(static, k.load(k.at(known, at)), carried)

                return k.loop(begin, end, 1, carried, of_static)

            (u,) = over(
                [k.constant(0.0)],
                lambda static, knows, sums: [k.fma(knows, k.load_spread(k.at(samples, static)), sums[0])],
            )
            less = k.b.fneg(u)

            def of_classes(first: int | Value, size: int, totals: list[Value]) -> list[Value]:
                def of_static(static: Value, knows: Value, sums: list[Value]) -> list[Value]:
                    at = k.sum(k.times(static, self.classes), first)
                    return [k.fma(knows, k.load_spread(k.at(counts, at, c)), sums[c]) for c in range(size)]

                for c, sum_ in enumerate(over([k.constant(0.0)] * size, of_static)):
                    at = k.times(k.sum(v * self.classes, first, c), k.lanes)
                    apart = k.b.fadd(sum_, k.fma(less, k.load(k.at(h, at)), k.load(k.at(b, at))))
                    totals = [k.fma(apart, apart, totals[0])]
                return totals

            (total,) = _classes(k, self.classes, _TOGETHER, [k.constant(0.0)], of_classes)
            share = k.b.fdiv(k.constant(1.0), k.b.fadd(u, k.load(k.at(n, v * k.lanes))))
            return total, share

        def squares(piece: Value, _: list[Value]) -> Squares:
            return [squares_of(piece, v) for v in range(self.vectors)], []

        return _add_up(k, (which, weights, place, found, number, places, pieces), [], squares)


def _classes(
    k: KernelBuilder,
    classes: int,
    most: int,
    carried: list[Value],
    body: Callable[[int | Value, int, list[Value]], list[Value]],
) -> list[Value]:
    """All classes, at most so many at once: body(first, size, carried) gives the next `carried`; the last of them."""
    whole = classes // most * most
    if whole:
        carried = k.loop(0, whole, most, carried, lambda first, kept: body(first, most, kept))
    return body(whole, classes - whole, carried) if whole < classes else carried


def _add_up(
    k: KernelBuilder,
    given: tuple[Value, ...],
    more: list[Value],
    squares: Callable[[Value, list[Value]], Squares],
) -> int:
    """The loop over pieces of a kernel, and its end; the number of its arguments."""
    which, weights, place, found, number, places, pieces = given
    none = ir.Constant(k.float, 0.0)

    def of_piece(i: Value, carried: list[Value]) -> list[Value]:
        weight, *more = carried
        weight = k.b.fadd(weight, k.b.load(k.at(weights, i), typ=k.float))
        piece, following = k.whole_at(which, i), k.sum(i, 1)
        last = k.b.icmp_signed("==", following, number)
        ends = k.b.icmp_signed("!=", piece, k.whole_at(which, k.b.select(last, i, following)))
        ends = k.b.or_(last, ends)
        counts = k.b.fcmp_unordered("!=", weight, none)
        counts = k.b.and_(counts, k.b.icmp_signed("<", piece, pieces))
        before, kept = k.b.block, k.b.select(ends, none, weight)
        with k.b.if_then(k.b.and_(ends, counts)):
            parts, changed = squares(piece, more)
            factor, at = k.spread(weight), k.whole_at(place, piece)
            for v, (total, share) in enumerate(parts):
                there = k.at(found, k.times(k.sum(k.times(places, v), at), k.lanes))
                k.store(k.fma(k.b.fmul(k.root(total), share), factor, k.load(there)), there)
            after = k.b.block
        return [kept, *(joined(before, after, *pair) for pair in zip(more, changed, strict=True))]

    def joined(before: Any, after: Any, one: Value, other: Value) -> Value:
        found = k.b.phi(one.type)
        found.add_incoming(one, before)
        found.add_incoming(other, after)
        return found

    carried = [none, *more]
    k.loop(0, number, 1, carried, of_piece)
    return k.end()
