"""Writing kernels: loops, vectors and addresses as LLVM's instructions."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from fedroam.native.target import ir

Value = Any  # of LLVM
Body = Callable[[Value, list[Value]], Sequence[Value] | None]


class KernelBuilder:
    """Writes one function `kernel(address, ..., number, ...)` of float32 vectors with `lanes` values.

    Nothing is checked when it runs: whoever calls it has made sure that each address lies in an array that is long
    enough, contiguous and of the type that the kernel's docstring says, and that classes and rows are within range.
    What lies at one address must not overlap what lies at another (`noalias`), so a kernel that works in place gets
    one address for both. A kernel that is called through `Calls` has at most `calls.MOST` arguments.
    """

    def __init__(self, module: Any, lanes: int, addresses: int, numbers: int) -> None:
        self.whole, self.half, self.float = ir.IntType(64), ir.IntType(32), ir.FloatType()
        self.lanes, self.vector = lanes, ir.VectorType(self.float, lanes)
        kinds = [ir.PointerType()] * addresses + [self.whole] * numbers
        function = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), "kernel")
        for argument in function.args[:addresses]:
            argument.add_attribute("noalias")
        self.module, self.arguments = module, list(function.args)
        self.b = ir.IRBuilder(function.append_basic_block())
        # As text they are written once, not wherever they stand.
        self.constants: dict[tuple[Any, int, str], Value] = {}

    def of_lanes(self, lanes: int) -> KernelBuilder:
        """What writes on in the same function, with vectors of so many values."""
        other = copy.copy(self)
        other.lanes, other.vector = lanes, ir.VectorType(self.float, lanes)
        return other

    def of_doubles(self) -> KernelBuilder:
        """What writes on in the same function, with vectors of as many float64 values, and their addresses."""
        other = copy.copy(self)
        other.float = ir.DoubleType()
        other.vector = ir.VectorType(other.float, self.lanes)
        return other

    def as_doubles(self, vector: Value) -> Value:
        """The values of a float32 vector as float64."""
        return self.b.fpext(vector, ir.VectorType(ir.DoubleType(), self.lanes))

    def number(self, value: int | Value) -> Value:
        """A whole number."""
        return self._known(self.whole, 0, value) if isinstance(value, int) else value

    def sum(self, *terms: int | Value) -> Value:
        """The sum of whole numbers."""
        total = self.number(terms[0])
        for term in terms[1:]:
            total = self.b.add(total, self.number(term))
        return total

    def times(self, a: int | Value, b: int | Value) -> Value:
        """The product of two whole numbers."""
        return self.b.mul(self.number(a), self.number(b))

    def larger(self, a: int | Value, b: int | Value) -> Value:
        """The larger of two whole numbers."""
        a, b = self.number(a), self.number(b)
        return self.b.select(self.b.icmp_signed(">", a, b), a, b)

    def smaller(self, a: int | Value, b: int | Value) -> Value:
        """The smaller of two whole numbers."""
        a, b = self.number(a), self.number(b)
        return self.b.select(self.b.icmp_signed("<", a, b), a, b)

    def at(self, address: Value, *steps: int | Value) -> Value:
        """The address so many values on."""
        return self.b.gep(address, [self.sum(*steps)], source_etype=self.float)

    def whole_at(self, address: Value, place: Value) -> Value:
        """The whole number so many of them (int64) after an address."""
        return self.b.load(self.b.gep(address, [place], source_etype=self.whole), typ=self.whole)

    def store_whole(self, number: Value, address: Value, place: Value) -> None:
        """Put a whole number there, so many of them (int64) after an address."""
        self.b.store(number, self.b.gep(address, [place], source_etype=self.whole))

    def load(self, address: Value) -> Value:
        """The vector at an address."""
        loaded = self.b.load(address, typ=self.vector)
        loaded.align = 4
        return loaded

    def store(self, vector: Value, address: Value) -> None:
        """Put a vector there."""
        self.b.store(vector, address).align = 4

    def load_parts(self, addresses: Sequence[Value]) -> Value:
        """The vector of parts, as long as each other, that lie at these addresses; how many is a power of 2."""
        if len(addresses) == 1:
            return self.load(addresses[0])
        half = len(addresses) // 2
        narrow = self.of_lanes(self.lanes // 2)
        low, high = (narrow.load_parts(some) for some in (addresses[:half], addresses[half:]))
        return self._shuffled(low, high, range(self.lanes))

    def store_parts(self, vector: Value, addresses: Sequence[Value]) -> None:
        """Put the parts of a vector there."""
        if len(addresses) == 1:
            self.store(vector, addresses[0])
            return
        half, lanes = len(addresses) // 2, self.lanes // 2
        narrow = self.of_lanes(lanes)
        narrow.store_parts(self._shuffled(vector, vector, range(lanes)), addresses[:half])
        narrow.store_parts(self._shuffled(vector, vector, range(lanes, 2 * lanes)), addresses[half:])

    def constant(self, value: float) -> Value:
        """The vector with this value in every lane."""
        return self._known(self.float, self.lanes, value)

    def _known(self, kind: Any, lanes: int, value: float) -> Value:
        """The constant with this value, or the vector with it in so many lanes, wherever it stands in the function."""
        key = kind, lanes, repr(value)  # by which 0.0 and -0.0 differ, and what is no number is itself
        if key not in self.constants:
            several = ir.VectorType(kind, lanes), [value] * lanes
            self.constants[key] = ir.Constant(*(several if lanes else (kind, value)))
        return self.constants[key]

    def spread(self, value: Value) -> Value:
        """The vector with this float, or whole number, in every lane."""
        nothing = ir.Constant(ir.VectorType(value.type, self.lanes), ir.Undefined)
        first = self.b.insert_element(nothing, value, self._known(self.half, 0, 0))
        return self.b.shuffle_vector(first, nothing, self._known(self.half, self.lanes, 0))

    def load_spread(self, address: Value) -> Value:
        """The float at an address, in every lane."""
        return self.spread(self.b.load(address, typ=self.float))

    def load_numbers(self, address: Value, count: int) -> list[Value]:
        """The first floats at an address, each in every lane of a vector."""
        return [self.load_spread(self.at(address, number)) for number in range(count)]

    def prefetch(self, address: Value) -> None:
        """Ask for the line at an address, which is written to later; it may lie outside of all memory."""
        half, kinds = self.half, [ir.PointerType(), *[self.half] * 3]
        function = self.module.globals.get("llvm.prefetch.p0") or ir.Function(
            self.module, ir.FunctionType(ir.VoidType(), kinds), "llvm.prefetch.p0"
        )
        # As if it were read, since not every machine can ask for a line that it will own; into L2; of data.
        write, level, data = 0, 2, 1
        self.b.call(function, [address, *(ir.Constant(half, each) for each in (write, level, data))])

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        """A * b + c, rounded once."""
        return self._call("llvm.fma", self.vector, a, b, c)

    def maximum(self, a: Value, b: Value) -> Value:
        """The larger values; NaN where one is NaN."""
        return self._call("llvm.maximum", self.vector, a, b)

    def root(self, a: Value) -> Value:
        """The square roots."""
        return self._call("llvm.sqrt", self.vector, a)

    def load_some(self, address: Value, count: int | Value, rest: float = 0.0) -> Value:
        """The first `count` values of the vector at an address, which may be the last there; `rest` in other lanes."""
        if isinstance(count, int) and count == self.lanes:
            return self.load(address)
        size, mask = ir.Constant(self.half, 4), self._mask(count)
        return self._call(
            "llvm.masked.load", self.vector, address, size, mask, self.constant(rest), more=".p0"
        )

    def store_some(self, vector: Value, address: Value, count: int | Value) -> None:
        """Put the first `count` values of a vector there."""
        if isinstance(count, int) and count == self.lanes:
            self.store(vector, address)
        else:
            values = (vector, address, ir.Constant(self.half, 4), self._mask(count))
            self._call("llvm.masked.store", ir.VoidType(), *values, of=self.vector, more=".p0")

    def first(self, vector: Value, count: int) -> Value:
        """The vector with zeros after its first `count` values."""
        return self.b.select(self._mask(count), vector, self.constant(0.0))

    def _mask(self, count: int | Value) -> Value:
        if isinstance(count, int):
            kind = ir.VectorType(ir.IntType(1), self.lanes)
            return ir.Constant(kind, [lane < count for lane in range(self.lanes)])
        lanes = ir.Constant(ir.VectorType(self.half, self.lanes), list(range(self.lanes)))
        return self.b.icmp_signed("<", lanes, self.spread(self.b.trunc(count, self.half)))

    def fold(self, vector: Value, both: Callable[[Value, Value], Value]) -> Value:
        """The float that is left when halves of a vector are put together until one value is."""
        lanes = self.lanes
        while lanes > 1:
            lanes //= 2
            over = [*range(lanes, 2 * lanes), *range(lanes, self.lanes)]
            vector = both(vector, self._shuffled(vector, vector, over))
        return self.b.extract_element(vector, ir.Constant(self.half, 0))

    def sums(self, vectors: Sequence[Value]) -> list[Value]:
        """The sum of each vector's values: of four vectors at a time, which takes a third of what each alone does."""
        found: list[Value] = []
        for begin in range(0, len(vectors), 4):
            some = [*vectors[begin : begin + 4], *[self.constant(0.0)] * 3][:4]
            a, b, c, d = some
            ab, cd = (self._interleaved(*pair, (0, 1), (2, 3)) for pair in ((a, b), (c, d)))
            total, lanes = self._interleaved(ab, cd, (0, 1, 0, 1), (2, 3, 2, 3)), self.lanes
            while lanes > 4:
                lanes //= 2
                over = [*range(lanes, 2 * lanes), *range(lanes, self.lanes)]
                total = self.b.fadd(total, self._shuffled(total, total, over))
            found += [self.b.extract_element(total, ir.Constant(self.half, k)) for k in range(4)]
        return found[: len(vectors)]

    def transposed(self, rows: Sequence[Value]) -> list[Value]:
        """As many vectors as they have lanes, rows and columns exchanged: lane r of the k-th is lane k of row r.

        Rows that are not there are zeros.
        """
        found, apart = [*rows, *[self.constant(0.0)] * (self.lanes - len(rows))], 1
        while apart < self.lanes:
            low = [k if not k & apart else self.lanes + k - apart for k in range(self.lanes)]
            high = [k + apart if not k & apart else self.lanes + k for k in range(self.lanes)]
            for r in range(self.lanes):
                if not r & apart:
                    a, b = found[r], found[r + apart]
                    found[r], found[r + apart] = self._shuffled(a, b, low), self._shuffled(a, b, high)
            apart *= 2
        return found

    def _interleaved(self, a: Value, b: Value, low: tuple[int, ...], high: tuple[int, ...]) -> Value:
        """Of each four lanes of a and b: those at `low` of both, added to those at `high`."""
        halves = []
        for chosen in (low, high):
            where: list[int] = []
            for four in range(0, self.lanes, 4):
                if len(chosen) == 2:  # a's and b's in turn
                    where += [four + chosen[0], self.lanes + four + chosen[0]]
                    where += [four + chosen[1], self.lanes + four + chosen[1]]
                else:  # two of a, then two of b
                    where += [four + chosen[0], four + chosen[1]]
                    where += [self.lanes + four + chosen[2], self.lanes + four + chosen[3]]
            halves.append(self._shuffled(a, b, where))
        return self.b.fadd(*halves)

    def _shuffled(self, a: Value, b: Value, lanes: Sequence[int]) -> Value:
        return self.b.shuffle_vector(a, b, ir.Constant(ir.VectorType(self.half, len(lanes)), list(lanes)))

    def exp(self, a: Value) -> Value:
        """The exponential of values up to 0, to within two units in the last place; of less than -87 that of -87.

        2^n times a polynomial (Moshier, Cephes, expf): no library is called.
        """
        low = self.maximum(a, self.constant(-87.0))
        shift = self.constant(1.5 * 2**23)  # a number so large that adding it rounds to whole numbers
        moved = self.fma(low, self.constant(1.4426950408889634), shift)
        n = self.b.fsub(moved, shift)
        r = self.fma(n, self.constant(-0.693359375), low)
        r = self.fma(n, self.constant(2.12194440e-4), r)
        total = self.constant(1.9875691500e-4)
        for factor in (1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1):
            total = self.fma(total, r, self.constant(factor))
        total = self.b.fadd(self.fma(total, self.b.fmul(r, r), r), self.constant(1.0))
        wholes = ir.VectorType(self.half, self.lanes)
        power = self.b.shl(self.b.bitcast(moved, wholes), ir.Constant(wholes, [23] * self.lanes))
        power = self.b.add(power, ir.Constant(wholes, [127 << 23] * self.lanes))
        return self.b.fmul(total, self.b.bitcast(power, self.vector))

    def call_at(self, begin: Value, given: Sequence[Value]) -> None:
        """Call the function that begins at this address (a whole number), which takes these and gives nothing."""
        kind = ir.PointerType()
        # Where a call looks for what it calls.
        kind.pointee = ir.FunctionType(ir.VoidType(), [each.type for each in given])
        self.b.call(self.b.inttoptr(begin, kind), given)

    def add_to(self, address: Value, vector: Value) -> None:
        """Add the sum of a vector's values to the float at an address."""
        start = ir.Constant(self.float, -0.0)
        total = self._call(
            "llvm.vector.reduce.fadd", self.float, start, vector, of=self.vector, fastmath=("reassoc",)
        )
        self.b.store(self.b.fadd(self.b.load(address, typ=self.float), total), address)

    def _call(
        self, name: str, result: Any, *values: Value, of: Any = None, fastmath: Any = (), more: str = ""
    ) -> Value:
        vectors = of or result
        whole = f"{name}.v{vectors.count}{vectors.element.intrinsic_name}{more}"
        function = self.module.globals.get(whole) or ir.Function(
            self.module, ir.FunctionType(result, [value.type for value in values]), whole
        )
        return self.b.call(function, list(values), fastmath=fastmath)

    def loop(
        self, start: int | Value, stop: int | Value, step: int | Value, carried: Sequence[Value], body: Body
    ) -> list[Value]:
        """For i = start, start + step, ... below stop: body(i, carried) gives the next `carried`; the last of them."""
        b = self.b
        start, stop, step = self.number(start), self.number(stop), self.number(step)
        before, head = b.block, b.append_basic_block()
        inside, after = b.append_basic_block(), b.append_basic_block()
        b.branch(head)
        b.position_at_end(head)
        i = b.phi(self.whole)
        values = [b.phi(value.type) for value in carried]
        i.add_incoming(start, before)
        for value, first in zip(values, carried, strict=True):
            value.add_incoming(first, before)
        b.cbranch(b.icmp_signed("<", i, stop), inside, after)
        b.position_at_end(inside)
        following = body(i, list(values)) or []
        i.add_incoming(b.add(i, step), b.block)
        for value, next_one in zip(values, following, strict=True):
            value.add_incoming(next_one, b.block)
        b.branch(head)
        b.position_at_end(after)
        return values

    def blocks(self, begin: Value, end: Value, most: int, body: Callable[[Value, int], None]) -> None:
        """For begin .. end - 1 in blocks of `most`, and the rest one by one: body(first, size)."""
        whole = self.b.sub(end, self.b.srem(self.b.sub(end, begin), self.number(most)))
        self.loop(begin, whole, most, [], lambda at, _: body(at, most))
        self.loop(whole, end, 1, [], lambda at, _: body(at, 1))

    def end(self) -> int:
        """Close the function; the number of its arguments."""
        self.b.ret_void()
        return len(self.arguments)


def parts(count: int, most: int) -> list[tuple[int, int, int]]:
    """`count` things in as few groups of at most `most` as can be, as even as can be: (first, size, groups)."""
    groups = -(-count // most)
    size, more = divmod(count, groups)
    found = [(0, size + 1, more), (more * (size + 1), size, groups - more)]
    return [part for part in found if part[2]]
