"""Kernels that sum rows of a matrix up: in place, into one row, how far each is from another, and products."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from fedroam.native.ir import KernelBuilder, Value
from fedroam.native.target import KernelSpec, Target

VECTORS = (
    8  # of a tile: as many sums at once keep the multipliers busy, and 16 registers hold them and a factor
)
LINE = 16  # float32 values of a cache line
TOGETHER = 4  # rows that are added to a total while it is in registers, or sums of one distance
SUMS = 16  # of a product of rows: column c belongs to sum c mod 16, on every processor


@dataclass(frozen=True)
class RowSums(KernelSpec):
    """Row changed[i] = sum of factors[e] * row read[entries[e]] over e in [begins[i], begins[i + 1]), in some columns.

    Each sum begins at 0 and takes its terms in turn, each by one multiplication and addition that is rounded once.
    Columns are done a tile at a time: the rows that are read are first laid side by side in `scratch`, where a tile of
    a thousand of them fits a core's own cache. While sums are made of these, the next tile's part of each row is asked
    for.

    Kernel: (addresses of the matrix float32, of read int64 [reads], changed int64 [changes], entries int64, factors
    float32, begins int64 [changes + 1], and scratch float32 [scratch(reads, lanes)]; reads, changes, values from a row
    to the next, first column, the column after the last).
    """

    def scratch(self, reads: int, lanes: int) -> int:
        """Values of memory for so many rows that are read, with vectors of so many values."""
        return reads * lanes * VECTORS

    @override
    def write(self, module: Any, target: Target) -> int:
        k = KernelBuilder(module, target.lanes, 7, 5)
        matrix, read, changed, entries, factors, begins, scratch, reads, changes, row, begin, end = (
            k.arguments
        )

        def tiles(first: Value, after: Value, vectors: int, some: int | Value) -> None:
            """Columns from `first`, as many as make tiles of `vectors`; of each vector `some` values are there."""
            width = vectors * k.lanes

            def tile(column: Value, _: list[Value]) -> None:
                def lay(r: Value, _: list[Value]) -> None:
                    there, here = k.at(matrix, k.times(k.whole_at(read, r), row), column), k.times(r, width)
                    for v in range(vectors):
                        step = v * k.lanes
                        k.store(k.load_some(k.at(there, step), some), k.at(scratch, here, step))

                def of_row(i: Value, _: list[Value]) -> None:
                    def add(e: Value, sums: list[Value]) -> list[Value]:
                        factor, here = k.load_spread(k.at(factors, e)), k.times(k.whole_at(entries, e), width)
                        terms = [k.load(k.at(scratch, here, v * k.lanes)) for v in range(vectors)]
                        return [k.fma(factor, term, sum_) for term, sum_ in zip(terms, sums, strict=True)]

                    there = k.at(matrix, k.times(k.whole_at(changed, i), row), column)
                    for ahead in range(width, 2 * width, LINE):
                        k.prefetch(k.at(there, ahead))
                    stop = k.whole_at(begins, k.sum(i, 1))
                    sums = k.loop(k.whole_at(begins, i), stop, 1, [k.constant(0.0)] * vectors, add)
                    for v, sum_ in enumerate(sums):
                        k.store_some(sum_, k.at(there, v * k.lanes), some)

                k.loop(0, reads, 1, [], lay)
                k.loop(0, changes, 1, [], of_row)

            k.loop(first, after, width, [], tile)

        def down(at: Value, to: int) -> Value:
            """The last column up to which there are whole tiles of so many values."""
            return k.b.sub(end, k.b.srem(k.b.sub(end, at), k.number(to)))

        wide, whole = down(begin, VECTORS * k.lanes), down(begin, k.lanes)
        tiles(begin, wide, VECTORS, k.lanes)
        tiles(wide, whole, 1, k.lanes)
        tiles(whole, end, 1, k.b.sub(end, whole))
        return k.end()


@dataclass(frozen=True)
class RowTotal(KernelSpec):
    """totals += sum of weights[e] * row rows[e] over e in turn, in float64, in some columns; each is rounded once.

    Kernel: (addresses of the matrix float32, of rows int64, weights float64, and totals float64 [columns]; how many
    rows, values from a row to the next, first column, the column after the last). Columns are best so few that their
    totals stay in a core's nearest cache.
    """

    @override
    def write(self, module: Any, target: Target) -> int:
        k = KernelBuilder(module, target.lanes, 4, 4)
        matrix, rows, weights, totals, count, row, begin, end = k.arguments

        def add(first: Value, size: int) -> None:
            numbers = [k.sum(first, j) for j in range(size)]
            places = [k.at(matrix, k.times(k.whole_at(rows, n), row)) for n in numbers]

            def columns(some: KernelBuilder, start: Value, after: Value) -> None:
                wide = some.of_doubles()
                factors = [wide.load_spread(wide.at(weights, n)) for n in numbers]

                def of_column(column: Value, _: list[Value]) -> None:
                    total = wide.load(wide.at(totals, column))
                    for factor, place in zip(factors, places, strict=True):
                        total = wide.fma(factor, some.as_doubles(some.load(some.at(place, column))), total)
                    wide.store(total, wide.at(totals, column))

                k.loop(start, after, some.lanes, [], of_column)

            whole = k.b.sub(end, k.b.srem(k.b.sub(end, begin), k.number(k.lanes)))
            columns(k, begin, whole)
            columns(k.of_lanes(1), whole, end)

        k.blocks(k.number(0), count, TOGETHER, add)
        return k.end()


@dataclass(frozen=True)
class RowDistances(KernelSpec):
    """found[i] = sum over some columns of (row i - mean)^2, in float64.

    Kernel: (addresses of the matrix float32, of mean float64 [columns], and found float64; how many rows, values from a
    row to the next, values from what is found of a row to that of the next, first column, the column after the last).
    """

    @override
    def write(self, module: Any, target: Target) -> int:
        k = KernelBuilder(module, target.lanes, 3, 5)
        matrix, mean, found, count, row, step, begin, end = k.arguments

        def of_row(i: Value, _: list[Value]) -> None:
            here = k.at(matrix, k.times(i, row))

            def columns(
                some: KernelBuilder, vectors: int, start: Value, after: Value, carried: list[Value]
            ) -> list[Value]:
                wide = some.of_doubles()

                def of_columns(column: Value, sums: list[Value]) -> list[Value]:
                    more = []
                    for v, sum_ in enumerate(sums):
                        at = k.sum(column, v * some.lanes)
                        value = some.as_doubles(some.load(some.at(here, at)))
                        apart = some.b.fsub(value, wide.load(wide.at(mean, at)))
                        more.append(wide.fma(apart, apart, sum_))
                    return more

                return k.loop(start, after, vectors * some.lanes, carried, of_columns)

            wide, one = k.of_doubles(), k.of_lanes(1)
            size = k.b.sub(end, begin)
            many, whole = (k.b.sub(end, k.b.srem(size, k.number(n))) for n in (TOGETHER * k.lanes, k.lanes))
            sums = columns(k, TOGETHER, begin, many, [wide.constant(0.0)] * TOGETHER)
            sums = [k.b.fadd(k.b.fadd(sums[0], sums[1]), k.b.fadd(sums[2], sums[3]))]
            sums = columns(k, 1, many, whole, sums)
            last = columns(one, 1, whole, end, [one.of_doubles().constant(0.0)])
            total = k.b.fadd(wide.fold(sums[0], k.b.fadd), one.of_doubles().fold(last[0], k.b.fadd))
            k.b.store(total, wide.at(found, k.times(i, step)))

        k.loop(0, count, 1, [], of_row)
        return k.end()


@dataclass(frozen=True)
class RowProducts(KernelSpec):
    """What rows have in common with one row, and with themselves, in float64: of each `block` columns the sums of
    own * row and of row * row.

    Each sum is the same to the last bit with vectors of any length: it is that of 16, to each of which every 16th
    column is added in turn, rounded once, and which are then put together in halves.

    Kernel: (addresses of own float32 [columns], the matrix float32, rows int64, and found float64 [rows, blocks, 2];
    how many rows, values from a row to the next, blocks of a row of `found`, columns).
    """

    block: int

    @override
    def write(self, module: Any, target: Target) -> int:
        k = KernelBuilder(module, min(target.lanes, SUMS), 4, 4)
        own, matrix, rows, found, count, row, blocks, columns = k.arguments
        wide, vectors = k.of_doubles(), SUMS // k.lanes

        def of_block(begin: Value, _: list[Value]) -> None:
            end = k.smaller(k.sum(begin, self.block), columns)
            whole = k.b.sub(end, k.b.srem(k.b.sub(end, begin), k.number(SUMS)))
            number = k.b.sdiv(begin, k.number(self.block))

            def of_row(i: Value, _: list[Value]) -> None:
                here = k.at(matrix, k.times(k.whole_at(rows, i), row))

                def added(column: Value, sums: list[Value], there: Value | None = None) -> list[Value]:
                    """Sums of own * row, then of row * row, with 16 columns more, or those that are there."""
                    crossed, squares = [], []
                    for v in range(vectors):
                        at = k.sum(column, v * k.lanes)
                        some = k.lanes if there is None else k.b.sub(there, k.number(v * k.lanes))
                        a, b = (k.as_doubles(k.load_some(k.at(each, at), some)) for each in (own, here))
                        crossed.append(wide.fma(a, b, sums[v]))
                        squares.append(wide.fma(b, b, sums[vectors + v]))
                    return crossed + squares

                def last(column: Value, sums: list[Value]) -> list[Value]:
                    return added(column, sums, k.b.sub(end, column))

                sums = k.loop(begin, whole, SUMS, [wide.constant(0.0)] * 2 * vectors, added)
                sums = k.loop(whole, end, SUMS, sums, last)
                place = k.times(k.sum(k.times(i, blocks), number), 2)
                for n, part in enumerate((sums[:vectors], sums[vectors:])):
                    while len(part) > 1:
                        half = len(part) // 2
                        part = [k.b.fadd(a, b) for a, b in zip(part[:half], part[half:], strict=True)]
                    k.b.store(wide.fold(part[0], k.b.fadd), wide.at(found, place, n))

            k.loop(0, count, 1, [], of_row)

        k.loop(0, columns, self.block, [], of_block)
        return k.end()
