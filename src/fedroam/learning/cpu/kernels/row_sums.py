"""A kernel that replaces rows of a matrix by weighted sums of its rows, in place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from fedroam.learning.cpu.kernels.ir import KernelBuilder, Value
from fedroam.learning.cpu.kernels.target import KernelSpec, Target

VECTORS = (
    8  # of a tile: as many sums at once keep the multipliers busy, and 16 registers hold them and a factor
)
LINE = 16  # float32 values of a cache line


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
