"""Writing kernels: loops, vectors and addresses as LLVM's instructions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fedroam.learning.cpu.kernels.target import ir

Value = Any  # of LLVM
Body = Callable[[Value, list[Value]], Sequence[Value] | None]


class KernelBuilder:
    """Writes one function `kernel(address, ..., number, ...)` of float32 vectors with `lanes` values."""

    def __init__(self, module: Any, lanes: int, addresses: int, numbers: int) -> None:
        self.whole, self.half, self.float = ir.IntType(64), ir.IntType(32), ir.FloatType()
        self.lanes, self.vector = lanes, ir.VectorType(self.float, lanes)
        kinds = [ir.PointerType()] * addresses + [self.whole] * numbers
        function = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), "kernel")
        for argument in function.args[:addresses]:
            argument.add_attribute("noalias")
        self.module, self.arguments = module, list(function.args)
        self.b = ir.IRBuilder(function.append_basic_block())

    def number(self, value: int | Value) -> Value:
        """A whole number."""
        return ir.Constant(self.whole, value) if isinstance(value, int) else value

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
        """The address so many float32 values on."""
        return self.b.gep(address, [self.sum(*steps)], source_etype=self.float)

    def load(self, address: Value) -> Value:
        """The vector at an address."""
        loaded = self.b.load(address, typ=self.vector)
        loaded.align = 4
        return loaded

    def store(self, vector: Value, address: Value) -> None:
        """Put a vector there."""
        self.b.store(vector, address).align = 4

    def constant(self, value: float) -> Value:
        """The vector with this value in every lane."""
        return ir.Constant(self.vector, [value] * self.lanes)

    def spread(self, value: Value) -> Value:
        """The vector with this float in every lane."""
        nothing = ir.Constant(self.vector, ir.Undefined)
        first = self.b.insert_element(nothing, value, ir.Constant(self.half, 0))
        zeros = ir.Constant(ir.VectorType(self.half, self.lanes), [0] * self.lanes)
        return self.b.shuffle_vector(first, nothing, zeros)

    def load_spread(self, address: Value) -> Value:
        """The float at an address, in every lane."""
        return self.spread(self.b.load(address, typ=self.float))

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        """A * b + c, rounded once."""
        return self._call("llvm.fma", self.vector, a, b, c)

    def maximum(self, a: Value, b: Value) -> Value:
        """The larger values; NaN where one is NaN."""
        return self._call("llvm.maximum", self.vector, a, b)

    def root(self, a: Value) -> Value:
        """The square roots."""
        return self._call("llvm.sqrt", self.vector, a)

    def add_to(self, address: Value, vector: Value) -> None:
        """Add the sum of a vector's values to the float at an address."""
        start = ir.Constant(self.float, -0.0)
        total = self._call(
            "llvm.vector.reduce.fadd", self.float, start, vector, of=self.vector, fastmath=("reassoc",)
        )
        self.b.store(self.b.fadd(self.b.load(address, typ=self.float), total), address)

    def _call(self, name: str, result: Any, *values: Value, of: Any = None, fastmath: Any = ()) -> Value:
        whole = f"{name}.v{(of or result).count}f32"
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
