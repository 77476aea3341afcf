"""Loops over the values of a vector of features."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fedroam.native.ir import KernelBuilder, Value
from fedroam.native.target import ir

# (where the first value is, carried, how many there are) gives the next carried.
Columns = Callable[[Value, list[Value], int], Sequence[Value]]
# (where the first value is, how many there are) gives pairs of vectors, in which lanes behind the last are 0.
Products = Callable[[Value, int], Sequence[tuple[Value, Value]]]

LEAST_NORMAL = 2.0**-126  # a length below is one of 0: divided by this instead, it stays finite


def over(k: KernelBuilder, width: int, carried: Sequence[Value], body: Columns) -> list[Value]:
    """All of `width` columns, a vector at a time: the last `carried`."""
    full = width // k.lanes * k.lanes
    found = k.loop(0, full, k.lanes, carried, lambda at, before: body(at, before, k.lanes))
    return list(body(k.number(full), found, width - full)) if full < width else found


def each(k: KernelBuilder, width: int, body: Callable[[Value, int], None]) -> None:
    """The same, with nothing carried."""

    def one(at: Value, _: list[Value], some: int) -> list[Value]:
        body(at, some)
        return []

    over(k, width, [], one)


def summed(k: KernelBuilder, width: int, count: int, products: Products) -> list[Value]:
    """Sums over all columns of so many products, each in every lane of a vector."""

    def add(at: Value, sums: list[Value], some: int) -> list[Value]:
        return [k.fma(a, b, before) for (a, b), before in zip(products(at, some), sums, strict=True)]

    return [k.spread(total) for total in k.sums(over(k, width, [k.constant(0.0)] * count, add))]


def alone(k: KernelBuilder, vector: Value) -> Value:
    """The float in the first lane of a vector."""
    return k.b.extract_element(vector, ir.Constant(k.half, 0))


def positive(k: KernelBuilder, judged: Value, value: Value) -> Value:
    """The values where what is judged is above 0, or no number; else 0: what a ReLU lets through."""
    nothing = k.constant(0.0)
    return k.b.select(k.b.fcmp_unordered(">", judged, nothing), value, nothing)
