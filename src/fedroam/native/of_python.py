"""Kernels that are written as plain Python over arrays: a small part of the language, as LLVM's instructions.

For loops over events, which neither numpy nor torch has. The same functions run as Python where nothing is compiled,
and give the same, bit for bit: every number is an int64, a float64 or a bool, and every operation is the one that
Python does.

What a function can do: assign to names, which keep their kind, to elements of arrays, and to fields of records;
`while`, `for ... in range(...)`, `if`, `break`, `continue` and `return`; `+ - * / << >>`, one comparison at a time,
`in` what stands there, `and`, `or`, `not`, `x if c else y`, `min` and `max` of two; and call functions of its own
module, of which it also reads the numbers. Anything else is refused with its line. What it takes is said by
annotations: `int`, `float`, `bool`, `Annotated[np.ndarray, dtype, columns]`, and named tuples of these. Indices are
not looked at: one below 0, or beyond the end, reads what is not there; and what is divided by 0 is infinite or NaN.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import sys
import typing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any, NoReturn

import numpy as np
from typing_extensions import override

from fedroam.native.target import Kernel, KernelSpec, Target, ir, kernel, target

Value = Any  # of LLVM


@dataclass(frozen=True)
class Array:
    """An array: its elements, and how many stand in a row (1: it has one axis, otherwise two)."""

    dtype: np.dtype[Any]
    columns: int


@dataclass(frozen=True)
class Fields:
    """A named tuple, by field."""

    kinds: tuple[tuple[str, Kind], ...]


Kind = type[int] | type[float] | type[bool] | Array | Fields


class Compiled:
    """A function that gives a whole number, as this machine's code: it gives up Python's lock while it computes."""

    def __init__(self, made: Kernel, kinds: Sequence[Kind]) -> None:
        self._made, self._kinds = made, kinds

    def __call__(self, *arguments: Any) -> int:
        """What it gives. Raises TypeError for arrays of other elements or another shape than it says."""
        return self.given(*arguments)()

    def given(self, *first: Any) -> Callable[..., int]:
        """The same, with its first arguments given once and for all; not to be called by two threads at once.

        To look at an array and to ask for its address takes as long as some functions do.
        """
        if len(first) > len(self._kinds):
            raise TypeError(f"found {len(first)} arguments, allowed are {len(self._kinds)}")
        told, later = np.zeros(1, dtype=np.int64), self._kinds[len(first) :]
        fixed = [
            number for kind, each in zip(self._kinds, first, strict=False) for number in _handed(kind, each)
        ]
        made, address, whole = self._made, told.ctypes.data, all(kind is int for kind in later)

        def call(*rest: Any, arrays: tuple[Any, ...] = first) -> int:  # which stay where they are meanwhile
            numbers: Sequence[int] = rest
            if not whole or len(rest) != len(later):
                numbers = [
                    number for kind, each in zip(later, rest, strict=True) for number in _handed(kind, each)
                ]
            made(*fixed, *numbers, address)
            return int(told[0])

        return call


def compiled(function: Callable[..., int]) -> Compiled | None:
    """A function that gives a whole number, compiled.

    None where nothing is compiled (no llvmlite, or `FEDROAM_NATIVE=0`), or the function's source is not there. What was
    asked for once is found at once.
    """
    here = target()
    return None if here is None else _compiled(function, here)


@cache
def _compiled(function: Callable[..., int], here: Target) -> Compiled | None:
    spec = OfPython.of(function)
    return None if spec is None else Compiled(kernel(spec, here), _parameters(function))


@dataclass(frozen=True)
class OfPython(KernelSpec):
    """A function of a module, and those that it calls there.

    source: the digest of the module's text, of the numbers that it names, and of what the function takes.

    Kernel: (what the function takes, one after the other: addresses of arrays, whole numbers, and floats by their bits;
    and the address of the int64 that it gives).
    """

    module: str
    function: str
    source: str

    @classmethod
    def of(cls, function: Callable[..., int]) -> OfPython | None:
        """That of a function; None where its text is not there."""
        try:
            home = sys.modules[function.__module__]
            text = inspect.getsource(home)
        except OSError:
            return None
        # Text is read now, and numbers were when the module was: a file that was changed in between is another kernel.
        numbers = sorted((name, each) for name, each in vars(home).items() if isinstance(each, int | float))
        decides = repr((text, numbers, _parameters(function)))
        return cls(function.__module__, function.__name__, hashlib.sha256(decides.encode()).hexdigest())

    @override
    def write(self, module: Any, target: Target) -> int:
        program = Program(sys.modules[self.module], module)
        inner, kinds, _ = program.function(self.function)
        leaves = [leaf for kind in kinds for leaf in _leaves(kind)]
        taken = [ir.PointerType() if isinstance(leaf, Array) else ir.IntType(64) for leaf in leaves]
        told = ir.FunctionType(ir.VoidType(), [*taken, ir.PointerType()])
        outer = ir.Function(module, told, "kernel")
        b = ir.IRBuilder(outer.append_basic_block())
        given = []
        for leaf, value in zip(leaves, outer.args, strict=False):
            if leaf is float:
                value = b.bitcast(value, ir.DoubleType())
            elif leaf is bool:
                value = b.trunc(value, ir.IntType(1))
            given.append(value)
        b.store(b.call(inner, given), outer.args[-1])
        b.ret_void()
        return len(outer.args)


class Program:
    """The functions of one module that a kernel needs, in an LLVM module."""

    def __init__(self, home: ModuleType, module: Any) -> None:
        self.home, self.module = home, module
        tree = ast.parse(inspect.getsource(home))
        self.nodes = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        self.written: dict[str, tuple[Any, list[Kind], Kind | None]] = {}

    def function(self, name: str) -> tuple[Any, list[Kind], Kind | None]:
        """One of the functions, what it takes, and what it gives."""
        if name not in self.written:
            node, own = self.nodes[name], vars(self.home)[name]
            kinds, gives = _parameters(own), typing.get_type_hints(own)["return"]
            gives = None if gives is type(None) else _kind(gives)
            taken = [_machine(leaf) for kind in kinds for leaf in _leaves(kind)]
            kept = ir.VoidType() if gives is None else _machine(gives)
            function = ir.Function(self.module, ir.FunctionType(kept, taken), f"python.{name}")
            function.linkage = "internal"
            self.written[name] = function, kinds, gives
            _Writer(self, node, function, kinds, gives).write()
        return self.written[name]


class _Writer:
    """Writes one function. A value is its kind and LLVM's value: that of a named tuple is a mapping of values."""

    def __init__(
        self,
        program: Program,
        node: ast.FunctionDef,
        function: Any,
        kinds: Sequence[Kind],
        gives: Kind | None,
    ) -> None:
        self.program, self.node, self.function, self.gives = program, node, function, gives
        self.entry = ir.IRBuilder(function.append_basic_block("names"))
        self.b = ir.IRBuilder(function.append_basic_block("body"))
        self.begin = self.b.block
        self.names: dict[str, tuple[Kind, Value]] = {}  # those that are assigned to: where they are kept
        self.taken: dict[str, tuple[Kind, Value]] = {}  # arrays and named tuples, which stay what they are
        self.loops: list[tuple[Any, Any]] = []  # where `continue` and `break` go
        values = iter(function.args)
        for name, kind in zip((each.arg for each in node.args.args), kinds, strict=True):
            value = self._unpacked(kind, values)
            if isinstance(kind, Array | Fields):
                self.taken[name] = kind, value
            else:
                self._keep(name, kind, value)

    def write(self) -> None:
        """The whole function."""
        self.body(self.node.body)
        if not self.b.block.is_terminated:
            if self.gives is None:
                self.b.ret_void()
            else:
                self.b.unreachable()
        self.entry.branch(self.begin)

    # --- statements --------------------------------------------------------------------------------------------

    def body(self, statements: Sequence[ast.stmt]) -> None:
        """Statements, one after the other; what follows a jump is never reached."""
        for node in statements:
            if self.b.block.is_terminated:
                return
            self.statement(node)

    def statement(self, node: ast.stmt) -> None:
        """One statement."""
        match node:
            case ast.Expr(value=ast.Constant()):
                return  # what it says of itself
            case ast.Expr(value=ast.Call() as call):
                self.call(call)
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=given)):
                values = [self.value(each) for each in given]
                for target, value in zip(targets, values, strict=True):
                    self.assign(target, value)
            case ast.Assign(targets=targets):
                value = self.value(node.value)
                for target in targets:
                    self.assign(target, value)
            case ast.AugAssign():
                value = self.binary(node, node.op, self.value(node.target), self.value(node.value))
                self.assign(node.target, value)
            case ast.If():
                self.branches(node)
            case ast.While(orelse=[]):
                test = self.b.append_basic_block()
                self.b.branch(test)
                self.b.position_at_end(test)
                self.loop(node.body, lambda: self.truth(node.test), test, None)
            case ast.For(
                target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range")) as range_, orelse=[]
            ):
                self.counted(name, range_, node.body)
            case ast.Break():
                self.b.branch(self.loops[-1][1])
            case ast.Continue():
                self.b.branch(self.loops[-1][0])
            case ast.Return(value=None):
                self.b.ret_void()
            case ast.Return(value=ast.expr() as told) if self.gives is not None:
                self.b.ret(self.converted(node, self.value(told), self.gives))
            case _:
                self.refuse(node)

    def branches(self, node: ast.If) -> None:
        """`if` and `else`."""
        some, other, after = (self.b.append_basic_block() for _ in range(3))
        self.b.cbranch(self.truth(node.test), some, other)
        for block, statements in ((some, node.body), (other, node.orelse)):
            self.b.position_at_end(block)
            self.body(statements)
            if not self.b.block.is_terminated:
                self.b.branch(after)
        self.b.position_at_end(after)

    def counted(self, name: str, call: ast.Call, body: Sequence[ast.stmt]) -> None:
        """`for name in range(...)`: its end is looked at once, and what the loop does to the name changes no turn."""
        given = [self.converted(call, self.value(each), int) for each in call.args]
        first, end = (ir.Constant(ir.IntType(64), 0), given[0]) if len(given) == 1 else given
        turn = self.entry.alloca(ir.IntType(64))
        self.b.store(first, turn)
        test, step = self.b.append_basic_block(), self.b.append_basic_block()
        self.b.branch(test)
        self.b.position_at_end(step)
        one = ir.Constant(ir.IntType(64), 1)
        self.b.store(self.b.add(self.b.load(turn, typ=ir.IntType(64)), one), turn)
        self.b.branch(test)
        self.b.position_at_end(test)
        now = self.b.load(turn, typ=ir.IntType(64))
        self.loop(body, lambda: self.b.icmp_signed("<", now, end), step, lambda: self._keep(name, int, now))

    def loop(
        self,
        statements: Sequence[ast.stmt],
        goes_on: Callable[[], Value],
        following: Any,
        begin: Callable[[], None] | None,
    ) -> None:
        """A loop, from its test on. following: where it goes on after a turn. begin: what a turn begins with."""
        turn, after = self.b.append_basic_block(), self.b.append_basic_block()
        self.b.cbranch(goes_on(), turn, after)
        self.b.position_at_end(turn)
        if begin is not None:
            begin()
        self.loops.append((following, after))
        self.body(statements)
        self.loops.pop()
        if not self.b.block.is_terminated:
            self.b.branch(following)
        self.b.position_at_end(after)

    def assign(self, target: ast.expr, value: tuple[Kind, Value]) -> None:
        """Put a value to a name, an element or a field."""
        if isinstance(target, ast.Name):
            if target.id in self.taken:
                self.refuse(target)
            kind = self.names[target.id][0] if target.id in self.names else value[0]
            if isinstance(kind, Array | Fields):
                self.taken[target.id] = value
            else:
                self._keep(target.id, kind, self.converted(target, value, kind))
            return
        kind, machine, address = self.place(target)
        found = self.converted(target, value, kind)
        self.b.store(self.b.zext(found, machine) if kind is bool else found, address)

    def _keep(self, name: str, kind: Kind, value: Value) -> None:
        if name not in self.names:
            self.names[name] = kind, self.entry.alloca(_machine(kind))
        self.b.store(value, self.names[name][1])

    def _unpacked(self, kind: Kind, values: Iterator[Value]) -> Value:
        """What stands for a parameter of this kind."""
        if isinstance(kind, Fields):
            return {name: (each, self._unpacked(each, values)) for name, each in kind.kinds}
        return next(values)

    # --- expressions -------------------------------------------------------------------------------------------

    def value(self, node: ast.expr) -> tuple[Kind, Value]:
        """What an expression gives."""
        match node:
            case ast.Constant(value=bool() | int() | float() as number):
                return _constant(number)
            case ast.Name(id=name) if name in self.taken:
                return self.taken[name]
            case ast.Name(id=name) if name in self.names:
                kind, place = self.names[name]
                return kind, self.b.load(place, typ=_machine(kind))
            case ast.Name(id=name):
                return self.told(node, vars(self.program.home), name)
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if self._is_module(name):
                return self.told(node, vars(vars(self.program.home)[name]), attribute)
            case ast.Attribute(value=ast.Name(id=name), attr=field) if name in self.taken:
                kind, values = self.taken[name]
                if not isinstance(kind, Fields) or field not in values:
                    self.refuse(node)
                found: tuple[Kind, Value] = values[field]
                return found
            case ast.Attribute() | ast.Subscript():
                kind, machine, address = self.place(node)
                loaded = self.b.load(address, typ=machine)
                return kind, self.b.trunc(loaded, ir.IntType(1)) if kind is bool else loaded
            case ast.BinOp():
                return self.binary(node, node.op, self.value(node.left), self.value(node.right))
            case ast.UnaryOp(op=ast.USub()):
                kind, value = self.value(node.operand)
                return kind, self.b.fneg(value) if kind is float else self.b.neg(value)
            case ast.UnaryOp(op=ast.Not()):
                return bool, self.b.not_(self.truth(node.operand))
            case ast.Compare(ops=[ast.In()], comparators=[ast.Tuple(elts=some)]):
                tests: list[ast.expr] = [ast.Compare(node.left, [ast.Eq()], [each]) for each in some]
                return bool, self.shortened(ast.BoolOp(ast.Or(), tests))
            case ast.Compare(ops=[op], comparators=[other]):
                return bool, self.compared(node, op, self.value(node.left), self.value(other))
            case ast.BoolOp():
                return bool, self.shortened(node)
            case ast.IfExp():
                return self.chosen(node)
            case ast.Call():
                return self.call(node)
        return self.refuse(node)

    def truth(self, node: ast.expr) -> Value:
        """A bool: numbers are none."""
        kind, value = self.value(node)
        return value if kind is bool else self.refuse(node)

    def told(self, node: ast.expr, names: dict[str, Any], name: str) -> tuple[Kind, Value]:
        """A number that a module names."""
        number = names.get(name)
        return _constant(number) if isinstance(number, int | float) else self.refuse(node)

    def place(self, node: ast.expr) -> tuple[Kind, Any, Value]:
        """Where an element or a field stands: its kind, its type there, and the address."""
        if isinstance(node, ast.Attribute):
            dtype, address = self.record(node.value)
            if dtype.fields is None or node.attr not in dtype.fields:
                self.refuse(node)
            own, at = dtype.fields[node.attr][:2]
            return _stored(own, self.b.gep(address, [_constant(at)[1]], source_etype=ir.IntType(8)))
        dtype, address = self.record(node)
        if dtype.fields is not None:
            self.refuse(node)
        return _stored(dtype, address)

    def record(self, node: ast.expr) -> tuple[np.dtype[Any], Value]:
        """The type and the address of an element of an array."""
        if not isinstance(node, ast.Subscript):
            return self.refuse(node)
        kind, array = self.value(node.value)
        if not isinstance(kind, Array):
            return self.refuse(node)
        index = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if len(index) != (1 if kind.columns == 1 else 2):
            return self.refuse(node)
        at = self.converted(node, self.value(index[0]), int)
        for column in index[1:]:
            whole = self.b.mul(at, _constant(kind.columns)[1])
            at = self.b.add(whole, self.converted(node, self.value(column), int))
        row = ir.ArrayType(ir.IntType(8), kind.dtype.itemsize)
        return kind.dtype, self.b.gep(array, [at], source_etype=row)

    def binary(
        self, node: ast.AST, op: ast.operator, one: tuple[Kind, Value], other: tuple[Kind, Value]
    ) -> tuple[Kind, Value]:
        """What an operator makes of two numbers: a quotient is a float."""
        kind = float if isinstance(op, ast.Div) else self.common(node, one[0], other[0])
        a, b = (self.converted(node, each, kind) for each in (one, other))
        match op:
            case ast.Div():
                return float, self.b.fdiv(a, b)
            case ast.Add():
                return kind, self.b.fadd(a, b) if kind is float else self.b.add(a, b)
            case ast.Sub():
                return kind, self.b.fsub(a, b) if kind is float else self.b.sub(a, b)
            case ast.Mult():
                return kind, self.b.fmul(a, b) if kind is float else self.b.mul(a, b)
            case ast.LShift() if kind is int:
                return kind, self.b.shl(a, b)
            case ast.RShift() if kind is int:
                return kind, self.b.ashr(a, b)
        return self.refuse(node)

    def compared(
        self, node: ast.expr, op: ast.cmpop, one: tuple[Kind, Value], other: tuple[Kind, Value]
    ) -> Value:
        """Whether two numbers compare so; a NaN is unequal to all, and nothing else."""
        if one[0] is bool and other[0] is bool:
            return self.refuse(node)
        kind = self.common(node, one[0], other[0])
        a, b = (self.converted(node, each, kind) for each in (one, other))
        signs = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
        if type(op) not in signs:
            return self.refuse(node)
        sign = signs[type(op)]
        if kind is int:
            return self.b.icmp_signed(sign, a, b)
        return self.b.fcmp_unordered(sign, a, b) if sign == "!=" else self.b.fcmp_ordered(sign, a, b)

    def shortened(self, node: ast.BoolOp) -> Value:
        """`and`, `or`: what follows is looked at only where it matters."""
        found = self.truth(node.values[0])
        for each in node.values[1:]:
            before, more, after = self.b.block, self.b.append_basic_block(), self.b.append_basic_block()
            if isinstance(node.op, ast.And):
                self.b.cbranch(found, more, after)
            else:
                self.b.cbranch(found, after, more)
            self.b.position_at_end(more)
            last = self.truth(each)
            end = self.b.block
            self.b.branch(after)
            self.b.position_at_end(after)
            joined = self.b.phi(ir.IntType(1))
            joined.add_incoming(found, before)
            joined.add_incoming(last, end)
            found = joined
        return found

    def chosen(self, node: ast.IfExp) -> tuple[Kind, Value]:
        """`x if c else y`: only one of the two is looked at."""
        blocks, ends = [self.b.append_basic_block() for _ in range(2)], []
        self.b.cbranch(self.truth(node.test), *blocks)
        for block, each in zip(blocks, (node.body, node.orelse), strict=True):
            self.b.position_at_end(block)
            value = self.value(each)
            ends.append((value, self.b.block))
        kind, after = self.common(node, ends[0][0][0], ends[1][0][0]), self.b.append_basic_block()
        found = []
        for value, block in ends:
            self.b.position_at_end(block)
            found.append(self.converted(node, value, kind))
            self.b.branch(after)
        self.b.position_at_end(after)
        joined = self.b.phi(_machine(kind))
        for each, (_, block) in zip(found, ends, strict=True):
            joined.add_incoming(each, block)
        return kind, joined

    def call(self, node: ast.Call) -> tuple[Kind, Value]:
        """A function of the module, or the smaller or larger of two numbers: the first where neither is."""
        if not isinstance(node.func, ast.Name) or node.keywords:
            return self.refuse(node)
        given = [self.value(each) for each in node.args]
        name = node.func.id
        if name in ("min", "max") and len(given) == 2:
            kind = self.common(node, given[0][0], given[1][0])
            a, b = (self.converted(node, each, kind) for each in given)
            sign = "<" if name == "min" else ">"
            other = self.b.fcmp_ordered(sign, b, a) if kind is float else self.b.icmp_signed(sign, b, a)
            return kind, self.b.select(other, b, a)
        if name not in self.program.nodes:
            return self.refuse(node)
        function, kinds, gives = self.program.function(name)
        values: list[Value] = []
        for kind, each in zip(kinds, given, strict=True):
            if isinstance(kind, Array | Fields):
                values += _packed(*each) if each[0] == kind else self.refuse(node)
            else:
                values.append(self.converted(node, each, kind))
        return int if gives is None else gives, self.b.call(function, values)

    def common(self, node: ast.AST, one: Kind, other: Kind) -> Kind:
        """The kind in which two numbers meet."""
        if one is other and one in (int, float, bool):
            return one
        return float if {one, other} == {int, float} else self.refuse(node)

    def converted(self, node: ast.AST, value: tuple[Kind, Value], kind: Kind) -> Value:
        """A number as one of this kind; only whole ones become floats."""
        if value[0] is kind and kind in (int, float, bool):
            return value[1]
        if value[0] is int and kind is float:
            return self.b.sitofp(value[1], ir.DoubleType())
        return self.refuse(node)

    def refuse(self, node: ast.AST) -> NoReturn:
        """What cannot be compiled. Raises TypeError."""
        line = node.lineno if isinstance(node, ast.stmt | ast.expr) else self.node.lineno
        text = ast.unparse(node).partition("\n")[0]
        raise TypeError(f"{self.program.home.__name__}, line {line}: {text!r} cannot be compiled here")

    def _is_module(self, name: str) -> bool:
        home = vars(self.program.home)
        return name in home and isinstance(home[name], ModuleType)


@cache
def _parameters(function: Callable[..., Any]) -> list[Kind]:
    """What a function takes."""
    hints = typing.get_type_hints(function, include_extras=True)
    return [_kind(hint) for name, hint in hints.items() if name != "return"]


def _kind(hint: Any) -> Kind:
    """What an annotation says. Raises TypeError where it says nothing that is compiled."""
    if hint is int:
        return int
    if hint is float:
        return float
    if hint is bool:
        return bool
    if typing.get_origin(hint) is typing.Annotated:
        dtype, columns = hint.__metadata__
        return Array(np.dtype(dtype), columns)
    if isinstance(hint, type) and issubclass(hint, tuple):
        told = typing.get_type_hints(hint, include_extras=True)
        return Fields(tuple((name, _kind(each)) for name, each in told.items()))
    raise TypeError(f"{hint!r}: allowed are int, float, bool, annotated arrays, and named tuples of these")


def _leaves(kind: Kind) -> Iterator[Kind]:
    """What is handed over for a parameter, one after the other."""
    if isinstance(kind, Fields):
        for _, each in kind.kinds:
            yield from _leaves(each)
    else:
        yield kind


def _packed(kind: Kind, value: Value) -> list[Value]:
    """LLVM's values of an array or a named tuple."""
    if not isinstance(kind, Fields):
        return [value]
    return [one for each in value.values() for one in _packed(*each)]


def _handed(kind: Kind, value: Any) -> Iterator[int]:
    """What is handed to a kernel: addresses, and bits. Raises TypeError where an array is of another kind."""
    if isinstance(kind, Fields):
        for name, each in kind.kinds:
            yield from _handed(each, getattr(value, name))
    elif isinstance(kind, Array):
        shape = value.shape[1:] == (() if kind.columns == 1 else (kind.columns,)) and value.ndim > 0
        if value.dtype != kind.dtype or not shape or not value.flags.c_contiguous:
            raise TypeError(
                f"found {value.dtype} {list(value.shape)}, allowed is {kind.dtype} of {kind.columns} in a row"
            )
        yield value.ctypes.data
    elif kind is float:
        yield int(np.float64(value).view(np.int64))
    else:
        yield int(value)


def _machine(kind: Kind) -> Any:
    """LLVM's type of a value of this kind."""
    if isinstance(kind, Array):
        return ir.PointerType()
    return ir.DoubleType() if kind is float else ir.IntType(1 if kind is bool else 64)


def _stored(dtype: np.dtype[Any], address: Value) -> tuple[Kind, Any, Value]:
    """The kind of what stands in an array, LLVM's type of it there, and its address."""
    found: dict[str, tuple[Kind, Any]] = {
        "int64": (int, ir.IntType(64)),
        "float64": (float, ir.DoubleType()),
        "bool": (bool, ir.IntType(8)),
    }
    return (*found[dtype.name], address)


def _constant(number: bool | int | float) -> tuple[Kind, Value]:
    kind: Kind = bool if isinstance(number, bool) else int if isinstance(number, int) else float
    return kind, ir.Constant(_machine(kind), number)
