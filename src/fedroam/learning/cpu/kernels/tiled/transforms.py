"""Winograd's algorithm for convolutions: the transforms of tiles of pixels, and how a kernel writes them.

Of an image's pixels, tiles that overlap become values at as many points, the weights likewise; these are multiplied
point by point and summed over channels, which is a product of matrices for each point; the sums become 4 x 4 pixels. A
convolution with 3 x 3 weights takes tiles of 6 x 6 and a fourth of the multiplications, one with 5 x 5 weights tiles
of 8 x 8 and a sixth. The gradient of the weights is found the same way backwards. A. Lavin and S. Gray, Fast
Algorithms for Convolutional Neural Networks, CVPR 2016; S. Winograd, Arithmetic Complexity of Computations, 1980.

The points of 6 x 6 are 0, infinity, and r, -r, 2r and -2r with r = sqrt(1/2), whose squares and the products of them
are exact: rounding errors are then about twice those of the plain sum; with 0, 1, -1, 2 and -2 they are twice as
large. Of 8 x 8 they are 0, infinity, and 1/2, 1, 2 and their negatives, and errors some five times those of the plain
sum: other pairs were looked through, and none has notably smaller ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.polynomial import polynomial

from fedroam.learning.cpu.kernels.convolution import Weights
from fedroam.native.ir import Body, KernelBuilder, Value, parts
from fedroam.native.target import Target

STEP = 4  # pixels of y that a tile gives, down and across
ROOT = math.sqrt(0.5)
# Points in a row beside infinity, by weights in a row: 0, and pairs of a value and its negative.
FINITE = {
    3: (0.0, ROOT, -ROOT, 2 * ROOT, -2 * ROOT),
    5: (0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0),
}
APART = 16  # values between a point and the next: else all would want the same places of a cache
EVERY = 16  # the vectors of all machines go into this

# Of channels side by side so many times as many pixels as there are may be computed, by weights in a row: more, and the
# plain sum is as fast.
MOST = {3: 1.8, 5: 2.2}

Matrix = tuple[tuple[float, ...], ...]
Grid = list[list[Value]]


@dataclass(frozen=True)
class Transforms:
    """What makes values at the points of a row of pixels (n x n), of weights (n x r), and of a gradient (n x 4).

    Correlating n pixels x with r weights w gives y = of_y^T ((of_w w) * (of_x x)). Rows 1 and 2, 3 and 4, ... belong to
    a point and its negative.
    """

    of_x: Matrix
    of_w: Matrix
    of_y: Matrix

    @property
    def side(self) -> int:
        """Pixels of a tile, down and across."""
        return len(self.of_x)


def transforms(weights: int, finite: Sequence[float] = ()) -> Transforms:
    """Those for so many weights in a row (Toom and Cook's, as Winograd has them), with points beside infinity."""
    finite = finite or FINITE[weights]
    of_x, of_w, of_y = [], [], []
    for n, at in enumerate(finite):
        others = [point for k, point in enumerate(finite) if k != n]
        share = math.prod(at - other for other in others)
        of_x.append((*polynomial.polyfromroots(others), 0.0))
        of_w.append(tuple(at**j / share for j in range(weights)))
        of_y.append(tuple(at**j for j in range(STEP)))
    of_x.append(tuple(polynomial.polyfromroots(finite)))
    for found, width in ((of_w, weights), (of_y, STEP)):
        found.append((*[0.0] * (width - 1), 1.0))
    return Transforms(*(_rounded(matrix) for matrix in (of_x, of_w, of_y)))


def _rounded(matrix: Sequence[Sequence[float]]) -> Matrix:
    """Without the last bits that roots leave where a whole number, or a half, is meant."""
    return tuple(tuple(float(np.round(value, 14)) + 0.0 for value in row) for row in matrix)


def _sum(k: KernelBuilder, factors: Sequence[float], vectors: Sequence[Value]) -> Value:
    """The sum of factors times vectors; None of nothing."""
    terms = [(factor, vector) for factor, vector in zip(factors, vectors, strict=True) if factor]
    terms.sort(key=lambda term: term[0] != 1.0)
    total = None
    for factor, vector in terms:
        if total is None:
            total = vector if factor == 1.0 else k.b.fmul(k.constant(factor), vector)
        elif factor == 1.0:
            total = k.b.fadd(total, vector)
        else:
            total = k.fma(k.constant(factor), vector, total)
    return total


def at_points(k: KernelBuilder, matrix: Matrix, values: Sequence[Value]) -> list[Value]:
    """The matrix times the values. Of a point and its negative even powers are the same, odd ones have another sign."""
    found: list[Value] = [_sum(k, matrix[0], values)]
    for row in matrix[1:-1:2]:
        even = _sum(k, row[::2], values[::2])
        factor = next(value for value in row[1::2] if value)
        odd = _sum(k, [value / factor for value in row[1::2]], values[1::2])
        found += [k.fma(k.constant(sign * factor), odd, even) for sign in (1, -1)]
    return [*found, _sum(k, matrix[-1], values)]


def of_points(k: KernelBuilder, matrix: Matrix, values: Sequence[Value]) -> list[Value]:
    """The transposed matrix times values at the points, of a point and its negative first put together."""
    first = range(1, len(matrix) - 1, 2)
    pairs = {
        sign: [both(values[n], values[n + 1]) for n in first]
        for sign, both in ((1, k.b.fadd), (-1, k.b.fsub))
    }
    found = []
    for j in range(len(matrix[0])):
        some = [values[0], *pairs[1 if j % 2 == 0 else -1], values[-1]]
        found.append(_sum(k, [matrix[n][j] for n in (0, *first, -1)], some))
    return found


def both_ways(one: Callable[[list[Value]], list[Value]], grid: Grid) -> Grid:
    """What `one` makes of the columns of a grid, and then of the rows."""
    columns = [one([row[j] for row in grid]) for j in range(len(grid[0]))]
    return [one([column[j] for column in columns]) for j in range(len(columns[0]))]


def side(weights: Weights) -> int:
    """Pixels of x that a tile has, down and across."""
    return STEP + weights.width - 1


def points(weights: Weights) -> int:
    """Values of a tile."""
    return side(weights) ** 2


def across(pixels: int) -> int:
    """Tiles side by side, or one below the other, that give so many pixels: the last may give some of them in vain."""
    return -(-pixels // STEP)


def known(weights: Weights) -> bool:
    """Whether there are transforms for these weights, of which inputs or outputs lie side by side."""
    return weights.height == weights.width and weights.width in FINITE and 1 in weights.strides[:2]


def pays(inputs: int, outputs: int, height: int, width: int, weights: Weights) -> bool:
    """Whether a convolution of channels side by side, to images y of this size, is computed by tiles: it can, and
    fast."""
    if not known(weights):
        return False
    computed = across(height) * across(width) * STEP**2
    return inputs % EVERY == outputs % EVERY == 0 and computed <= MOST[weights.width] * height * width


class Scratch:
    """Places in memory, one after the other, for a kernel to work in."""

    def __init__(self) -> None:
        self.values = 0

    def take(self, values: int) -> int:
        """Where so many values begin, at the begin of a line of a cache."""
        begin = self.values
        self.values += -(-values // APART) * APART
        return begin


@dataclass(frozen=True)
class Product:
    """A product of matrices, c = a b or, added, c + a b, of which a block is summed up in registers at a time.

    Addresses, and how many values lie from one row (of a and of c) to the next, and from one term of the sums (columns
    of a, rows of b) to the next. Columns of b and of c lie side by side.
    """

    a: Value
    a_row: int
    a_term: int
    b: Value
    b_term: int
    c: Value
    c_row: int
    terms: int | Value
    added: bool = False

    def block(self, k: KernelBuilder, row: Value, column: int | Value, rows: int, vectors: int) -> None:
        """The block of so many rows, and vectors of columns, that begins there."""

        def of_term(n: Value, sums: list[Value]) -> list[Value]:
            here = k.at(self.b, k.times(n, self.b_term), column)
            read = [k.load(k.at(here, v * k.lanes)) for v in range(vectors)]
            first = k.at(self.a, k.times(row, self.a_row), k.times(n, self.a_term))
            for j in range(rows):
                factor = k.load_spread(k.at(first, j * self.a_row))
                for v in range(vectors):
                    sums[j * vectors + v] = k.fma(factor, read[v], sums[j * vectors + v])
            return sums

        # What is added to is not what the sums begin with: sums of sums lose fewer bits than a single long one.
        sums = k.loop(0, self.terms, 1, [k.constant(0.0)] * (rows * vectors), of_term)
        for j in range(rows):
            there = k.at(self.c, k.times(k.sum(row, j), self.c_row), column)
            for v in range(vectors):
                place, value = k.at(there, v * k.lanes), sums[j * vectors + v]
                k.store(k.b.fadd(k.load(place), value) if self.added else value, place)

    def whole(self, k: KernelBuilder, rows: int, at_once: int, columns: int | Value, vectors: int) -> None:
        """All rows, at most so many at once, and all columns: so many vectors at once, the rest one by one."""

        def of_columns(some: int) -> Body:
            def of_column(column: Value, _: list[Value]) -> None:
                for first, size, groups in parts(rows, at_once):
                    k.loop(0, groups, 1, [], partial(of_rows, column, some, first, size))

            return of_column

        def of_rows(column: Value, some: int, first: int, size: int, group: Value, _: list[Value]) -> None:
            self.block(k, k.sum(first, k.times(group, size)), column, size, some)

        wide = vectors * k.lanes
        full = (
            columns // wide * wide
            if isinstance(columns, int)
            else k.b.sub(columns, k.b.srem(columns, k.number(wide)))
        )
        k.loop(0, full, wide, [], of_columns(vectors))
        k.loop(full, columns, k.lanes, [], of_columns(1))


def sums_at_once(target: Target, values: int) -> tuple[int, int]:
    """Of a product of matrices with so many values in a row: how many of the rows, and vectors of each, at a time."""
    vectors = min(target.vectors, values // target.lanes)
    return target.channels * target.vectors // vectors, vectors


def weight_places(k: KernelBuilder, weights: Weights, at_w: Value, o: Value, i: Value) -> Grid:
    """Where the weights of an output and an input lie."""
    per_out, per_in, per_row, per_column = weights.strides
    first = k.at(at_w, k.times(o, per_out), k.times(i, per_in))
    return [
        [k.at(first, weights.first + row * per_row + column * per_column) for column in range(weights.width)]
        for row in range(weights.height)
    ]


def add_to_weights(
    k: KernelBuilder,
    use: Transforms,
    weights: Weights,
    at_w: Value,
    of_w: Value,
    sizes: tuple[int, int],
    steps: tuple[int, int, int],
) -> None:
    """Add to weights, whose inputs lie side by side, what values at the points are of.

    sizes: outputs and inputs. steps: how far it is from an output's values to the next one's, from an input's, and from
    a point's.
    """
    (outputs, inputs), (per_out, per_in, apart) = sizes, steps
    some = k.of_lanes(math.gcd(inputs, k.lanes) if per_in == 1 else 1)

    def of_output(o: Value, _: list[Value]) -> None:
        def of_inputs(i: Value, _: list[Value]) -> None:
            grid = load_points(some, use, k.at(of_w, k.times(o, per_out), k.times(i, per_in)), apart)
            found = both_ways(partial(of_points, some, use.of_w), grid)
            for line, places in zip(found, weight_places(k, weights, at_w, o, i), strict=True):
                for value, place in zip(line, places, strict=True):
                    some.store(k.b.fadd(some.load(place), value), place)

        k.loop(0, inputs, some.lanes, [], of_inputs)

    k.loop(0, outputs, 1, [], of_output)


def clear(k: KernelBuilder, first: Value, values: int) -> None:
    """Put zeros there, a multiple of the lanes."""
    k.loop(0, values, k.lanes, [], lambda n, _: k.store(k.constant(0.0), k.at(first, n)))


def store_points(k: KernelBuilder, grid: Grid, first: Value, apart: int) -> None:
    """Put the values of a tile at the points so far from one another."""
    for p, value in enumerate(value for row in grid for value in row):
        k.store(value, k.at(first, p * apart))


def load_points(k: KernelBuilder, use: Transforms, first: Value, apart: int) -> Grid:
    """The values of a tile at the points, so far from one another."""
    line = range(use.side)
    return [[k.load(k.at(first, (row * use.side + j) * apart)) for j in line] for row in line]
